/* ranks_collectives.c - one rank of a test over MPI: ranks_collectives EXPECTED MODULE WHAT. */
#include "comm/channels.h"

/* More than the engine moves at once. */
static void large(hil_comm *comm)
{
    size_t bytes = ((size_t)1 << 24) + 12345;
    collectives_gather(comm, HIL_CHANNEL_GATHER, bytes, 0);
    collectives_gather(comm, HIL_CHANNEL_GATHER, bytes, 1);
    collectives_exchange(comm, HIL_CHANNEL_REDUCE, bytes, 0);
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

/* Prints seconds per call, for a person. */
static void speed(hil_comm *comm)
{
    for (size_t bytes = 8; bytes <= (size_t)1 << 24; bytes *= 128) {
        int rounds = bytes < 1 << 20 ? 1000 : 20;
        unsigned char *out = calloc((size_t)hil_comm_size(comm), bytes);
        unsigned char *in = calloc((size_t)hil_comm_size(comm), bytes);
        CHECK(out && in);
        for (int exchange = 0; exchange < 2; ++exchange) {
            CHECK_OK(hil_comm_agree(comm, HIL_CHANNEL_CONTROL, HIL_OK, NULL));
            double begun = now();
            for (int i = 0; i < rounds; ++i)
                CHECK_OK(exchange ? hil_comm_exchange(comm, HIL_CHANNEL_GATHER, out, in, bytes)
                                  : hil_comm_gather(comm, HIL_CHANNEL_GATHER, out, in, bytes));
            double each = (now() - begun) / rounds;
            if (hil_comm_rank(comm) == 0)
                printf("%s %9zu bytes: %8.1f us, %6.2f GB/s received\n",
                       exchange ? "exchange" : "gather  ", bytes, each * 1e6,
                       (double)(hil_comm_size(comm) - 1) * (double)bytes / each * 1e-9);
        }
        free(out);
        free(in);
    }
}

int main(int argc, char **argv)
{
    CHECK_INT(argc, 4);
    hil_comm_options options;
    hil_comm_defaults(&options);
    options.expected = (int)strtol(argv[1], NULL, 10);
    options.module = argv[2];
    hil_comm *comm = NULL;
    if (hil_comm_open(&comm, &options) != HIL_OK) {
        fprintf(stderr, "%s\n", hil_status_message());
        return 1;
    }
    CHECK_INT(hil_comm_size(comm), options.expected);
    CHECK_INT(hil_comm_local_size(comm), options.expected);
    CHECK_INT(hil_comm_local_rank(comm), hil_comm_rank(comm));
    if (strcmp(argv[3], "all") == 0) {
        collectives_all(comm);
        channels_parallel(comm);
        if (hil_comm_size(comm) < 4) large(comm);
    } else if (strcmp(argv[3], "break") == 0) {
        channels_parallel(comm);
        channels_break(comm);
        puts("broken");
        fflush(stdout); /* mpirun kills the others as soon as one rank exits */
    } else {
        CHECK_TEXT(argv[3], "speed");
        speed(comm);
    }
    int rank = hil_comm_rank(comm);
    hil_comm_close(comm);
    if (rank == 0) puts("done");
    return 0;
}
