/* A user's model whose path depends on the tokens: blocks are skipped, run twice, or borrow another
   block's weights. With budgets far below its states, with and without prefetch, it trains to the
   same bits as with everything on the device; the order of use is repaired. */
#include "detour_net.h"
#include "store/pass.h"

#include <hilbert/nn.h>
#include <hilbert/trainer.h>

enum { BATCH = 4, STEPS = 24, USUAL = 3 };

static int detours;
static bool borrowing; /* blocks may borrow weights */

static hil_status block(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const layer *l = state;
    const int32_t *ids = hil_value_ids(hil_batch_tokens(t));
    int way = ids ? (ids[0] / 4 + l->number) % 6 : 5;
    if (!ids || ids[0] < 4) way = 5;
    hil_value *x;
    HIL_TRY(hil_values_get(in, "x", &x));
    if (way < 3) ++detours;
    if (way != 0) HIL_TRY(pass(t, l, x, &x));
    if (way == 1) HIL_TRY(pass(t, l, x, &x));
    if (way == 2 && borrowing) HIL_TRY(pass(t, l->other, x, &x));
    return hil_values_set(out, "x", x);
}

typedef struct run {
    double loss[STEPS];
    float table[V * C], up[BLOCKS][F * C];
    int64_t repairs;
    uint64_t moved;
} run;

static void train(const hil_trainer_options *options, run *out)
{
    hil_model *model;
    hil_trainer *trainer;
    net n;
    int32_t tokens[BATCH * SEQ];
    const hil_batch batch = {.sequences = BATCH, .length = SEQ, .token = tokens};
    *out = (run){0};
    CHECK_OK(hil_model_create(&model));
    build(model, &n, block, false);
    CHECK_OK(hil_trainer_create(&trainer, model, options));
    detours = 0;
    for (int s = 0; s < STEPS; ++s) {
        hil_step_result result;
        fill(tokens, BATCH * SEQ, s);
        for (int i = 0; i < BATCH && s < USUAL; ++i)
            tokens[i * SEQ] %= 4; /* the usual path first */
        CHECK_OK(hil_trainer_step(trainer, &batch, 1, 1e-2, &result));
        out->loss[s] = result.loss;
        out->moved += result.account.disk_read_bytes + result.account.to_device_bytes;
        CHECK(result.account.device_peak <= options->memory.device);
        CHECK(result.account.host_peak <= options->memory.host);
        if (s < USUAL) CHECK_INT(detours, 0);
    }
    CHECK(detours > STEPS);
    out->repairs = hil_store_repairs(model->store);
    CHECK_OK(hil_trainer_read(trainer, "table", out->table, V * C));
    for (int i = 0; i < BLOCKS; ++i) {
        char name[32];
        snprintf(name, sizeof name, "%d.up", i);
        CHECK_OK(hil_trainer_read(trainer, name, out->up[i], F * C));
    }
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
}

/* The gradient of a borrowed weight is not planned; it needs room that the plan leaves free. */
static void compare(const char *folder, const char *dtype, size_t first)
{
    static const struct {
        uint64_t device, host; /* KiB */
        bool prefetch, borrowing;
    } tight[] = {{160, 224, true, false},
                 {160, 224, false, false},
                 {192, 224, true, false},
                 {256, 1024, true, true},
                 {256, 1024, false, true}};
    static run expected, got;
    hil_disk_budget disk = {folder, 4 << 20};
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = dtype;
    options.threads = 2;
    options.sequences = BATCH;
    options.length = SEQ;
    options.micro_batch = 1;
    options.memory.disks = &disk;
    for (size_t i = first; i < sizeof tight / sizeof *tight; i += CHECK_SLOW ? 2 : 1) {
        options.memory.device = options.memory.host = 64 << 20;
        options.memory.disk_count = 0;
        borrowing = tight[i].borrowing;
        options.spare = borrowing ? 50 : 30;
        train(&options, &expected);
        CHECK(expected.loss[STEPS - 1] < expected.loss[0]);
        if (!borrowing) CHECK_INT((int64_t)expected.moved, 0);
        options.memory.device = tight[i].device << 10;
        options.memory.host = tight[i].host << 10;
        options.prefetch = tight[i].prefetch;
        options.memory.disk_count = 1;
        train(&options, &got);
        printf("%s in %dK and %dK: %lld repairs, %llu bytes moved\n", dtype, (int)tight[i].device,
               (int)tight[i].host, (long long)got.repairs, (unsigned long long)got.moved);
        CHECK(got.moved > 0);
        CHECK(got.repairs > 0);
        CHECK(memcmp(expected.loss, got.loss, sizeof got.loss) == 0);
        CHECK(memcmp(expected.table, got.table, sizeof got.table) == 0);
        CHECK(memcmp(expected.up, got.up, sizeof got.up) == 0);
    }
}

int main(void)
{
    job_place place;
    job_begin(&place);
    compare(place.folder, "fp32", 0);
    compare(place.folder, "bf16", CHECK_SLOW);
    job_end(&place);
    return 0;
}
