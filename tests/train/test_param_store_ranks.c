/* Parameter stores of several ranks, which are threads here: where sums are exact they give the
   bits of one rank with all micro-batches, for any placement, on the CPU and on devices, on the CPU
   also where gradients are added after those of their group were given; a checkpoint of two ranks
   is loaded by one and by three; and ranks over functions of the program's do the same. */
#include "comm/comm_threads.h"
#include "io/file.h"
#include "param_store_kinds.h"
#include "train/param_store.h"

#include <pthread.h>

enum { RANKS = 3 };

typedef enum doing { RUN, SAVE, LOAD } doing;

typedef struct crew {
    kinds_side side;
    const char *dtype, *folder;
    const placement *at;
    doing what;
    outcome *out;
} crew;

static int gather(void *inner, int channel, const void *slice, void *whole, size_t bytes)
{
    return hil_comm_gather(inner, (hil_channel)channel, slice, whole, bytes) != HIL_OK;
}

static int exchange(void *inner, int channel, const void *out, void *in, size_t bytes)
{
    return hil_comm_exchange(inner, (hil_channel)channel, out, in, bytes) != HIL_OK;
}

static hil_comm *open_functions(hil_comm *inner)
{
    hil_comm *comm;
    hil_comm_functions f;
    hil_comm_functions_defaults(&f);
    f.rank = f.local_rank = hil_comm_rank(inner);
    f.ranks = f.local_ranks = hil_comm_size(inner);
    f.gather = gather;
    f.exchange = exchange;
    f.context = inner;
    CHECK_OK(hil_comm_open_functions(&comm, &f));
    return comm;
}

static void *work(void *argument)
{
    crew *c = argument;
    if (c->what == RUN) run(c->dtype, &c->side, c->at, c->out);
    if (c->what == SAVE) run_saving(c->dtype, &c->side, c->at, c->folder, "text", c->out);
    if (c->what == LOAD) run_loaded(c->dtype, &c->side, c->at, c->folder, "text", c->out);
    return NULL;
}

/* Runs as many ranks; all must give the bits of *want. */
static void check_ranks(int ranks, const crew *all, const outcome *want)
{
    static outcome out[RANKS];
    hil_comm *comm[RANKS];
    pthread_t thread[RANKS];
    crew crews[RANKS];
    CHECK_OK(hil_comm_threads_create(ranks, comm));
    for (int r = 0; r < ranks; ++r) {
        crews[r] = *all;
        crews[r].out = &out[r];
        if (all->what == LOAD) out[r] = *want;
        crews[r].side.comm = ranks == 2 ? open_functions(comm[r]) : comm[r];
        CHECK_INT(pthread_create(&thread[r], NULL, work, &crews[r]), 0);
    }
    for (int r = 0; r < ranks; ++r) CHECK_INT(pthread_join(thread[r], NULL), 0);
    for (int r = 0; r < ranks; ++r) {
        if (crews[r].side.comm != comm[r]) hil_comm_close(crews[r].side.comm);
        hil_comm_close(comm[r]);
        if (memcmp(&out[r], want, sizeof *want) == 0) continue;
        fprintf(stderr, "rank %d of %d on %s, %s: other bits\n", r, ranks, all->side.device,
                all->dtype);
        exit(1);
    }
}

static const void *lend(hil_param_store *store, int slot, const void *bytes, size_t count)
{
    static char memory[RANKS * PARAMS][MOST * sizeof(float)];
    (void)store;
    return memcpy(memory[slot], bytes, count);
}

static void look(hil_param_store *store, void *out, const void *weights, size_t bytes)
{
    hil_device *device = store->device;
    CHECK_OK(device->queue->copy(device, HIL_STREAM_COMPUTE, out, weights, bytes));
}

static void check_checkpoints(const placement *row, const outcome *want)
{
    static outcome got;
    char folder[] = "/tmp/param_store_ranks_XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    check_ranks(2, &(crew){kinds_cpu, "bf16", folder, &row[1], SAVE, NULL}, want);
    check_ranks(3, &(crew){kinds_cpu, "bf16", folder, &row[0], LOAD, NULL}, want);
    got = *want;
    run_loaded("bf16", &kinds_cpu, &row[0], folder, "text", &got);
    CHECK(memcmp(&got, want, sizeof got) == 0);
    CHECK_OK(hil_file_remove_tree(folder));
}

static int fail(void *inner, int channel, const void *out, void *in, size_t bytes)
{
    (void)inner, (void)channel, (void)out, (void)in, (void)bytes;
    return 1;
}

/* A function that fails ends the call with a message; so does a rank without functions. */
static void check_failures(void)
{
    hil_comm *comm;
    hil_comm_functions f;
    hil_param_store *store;
    hil_param_store_options options;
    hil_comm_functions_defaults(&f);
    CHECK_FAILS(hil_comm_open_functions(&comm, &f), HIL_ERR_USAGE, "both functions");
    f.gather = f.exchange = fail;
    CHECK_OK(hil_comm_open_functions(&comm, &f));
    CHECK(comm == NULL);
    f.ranks = 2;
    f.rank = 1;
    CHECK_OK(hil_comm_open_functions(&comm, &f));
    CHECK(hil_comm_nccl_id(comm) == NULL);
    hil_comm_close(comm);
    unsigned char id[HIL_COMM_NCCL_ID] = {1, [HIL_COMM_NCCL_ID - 1] = 2};
    f.nccl_id = id;
    CHECK_OK(hil_comm_open_functions(&comm, &f));
    id[0] = 0; /* it was copied */
    CHECK_INT(hil_comm_nccl_id(comm)[0], 1);
    CHECK_INT(hil_comm_nccl_id(comm)[HIL_COMM_NCCL_ID - 1], 2);
    hil_param_store_defaults(&options);
    options.comm = comm;
    CHECK_FAILS(hil_param_store_create(&store, &options), HIL_ERR_IO, "gather from");
    hil_comm_close(comm);
}

int main(void)
{
    static const placement one = {.device = 8 * M};
    static const placement row[] = {
        {.device = 8 * M, .host = 4 * M},
        {.device = 600 << 10, .host = 12 * M, .early = true},
        {.device = 600 << 10, .host = 900 << 10, .drives = 1},
        {.device = 600 << 10, .host = 12 * M, .late = true},
    };
    static const kinds_side device[] = {{"threads", NULL, lend, look, NULL},
                                        {"threads:each", NULL, lend, look, NULL}};
    static const char *const dtype[] = {"fp32", "bf16"};
    static outcome want;
    for (int d = 0; d < 2; ++d) {
        run(dtype[d], &kinds_cpu, &one, &want);
        for (int ranks = 2; ranks <= RANKS; ++ranks)
            for (int i = 0; i < 4; ++i)
                check_ranks(ranks, &(crew){kinds_cpu, dtype[d], NULL, &row[i], RUN, NULL}, &want);
        for (int k = 0; k < 4; ++k)
            check_ranks(2, &(crew){device[k / 2], dtype[d], NULL, &row[k % 2], RUN, NULL}, &want);
    }
    check_checkpoints(row, &want);
    check_failures();
    return 0;
}
