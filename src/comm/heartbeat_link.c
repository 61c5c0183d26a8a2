/* heartbeat_link.c - short messages between two heartbeats over a stream socket; never blocks. */
#include "comm/heartbeat_link.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD offsetof(hil_beat, text)

void hil_heartbeat_link_open(hil_heartbeat_link *link, int fd)
{
    link->fd = fd;
    link->in_bytes = link->out_bytes = 0;
}

void hil_heartbeat_link_close(hil_heartbeat_link *link)
{
    if (link->fd >= 0) close(link->fd);
    link->fd = -1;
}

static bool must_wait(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

void hil_heartbeat_link_flush(hil_heartbeat_link *link)
{
    while (link->fd >= 0 && link->out_bytes) {
        ssize_t sent = send(link->fd, link->out, link->out_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        /* The reader sees a failure too, after the last messages of the other side. */
        if (sent <= 0) return;
        link->out_bytes -= (size_t)sent;
        memmove(link->out, link->out + sent, link->out_bytes);
    }
}

void hil_heartbeat_link_send(hil_heartbeat_link *link, hil_beat_kind kind, int status,
                             const char *text)
{
    if (link->fd < 0 || (kind == HIL_BEAT_ALIVE && link->out_bytes)) return;
    hil_beat beat = {.kind = kind, .status = status};
    beat.bytes = (uint32_t)strnlen(text, HIL_BEAT_TEXT - 1) + 1;
    memcpy(beat.text, text, beat.bytes - 1);
    if (link->out_bytes + HEAD + beat.bytes > sizeof link->out) return;
    memcpy(link->out + link->out_bytes, &beat, HEAD + beat.bytes);
    link->out_bytes += HEAD + beat.bytes;
    hil_heartbeat_link_flush(link);
}

static bool take(hil_heartbeat_link *link, hil_beat *beat)
{
    if (link->in_bytes < HEAD) return false;
    memcpy(beat, link->in, HEAD);
    if (beat->bytes == 0 || beat->bytes > HIL_BEAT_TEXT) {
        hil_heartbeat_link_close(link);
        return false;
    }
    size_t size = HEAD + beat->bytes;
    if (link->in_bytes < size) return false;
    memcpy(beat->text, link->in + HEAD, beat->bytes);
    beat->text[beat->bytes - 1] = 0;
    link->in_bytes -= size;
    memmove(link->in, link->in + size, link->in_bytes);
    return true;
}

bool hil_heartbeat_link_next(hil_heartbeat_link *link, hil_beat *beat)
{
    while (link->fd >= 0) {
        if (take(link, beat)) return true;
        if (link->fd < 0) break;
        ssize_t got = recv(link->fd, link->in + link->in_bytes, sizeof link->in - link->in_bytes,
                           MSG_DONTWAIT);
        if (got < 0 && must_wait()) return false;
        if (got <= 0)
            hil_heartbeat_link_close(link);
        else
            link->in_bytes += (size_t)got;
    }
    return false;
}
