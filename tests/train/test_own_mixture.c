/* A user's model whose mixtures run on a path that depends on the tokens: in another order, twice,
   borrowed by another block, or with an expert as a plain matrix. With little device memory, with
   and without prefetch, it trains to the same bits as with everything on the device, and declaring
   what is borrowed changes none. Experts that are not there are refused on every path. */
#include "mixture_net.h"
#include "train/trainer.h"

enum { BATCH = 4, STEPS = 24, USUAL = 3 };

static bool borrowing; /* blocks may borrow a mixture */
static bool beyond;    /* blocks use experts beyond the last */
static int detours[5]; /* by path */

static hil_status block(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const layer *l = state;
    const int32_t *ids = hil_value_ids(hil_batch_tokens(t));
    int way = ids ? (ids[0] + l->number) % 5 : 0;
    if (!ids || ids[0] == 0) way = 0;
    if (way == 3 && !borrowing) way = 1;
    ++detours[way];
    hil_value *x;
    HIL_TRY(hil_values_get(in, "x", &x));
    if (way == 1) HIL_TRY(mix(t, &l->b, &x));
    HIL_TRY(mix(t, &l->a, &x));
    if (way == 2) HIL_TRY(mix(t, &l->a, &x));
    if (way != 1) HIL_TRY(mix(t, &l->b, &x));
    if (way == 3) HIL_TRY(mix(t, &l->other->a, &x));
    if (way == 4) HIL_TRY(hil_linear(t, x, l->third, NULL, &x));
    if (beyond && ids) HIL_TRY(mix(t, &(mixture){l->b.router, l->final}, &x));
    return hil_values_set(out, "x", x);
}

typedef struct run {
    double loss[STEPS], norm[STEPS];
    float table[V * C], expert[BLOCKS][2][EXPERTS][C * C];
    uint64_t moved, skipped;
    bool by_tile;
} run;

static void read_experts(hil_trainer *trainer, run *out)
{
    char name[32];
    CHECK_OK(hil_trainer_read(trainer, "table", out->table, V * C));
    for (int i = 0; i < BLOCKS; ++i)
        for (int k = 0; k < 2; ++k)
            for (int e = 0; e < EXPERTS; ++e) {
                snprintf(name, sizeof name, "%d.%c.%d.up", i, "ab"[k], e);
                CHECK_OK(hil_trainer_read(trainer, name, out->expert[i][k][e], C * C));
            }
}

static void step(hil_trainer *trainer, int number, run *out)
{
    const hil_trainer_options *options = &trainer->options;
    int32_t tokens[BATCH * SEQ];
    hil_batch batch = {.sequences = BATCH, .length = SEQ, .token = tokens};
    hil_step_result result;
    fill(tokens, BATCH * SEQ, number);
    for (int i = 0; i < BATCH && number < USUAL; ++i) tokens[i * SEQ] = 0; /* the usual path */
    CHECK_OK(hil_trainer_step(trainer, &batch, options->micro_batch, 1e-2, &result));
    CHECK(result.account.device_peak <= options->memory.device);
    out->loss[number] = result.loss;
    out->norm[number] = result.grad_norm;
    out->moved += result.account.to_device_bytes;
    out->skipped += result.account.skipped_bytes;
}

static void train(const hil_trainer_options *options, bool declare, run *out)
{
    net n;
    hil_model *model;
    hil_trainer *trainer;
    memset(out, 0, sizeof *out);
    memset(detours, 0, sizeof detours);
    CHECK_OK(hil_model_create(&model));
    build(model, &n, block, declare);
    CHECK_OK(hil_trainer_create(&trainer, model, options));
    for (int s = 0; s < STEPS; ++s) step(trainer, s, out);
    for (int way = 0; way < 5; ++way) CHECK((detours[way] > 0) == (way != 3 || borrowing));
    out->by_tile = trainer->planned.plan.by_tile;
    read_experts(trainer, out);
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
}

static void check_same(const run *a, const run *b)
{
    CHECK(memcmp(a->loss, b->loss, sizeof a->loss) == 0);
    CHECK(memcmp(a->norm, b->norm, sizeof a->norm) == 0);
    CHECK(memcmp(a->table, b->table, sizeof a->table) == 0);
    CHECK(memcmp(a->expert, b->expert, sizeof a->expert) == 0);
}

static void compare(const char *dtype, size_t first)
{
    static const struct {
        int device; /* KiB; the experts have 256 in fp32 */
        int64_t micro_batch;
        bool prefetch, borrowing;
    } tight[] = {{160, 1, true, false},
                 {160, 1, false, true},
                 {160, 1, false, false},
                 {160, 1, true, true},
                 {128, BATCH, true, false}};
    static run expected, got;
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.sequences = BATCH;
    options.length = SEQ;
    options.dtype = dtype;
    options.spare = 50;
    options.threads = 2;
    for (size_t i = first; i < sizeof tight / sizeof *tight; i += CHECK_SLOW ? 2 : 1) {
        borrowing = tight[i].borrowing;
        options.memory.device = options.memory.host = 64 << 20;
        options.micro_batch = tight[i].micro_batch;
        options.prefetch = true;
        train(&options, true, &expected);
        CHECK(expected.loss[STEPS - 1] < expected.loss[0]);
        options.memory.device = (uint64_t)tight[i].device << 10;
        options.prefetch = tight[i].prefetch;
        train(&options, false, &got);
        printf("%s in %dK: %llu bytes moved, %llu skipped%s\n", dtype, tight[i].device,
               (unsigned long long)got.moved, (unsigned long long)got.skipped,
               got.by_tile ? ", by tile" : "");
        CHECK(got.moved > 0 && got.skipped > 0);
        CHECK(!expected.by_tile && got.by_tile == (options.micro_batch == BATCH));
        check_same(&expected, &got);
    }
}

static void refuse(void)
{
    hil_model *model;
    hil_trainer *trainer;
    hil_trainer_options options;
    net n;
    int32_t tokens[SEQ] = {0};
    hil_batch batch = {.sequences = 1, .length = SEQ, .token = tokens};
    hil_step_result result;
    hil_trainer_defaults(&options);
    options.threads = 1;
    options.length = SEQ;
    beyond = true;
    CHECK_OK(hil_model_create(&model));
    build(model, &n, block, false);
    n.block[0].final = n.block[BLOCKS - 1].final;
    CHECK_OK(hil_trainer_create(&trainer, model, &options));
    CHECK_FAILS(hil_trainer_step(trainer, &batch, 1, 1e-2, &result), HIL_ERR_USAGE,
                "1.b.15.up: expected 16 parameters of its shape from it on");
    beyond = false;
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
}

int main(void)
{
    alarm(300);
    compare("fp32", 0);
    compare("bf16", CHECK_SLOW);
    refuse();
    return 0;
}
