/* comm_threads.c - ranks that are threads of one process: they copy from each other's memory. */
#include "comm/comm_threads.h"

#include "base/alloc.h"
#include "comm/comm_engine.h"

#include <string.h>
#include <time.h>

/* A collective call on one channel: ranks arrive, copy once all have arrived, and return together.
 */
typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int here, done;    /* ranks that arrived, and that have copied */
    uint64_t round;    /* number of the call */
    const void **from; /* by rank: its data */
} meeting;

typedef struct team {
    int size;
    pthread_mutex_t lock; /* guards the next two */
    int open;             /* open comms; closing the last frees the team */
    hil_comm **comms;     /* NULL: closed */
    meeting meetings[HIL_CHANNELS];
} team;

/* When a waiting rank next checks whether the comm broke. */
static struct timespec soon(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += 5000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        ++at.tv_sec;
    }
    return at;
}

/* Returns when all ranks have arrived; none returns from depart() before all have called it. */
static hil_status arrive(hil_comm *comm, meeting *room, const void *from)
{
    hil_status status = HIL_OK;
    pthread_mutex_lock(&room->lock);
    uint64_t round = room->round;
    room->from[comm->rank] = from;
    if (++room->here == comm->size) {
        room->here = 0;
        ++room->round;
        pthread_cond_broadcast(&room->changed);
    }
    while (room->round == round) {
        if (atomic_load(&comm->broken)) {
            --room->here;
            status = hil_fail(HIL_ERR_IO, "the ranks are no longer connected");
            break;
        }
        struct timespec at = soon();
        pthread_cond_timedwait(&room->changed, &room->lock, &at);
    }
    pthread_mutex_unlock(&room->lock);
    return status;
}

static void depart(const hil_comm *comm, meeting *room)
{
    pthread_mutex_lock(&room->lock);
    uint64_t round = room->round;
    if (++room->done == comm->size) {
        room->done = 0;
        ++room->round;
        pthread_cond_broadcast(&room->changed);
    }
    while (room->round == round) pthread_cond_wait(&room->changed, &room->lock);
    pthread_mutex_unlock(&room->lock);
}

static hil_status gather(hil_comm *comm, hil_channel channel, const void *slice, void *whole,
                         size_t bytes)
{
    meeting *room = &((team *)comm->state)->meetings[channel];
    HIL_TRY(arrive(comm, room, slice));
    for (int rank = 0; rank < comm->size; ++rank) {
        unsigned char *to = (unsigned char *)whole + (size_t)rank * bytes;
        if (room->from[rank] != to) memcpy(to, room->from[rank], bytes);
    }
    depart(comm, room);
    return HIL_OK;
}

static hil_status exchange(hil_comm *comm, hil_channel channel, const void *out, void *in,
                           size_t bytes)
{
    meeting *room = &((team *)comm->state)->meetings[channel];
    HIL_TRY(arrive(comm, room, out));
    for (int rank = 0; rank < comm->size; ++rank)
        memcpy((unsigned char *)in + (size_t)rank * bytes,
               (const unsigned char *)room->from[rank] + (size_t)comm->rank * bytes, bytes);
    depart(comm, room);
    return HIL_OK;
}

static void fail(hil_comm *comm, hil_status status, const char *message)
{
    team *t = comm->state;
    pthread_mutex_lock(&t->lock);
    for (int rank = 0; rank < t->size; ++rank)
        if (t->comms[rank]) hil_comm_break(t->comms[rank], status, message);
    pthread_mutex_unlock(&t->lock);
}

static void team_destroy(team *t)
{
    for (int channel = 0; channel < (int)HIL_CHANNELS; ++channel) {
        meeting *room = &t->meetings[channel];
        pthread_mutex_destroy(&room->lock);
        pthread_cond_destroy(&room->changed);
        hil_free(room->from);
    }
    pthread_mutex_destroy(&t->lock);
    hil_free(t->comms);
    hil_free(t);
}

static void destroy(hil_comm *comm)
{
    team *t = comm->state;
    pthread_mutex_lock(&t->lock);
    t->comms[comm->rank] = NULL;
    bool last = --t->open == 0;
    pthread_mutex_unlock(&t->lock);
    if (last) team_destroy(t);
}

static const hil_comm_engine engine = {"threads", false, destroy, gather, exchange, fail};

static hil_status team_create(int size, team **out)
{
    team *t;
    HIL_TRY(HIL_ALLOC(1, &t));
    *out = t;
    t->size = size;
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    for (int channel = 0; channel < (int)HIL_CHANNELS; ++channel) {
        pthread_mutex_init(&t->meetings[channel].lock, NULL);
        pthread_cond_init(&t->meetings[channel].changed, &monotonic);
    }
    pthread_condattr_destroy(&monotonic);
    for (int channel = 0; channel < (int)HIL_CHANNELS; ++channel)
        HIL_TRY(HIL_ALLOC(size, &t->meetings[channel].from));
    HIL_TRY(HIL_ALLOC(size, &t->comms));
    return HIL_OK;
}

hil_status hil_comm_threads_create(int size, hil_comm **comms)
{
    for (int rank = 0; rank < size; ++rank) comms[rank] = NULL;
    team *t = NULL;
    hil_status status = team_create(size, &t);
    for (int rank = 0; status == HIL_OK && rank < size; ++rank) {
        HIL_TRY_DONE(hil_comm_create(&comms[rank]));
        hil_comm *comm = t->comms[rank] = comms[rank];
        comm->engine = &engine;
        comm->state = t;
        comm->rank = comm->local_rank = rank;
        comm->size = comm->local_size = size;
        ++t->open;
        HIL_TRY_DONE(hil_comm_prepare(comm));
    }
done:
    if (status == HIL_OK) return HIL_OK;
    if (t && !t->open) team_destroy(t);
    for (int rank = 0; rank < size; ++rank) {
        hil_comm_close(comms[rank]);
        comms[rank] = NULL;
    }
    return status;
}
