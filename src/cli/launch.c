/* launch.c - whether a launcher (mpirun, srun) started this process as one of several ranks. */
#include "cli/launch.h"
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What launchers tell the processes that they start. A shell inside an allocation has none of
   these: Slurm counts the tasks of a step only for those that srun started. */
static const struct {
    const char *size, *rank;
} launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, /* Open MPI */
    {"PMI_SIZE", "PMI_RANK"},                         /* MPICH, Intel MPI */
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},   /* MVAPICH */
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},         /* srun */
};

static int started = 1, own; /* ranks, and the number of this one */
static bool connected;

/* A whole number from 0, or -1. */
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

/* The module beside the program, or where it was installed; NULL: there is none. */
static const char *find_module(char path[HIL_PATH_MAX])
{
    static const char *const places[] = {"hilbert_mpi.so", "../lib/hilbert/hilbert_mpi.so"};
    char folder[HIL_PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (length <= 0) return NULL;
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; ++i)
        if (hil_path_join(path, folder, places[i]) == HIL_OK && access(path, F_OK) == 0)
            return path;
    return NULL;
}

hil_status hil_launch_open(hil_comm **out)
{
    char path[HIL_PATH_MAX];
    hil_comm_options options = {
        .expected = started, .module = find_module(path), .lost = hil_command_lost};
    hil_status status = hil_comm_open(out, &options);
    connected = status == HIL_OK && started > 1;
    return status;
}

int hil_launch_fail(hil_status status)
{
    if (own > 0) {
        /* The first rank failed as well, as a rule. It speaks, and its end ends the job. */
        nanosleep(&(struct timespec){2, 0}, NULL);
        fprintf(stderr, "hilbert: rank %d: %s\n", own, hil_status_message());
    }
    return hil_command_fail(status);
}

int hil_launch_close(hil_comm *comm, int code)
{
    if (code == 1 || code == 2) hil_comm_fail(comm, code == 2 ? HIL_ERR_USAGE : HIL_ERR_IO);
    hil_comm_close(comm);
    return code;
}

int hil_launch_end(int code)
{
    return own > 0 && !connected && code == 2 ? 0 : code;
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
