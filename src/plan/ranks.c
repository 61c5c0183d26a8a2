/* ranks.c - agreement between the ranks of a run. */
#include "plan/ranks.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define NETWORK_BYTES ((size_t)256 << 10) /* of each rank in one gather */
#define NETWORK_LEAST 64 /* bytes of a gather that takes no longer than an empty one */
#define NETWORK_ROUNDS 4

hil_status hil_ranks_follow(hil_comm *comm, hil_status mine)
{
    struct {
        int status;
        char text[1024];
    } fate = {.status = (int)mine};
    if (hil_comm_size(comm) == 1) return mine;
    if (mine != HIL_OK) snprintf(fate.text, sizeof fate.text, "%s", hil_status_message());
    HIL_TRY(hil_comm_broadcast(comm, HIL_CHANNEL_CONTROL, &fate, sizeof fate));
    if (fate.status == (int)HIL_OK) return HIL_OK;
    return hil_ranks_agree(comm, hil_fail((hil_status)fate.status, "%s", fate.text));
}

hil_status hil_ranks_share(int64_t ranks, int64_t batch, int64_t *share)
{
    int64_t below = batch / ranks * ranks;
    *share = batch / ranks;
    if (below == batch) return HIL_OK;
    if (below == 0)
        return hil_fail(HIL_ERR_USAGE, "--batch %lld does not divide over %lld ranks: use %lld",
                        (long long)batch, (long long)ranks, (long long)ranks);
    return hil_fail(HIL_ERR_USAGE, "--batch %lld does not divide over %lld ranks: use %lld or %lld",
                    (long long)batch, (long long)ranks, (long long)below,
                    (long long)(below + ranks));
}

/* CPUs that the ranks of this machine may use together, and this rank alone: a launcher may have
   bound each rank to its own CPUs, or to none. */
static hil_status count_cpus(hil_comm *comm, int *together, int *alone)
{
    cpu_set_t mine, all;
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) CPU_ZERO(&mine);
    all = mine;
    HIL_TRY(hil_comm_any(comm, (unsigned char *)&all, sizeof all));
    *together = CPU_COUNT(&all);
    *alone = CPU_COUNT(&mine);
    return HIL_OK;
}

hil_status hil_ranks_threads(hil_comm *comm, int asked, int *out)
{
    int together, alone;
    *out = asked;
    if (hil_comm_size(comm) == 1) return HIL_OK;
    HIL_TRY(count_cpus(comm, &together, &alone));
    int share = together / hil_comm_local_size(comm);
    if (share > alone) share = alone;
    if (!asked) *out = share > 1 ? share : 1;
    return HIL_OK;
}

/* How much slower the threads of a rank are while those of the others compute too: they were
   measured while the rest of the CPUs was idle. An operation takes longer, evenly with the threads
   that compute: `alone` times as long with all of the rank's threads as with one; but all ranks
   together no longer than one after the other. */
static double crowding(const hil_speeds *s, double cpus)
{
    double own = s->threads, busy = fmin(s->cpus, own * s->cpus / cpus);
    if (!(s->alone > 1) || !(own > 1) || !(busy > own)) return 1;
    double slower = (1 + (s->alone - 1) * (busy - 1) / (own - 1)) / s->alone;
    return fmin(slower, busy / own);
}

void hil_ranks_share_cpus(hil_speeds *s, double cpus)
{
    if (!(s->threads > 0)) return;
    double crowded = crowding(s, cpus), part = fmin(1, cpus / s->threads) / crowded;
    if (crowded > 1) s->alone = 1; /* no CPU is idle */
    s->cpus = cpus;
    for (int d = 0; d < 3; ++d) {
        s->gemm[d] *= part;
        s->attention[d] *= part;
        s->vector[d] *= part;
        s->pack[d] *= part;
    }
    s->memory *= part;
    s->cached *= part;
    s->update *= part;
    s->update_8bit *= part;
    s->op_call /= part;
    s->pool_run /= part;
}

hil_status hil_ranks_level_budget(hil_comm *comm, hil_budget *budget, hil_drive *drives, int count)
{
    double least[2 + HIL_DRIVES] = {(double)budget->device, (double)budget->host};
    if (hil_comm_size(comm) == 1) return HIL_OK;
    for (int i = 0; i < count; ++i) least[2 + i] = (double)drives[i].bytes;
    HIL_TRY(hil_comm_least(comm, least, 2 + (size_t)count));
    *budget = (hil_budget){.device = (size_t)least[0], .host = (size_t)least[1]};
    for (int i = 0; i < count; ++i) {
        drives[i].bytes = (uint64_t)least[2 + i];
        budget->disk += drives[i].bytes;
    }
    return HIL_OK;
}

/* Seconds of an all-gather of `bytes` from each rank, the mean of several. */
static hil_status time_gather(hil_comm *comm, char *whole, size_t bytes, double *out)
{
    size_t rank = (size_t)hil_comm_rank(comm);
    double began = 0;
    for (int i = 0; i <= NETWORK_ROUNDS; ++i) {
        if (i == 1) began = hil_clock_now(); /* the first gather may set up connections */
        HIL_TRY(hil_comm_gather(comm, HIL_CHANNEL_CONTROL, whole + rank * bytes, whole, bytes));
    }
    *out = (hil_clock_now() - began) / NETWORK_ROUNDS;
    return HIL_OK;
}

/* Bytes per second that this rank receives in an all-gather, and seconds of an empty one. */
static hil_status measure_network(hil_comm *comm, hil_speeds *out)
{
    size_t ranks = (size_t)hil_comm_size(comm);
    char *whole = NULL;
    double large = 0, small = 0;
    hil_status status = hil_ranks_agree(comm, HIL_ALLOC(ranks * NETWORK_BYTES, &whole));
    if (status == HIL_OK) status = time_gather(comm, whole, NETWORK_BYTES, &large);
    if (status == HIL_OK) status = time_gather(comm, whole, NETWORK_LEAST, &small);
    small = fmin(small, large / 2);
    out->network = (double)((ranks - 1) * NETWORK_BYTES) / fmax(large - small, 1e-9);
    out->network_call = small;
    hil_free(whole);
    return status;
}

/* Speeds as an array, of which the minimum over ranks is taken: for each, more is better. */
enum { SPEEDS = sizeof(hil_speeds) / sizeof(double), DRIVE_SPEEDS = 3 };
_Static_assert(sizeof(hil_speeds) == SPEEDS * sizeof(double), "speeds are numbers");

/* To per-second numbers, and back. */
static void invert_overheads(hil_speeds *s)
{
    s->op_call = 1 / s->op_call;
    s->pool_run = 1 / s->pool_run;
    s->network_call = 1 / s->network_call;
    s->disk_call = 1 / s->disk_call;
}

hil_status hil_ranks_level_speeds(hil_comm *comm, hil_machine *machine, int drives, double network)
{
    hil_speeds *s = &machine->speeds;
    double sharers = hil_comm_local_size(comm);
    double least[SPEEDS + DRIVE_SPEEDS * HIL_DISKS_MAX];
    if (hil_comm_size(comm) == 1) return HIL_OK;
    if (network > 0)
        s->network = network;
    else if (machine->measured)
        HIL_TRY(measure_network(comm, s));
    int together, alone;
    HIL_TRY(count_cpus(comm, &together, &alone));
    hil_ranks_share_cpus(s, together / sharers);
    invert_overheads(s);
    s->disk_read /= sharers;
    s->disk_write /= sharers;
    s->disk_mixed /= sharers;
    memcpy(least, s, sizeof *s);
    double *drive = least + SPEEDS;
    for (int i = 0; i < drives; ++i, drive += DRIVE_SPEEDS) {
        drive[0] = machine->drive[i].read / sharers;
        drive[1] = machine->drive[i].write / sharers;
        drive[2] = machine->drive[i].mixed / sharers;
    }
    size_t count = (size_t)(drive - least);
    for (size_t i = 0; i < count && hil_comm_local_rank(comm) > 0; ++i) least[i] = INFINITY;
    HIL_TRY(hil_comm_least(comm, least, count));
    memcpy(s, least, sizeof *s);
    invert_overheads(s);
    drive = least + SPEEDS;
    for (int i = 0; i < drives; ++i, drive += DRIVE_SPEEDS) {
        machine->drive[i].read = drive[0];
        machine->drive[i].write = drive[1];
        machine->drive[i].mixed = drive[2];
    }
    return HIL_OK;
}
