/* heart.c - who is alive: a thread per rank that watches the others, and the news of failures. */
#include "comm/heart.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/heart_link.h"
#include "comm/heart_star.h"

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
#define LAST_WORDS_SECONDS 0.3 /* for the sockets to take what is said before the end */
#define REPORTER_SECONDS 0.5   /* by which the rank that tells the user is ahead of the others */
#define PATIENCE_SECONDS 10.0  /* from the news of a failure to the end of this process */

typedef struct peer {
    int rank;
    bool left; /* ended normally; not watched any more */
    double heard_at;
    char doing[DOING];
    hil_heart_link link;
} peer;

struct hil_heart {
    hil_heart_options options;
    int rank, size;
    bool reports;                /* tells the user what it notices itself */
    char (*host)[HIL_HOST_NAME]; /* [size] */
    peer *peer;                  /* rank 0: all others; others: rank 0 */
    struct pollfd *poll;         /* [peers + 1], the last is `wake` */
    int peers;
    int wake; /* eventfd: there is something new below */
    pthread_t thread;

    pthread_mutex_t mutex; /* guards what follows */
    char doing[DOING];
    bool stopping;
    hil_status failure; /* of this rank, not told yet; HIL_OK: none */
    char failure_text[HIL_BEAT_TEXT];

    /* The thread's own. */
    double awake_at;  /* when it last ran */
    double paused_at; /* when it last ran again after a long pause */
    bool told;        /* everybody knows of a failure; ends are normal from now on */
    double told_at;   /* when */
    char told_text[HIL_BEAT_TEXT];
    bool leaving; /* this rank's end is announced */
    bool over;    /* the thread may end */
};

static void say_all(hil_heart *heart, hil_beat_kind kind, hil_status status, const char *text)
{
    for (int i = 0; i < heart->peers; ++i)
        hil_heart_link_send(&heart->peer[i].link, kind, (int)status, text);
}

/* Gives the sockets a moment to take what is left to say. */
static void say_the_rest(hil_heart *heart)
{
    for (double until = hil_clock_now() + LAST_WORDS_SECONDS; hil_clock_now() < until;) {
        bool waiting = false;
        for (int i = 0; i < heart->peers; ++i) {
            hil_heart_link *link = &heart->peer[i].link;
            hil_heart_link_flush(link);
            waiting |= link->fd >= 0 && link->out_bytes &&
                       hil_clock_now() - heart->peer[i].heard_at < HIL_HEART_SILENCE;
        }
        if (!waiting) return;
        poll(NULL, 0, 10);
    }
}

/* Ranks that do not know yet learn of a failure; the first counts. */
static void spread(hil_heart *heart, hil_status status, const char *text)
{
    heart->told = true;
    heart->told_at = hil_clock_now();
    snprintf(heart->told_text, HIL_BEAT_TEXT, "%s", text);
    say_all(heart, HIL_BEAT_FAILED, status, text);
}

/* The end: the user learns of it and the caller's process goes. Where it does not, its waits end.
   `message` is NULL where another rank tells the user: that one goes first, because a launcher ends
   all others once one has gone. */
static void lose(hil_heart *heart, const char *message)
{
    heart->told = heart->over = true;
    say_all(heart, HIL_BEAT_LOST, HIL_ERR_IO, "");
    say_the_rest(heart);
    if (!message) poll(NULL, 0, (int)(REPORTER_SECONDS * 1000));
    if (heart->options.lost) heart->options.lost(heart->options.lost_context, message);
    heart->options.failed(heart->options.failed_context, HIL_ERR_IO,
                          message ? message : "another rank is lost");
}

static void lose_peer(hil_heart *heart, const peer *lost, int others)
{
    char message[HIL_BEAT_TEXT], more[64] = "";
    double silence = fmax(HIL_HEART_SILENCE, hil_clock_now() - lost->heard_at);
    if (others) snprintf(more, sizeof more, ", nor %d other rank%s", others, others > 1 ? "s" : "");
    if (lost->link.fd < 0)
        snprintf(message, sizeof message,
                 "rank %d on %s is gone: it was killed or it crashed; its last word: %s",
                 lost->rank, heart->host[lost->rank], lost->doing);
    else
        snprintf(message, sizeof message,
                 "rank %d on %s has not answered for %.0f s%s: it was stopped, or its machine or "
                 "its network is down; its last word: %s",
                 lost->rank, heart->host[lost->rank], silence, more, lost->doing);
    lose(heart, heart->reports ? message : NULL);
}

/* Somebody lost a rank. Others than rank 0 can lose only rank 0, and after a long pause that is
   right: they tell the user. */
static void hear_of_loss(hil_heart *heart, const peer *from)
{
    char message[HIL_BEAT_TEXT];
    bool paused = hil_clock_now() - heart->paused_at < HIL_HEART_SILENCE;
    snprintf(message, sizeof message,
             "rank %d on %s hears nothing of rank 0 on %s: the network between them is down; its "
             "last word: %s",
             from->rank, heart->host[from->rank], heart->host[0], from->doing);
    lose(heart, heart->rank == 0 && !paused ? message : NULL);
}

static void hear(hil_heart *heart, peer *from, const hil_beat *beat)
{
    from->heard_at = hil_clock_now();
    switch ((hil_beat_kind)beat->kind) {
    case HIL_BEAT_ALIVE:
        snprintf(from->doing, DOING, "%.*s", DOING - 1, beat->text);
        break;
    case HIL_BEAT_FAILED:
        if (heart->told) break;
        spread(heart, (hil_status)beat->status, beat->text);
        heart->options.failed(heart->options.failed_context, (hil_status)beat->status, beat->text);
        break;
    case HIL_BEAT_LOST:
        if (heart->rank == 0 && heart->told)
            from->left = true;
        else
            hear_of_loss(heart, from);
        break;
    case HIL_BEAT_LEAVING:
        from->left = true;
        break;
    }
}

static bool everybody_left(const hil_heart *heart)
{
    for (int i = 0; i < heart->peers; ++i)
        if (!heart->peer[i].left) return false;
    return true;
}

/* Rank 0 waits for the others, they wait for rank 0. */
static void leave(hil_heart *heart)
{
    bool left = everybody_left(heart);
    if (!heart->leaving && (left || heart->rank != 0)) {
        say_all(heart, HIL_BEAT_LEAVING, HIL_OK, "");
        heart->leaving = true;
    }
    if (!left) return;
    say_the_rest(heart);
    heart->over = true;
}

/* Some time after a failure nobody is waited for any more: not the other ranks where this one has
   come to its end, nor this one where it has not. */
static void lose_patience(hil_heart *heart, bool stopping)
{
    double patience = PATIENCE_SECONDS + (heart->rank == 0 ? 0 : 2); /* rank 0 has the message */
    if (hil_clock_now() - heart->told_at < patience) return;
    if (!stopping) {
        lose(heart, heart->rank == 0 ? heart->told_text : NULL);
    } else {
        say_all(heart, HIL_BEAT_LEAVING, HIL_OK, "");
        heart->over = true;
    }
}

/* What the caller's threads have asked for. */
static void take_orders(hil_heart *heart)
{
    char text[HIL_BEAT_TEXT];
    pthread_mutex_lock(&heart->mutex);
    bool stopping = heart->stopping;
    hil_status failure = heart->failure;
    heart->failure = HIL_OK;
    snprintf(text, sizeof text, "%s", heart->failure_text);
    pthread_mutex_unlock(&heart->mutex);
    if (failure != HIL_OK && !heart->told) spread(heart, failure, text);
    if (stopping) leave(heart);
    if (heart->told && !heart->over) lose_patience(heart, stopping);
}

/* Everybody's last words come before anybody's end. */
static void listen_to_all(hil_heart *heart)
{
    hil_beat beat;
    for (int i = 0; i < heart->peers; ++i)
        while (!heart->over && heart->poll[i].revents &&
               hil_heart_link_next(&heart->peer[i].link, &beat))
            hear(heart, &heart->peer[i], &beat);
    for (int i = 0; i < heart->peers && !heart->over; ++i) {
        peer *from = &heart->peer[i];
        if (from->link.fd >= 0 || from->left) continue;
        if (heart->told)
            from->left = true;
        else
            lose_peer(heart, from, 0);
    }
}

/* Time in which this process did not run is not the silence of others. */
static void notice_pause(hil_heart *heart)
{
    double now = hil_clock_now(), gap = now - heart->awake_at;
    heart->awake_at = now;
    if (gap < 2 * HIL_HEART_SECONDS) return;
    for (int i = 0; i < heart->peers; ++i)
        heart->peer[i].heard_at = fmin(now, heart->peer[i].heard_at + gap);
    if (gap > HIL_HEART_SILENCE - 2 * HIL_HEART_SECONDS) heart->paused_at = now;
}

/* Ranks behind one cut fall silent within a beat of each other: they are named together. */
static void watch(hil_heart *heart)
{
    double now = hil_clock_now();
    double limit = HIL_HEART_SILENCE + (heart->reports ? 0 : REPORTER_SECONDS);
    const peer *first = NULL;
    int silent = 0;
    bool lost = false;
    for (int i = 0; i < heart->peers; ++i) {
        peer *each = &heart->peer[i];
        double silence = now - each->heard_at;
        if (each->left || silence < limit - 2 * HIL_HEART_SECONDS) continue;
        if (!first) first = each;
        ++silent;
        if (silence < limit) continue;
        lost = true;
        if (heart->told) each->left = true;
    }
    if (lost && !heart->told) lose_peer(heart, first, silent - 1);
}

static void beat_once(hil_heart *heart)
{
    char doing[DOING];
    pthread_mutex_lock(&heart->mutex);
    memcpy(doing, heart->doing, DOING);
    pthread_mutex_unlock(&heart->mutex);
    say_all(heart, HIL_BEAT_ALIVE, HIL_OK, doing);
}

static void sleep_until(hil_heart *heart, double next)
{
    for (int i = 0; i < heart->peers; ++i) {
        const hil_heart_link *link = &heart->peer[i].link;
        heart->poll[i] = (struct pollfd){
            .fd = link->fd, .events = (short)(link->out_bytes ? POLLIN | POLLOUT : POLLIN)};
    }
    heart->poll[heart->peers] = (struct pollfd){.fd = heart->wake, .events = POLLIN};
    double left = next - hil_clock_now();
    int got = poll(heart->poll, (nfds_t)heart->peers + 1, left > 0 ? (int)(left * 1000) + 1 : 0);
    if (got <= 0) /* nothing came, or poll could not: then nothing is read */
        for (int i = 0; i <= heart->peers; ++i) heart->poll[i].revents = 0;
    uint64_t count;
    if (heart->poll[heart->peers].revents && read(heart->wake, &count, sizeof count) < 0) return;
}

static void *live(void *context)
{
    hil_heart *heart = context;
    double next = heart->awake_at = hil_clock_now();
    heart->paused_at = -INFINITY;
    while (!heart->over) {
        take_orders(heart);
        double now = hil_clock_now();
        if (now >= next) {
            beat_once(heart);
            next = now + HIL_HEART_SECONDS;
        }
        sleep_until(heart, next);
        notice_pause(heart);
        for (int i = 0; i < heart->peers; ++i) hil_heart_link_flush(&heart->peer[i].link);
        listen_to_all(heart);
        if (!heart->over) watch(heart);
    }
    return NULL;
}

/* Signals are for the threads of the program. */
static int start_thread(hil_heart *heart)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&heart->thread, NULL, live, heart);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void destroy(hil_heart *heart)
{
    for (int i = 0; heart->peer && i < heart->peers; ++i)
        hil_heart_link_close(&heart->peer[i].link);
    if (heart->wake >= 0) close(heart->wake);
    pthread_mutex_destroy(&heart->mutex);
    hil_free(heart->host);
    hil_free(heart->peer);
    hil_free(heart->poll);
    hil_free(heart);
}

/* Rank 0 reports a loss; when it is lost itself, the lowest rank left on each machine does. */
static bool reports_here(const hil_heart *heart)
{
    const char *mine = heart->host[heart->rank];
    for (int rank = 1; rank < heart->rank; ++rank)
        if (strcmp(heart->host[rank], mine) == 0) return false;
    return true;
}

hil_status hil_heart_start(hil_heart **out, hil_comm *comm, const hil_heart_options *options)
{
    hil_heart *heart = NULL;
    hil_star star = {0};
    hil_status status;
    int rank = hil_comm_rank(comm), size = hil_comm_size(comm), peers = rank == 0 ? size - 1 : 1;
    HIL_TRY_DONE(hil_star_connect(&star, comm));
    HIL_TRY_DONE(HIL_ALLOC(1, &heart));
    heart->options = *options;
    heart->rank = rank;
    heart->size = size;
    heart->wake = -1;
    snprintf(heart->doing, DOING, "starting");
    pthread_mutex_init(&heart->mutex, NULL);
    HIL_TRY_DONE(HIL_ALLOC(peers, &heart->peer));
    HIL_TRY_DONE(HIL_ALLOC(peers + 1, &heart->poll));
    heart->host = star.host;
    star.host = NULL;
    heart->reports = reports_here(heart);
    heart->peers = peers;
    for (int i = 0; i < peers; ++i) {
        int *from = &star.socket[rank == 0 ? i + 1 : 0];
        heart->peer[i].rank = rank == 0 ? i + 1 : 0;
        heart->peer[i].heard_at = hil_clock_now();
        snprintf(heart->peer[i].doing, DOING, "starting");
        hil_heart_link_open(&heart->peer[i].link, *from);
        *from = -1;
    }
    heart->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = heart->wake < 0 ? errno : start_thread(heart);
    if (error) status = hil_fail(HIL_ERR_MEMORY, "cannot start a thread: %s", strerror(error));
done:
    hil_star_free(&star, rank == 0 ? size : 1);
    if (status != HIL_OK && heart) destroy(heart);
    if (status == HIL_OK) *out = heart;
    return status;
}

static void wake(hil_heart *heart)
{
    uint64_t one = 1;
    /* It can only be full, and then the thread wakes anyway. */
    if (write(heart->wake, &one, sizeof one) < 0) return;
}

void hil_heart_stop(hil_heart *heart)
{
    if (!heart) return;
    pthread_mutex_lock(&heart->mutex);
    heart->stopping = true;
    pthread_mutex_unlock(&heart->mutex);
    wake(heart);
    pthread_join(heart->thread, NULL);
    destroy(heart);
}

void hil_heart_tell(hil_heart *heart, const char *what)
{
    pthread_mutex_lock(&heart->mutex);
    snprintf(heart->doing, DOING, "%s", what);
    pthread_mutex_unlock(&heart->mutex);
}

const char *hil_heart_host(const hil_heart *heart, int rank)
{
    return heart->host[rank];
}

void hil_heart_fail(hil_heart *heart, hil_status status, const char *message)
{
    char text[HIL_BEAT_TEXT];
    snprintf(text, sizeof text, "rank %d on %s: %s", heart->rank, heart->host[heart->rank],
             message);
    pthread_mutex_lock(&heart->mutex);
    heart->failure = status;
    memcpy(heart->failure_text, text, sizeof text);
    pthread_mutex_unlock(&heart->mutex);
    wake(heart);
    heart->options.failed(heart->options.failed_context, status, text);
}
