/* Parameter stores of several ranks, which are threads here: where sums are exact they give the
   bits of one rank with all micro-batches, for any placement, on the CPU and on devices; a
   checkpoint of two ranks is loaded by one and by three; and ranks over functions of the program's
   do the same. */
#include "comm/comm_threads.h"
#include "device/device_threads.h"
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

static void *work(void *argument)
{
    crew *c = argument;
    if (c->what == RUN) run(c->dtype, &c->side, c->at, c->out);
    if (c->what == SAVE) run_saving(c->dtype, &c->side, c->at, c->folder, "text", c->out);
    if (c->what == LOAD) run_loaded(c->dtype, &c->side, c->at, c->folder, "text", c->out);
    return NULL;
}

/* Runs as many ranks; all must give the bits of *want. */
static void check_ranks(int ranks, const kinds_side *side, const char *dtype, const placement *at,
                        doing what, const char *folder, const outcome *want)
{
    static outcome out[RANKS];
    hil_comm *comm[RANKS];
    pthread_t thread[RANKS];
    crew crews[RANKS];
    CHECK_OK(hil_comm_threads_create(ranks, comm));
    for (int r = 0; r < ranks; ++r) {
        crews[r] = (crew){*side, dtype, folder, at, what, &out[r]};
        if (what == LOAD) out[r] = *want;
        crews[r].side.comm = comm[r];
        CHECK_INT(pthread_create(&thread[r], NULL, work, &crews[r]), 0);
    }
    for (int r = 0; r < ranks; ++r) CHECK_INT(pthread_join(thread[r], NULL), 0);
    for (int r = 0; r < ranks; ++r) {
        hil_comm_close(comm[r]);
        if (memcmp(&out[r], want, sizeof *want) == 0) continue;
        fprintf(stderr, "rank %d of %d on %s, %s: other bits\n", r, ranks, side->device, dtype);
        exit(1);
    }
}

typedef struct moving {
    void *to;
    const void *from;
    size_t bytes;
} moving;

static hil_status move(void *args)
{
    const moving *m = args;
    memcpy(m->to, m->from, m->bytes);
    return HIL_OK;
}

static const void *lend(hil_param_store *store, int slot, const void *bytes, size_t count)
{
    static char memory[RANKS * PARAMS][MOST * sizeof(float)];
    (void)store;
    return memcpy(memory[slot], bytes, count);
}

static void look(hil_param_store *store, void *out, const void *weights, size_t bytes)
{
    moving m = {out, weights, bytes};
    CHECK_OK(hil_device_threads_call(store->device, HIL_STREAM_COMPUTE, move, &m, sizeof m));
}

static void check_checkpoints(const placement *row, const outcome *want)
{
    static outcome got;
    char folder[] = "/tmp/param_store_ranks_XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    check_ranks(2, &kinds_cpu, "bf16", &row[1], SAVE, folder, want);
    check_ranks(3, &kinds_cpu, "bf16", &row[0], LOAD, folder, want);
    got = *want;
    run_loaded("bf16", &kinds_cpu, &row[0], folder, "text", &got);
    CHECK(memcmp(&got, want, sizeof got) == 0);
    CHECK_OK(hil_file_remove_tree(folder));
}

int main(void)
{
    static const placement one = {.device = 8 * M};
    static const placement row[] = {
        {8 * M, 4 * M, 0, false, 0},
        {600 << 10, 12 * M, 0, true, 0},
        {600 << 10, 900 << 10, 1, false, 0},
    };
    static const kinds_side device[] = {{"threads", NULL, lend, look, NULL},
                                        {"threads:each", NULL, lend, look, NULL}};
    static const char *const dtype[] = {"fp32", "bf16"};
    static outcome want;
    for (int d = 0; d < 2; ++d) {
        run(dtype[d], &kinds_cpu, &one, &want);
        for (int ranks = 2; ranks <= RANKS; ++ranks)
            for (int i = 0; i < 3; ++i)
                check_ranks(ranks, &kinds_cpu, dtype[d], &row[i], RUN, NULL, &want);
        for (int k = 0; k < 2; ++k) {
            check_ranks(2, &device[k], dtype[d], &row[0], RUN, NULL, &want);
            check_ranks(2, &device[k], dtype[d], &row[1], RUN, NULL, &want);
        }
    }
    check_checkpoints(row, &want);
    return 0;
}
