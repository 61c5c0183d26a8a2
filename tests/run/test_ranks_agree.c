/* What ranks agree on before a run: parts of a batch, CPUs, one plan's budgets and speeds, one
   folder. */
#include "../comm/ranks.h"
#include "io/file.h"
#include "run/output_folder.h"
#include "plan/ranks.h"

#include <sched.h>
#include <unistd.h>

enum { RANKS = 4 };

static void check_share(hil_comm *comm, void *context)
{
    (void)context;
    int64_t share;
    CHECK_OK(hil_ranks_share(hil_comm_size(comm), 12, &share));
    CHECK_INT(share, 3);
    CHECK_FAILS(hil_ranks_share(hil_comm_size(comm), 10, &share), HIL_ERR_USAGE,
                "--batch 10 does not divide over 4 ranks: use 8 or 12");
    CHECK_FAILS(hil_ranks_share(hil_comm_size(comm), 3, &share), HIL_ERR_USAGE,
                "--batch 3 does not divide over 4 ranks: use 4");
    CHECK_OK(hil_ranks_share(1, 7, &share));
    CHECK_INT(share, 7);
}

/* All ranks are on this machine and may use all of its CPUs. */
static void check_threads(hil_comm *comm, void *context)
{
    (void)context;
    cpu_set_t set;
    int threads;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    int part = CPU_COUNT(&set) / RANKS;
    CHECK_OK(hil_ranks_threads(comm, 0, &threads));
    CHECK_INT(threads, part > 1 ? part : 1);
    CHECK_OK(hil_ranks_threads(comm, 7, &threads));
    CHECK_INT(threads, 7);
    CHECK_OK(hil_ranks_threads(NULL, 0, &threads));
    CHECK_INT(threads, 0);
}

static void check_level(hil_comm *comm, void *context)
{
    (void)context;
    size_t rank = (size_t)hil_comm_rank(comm);
    hil_budget budget = {.device = 1000 + rank, .host = 2000 - rank, .disk = 1};
    hil_drive drives[2] = {{.path = "a", .bytes = 4096 * (3 + rank)},
                           {.path = "b", .bytes = 4096 * (9 - rank)}};
    CHECK_OK(hil_ranks_level_budget(comm, &budget, drives, 2));
    CHECK_INT(budget.device, 1000);
    CHECK_INT(budget.host, 2000 - RANKS + 1);
    CHECK_INT(drives[0].bytes, 4096 * 3);
    CHECK_INT(drives[1].bytes, 4096 * (9 - RANKS + 1));
    CHECK_INT(budget.disk, drives[0].bytes + drives[1].bytes);

    /* Only the first rank of the machine has measured; its drives are shared by all. */
    hil_machine machine = {.measured = true};
    double *speed = (double *)&machine.speeds;
    for (size_t i = 0; i < sizeof machine.speeds / sizeof *speed; ++i)
        speed[i] = rank ? 0.001 : 100 + (double)i;
    machine.speeds.threads = 0; /* a GPU computes */
    machine.drive[0] = (hil_drive_speed){rank ? 1 : 40, rank ? 1 : 20, rank ? 1 : 60, true, 0};
    double update = machine.speeds.update, read = machine.speeds.disk_read;
    double call = machine.speeds.op_call;
    CHECK_OK(hil_comm_broadcast(comm, HIL_CHANNEL_CONTROL, &update, sizeof update));
    CHECK_OK(hil_comm_broadcast(comm, HIL_CHANNEL_CONTROL, &read, sizeof read));
    CHECK_OK(hil_comm_broadcast(comm, HIL_CHANNEL_CONTROL, &call, sizeof call));
    CHECK_OK(hil_ranks_level_speeds(comm, &machine, 1, 0));
    CHECK(machine.speeds.update == update);
    CHECK(machine.speeds.disk_read == read / RANKS);
    CHECK_NEAR(machine.speeds.op_call, call, 1e-12 * call);
    CHECK(machine.drive[0].read == 10 && machine.drive[0].write == 5);
    CHECK(machine.drive[0].mixed == 15);
    CHECK(machine.speeds.network > 1000); /* measured */
    double least = machine.speeds.network, most = -least;
    CHECK_OK(hil_comm_least(comm, &least, 1));
    CHECK_OK(hil_comm_least(comm, &most, 1));
    CHECK(least == -most); /* the same everywhere */
    CHECK(machine.speeds.network_call > 0 && machine.speeds.network_call < 10);
}

/* A rank with fewer CPUs than threads is as much slower; one with more is as fast as measured. */
static void check_cpus(void)
{
    const hil_speeds alone = {.gemm = {8, 8, 8},
                              .attention = {4, 4, 4},
                              .memory = 2,
                              .update = 1,
                              .op_call = 3,
                              .pool_run = 1,
                              .vector = {12, 12, 12},
                              .pack = {16, 16, 16},
                              .update_8bit = 20,
                              .threads = 4,
                              .cpus = 8};
    hil_speeds s = alone;
    hil_ranks_share_cpus(&s, 4);
    CHECK(s.gemm[1] == 8 && s.attention[2] == 4 && s.memory == 2 && s.update == 1 && s.cpus == 4);
    hil_ranks_share_cpus(&s, 1);
    CHECK(s.gemm[1] == 2 && s.attention[2] == 1 && s.memory == 0.5 && s.update == 0.25);
    CHECK(s.vector[0] == 3 && s.pack[2] == 4 && s.update_8bit == 5);
    CHECK(s.op_call == 12 && s.pool_run == 4 && s.cpus == 1 && s.threads == 4);
    /* Operations take 1.3 times as long with 4 threads as with one, and so 2.5 times with 16. */
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        s = alone;
        s.threads = 4;
        s.cpus = 16;
        s.alone = 1.3;
        hil_ranks_share_cpus(&s, 16.0 / ranks);
        double slower = (1 + 0.3 * (4 * ranks - 1) / 3) / 1.3;
        CHECK_NEAR(s.gemm[1], 8 / slower, 1e-9);
        CHECK_NEAR(s.op_call, 3 * slower, 1e-9);
        CHECK(s.alone == 1);
    }
    s = alone;
    s.threads = 2;
    s.cpus = 16;
    s.alone = 4;
    hil_ranks_share_cpus(&s, 2);
    CHECK_NEAR(s.gemm[1], 1, 1e-9); /* as if one rank computed after the other */
    s = alone;
    s.threads = s.cpus = 8;
    s.alone = 2;
    hil_ranks_share_cpus(&s, 8);
    CHECK(s.gemm[1] == 8 && s.alone == 2);
}

/* hil_ranks_follow: all ranks get rank 0's failure and message; other ranks' status is ignored. */
static void check_follow(hil_comm *comm, void *context)
{
    (void)context;
    int rank = hil_comm_rank(comm);
    CHECK_OK(hil_ranks_follow(comm, rank ? hil_fail(HIL_ERR_IO, "not heard") : HIL_OK));
    hil_status status = rank ? HIL_OK : hil_fail(HIL_ERR_BUDGET, "no room");
    CHECK_FAILS(hil_ranks_follow(comm, status), HIL_ERR_BUDGET, "no room");
    CHECK_TEXT(hil_status_message(), "no room");
    CHECK_OK(hil_ranks_agree(comm, HIL_OK));
}

/* A failure that ranks have agreed on keeps the name of its rank when it is passed on again. */
static void check_named(hil_comm *comm, void *context)
{
    (void)context;
    int rank = hil_comm_rank(comm);
    hil_status mine = rank == 3 ? hil_fail(HIL_ERR_IO, "no room") : HIL_OK;
    mine = hil_comm_agree(comm, HIL_CHANNEL_SAVE, mine, NULL);
    CHECK_FAILS(mine, HIL_ERR_IO, "rank 3: no room");
    CHECK_FAILS(hil_ranks_agree(comm, rank == 1 ? mine : HIL_OK), HIL_ERR_IO, "");
    CHECK_TEXT(hil_status_message(), "rank 3: no room");
    mine = rank == 1 ? hil_fail(HIL_ERR_IO, "torn") : HIL_OK;
    CHECK_FAILS(hil_ranks_agree(comm, mine), HIL_ERR_IO, "rank 1: torn");
    CHECK_OK(hil_comm_agree(comm, HIL_CHANNEL_SAVE, HIL_OK, NULL));
    CHECK_OK(hil_ranks_agree(comm, HIL_OK));
}

/* Rank 2 sees another folder under that name in the second run. */
static void check_folder(hil_comm *comm, void *context)
{
    const char *place = context;
    char path[HIL_PATH_MAX], other[HIL_PATH_MAX];
    hil_folder folder;
    CHECK_OK(hil_path_join(path, place, "one"));
    CHECK_OK(hil_path_join(other, place, "other"));
    CHECK_OK(hil_folder_join(&folder, path));
    CHECK_OK(hil_folder_check_shared(&folder, comm));
    if (hil_comm_rank(comm) == 2) CHECK_OK(hil_folder_join(&folder, other));
    CHECK_FAILS(hil_folder_check_shared(&folder, comm), HIL_ERR_USAGE,
                "--out must be on a file system that all machines share");
    CHECK(strstr(hil_status_message(), "rank 2: ") && strstr(hil_status_message(), other));
    CHECK_OK(hil_ranks_agree(comm, HIL_OK));
}

int main(void)
{
    check_cpus();
    char place[] = "/tmp/hilbert-agree-XXXXXX", path[HIL_PATH_MAX];
    CHECK(mkdtemp(place) != NULL);
    CHECK_OK(hil_path_join(path, place, "one"));
    CHECK_OK(hil_dir_create(path));
    ranks_run(RANKS, check_share, NULL);
    ranks_run(RANKS, check_threads, NULL);
    ranks_run(RANKS, check_level, NULL);
    ranks_run(RANKS, check_follow, NULL);
    ranks_run(RANKS, check_named, NULL);
    ranks_run(RANKS, check_folder, place);
    CHECK(rmdir(path) == 0); /* nothing is left there */
    CHECK(rmdir(place) == 0);
    return 0;
}
