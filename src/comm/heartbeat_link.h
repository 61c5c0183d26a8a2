/* heartbeat_link.h - short messages between two heartbeats over a stream socket; never blocks. */
#ifndef HIL_COMM_HEARTBEAT_LINK_H
#define HIL_COMM_HEARTBEAT_LINK_H

#include "base/fail.h"

#define HIL_BEAT_TEXT 1200 /* longer than the longest message of a status with a rank before it */

typedef enum hil_beat_kind {
    HIL_BEAT_ALIVE = 1, /* text: what the rank is doing */
    HIL_BEAT_FAILED,    /* a rank failed: status and message */
    HIL_BEAT_LOST,      /* a rank is lost, and some rank prints that */
    HIL_BEAT_LEAVING,   /* the rank ends normally */
} hil_beat_kind;

typedef struct hil_beat {
    uint32_t kind;
    int32_t status;
    uint32_t bytes; /* of the text, with its NUL */
    char text[HIL_BEAT_TEXT];
} hil_beat;

/* Owns the socket. */
typedef struct hil_heartbeat_link {
    int fd; /* -1: closed by the other side */
    size_t in_bytes, out_bytes;
    unsigned char in[sizeof(hil_beat)];
    unsigned char out[3 * sizeof(hil_beat)];
} hil_heartbeat_link;

/* Takes ownership of a connected socket. */
void hil_heartbeat_link_open(hil_heartbeat_link *link, int fd);
void hil_heartbeat_link_close(hil_heartbeat_link *link);

/* Sends as much as the socket accepts and keeps the rest for hil_heartbeat_link_flush. Skips
   HIL_BEAT_ALIVE while an earlier message is not sent. */
void hil_heartbeat_link_send(hil_heartbeat_link *link, hil_beat_kind kind, int status,
                             const char *text);
void hil_heartbeat_link_flush(hil_heartbeat_link *link);

/* The next message that has arrived; false if there is none. Closes the link (fd = -1) when the
   other side has closed it. */
bool hil_heartbeat_link_next(hil_heartbeat_link *link, hil_beat *beat);

#endif
