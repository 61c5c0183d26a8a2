/* channels.h - one thread per channel on every rank. */
#ifndef HIL_TESTS_COMM_CHANNELS_H
#define HIL_TESTS_COMM_CHANNELS_H

#include "comm/collectives.h"

#include <pthread.h>

typedef struct channels_thread {
    hil_comm *comm;
    hil_channel channel;
    pthread_t thread;
    hil_status status;
    char message[256];
} channels_thread;

/* Each channel has its own pace, so ranks arrive in a different order on each. */
static inline void *channels_work(void *argument)
{
    const channels_thread *t = argument;
    int rank = hil_comm_rank(t->comm);
    for (int round = 0; round < 40; ++round) {
        if ((rank + (int)t->channel + round) % 5 == 0)
            nanosleep(&(struct timespec){0, 300000}, NULL);
        size_t bytes = (size_t)((round * 37 + (int)t->channel * 1000) % 5000);
        collectives_gather(t->comm, t->channel, bytes, round);
        collectives_exchange(t->comm, t->channel, bytes, round);
    }
    return NULL;
}

static inline void channels_start(hil_comm *comm, channels_thread threads[HIL_CHANNELS],
                                  void *(*work)(void *argument))
{
    for (int channel = 0; channel < (int)HIL_CHANNELS; ++channel) {
        threads[channel] = (channels_thread){.comm = comm, .channel = (hil_channel)channel};
        CHECK(pthread_create(&threads[channel].thread, NULL, work, &threads[channel]) == 0);
    }
}

static inline void channels_join(channels_thread threads[HIL_CHANNELS])
{
    for (int channel = 0; channel < (int)HIL_CHANNELS; ++channel)
        CHECK(pthread_join(threads[channel].thread, NULL) == 0);
}

/* Runs all channels in parallel. */
static inline void channels_parallel(hil_comm *comm)
{
    channels_thread threads[HIL_CHANNELS];
    channels_start(comm, threads, channels_work);
    channels_join(threads);
}

/* Waits for ranks that never call. */
static inline void *channels_wait(void *argument)
{
    channels_thread *t = argument;
    size_t bytes = 1 << 16;
    unsigned char *out = calloc((size_t)hil_comm_size(t->comm), bytes);
    unsigned char *in = calloc((size_t)hil_comm_size(t->comm), bytes);
    CHECK(out && in);
    t->status = (int)t->channel % 2 ? hil_comm_gather(t->comm, t->channel, out, in, bytes)
                                    : hil_comm_exchange(t->comm, t->channel, out, in, bytes);
    if (t->status != HIL_OK) snprintf(t->message, sizeof t->message, "%s", hil_status_message());
    free(out);
    free(in);
    return NULL;
}

/* The last rank fails while the others wait for it on every channel: all their calls end with its
   message, and so do later ones. Breaks the comm. */
static inline void channels_break(hil_comm *comm)
{
    channels_thread threads[HIL_CHANNELS];
    int last = hil_comm_size(comm) - 1;
    char name[64];
    const char *words = "the drive is on fire";
    snprintf(name, sizeof name, "rank %d", last);
    if (hil_comm_rank(comm) == last) {
        nanosleep(&(struct timespec){0, 30000000}, NULL);
        hil_comm_fail(comm, hil_fail(HIL_ERR_IO, "the drive is on fire"));
    } else {
        channels_start(comm, threads, channels_wait);
        channels_join(threads);
        for (int channel = 0; channel < (int)HIL_CHANNELS; ++channel) {
            CHECK_INT(threads[channel].status, HIL_ERR_IO);
            CHECK(strncmp(threads[channel].message, name, strlen(name)) == 0);
            CHECK(strstr(threads[channel].message, words));
        }
        hil_comm_fail(comm, hil_fail(HIL_ERR_MEMORY, "something of our own"));
    }
    double value = 1;
    CHECK_FAILS(hil_comm_sum(comm, &value, 1), HIL_ERR_IO, words);
    CHECK_FAILS(hil_comm_agree(comm, HIL_CHANNEL_SAVE, HIL_OK, NULL), HIL_ERR_IO, words);
}

#endif
