/* launch.c - finds out whether a launcher (mpirun, srun) started several ranks; connects them. */
#include "cli/launch.h"
#include "cli/command.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Environment variables that launchers set for their processes: number of ranks, own rank. A shell
   inside an allocation has none of these: Slurm sets SLURM_STEP_NUM_TASKS only under srun. */
static const struct {
    const char *size, *rank;
} launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, /* Open MPI */
    {"PMI_SIZE", "PMI_RANK"},                         /* MPICH, Intel MPI */
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},   /* MVAPICH */
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},         /* srun */
};

static int started = 1, own; /* ranks, and the number of this one */
static bool tried;           /* to connect the ranks */
static atomic_bool connected;

/* The value of a variable, a whole number from 0; -1: unset, or not one. */
static int number(const char *name)
{
    const char *text = getenv(name);
    char *end;
    if (!text || *text < '0' || *text > '9') return -1;
    long value = strtol(text, &end, 10);
    return *end || value > 1 << 24 ? -1 : (int)value;
}

hil_status hil_launch_begin(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; ++i) {
        int size = number(launchers[i].size), rank = number(launchers[i].rank);
        if (size < 1 || rank < 0 || rank >= size) continue;
        started = size;
        own = rank;
        break;
    }
    if (own > 0 && !freopen("/dev/null", "w", stdout))
        return hil_fail(HIL_ERR_IO, "cannot open /dev/null");
    return HIL_OK;
}

int hil_launch_ranks(void)
{
    return started;
}

bool hil_launch_first(void)
{
    return own == 0;
}

/* The MPI module in the program's folder or where it is installed; NULL: none. */
static const char *find_module(char path[HIL_PATH_MAX])
{
    static const char *const places[] = {"hilbert_mpi.so", "../lib/hilbert/hilbert_mpi.so"};
    return hil_command_find(path, places, sizeof places / sizeof *places);
}

/* Delays the report of a failure that all ranks notice: rank 0 reports it at once, and its exit
   ends the job before the others repeat it. */
static void wait_turn(void)
{
    if (own > 0) nanosleep(&(struct timespec){own < 3 ? 2 * own : 6, 0}, NULL);
}

static void lose(void *context, const char *message)
{
    if (!connected) wait_turn();
    hil_command_lost(context, message);
}

static hil_status connect_ranks(hil_comm **out)
{
    char path[HIL_PATH_MAX];
    hil_comm_options options;
    hil_comm_defaults(&options);
    options.expected = started;
    options.module = find_module(path);
    options.lost = lose;
    tried = true;
    HIL_TRY(hil_comm_open(out, &options));
    connected = true;
    return HIL_OK;
}

/* The advice if options differ. */
#define ADVICE "start all ranks with the same options"

hil_status hil_launch_open(hil_comm **out, const hil_command *command, const void *values)
{
    hil_fact fact[HIL_FACTS_MAX];
    size_t count = 0;
    char *text = NULL;
    *out = NULL;
    if (started == 1) return HIL_OK;
    HIL_TRY(connect_ranks(out));
    hil_status status = hil_options_facts(command, values, fact, &count, &text);
    status = hil_comm_compare(*out, status, fact, count, ADVICE);
    free(text);
    return status;
}

void hil_launch_report(hil_status status)
{
    char message[1024];
    hil_comm *comm = NULL;
    snprintf(message, sizeof message, "%s", hil_status_message());
    if (started > 1 && !tried && connect_ranks(&comm) == HIL_OK) {
        (void)!hil_comm_compare(comm, hil_fail(status, "%s", message), NULL, 0, ADVICE);
        snprintf(message, sizeof message, "%s", hil_status_message());
    }
    bool alone = started > 1 && !connected;
    if (alone) wait_turn();
    if (own == 0)
        fprintf(stderr, "hilbert: %s\n", message);
    else if (alone)
        fprintf(stderr, "hilbert: rank %d: %s\n", own, message);
    hil_comm_close(comm);
}

int hil_launch_close(hil_comm *comm, int code)
{
    if (code == 1 || code == 2) hil_comm_fail(comm, code == 2 ? HIL_ERR_USAGE : HIL_ERR_IO);
    hil_comm_close(comm);
    return code;
}

void hil_launch_describe(char *out, size_t size)
{
    char path[HIL_PATH_MAX];
    const char *module = find_module(path), *version;
    if (!module)
        snprintf(out, size, "MPI: not in this build; it runs as one process");
    else if (hil_comm_version(module, &version) == HIL_OK)
        snprintf(out, size, "MPI: %s", version);
    else
        snprintf(out, size, "MPI: none; %s", hil_status_message());
}
