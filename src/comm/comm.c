/* comm.c - collective calls on top of the gather and exchange of an engine. */
#include "comm/comm_engine.h"

#include "base/alloc.h"
#include "comm/heartbeat.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int hil_comm_rank(const hil_comm *comm)
{
    return comm ? comm->rank : 0;
}

int hil_comm_size(const hil_comm *comm)
{
    return comm ? comm->size : 1;
}

int hil_comm_local_rank(const hil_comm *comm)
{
    return comm ? comm->local_rank : 0;
}

int hil_comm_local_size(const hil_comm *comm)
{
    return comm ? comm->local_size : 1;
}

const unsigned char *hil_comm_nccl_id(const hil_comm *comm)
{
    return comm && comm->has_nccl_id ? comm->nccl_id : NULL;
}

static bool is_alone(const hil_comm *comm)
{
    return hil_comm_size(comm) == 1;
}

static bool is_broken(hil_comm *comm)
{
    return atomic_load_explicit(&comm->broken, memory_order_acquire);
}

hil_status hil_comm_create(hil_comm **out)
{
    HIL_TRY(HIL_ALLOC(1, out));
    (*out)->size = (*out)->local_size = 1;
    pthread_mutex_init(&(*out)->lock, NULL);
    return HIL_OK;
}

hil_status hil_comm_prepare(hil_comm *comm)
{
    return hil_alloc((size_t)comm->size * HIL_CHANNELS, HIL_COMM_PIECE, (void **)&comm->scratch);
}

/* A barrier: a rank must not finalize MPI while another still uses it. */
static void close_barrier(hil_comm *comm)
{
    unsigned char *here = comm->scratch + comm->rank;
    hil_status status =
        comm->engine->gather(comm, (hil_channel)HIL_CHANNEL_CLOSE, here, comm->scratch, 1);
    if (status != HIL_OK) hil_comm_break(comm, status, hil_status_message());
}

void hil_comm_close(hil_comm *comm)
{
    if (!comm) return;
    if (comm->scratch && comm->engine->together && !is_broken(comm)) close_barrier(comm);
    if (comm->engine) comm->engine->destroy(comm);
    hil_heartbeat_stop(comm->heartbeat); /* last: destroy may wait for a lost rank */
    pthread_mutex_destroy(&comm->lock);
    hil_free(comm->scratch);
    hil_free(comm);
}

void hil_comm_break(hil_comm *comm, hil_status status, const char *message)
{
    pthread_mutex_lock(&comm->lock);
    if (!is_broken(comm)) {
        comm->broken_status = status;
        snprintf(comm->broken_text, sizeof comm->broken_text, "%s", message);
        atomic_store_explicit(&comm->broken, true, memory_order_release);
    }
    pthread_mutex_unlock(&comm->lock);
}

static void on_failed(void *comm, hil_status status, const char *message)
{
    hil_comm_break(comm, status, message);
}

hil_status hil_comm_watch(hil_comm *comm, const hil_comm_options *options)
{
    return hil_heartbeat_start(&comm->heartbeat, comm,
                               &(hil_heartbeat_options){.lost = options->lost,
                                                        .lost_context = options->context,
                                                        .failed = on_failed,
                                                        .failed_context = comm});
}

static hil_status fail_broken(const hil_comm *comm)
{
    return hil_fail(comm->broken_status, "%s", comm->broken_text);
}

hil_status hil_comm_check(hil_comm *comm)
{
    return comm && is_broken(comm) ? fail_broken(comm) : HIL_OK;
}

hil_status hil_comm_gather(hil_comm *comm, hil_channel channel, const void *slice, void *whole,
                           size_t bytes)
{
    if (is_alone(comm)) {
        if (slice != whole) memcpy(whole, slice, bytes);
        return HIL_OK;
    }
    if (is_broken(comm)) return fail_broken(comm);
    hil_status status = comm->engine->gather(comm, channel, slice, whole, bytes);
    return status != HIL_OK && is_broken(comm) ? fail_broken(comm) : status;
}

hil_status hil_comm_exchange(hil_comm *comm, hil_channel channel, const void *out, void *in,
                             size_t bytes)
{
    if (is_alone(comm)) {
        memcpy(in, out, bytes);
        return HIL_OK;
    }
    if (is_broken(comm)) return fail_broken(comm);
    hil_status status = comm->engine->exchange(comm, channel, out, in, bytes);
    return status != HIL_OK && is_broken(comm) ? fail_broken(comm) : status;
}

/* Gathers `mine`, at most HIL_COMM_PIECE bytes, of every rank; *all is [size][bytes], valid until
   the next such call on the channel. */
static hil_status gather_small(hil_comm *comm, hil_channel channel, const void *mine, size_t bytes,
                               const unsigned char **all)
{
    unsigned char *whole = comm->scratch + (size_t)channel * (size_t)comm->size * HIL_COMM_PIECE;
    unsigned char *slice = whole + (size_t)comm->rank * bytes;
    memcpy(slice, mine, bytes);
    *all = whole;
    return hil_comm_gather(comm, channel, slice, whole, bytes);
}

/* Replaces `data` by the `fold` of all ranks' data, piece by piece. */
typedef void (*fold)(void *data, const unsigned char *all, size_t bytes, int size);

static hil_status fold_all(hil_comm *comm, hil_channel channel, void *data, size_t bytes,
                           fold combine)
{
    for (size_t at = 0; at < bytes && !is_alone(comm); at += HIL_COMM_PIECE) {
        size_t n = bytes - at < HIL_COMM_PIECE ? bytes - at : HIL_COMM_PIECE;
        unsigned char *piece = (unsigned char *)data + at;
        const unsigned char *all;
        HIL_TRY(gather_small(comm, channel, piece, n, &all));
        combine(piece, all, n, comm->size);
    }
    return HIL_OK;
}

static void take_first(void *data, const unsigned char *all, size_t bytes, int size)
{
    (void)size;
    memcpy(data, all, bytes);
}

static void add(void *data, const unsigned char *all, size_t bytes, int size)
{
    double *sum = data;
    const double *value = (const double *)(const void *)all;
    size_t count = bytes / sizeof *sum;
    memcpy(sum, value, bytes);
    for (int rank = 1; rank < size; ++rank)
        for (size_t i = 0; i < count; ++i) sum[i] += value[(size_t)rank * count + i];
}

static void take_least(void *data, const unsigned char *all, size_t bytes, int size)
{
    double *least = data;
    const double *value = (const double *)(const void *)all;
    size_t count = bytes / sizeof *least;
    memcpy(least, value, bytes);
    for (int rank = 1; rank < size; ++rank)
        for (size_t i = 0; i < count; ++i)
            if (value[(size_t)rank * count + i] < least[i])
                least[i] = value[(size_t)rank * count + i];
}

static void or_bits(void *data, const unsigned char *all, size_t bytes, int size)
{
    unsigned char *bits = data;
    memcpy(bits, all, bytes);
    for (int rank = 1; rank < size; ++rank)
        for (size_t i = 0; i < bytes; ++i) bits[i] |= all[(size_t)rank * bytes + i];
}

hil_status hil_comm_broadcast(hil_comm *comm, hil_channel channel, void *data, size_t bytes)
{
    return fold_all(comm, channel, data, bytes, take_first);
}

hil_status hil_comm_sum(hil_comm *comm, double *value, size_t count)
{
    return fold_all(comm, HIL_CHANNEL_CONTROL, value, count * sizeof *value, add);
}

hil_status hil_comm_least(hil_comm *comm, double *value, size_t count)
{
    return fold_all(comm, HIL_CHANNEL_CONTROL, value, count * sizeof *value, take_least);
}

hil_status hil_comm_any(hil_comm *comm, unsigned char *bits, size_t bytes)
{
    return fold_all(comm, HIL_CHANNEL_CONTROL, bits, bytes, or_bits);
}

/* Stores the message that all ranks failed with on this channel; "" after a success. */
static void remember(hil_comm *comm, hil_channel channel, const char *text)
{
    pthread_mutex_lock(&comm->lock);
    snprintf(comm->agreed[channel], HIL_COMM_TEXT, "%s", text);
    pthread_mutex_unlock(&comm->lock);
}

/* Whether all ranks have already agreed on the failure of this thread's message. */
static bool is_agreed(hil_comm *comm)
{
    bool found = false;
    pthread_mutex_lock(&comm->lock);
    for (int channel = 0; channel < (int)HIL_CHANNELS; ++channel)
        if (comm->agreed[channel][0] && strcmp(comm->agreed[channel], hil_status_message()) == 0)
            found = true;
    pthread_mutex_unlock(&comm->lock);
    return found;
}

typedef struct fate {
    int status, flag;
    int agreed; /* all ranks agreed on it on another channel: the message names the rank already */
} fate;

/* Fails with the message of rank `first`, whose status is in `theirs`. */
static hil_status fail_together(hil_comm *comm, hil_channel channel, hil_status mine, int first,
                                const fate *theirs)
{
    hil_status code = (hil_status)theirs->status;
    char text[HIL_COMM_TEXT] = "";
    if (mine != HIL_OK) snprintf(text, sizeof text, "%s", hil_status_message());
    const unsigned char *all;
    HIL_TRY(gather_small(comm, channel, text, sizeof text, &all));
    const char *reason = (const char *)all + (size_t)first * HIL_COMM_TEXT;
    bool same = true;
    for (int rank = 0; rank < comm->size && !theirs->agreed; ++rank)
        if (strcmp((const char *)all + (size_t)rank * HIL_COMM_TEXT, reason) != 0) same = false;
    const char *host = comm->heartbeat ? hil_heartbeat_host(comm->heartbeat, first) : NULL;
    hil_status status = same ? hil_fail(code, "%s", reason)
                             : hil_fail(code, "rank %d%s%s: %s", first, host ? " on " : "",
                                        host ? host : "", reason);
    remember(comm, channel, hil_status_message());
    return status;
}

hil_status hil_comm_agree(hil_comm *comm, hil_channel channel, hil_status mine, int *flag)
{
    if (is_alone(comm)) return mine;
    fate own = {(int)mine, flag && *flag, mine != HIL_OK && is_agreed(comm)}, theirs, failed = {0};
    const unsigned char *all;
    HIL_TRY(gather_small(comm, channel, &own, sizeof own, &all));
    int first = -1, any = 0;
    for (int rank = 0; rank < comm->size; ++rank) {
        memcpy(&theirs, all + (size_t)rank * sizeof theirs, sizeof theirs);
        any |= theirs.flag;
        if (first >= 0 || theirs.status == (int)HIL_OK) continue;
        first = rank;
        failed = theirs;
    }
    if (flag && any) *flag = 1;
    if (first >= 0) return fail_together(comm, channel, mine, first, &failed);
    remember(comm, channel, "");
    return HIL_OK;
}

void hil_comm_fail(hil_comm *comm, hil_status status)
{
    if (is_alone(comm) || status == HIL_OK || is_broken(comm) || is_agreed(comm)) return;
    if (comm->heartbeat) {
        hil_heartbeat_fail(comm->heartbeat, status, hil_status_message());
    } else if (comm->engine->fail) {
        char text[HIL_COMM_TEXT];
        snprintf(text, sizeof text, "rank %d: %s", comm->rank, hil_status_message());
        comm->engine->fail(comm, status, text);
    }
}

void hil_comm_set_activity(hil_comm *comm, const char *format, ...)
{
    if (!comm || !comm->heartbeat) return;
    char text[HIL_COMM_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    hil_heartbeat_set_activity(comm->heartbeat, text);
}
