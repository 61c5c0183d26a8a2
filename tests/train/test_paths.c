/* A model whose path depends on its tokens, trained by several ranks on different paths: blocks are
   skipped, run twice, or borrow another block's weights. Losses agree with one rank's in large and
   small budgets, and no rank hangs. An undeclared use, or a device too small for different paths,
   fails on all ranks with a message. */
#include "../comm/ranks.h"
#include "detour_net.h"

#include <hilbert/nn.h>

#define STEPS (CHECK_SLOW ? 8 : 20)

enum { BATCH = 12, MOST = 4 };

typedef enum way { SKIP, TWICE, BORROW, SWAP, USUAL } way;

static hil_status block(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const layer *l = state;
    const int32_t *ids = hil_value_ids(hil_batch_tokens(t));
    way how = ids ? (way)((ids[0] / 4 + l->number) % 5) : USUAL;
    const layer *other = l->number > 1 ? l->other : NULL;
    hil_value *x;
    HIL_TRY(hil_values_get(in, "x", &x));
    if (how == SWAP && other) HIL_TRY(pass(t, other, x, &x));
    if (how != SKIP) HIL_TRY(pass(t, l, x, &x));
    if (how == TWICE) HIL_TRY(pass(t, l, x, &x));
    if (how == BORROW && other) HIL_TRY(pass(t, other, x, &x));
    return hil_values_set(out, "x", x);
}

/* A run and its results on rank 0. */
typedef struct run {
    const char *dtype, *folder; /* folder: for the disk, or NULL */
    uint64_t device, host;      /* host: of each rank */
    int zero;
    bool declare, by_segment;
    double loss[STEPS], sum; /* sum: of the losses that evaluating gives */
    uint64_t gathered;       /* bytes, in the last step */
    hil_status made[MOST], status[MOST];
    char message[MOST][512];
} run;

static hil_trainer_options options_of(const run *r, const hil_disk_budget *disk, hil_comm *comm)
{
    hil_trainer_options o;
    int ranks = hil_comm_size(comm);
    hil_trainer_defaults(&o);
    o.comm = comm;
    o.dtype = r->dtype;
    o.threads = 1;
    o.sequences = BATCH / ranks;
    o.length = SEQ;
    o.micro_batch = 1;
    o.zero = r->zero;
    o.spare = 50; /* some paths need more than the usual one */
    o.memory.device = r->device;
    o.memory.host = r->host * (uint64_t)ranks;
    o.memory.disks = disk;
    o.memory.disk_count = r->folder ? 1 : 0;
    return o;
}

static hil_status train(run *r, hil_comm *comm, hil_trainer *trainer)
{
    int32_t tokens[BATCH * SEQ];
    int rank = hil_comm_rank(comm), share = BATCH / hil_comm_size(comm);
    hil_step_result result = {0};
    const hil_batch mine = {
        .sequences = share, .length = SEQ, .token = tokens + rank * share * SEQ};
    for (int s = 0; s < STEPS; ++s) {
        fill(tokens, BATCH * SEQ, s);
        HIL_TRY(hil_trainer_step(trainer, &mine, 1, 1e-2, &result));
        CHECK(result.account.device_peak <= r->device && result.account.host_peak <= r->host);
        if (rank == 0) r->loss[s] = result.loss;
        if (rank == 0) r->gathered = result.account.gathered_bytes;
    }
    double sum = 0;
    for (int i = 0; i < share; ++i) { /* one at a time, each by its own path */
        hil_batch one = {.sequences = 1, .length = SEQ, .token = mine.token + i * SEQ};
        HIL_TRY(hil_trainer_loss(trainer, &one, &result));
        sum += result.loss;
    }
    HIL_TRY(hil_comm_sum(comm, &sum, 1));
    if (rank == 0) r->sum = sum;
    return HIL_OK;
}

static void work(hil_comm *comm, void *context)
{
    run *r = context;
    int rank = hil_comm_rank(comm);
    hil_disk_budget disk = {r->folder, 64 << 20};
    hil_trainer_options options = options_of(r, &disk, comm);
    hil_model *model;
    hil_trainer *trainer;
    net n;
    CHECK_OK(hil_model_create(&model));
    build(model, &n, block, r->declare);
    hil_status status = r->made[rank] = hil_trainer_create(&trainer, model, &options);
    if (status == HIL_OK) {
        if (rank == 0) r->by_segment = trainer->planned.plan.by_segment;
        status = train(r, comm, trainer);
    }
    if (status != HIL_OK)
        snprintf(r->message[rank], sizeof r->message[rank], "%s", hil_status_message());
    r->status[rank] = status;
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
}

static void go(run *r, int ranks)
{
    alarm(60);
    if (ranks > 1)
        ranks_run(ranks, work, r);
    else
        work(NULL, r);
    alarm(0);
}

static void check_close(const char *folder)
{
    static const struct {
        int ranks, zero;
        uint64_t device, host; /* KiB, of each rank */
        bool disk;
    } all[] = {{2, 3, 16384, 16384, false}, {3, 3, 16384, 16384, false}, {4, 3, 450, 800, false},
               {4, 2, 16384, 16384, false}, {2, 1, 16384, 16384, false}, {2, 3, 450, 250, true},
               {3, 3, 450, 200, true}};
    run one = {.dtype = "fp32", .device = 64 << 20, .host = 64 << 20, .declare = true};
    go(&one, 1);
    CHECK_OK(one.status[0]);
    CHECK(one.loss[STEPS - 1] < one.loss[0]);
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        run r = {.dtype = "fp32",
                 .folder = all[i].disk ? folder : NULL,
                 .device = all[i].device << 10,
                 .host = all[i].host << 10,
                 .zero = all[i].zero,
                 .declare = true};
        double worst = 0;
        go(&r, all[i].ranks);
        for (int k = 0; k < all[i].ranks; ++k)
            if (r.status[k] != HIL_OK) check_die(__FILE__, __LINE__, r.message[k]);
        CHECK(r.by_segment);
        for (int s = 0; s < STEPS; ++s) {
            double error = fabs(r.loss[s] - one.loss[s]) / one.loss[s];
            worst = error > worst ? error : worst;
            if (s == 0) CHECK(error <= 1e-6);
        }
        printf("%d ranks, --zero %d, %d and %d KiB: off by %.1e at most, %llu bytes gathered\n",
               all[i].ranks, all[i].zero, (int)all[i].device, (int)all[i].host, worst,
               (unsigned long long)r.gathered);
        CHECK(worst <= 1e-5);
        CHECK(fabs(r.sum - one.sum) <= 1e-5 * one.sum);
    }
}

static void check_undeclared(void)
{
    run r = {.dtype = "bf16", .device = 16 << 20, .host = 16 << 20};
    go(&r, 3);
    for (int k = 0; k < 3; ++k) {
        CHECK_INT(r.status[k], HIL_ERR_USAGE);
        CHECK(strstr(r.message[k], "which did not say so") && strstr(r.message[k], "block "));
    }
}

/* The least device that a plan is found for streams tiles one by one, and then all ranks must take
   the same path. */
static void check_too_small(void)
{
    uint64_t more = CHECK_SLOW ? 12 << 10 : 4 << 10;
    run r = {.dtype = "fp32", .host = 16 << 20, .declare = true};
    for (r.device = 40 << 10;; r.device += more) {
        go(&r, 2);
        if (r.made[0] == HIL_OK) break;
        CHECK_INT(r.made[0], HIL_ERR_BUDGET);
        CHECK_INT(r.made[1], HIL_ERR_BUDGET);
    }
    CHECK(!r.by_segment);
    for (int k = 0; k < 2; ++k) {
        CHECK_INT(r.status[k], HIL_ERR_USAGE);
        CHECK(strstr(r.message[k], "give more --device-memory"));
    }
    for (; !r.by_segment; r.device += more) go(&r, 2);
    CHECK_OK(r.status[0]);
    CHECK_OK(r.status[1]);
}

int main(void)
{
    job_place place;
    job_begin(&place);
    check_close(place.folder);
    check_undeclared();
    check_too_small();
    job_end(&place);
    return 0;
}
