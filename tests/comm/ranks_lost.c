/* ranks_lost.c - one rank of a job that a test disturbs: ranks_lost EXPECTED MODULE FOLDER SECONDS
   [FAILING]. It works for that long on two channels, and writes its process id to FOLDER/pid.RANK
   and its last step to FOLDER/step.RANK. */
#include "check.h"

#include "base/clock.h"
#include "cli/command.h"
#include "comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { BYTES = 1 << 20, ENOUGH = 20 };

static void leave_number(const char *folder, const char *name, int rank, long value)
{
    char path[500], whole[520];
    snprintf(path, sizeof path, "%s/%s.%d", folder, name, rank);
    snprintf(whole, sizeof whole, "%s.new", path);
    FILE *file = fopen(whole, "w");
    CHECK(file && fprintf(file, "%ld\n", value) > 0 && fclose(file) == 0);
    CHECK(rename(whole, path) == 0);
}

static volatile double sink;

static void compute(double seconds)
{
    for (double until = hil_clock_now() + seconds; hil_clock_now() < until;)
        for (int i = 0; i < 1000; ++i) sink += sink * 0.5;
}

typedef struct gathering {
    hil_comm *comm;
    atomic_bool done;
    hil_status status;
    char text[1100];
} gathering;

/* Gathers until every rank's main thread is done. */
static void *gather(void *context)
{
    gathering *g = context;
    size_t ranks = (size_t)hil_comm_size(g->comm);
    unsigned char *slice = calloc(1, BYTES), *whole = calloc(ranks, BYTES);
    CHECK(slice && whole);
    for (bool all = false; !all && g->status == HIL_OK;) {
        slice[0] = atomic_load(&g->done);
        g->status = hil_comm_gather(g->comm, HIL_CHANNEL_GATHER, slice, whole, BYTES);
        all = true;
        for (size_t r = 0; r < ranks; ++r) all = all && whole[r * BYTES];
    }
    if (g->status != HIL_OK) snprintf(g->text, sizeof g->text, "%s", hil_status_message());
    free(slice);
    free(whole);
    return NULL;
}

static hil_status step(hil_comm *comm, int number, bool fails, int *stop)
{
    hil_comm_set_activity(comm, "step %d, computing", number);
    compute(0.01 + 0.005 * ((number + hil_comm_rank(comm)) % 3));
    if (fails && number == ENOUGH) return hil_fail(HIL_ERR_IO, "cannot write swap.0: disk full");
    hil_comm_set_activity(comm, "step %d, summing", number);
    double value[8] = {1};
    HIL_TRY(hil_comm_sum(comm, value, 8));
    CHECK_NEAR(value[0], hil_comm_size(comm), 0);
    return hil_comm_agree(comm, HIL_CHANNEL_CONTROL, HIL_OK, stop);
}

int main(int argc, char **argv)
{
    CHECK(argc == 5 || argc == 6);
    hil_comm_options options;
    hil_comm_defaults(&options);
    options.expected = (int)strtol(argv[1], NULL, 10);
    options.module = argv[2];
    options.lost = hil_command_lost;
    gathering g = {0};
    hil_command_catch_signals(NULL);
    if (hil_comm_open(&g.comm, &options) != HIL_OK) return hil_command_fail(HIL_ERR_IO);
    int rank = hil_comm_rank(g.comm), stop = 0;
    double until = hil_clock_now() + strtod(argv[4], NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, gather, &g) == 0);
    leave_number(argv[3], "pid", rank, getpid());
    hil_status status = HIL_OK;
    for (int number = 1; status == HIL_OK && !stop; ++number) {
        stop = hil_command_stop != 0 || hil_clock_now() > until;
        status = step(g.comm, number, argc == 6 && strtol(argv[5], NULL, 10) == rank, &stop);
        leave_number(argv[3], "step", rank, number);
    }
    hil_comm_fail(g.comm, status);
    atomic_store(&g.done, true);
    CHECK(pthread_join(thread, NULL) == 0);
    int code = 0;
    if (status != HIL_OK) {
        CHECK_INT(g.status, HIL_ERR_IO);
        CHECK(strstr(g.text, "disk full"));
        code = rank == 0 ? hil_command_fail(status) : 1;
    }
    if (rank == 0 && code == 0)
        printf("done, %d of %d here\n", hil_comm_local_size(g.comm), hil_comm_size(g.comm));
    hil_comm_close(g.comm);
    return code;
}
