/* heartbeat.c - a thread per rank that detects lost ranks and spreads failures. */
#include "comm/heartbeat.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/heartbeat_link.h"
#include "comm/heartbeat_star.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { DOING = 96 };
#define FLUSH_SECONDS 0.3    /* time limit for sending the last messages */
#define REPORTER_SECONDS 0.5 /* head start of the rank that prints the message */
#define GRACE_SECONDS 10.0   /* from the first failure to the end of this process */

typedef struct peer {
    int rank;
    bool left; /* ended normally; no longer watched */
    double heard_at;
    char doing[DOING];
    hil_heartbeat_link link;
} peer;

struct hil_heartbeat {
    hil_heartbeat_options options;
    int rank, size;
    bool reports;                /* prints the losses it detects */
    char (*host)[HIL_HOST_NAME]; /* [size] */
    peer *peer;                  /* rank 0: all others; others: rank 0 */
    struct pollfd *poll;         /* [peers + 1], the last is `wake` */
    int peers;
    int wake; /* eventfd: the guarded fields have changed */
    pthread_t thread;

    pthread_mutex_t mutex; /* guards the next fields */
    char doing[DOING];
    bool stopping;
    hil_status failure; /* of this rank, not sent yet; HIL_OK: none */
    char failure_text[HIL_BEAT_TEXT];

    /* private to the heartbeat's thread: */
    double awake_at;  /* when it last ran */
    double paused_at; /* when it last ran again after a long pause */
    bool told;        /* a failure was sent to all: ranks that end now are not lost */
    double told_at;   /* when */
    char told_text[HIL_BEAT_TEXT];
    bool leaving; /* HIL_BEAT_LEAVING was sent */
    bool over;    /* the thread must end */
};

static void send_all(hil_heartbeat *heartbeat, hil_beat_kind kind, hil_status status,
                     const char *text)
{
    for (int i = 0; i < heartbeat->peers; ++i)
        hil_heartbeat_link_send(&heartbeat->peer[i].link, kind, (int)status, text);
}

/* Sends the messages that are not sent yet, for up to FLUSH_SECONDS. */
static void flush_all(hil_heartbeat *heartbeat)
{
    for (double until = hil_clock_now() + FLUSH_SECONDS; hil_clock_now() < until;) {
        bool waiting = false;
        for (int i = 0; i < heartbeat->peers; ++i) {
            hil_heartbeat_link *link = &heartbeat->peer[i].link;
            hil_heartbeat_link_flush(link);
            waiting |= link->fd >= 0 && link->out_bytes &&
                       hil_clock_now() - heartbeat->peer[i].heard_at < HIL_HEARTBEAT_SILENCE;
        }
        if (!waiting) return;
        poll(NULL, 0, 10);
    }
}

/* Sends the first failure to all peers. */
static void spread_failure(hil_heartbeat *heartbeat, hil_status status, const char *text)
{
    heartbeat->told = true;
    heartbeat->told_at = hil_clock_now();
    snprintf(heartbeat->told_text, HIL_BEAT_TEXT, "%s", text);
    send_all(heartbeat, HIL_BEAT_FAILED, status, text);
}

/* Ends this rank: calls `lost`, which prints the message and ends the process; if it returns, calls
   `failed`. `message` is NULL if another rank prints it: that rank ends first, because a launcher
   ends all ranks once one has ended. */
static void end_as_lost(hil_heartbeat *heartbeat, const char *message)
{
    heartbeat->told = heartbeat->over = true;
    send_all(heartbeat, HIL_BEAT_LOST, HIL_ERR_IO, "");
    flush_all(heartbeat);
    if (!message) poll(NULL, 0, (int)(REPORTER_SECONDS * 1000));
    if (heartbeat->options.lost) heartbeat->options.lost(heartbeat->options.lost_context, message);
    heartbeat->options.failed(heartbeat->options.failed_context, HIL_ERR_IO,
                              message ? message : "another rank is lost");
}

static void report_lost_peer(hil_heartbeat *heartbeat, const peer *lost, int others)
{
    char message[HIL_BEAT_TEXT], more[64] = "";
    double silence = fmax(HIL_HEARTBEAT_SILENCE, hil_clock_now() - lost->heard_at);
    if (others) snprintf(more, sizeof more, ", nor %d other rank%s", others, others > 1 ? "s" : "");
    if (lost->link.fd < 0)
        snprintf(message, sizeof message,
                 "rank %d on %s is gone: it was killed or it crashed; its last word: %s",
                 lost->rank, heartbeat->host[lost->rank], lost->doing);
    else
        snprintf(message, sizeof message,
                 "rank %d on %s has not answered for %.0f s%s: it was stopped, or its machine or "
                 "its network is down; its last word: %s",
                 lost->rank, heartbeat->host[lost->rank], silence, more, lost->doing);
    end_as_lost(heartbeat, heartbeat->reports ? message : NULL);
}

/* A peer reports a lost rank. Other ranks than 0 can lose only rank 0. If this process was paused
   for long, they are right, and they print the message. */
static void handle_loss(hil_heartbeat *heartbeat, const peer *from)
{
    char message[HIL_BEAT_TEXT];
    bool paused = hil_clock_now() - heartbeat->paused_at < HIL_HEARTBEAT_SILENCE;
    snprintf(message, sizeof message,
             "rank %d on %s hears nothing of rank 0 on %s: the network between them is down; its "
             "last word: %s",
             from->rank, heartbeat->host[from->rank], heartbeat->host[0], from->doing);
    end_as_lost(heartbeat, heartbeat->rank == 0 && !paused ? message : NULL);
}

static void handle_message(hil_heartbeat *heartbeat, peer *from, const hil_beat *beat)
{
    from->heard_at = hil_clock_now();
    switch ((hil_beat_kind)beat->kind) {
    case HIL_BEAT_ALIVE:
        snprintf(from->doing, DOING, "%.*s", DOING - 1, beat->text);
        break;
    case HIL_BEAT_FAILED:
        if (heartbeat->told) break;
        spread_failure(heartbeat, (hil_status)beat->status, beat->text);
        heartbeat->options.failed(heartbeat->options.failed_context, (hil_status)beat->status,
                                  beat->text);
        break;
    case HIL_BEAT_LOST:
        if (heartbeat->rank == 0 && heartbeat->told)
            from->left = true;
        else
            handle_loss(heartbeat, from);
        break;
    case HIL_BEAT_LEAVING:
        from->left = true;
        break;
    }
}

static bool all_left(const hil_heartbeat *heartbeat)
{
    for (int i = 0; i < heartbeat->peers; ++i)
        if (!heartbeat->peer[i].left) return false;
    return true;
}

/* Normal end: rank 0 waits for all others, they wait for rank 0. */
static void finish(hil_heartbeat *heartbeat)
{
    bool left = all_left(heartbeat);
    if (!heartbeat->leaving && (left || heartbeat->rank != 0)) {
        send_all(heartbeat, HIL_BEAT_LEAVING, HIL_OK, "");
        heartbeat->leaving = true;
    }
    if (!left) return;
    flush_all(heartbeat);
    heartbeat->over = true;
}

/* GRACE_SECONDS after a failure: a rank that is stopping no longer waits for the others; a rank
   that is not is ended. */
static void end_grace(hil_heartbeat *heartbeat, bool stopping)
{
    double grace = GRACE_SECONDS + (heartbeat->rank == 0 ? 0 : 2); /* rank 0 has the message */
    if (hil_clock_now() - heartbeat->told_at < grace) return;
    if (!stopping) {
        end_as_lost(heartbeat, heartbeat->rank == 0 ? heartbeat->told_text : NULL);
    } else {
        send_all(heartbeat, HIL_BEAT_LEAVING, HIL_OK, "");
        heartbeat->over = true;
    }
}

/* Handles what the caller's threads have set: a failure, the stop. */
static void handle_requests(hil_heartbeat *heartbeat)
{
    char text[HIL_BEAT_TEXT];
    pthread_mutex_lock(&heartbeat->mutex);
    bool stopping = heartbeat->stopping;
    hil_status failure = heartbeat->failure;
    heartbeat->failure = HIL_OK;
    snprintf(text, sizeof text, "%s", heartbeat->failure_text);
    pthread_mutex_unlock(&heartbeat->mutex);
    if (failure != HIL_OK && !heartbeat->told) spread_failure(heartbeat, failure, text);
    if (stopping) finish(heartbeat);
    if (heartbeat->told && !heartbeat->over) end_grace(heartbeat, stopping);
}

/* Handles all messages first, then closed sockets: a rank may send its failure and end. */
static void receive_all(hil_heartbeat *heartbeat)
{
    hil_beat beat;
    for (int i = 0; i < heartbeat->peers; ++i)
        while (!heartbeat->over && heartbeat->poll[i].revents &&
               hil_heartbeat_link_next(&heartbeat->peer[i].link, &beat))
            handle_message(heartbeat, &heartbeat->peer[i], &beat);
    for (int i = 0; i < heartbeat->peers && !heartbeat->over; ++i) {
        peer *from = &heartbeat->peer[i];
        if (from->link.fd >= 0 || from->left) continue;
        if (heartbeat->told)
            from->left = true;
        else
            report_lost_peer(heartbeat, from, 0);
    }
}

/* Does not count time in which this process did not run as silence of the peers. */
static void skip_pause(hil_heartbeat *heartbeat)
{
    double now = hil_clock_now(), gap = now - heartbeat->awake_at;
    heartbeat->awake_at = now;
    if (gap < 2 * HIL_HEARTBEAT_SECONDS) return;
    for (int i = 0; i < heartbeat->peers; ++i)
        heartbeat->peer[i].heard_at = fmin(now, heartbeat->peer[i].heard_at + gap);
    if (gap > HIL_HEARTBEAT_SILENCE - 2 * HIL_HEARTBEAT_SECONDS) heartbeat->paused_at = now;
}

/* Ranks behind one broken link fall silent within a beat of each other: one message counts them. */
static void check_silence(hil_heartbeat *heartbeat)
{
    double now = hil_clock_now();
    double limit = HIL_HEARTBEAT_SILENCE + (heartbeat->reports ? 0 : REPORTER_SECONDS);
    const peer *first = NULL;
    int silent = 0;
    bool lost = false;
    for (int i = 0; i < heartbeat->peers; ++i) {
        peer *each = &heartbeat->peer[i];
        double silence = now - each->heard_at;
        if (each->left || silence < limit - 2 * HIL_HEARTBEAT_SECONDS) continue;
        if (!first) first = each;
        ++silent;
        if (silence < limit) continue;
        lost = true;
        if (heartbeat->told) each->left = true;
    }
    if (lost && !heartbeat->told) report_lost_peer(heartbeat, first, silent - 1);
}

static void beat_once(hil_heartbeat *heartbeat)
{
    char doing[DOING];
    pthread_mutex_lock(&heartbeat->mutex);
    memcpy(doing, heartbeat->doing, DOING);
    pthread_mutex_unlock(&heartbeat->mutex);
    send_all(heartbeat, HIL_BEAT_ALIVE, HIL_OK, doing);
}

static void sleep_until(hil_heartbeat *heartbeat, double next)
{
    for (int i = 0; i < heartbeat->peers; ++i) {
        const hil_heartbeat_link *link = &heartbeat->peer[i].link;
        heartbeat->poll[i] = (struct pollfd){
            .fd = link->fd, .events = (short)(link->out_bytes ? POLLIN | POLLOUT : POLLIN)};
    }
    heartbeat->poll[heartbeat->peers] = (struct pollfd){.fd = heartbeat->wake, .events = POLLIN};
    double left = next - hil_clock_now();
    int got =
        poll(heartbeat->poll, (nfds_t)heartbeat->peers + 1, left > 0 ? (int)(left * 1000) + 1 : 0);
    if (got <= 0) /* timeout or failure: nothing to read */
        for (int i = 0; i <= heartbeat->peers; ++i) heartbeat->poll[i].revents = 0;
    uint64_t count;
    if (heartbeat->poll[heartbeat->peers].revents &&
        read(heartbeat->wake, &count, sizeof count) < 0)
        return;
}

static void *run_heartbeat(void *context)
{
    hil_heartbeat *heartbeat = context;
    double next = heartbeat->awake_at = hil_clock_now();
    heartbeat->paused_at = -INFINITY;
    while (!heartbeat->over) {
        handle_requests(heartbeat);
        double now = hil_clock_now();
        if (now >= next) {
            beat_once(heartbeat);
            next = now + HIL_HEARTBEAT_SECONDS;
        }
        sleep_until(heartbeat, next);
        skip_pause(heartbeat);
        for (int i = 0; i < heartbeat->peers; ++i)
            hil_heartbeat_link_flush(&heartbeat->peer[i].link);
        receive_all(heartbeat);
        if (!heartbeat->over) check_silence(heartbeat);
    }
    return NULL;
}

/* The thread blocks all signals: handlers run on the program's own threads. */
static int start_thread(hil_heartbeat *heartbeat)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&heartbeat->thread, NULL, run_heartbeat, heartbeat);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void destroy(hil_heartbeat *heartbeat)
{
    for (int i = 0; heartbeat->peer && i < heartbeat->peers; ++i)
        hil_heartbeat_link_close(&heartbeat->peer[i].link);
    if (heartbeat->wake >= 0) close(heartbeat->wake);
    pthread_mutex_destroy(&heartbeat->mutex);
    hil_free(heartbeat->host);
    hil_free(heartbeat->peer);
    hil_free(heartbeat->poll);
    hil_free(heartbeat);
}

/* Rank 0 prints a loss; if it is lost itself, the lowest rank left on each machine does. */
static bool reports_here(const hil_heartbeat *heartbeat)
{
    const char *mine = heartbeat->host[heartbeat->rank];
    for (int rank = 1; rank < heartbeat->rank; ++rank)
        if (strcmp(heartbeat->host[rank], mine) == 0) return false;
    return true;
}

hil_status hil_heartbeat_start(hil_heartbeat **out, hil_comm *comm,
                               const hil_heartbeat_options *options)
{
    hil_heartbeat *heartbeat = NULL;
    hil_star star = {0};
    hil_status status;
    int rank = hil_comm_rank(comm), size = hil_comm_size(comm), peers = rank == 0 ? size - 1 : 1;
    HIL_TRY_DONE(hil_star_connect(&star, comm));
    HIL_TRY_DONE(HIL_ALLOC(1, &heartbeat));
    heartbeat->options = *options;
    heartbeat->rank = rank;
    heartbeat->size = size;
    heartbeat->wake = -1;
    snprintf(heartbeat->doing, DOING, "starting");
    pthread_mutex_init(&heartbeat->mutex, NULL);
    HIL_TRY_DONE(HIL_ALLOC(peers, &heartbeat->peer));
    HIL_TRY_DONE(HIL_ALLOC(peers + 1, &heartbeat->poll));
    heartbeat->host = star.host;
    star.host = NULL;
    heartbeat->reports = reports_here(heartbeat);
    heartbeat->peers = peers;
    for (int i = 0; i < peers; ++i) {
        int *from = &star.socket[rank == 0 ? i + 1 : 0];
        heartbeat->peer[i].rank = rank == 0 ? i + 1 : 0;
        heartbeat->peer[i].heard_at = hil_clock_now();
        snprintf(heartbeat->peer[i].doing, DOING, "starting");
        hil_heartbeat_link_open(&heartbeat->peer[i].link, *from);
        *from = -1;
    }
    heartbeat->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = heartbeat->wake < 0 ? errno : start_thread(heartbeat);
    if (error) status = hil_fail(HIL_ERR_MEMORY, "cannot start a thread: %s", strerror(error));
done:
    hil_star_free(&star, rank == 0 ? size : 1);
    if (status != HIL_OK && heartbeat) destroy(heartbeat);
    if (status == HIL_OK) *out = heartbeat;
    return status;
}

static void wake(hil_heartbeat *heartbeat)
{
    uint64_t one = 1;
    /* A write fails only if the counter is full, and then the thread wakes anyway. */
    if (write(heartbeat->wake, &one, sizeof one) < 0) return;
}

void hil_heartbeat_stop(hil_heartbeat *heartbeat)
{
    if (!heartbeat) return;
    pthread_mutex_lock(&heartbeat->mutex);
    heartbeat->stopping = true;
    pthread_mutex_unlock(&heartbeat->mutex);
    wake(heartbeat);
    pthread_join(heartbeat->thread, NULL);
    destroy(heartbeat);
}

void hil_heartbeat_set_activity(hil_heartbeat *heartbeat, const char *what)
{
    pthread_mutex_lock(&heartbeat->mutex);
    snprintf(heartbeat->doing, DOING, "%s", what);
    pthread_mutex_unlock(&heartbeat->mutex);
}

const char *hil_heartbeat_host(const hil_heartbeat *heartbeat, int rank)
{
    return heartbeat->host[rank];
}

void hil_heartbeat_fail(hil_heartbeat *heartbeat, hil_status status, const char *message)
{
    char text[HIL_BEAT_TEXT];
    snprintf(text, sizeof text, "rank %d on %s: %s", heartbeat->rank,
             heartbeat->host[heartbeat->rank], message);
    pthread_mutex_lock(&heartbeat->mutex);
    heartbeat->failure = status;
    memcpy(heartbeat->failure_text, text, sizeof text);
    pthread_mutex_unlock(&heartbeat->mutex);
    wake(heartbeat);
    heartbeat->options.failed(heartbeat->options.failed_context, status, text);
}
