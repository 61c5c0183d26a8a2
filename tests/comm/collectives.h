/* collectives.h - checks of every engine, run by all ranks together. */
#ifndef HIL_TESTS_COMM_COLLECTIVES_H
#define HIL_TESTS_COMM_COLLECTIVES_H

#include "check.h"
#include "comm/comm_engine.h"

#include <time.h>

/* Byte i of piece `piece` of rank `rank` in round `round`. */
static inline unsigned char collectives_byte(int rank, int piece, size_t i, int round)
{
    return (unsigned char)(rank * 37 + piece * 101 + (int)(i % 251) * 7 + round * 13 + 5);
}

static inline void collectives_gather(hil_comm *comm, hil_channel channel, size_t bytes, int round)
{
    int rank = hil_comm_rank(comm), size = hil_comm_size(comm);
    unsigned char *whole = calloc((size_t)size, bytes + 1), *slice = calloc(1, bytes + 1);
    CHECK(whole && slice);
    unsigned char *place = whole + (size_t)rank * bytes;
    unsigned char *from = round % 2 ? place : slice; /* in place, or from another buffer */
    for (size_t i = 0; i < bytes; ++i) from[i] = collectives_byte(rank, 0, i, round);
    CHECK_OK(hil_comm_gather(comm, channel, from, whole, bytes));
    for (int r = 0; r < size; ++r)
        for (size_t i = 0; i < bytes; ++i)
            if (whole[(size_t)r * bytes + i] != collectives_byte(r, 0, i, round))
                CHECK_INT(whole[(size_t)r * bytes + i], collectives_byte(r, 0, i, round));
    free(whole);
    free(slice);
}

static inline void collectives_exchange(hil_comm *comm, hil_channel channel, size_t bytes,
                                        int round)
{
    int rank = hil_comm_rank(comm), size = hil_comm_size(comm);
    unsigned char *out = calloc((size_t)size, bytes + 1), *in = calloc((size_t)size, bytes + 1);
    CHECK(out && in);
    for (int r = 0; r < size; ++r)
        for (size_t i = 0; i < bytes; ++i)
            out[(size_t)r * bytes + i] = collectives_byte(rank, r, i, round);
    CHECK_OK(hil_comm_exchange(comm, channel, out, in, bytes));
    for (int r = 0; r < size; ++r)
        for (size_t i = 0; i < bytes; ++i)
            if (in[(size_t)r * bytes + i] != collectives_byte(r, rank, i, round))
                CHECK_INT(in[(size_t)r * bytes + i], collectives_byte(r, rank, i, round));
    free(out);
    free(in);
}

static inline void collectives_broadcast(hil_comm *comm, hil_channel channel, size_t bytes)
{
    unsigned char *data = calloc(1, bytes + 1);
    CHECK(data);
    for (size_t i = 0; i < bytes; ++i)
        data[i] = collectives_byte(hil_comm_rank(comm), 0, i, (int)channel);
    CHECK_OK(hil_comm_broadcast(comm, channel, data, bytes));
    for (size_t i = 0; i < bytes; ++i) CHECK_INT(data[i], collectives_byte(0, 0, i, (int)channel));
    free(data);
}

/* Values whose sum has different bits in any other order. */
static inline double collectives_value(int rank, int i)
{
    static const double large[4] = {1e16, 1, -1e16, 0.5};
    return large[(rank + i) % 4] * (1 + rank * 0.125) + i;
}

static inline void collectives_numbers(hil_comm *comm)
{
    enum { COUNT = 1300 }; /* more than one piece */
    int rank = hil_comm_rank(comm), size = hil_comm_size(comm);
    double *value = calloc(COUNT, sizeof *value), *least = calloc(COUNT, sizeof *least);
    unsigned char *bits = calloc(COUNT * 9, 1);
    CHECK(value && least && bits);
    for (int i = 0; i < COUNT; ++i) {
        value[i] = collectives_value(rank, i);
        least[i] = fabs((double)((i + rank * 3) % 7 - 3));
    }
    for (int i = 0; i < COUNT * 9; ++i)
        bits[i] = (unsigned char)((i % (size + 1) == rank) << rank % 8);
    CHECK_OK(hil_comm_sum(comm, value, COUNT));
    CHECK_OK(hil_comm_least(comm, least, COUNT));
    CHECK_OK(hil_comm_any(comm, bits, COUNT * 9));
    for (int i = 0; i < COUNT; ++i) {
        double sum = collectives_value(0, i), low = fabs((double)(i % 7 - 3));
        for (int r = 1; r < size; ++r) {
            sum += collectives_value(r, i);
            low = fmin(low, fabs((double)((i + r * 3) % 7 - 3)));
        }
        CHECK(memcmp(&sum, &value[i], sizeof sum) == 0);
        CHECK(least[i] == low);
    }
    for (int i = 0; i < COUNT * 9; ++i) {
        int owner = i % (size + 1);
        CHECK_INT(bits[i], owner < size ? 1 << owner % 8 : 0);
    }
    free(value);
    free(least);
    free(bits);
}

/* No rank returns early; then one rank fails, then all; then it works again. */
static inline void collectives_agree(hil_comm *comm)
{
    int rank = hil_comm_rank(comm), size = hil_comm_size(comm), last = size - 1;
    int flag = 0;
    CHECK_OK(hil_comm_agree(comm, HIL_CHANNEL_CONTROL, HIL_OK, &flag));
    CHECK_INT(flag, 0);
    flag = rank == last ? 7 : 0;
    CHECK_OK(hil_comm_agree(comm, HIL_CHANNEL_CONTROL, HIL_OK, &flag));
    CHECK(flag != 0);
    CHECK_OK(hil_comm_agree(comm, HIL_CHANNEL_SAVE, HIL_OK, NULL));
    hil_status mine = HIL_OK;
    if (rank > 0 || size == 1)
        mine = hil_fail(rank == last ? HIL_ERR_IO : HIL_ERR_BUDGET, "the disk of %d is full", rank);
    char words[64];
    snprintf(words, sizeof words, "%sthe disk of %d is full", size > 1 ? ": " : "",
             size > 1 ? 1 : 0); /* after "rank 1", and its machine where that is known */
    flag = rank == 0;
    CHECK_FAILS(hil_comm_agree(comm, HIL_CHANNEL_CONTROL, mine, &flag),
                size > 2 ? HIL_ERR_BUDGET : HIL_ERR_IO, words);
    CHECK(size == 1 || strncmp(hil_status_message(), "rank 1", 6) == 0);
    CHECK(flag != 0);
    hil_comm_fail(comm, HIL_ERR_IO); /* the ranks agreed on this failure: the comm does not break */
    mine = hil_fail(HIL_ERR_INPUT, "no model there");
    CHECK(hil_comm_agree(comm, HIL_CHANNEL_SAVE, mine, NULL) == HIL_ERR_INPUT);
    CHECK_TEXT(hil_status_message(), "no model there");
    hil_comm_fail(comm, HIL_ERR_INPUT);
    CHECK_OK(hil_comm_agree(comm, HIL_CHANNEL_CONTROL, HIL_OK, NULL));
}

static inline void collectives_all(hil_comm *comm)
{
    static const size_t sizes[] = {0, 1, 17, 4096, 100003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
        for (int channel = 0; channel < (int)HIL_CHANNELS; ++channel)
            for (int round = 0; round < 3; ++round) {
                collectives_gather(comm, (hil_channel)channel, sizes[i], round);
                collectives_exchange(comm, (hil_channel)channel, sizes[i], round);
            }
    for (size_t i = 0; i < 4; ++i) collectives_broadcast(comm, HIL_CHANNEL_SAVE, sizes[i] * 3);
    collectives_numbers(comm);
    collectives_agree(comm);
}

#endif
