/* The same bits for any order of micro-batches and segments, any amount of kept activations and
   any tier of boundary values. A rehearsal needs the same memory and moves the same bytes as the
   run. */
#include "golden.h"
#include "model/build.h"
#include "placed.h"
#include "places.h"

enum { SEQ = 24, BATCH = 5, MICRO = 2, STEPS = 2 }; /* micro-batches of 2, 2 and 1 */

static const placement placements[] = {
    {1, {9, 9, 9}, {0, 0, 0}, DEVICE, true, DEVICE},
    {1, {0, 0, 0}, {0, 0, 0}, DEVICE, true, DEVICE},
    {1, {1, 0, 1}, {0, 0, 0}, DEVICE, true, DEVICE},
    {2, {1, 2, 0}, {0, 0, 0}, DEVICE, true, DEVICE},
    {0, {9, 9, 9}, {0, 0, 0}, DEVICE, true, DEVICE},
    {0, {0, 0, 0}, {0, 0, 0}, DEVICE, true, DEVICE},
    {0, {1, 1, 1}, {0, 0, 0}, DEVICE, true, DEVICE},
    {0, {3, 0, 2}, {0, 0, 0}, DEVICE, true, DEVICE},
    {3, {2, 1, 3}, {0, 0, 0}, DEVICE, true, DEVICE},
    {1, {9, 9, 9}, {0, 0, 0}, HOST, true, DEVICE},
    {1, {0, 0, 0}, {0, 0, 0}, HOST, false, DEVICE},
    {0, {0, 0, 0}, {0, 0, 0}, HOST, true, DEVICE},
    {0, {9, 9, 9}, {0, 0, 0}, HOST, true, DEVICE},
    {0, {1, 0, 2}, {0, 0, 0}, HOST, false, DEVICE},
    {1, {0, 0, 0}, {0, 0, 0}, DISK, true, DEVICE},
    {0, {0, 0, 0}, {0, 0, 0}, DISK, true, DEVICE},
    {0, {9, 9, 9}, {0, 0, 0}, DISK, false, DEVICE},
    {2, {1, 2, 0}, {0, 0, 0}, DISK, true, DEVICE},
    {0, {0, 1, 2}, {0, 0, 0}, MIXED, true, DEVICE},
    {1, {1, 0, 1}, {0, 0, 0}, MIXED, true, DEVICE},
    {2, {2, 0, 1}, {0, 0, 0}, MIXED, false, DEVICE},
    {1, {0, 0, 0}, {9, 9, 9}, DEVICE, true, DEVICE},
    {0, {0, 0, 0}, {9, 9, 9}, DEVICE, true, DEVICE},
    {0, {1, 0, 0}, {1, 2, 3}, DEVICE, true, DEVICE},
    {2, {0, 1, 9}, {1, 0, 9}, HOST, true, DEVICE},
    {0, {0, 0, 1}, {9, 1, 9}, DISK, false, DEVICE},
    {0, {0, 1, 0}, {2, 1, 1}, MIXED, true, DEVICE},
    {1, {9, 9, 9}, {0, 0, 0}, DEVICE, true, HOST},
    {0, {9, 9, 9}, {0, 0, 0}, HOST, true, HOST},
    {0, {0, 0, 0}, {9, 9, 9}, DEVICE, true, HOST},
    {0, {1, 0, 2}, {1, 2, 0}, HOST, false, DISK},
    {2, {0, 1, 0}, {1, 1, 1}, DISK, true, MIXED},
    {3, {1, 0, 0}, {1, 2, 1}, MIXED, true, HOST},
    {1, {0, 0, 1}, {1, 9, 0}, DEVICE, true, DISK},
    {1, {0, 0, 0}, {-9, -9, -9}, DEVICE, true, DEVICE},
    {0, {0, 0, 0}, {-9, -9, -9}, DEVICE, true, HOST},
    {2, {1, 0, 0}, {-1, 1, -9}, HOST, false, MIXED},
};

static const hil_micro shapes[] = {{.sequences = 2, .length = SEQ},
                                   {.sequences = 2, .length = SEQ},
                                   {.sequences = 1, .length = SEQ}};

typedef struct numbers {
    float *all; /* masters and first moments */
    int64_t count;
    double loss[STEPS];
} numbers;

static hil_trainer *start(const char *name, const char *dtype, hil_model **model)
{
    hil_config config;
    char *folder = golden_path(name, NULL);
    CHECK_OK(hil_config_open(&config, folder));
    hil_free(folder);
    config.layers = 3;
    config.dropout_residual = config.dropout_attention = config.arch == &hil_arch_gpt2 ? 0.1 : 0;
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = dtype;
    options.threads = 2;
    options.seed = 5;
    hil_trainer *trainer;
    CHECK_OK(hil_build_model(model, &config));
    CHECK_OK(hil_trainer_create(&trainer, *model, &options));
    return trainer;
}

static numbers train(const char *name, const char *dtype, const placement *p)
{
    hil_model *model;
    hil_trainer *t = start(name, dtype, &model);
    hil_engine *own = t->engine;
    placed_need need = placed_rehearse(t, p, shapes, 3, STEPS);
    placed run;
    placed_open(&run, t, p, &need);
    t->engine = run.engine;
    numbers out = {0};
    int32_t tokens[BATCH * SEQ];
    for (int i = 0; i < BATCH * SEQ; ++i) tokens[i] = (i * i * 7 + i / 3) % 250;
    hil_batch batch = {.sequences = BATCH, .length = SEQ, .token = tokens};
    for (int s = 0; s < STEPS; ++s) {
        hil_step_result result;
        hil_account before;
        hil_links_take_account(run.tiers.links, &before);
        CHECK_OK(hil_trainer_step(t, &batch, MICRO, 1e-2, &result));
        out.loss[s] = result.loss;
    }
    placed_check(&run, &need);
    out.all = read_numbers(model->store, &out.count);
    t->engine = own;
    placed_close(&run);
    hil_trainer_destroy(t);
    hil_model_destroy(model);
    return out;
}

static void compare(const char *name, const char *dtype, size_t from)
{
    numbers first = train(name, dtype, &placements[0]);
    for (size_t i = from; i < sizeof placements / sizeof *placements; i += CHECK_SLOW + 1) {
        numbers now = train(name, dtype, &placements[i]);
        CHECK(memcmp(first.loss, now.loss, sizeof now.loss) == 0);
        CHECK(memcmp(first.all, now.all, (size_t)now.count * sizeof(float)) == 0);
        hil_free(now.all);
    }
    hil_free(first.all);
}

/* Offloaded tapes: nothing is recomputed, and the device needs less memory than with tapes on it.
   Thin ones are smaller, and recompute attention. */
static void check_tapes(hil_trainer *t, const placed_need *need)
{
    static const placement host = {0, {9, 9, 9}, {0, 0, 0}, DEVICE, true, HOST};
    static const placement lean = {0, {0, 0, 0}, {9, 9, 9}, DEVICE, true, HOST};
    static const placement disk = {0, {9, 9, 9}, {0, 0, 0}, DEVICE, true, DISK};
    placed_need all = placed_rehearse(t, &host, shapes, 3, STEPS);
    static const placement thin = {0, {0, 0, 0}, {-9, -9, -9}, DEVICE, true, HOST};
    placed_need some = placed_rehearse(t, &lean, shapes, 3, STEPS);
    placed_need least = placed_rehearse(t, &thin, shapes, 3, STEPS);
    placed_need on_disk = placed_rehearse(t, &disk, shapes, 3, STEPS);
    CHECK(all.work < need[0].work && some.work < need[2].work);
    CHECK(some.offloaded > 0 && some.offloaded < all.offloaded);
    CHECK(all.account.to_device > some.account.to_device);
    /* Attention's results: 3 layers, 3 heads of 10, fp32. */
    CHECK_INT(some.account.to_host - least.account.to_host, 3 * BATCH * SEQ * 30 * 4);
    CHECK(least.seconds > some.seconds);
    CHECK(all.account.disk_read == 0 && on_disk.account.disk_read > 0 && on_disk.offloaded == 0);
}

/* Keeping less, or offloading more, needs less device memory. */
static void compare_needs(void)
{
    static const placement less[] = {{0, {9, 9, 9}, {0, 0, 0}, DEVICE, true, DEVICE},
                                     {0, {1, 1, 1}, {9, 9, 9}, DEVICE, true, DEVICE},
                                     {0, {0, 0, 0}, {9, 9, 9}, DEVICE, true, DEVICE},
                                     {0, {1, 1, 1}, {0, 0, 0}, DEVICE, true, DEVICE},
                                     {0, {0, 0, 0}, {0, 0, 0}, DEVICE, true, DEVICE},
                                     {0, {0, 0, 0}, {0, 0, 0}, HOST, true, DEVICE},
                                     {0, {0, 0, 0}, {0, 0, 0}, DISK, false, DEVICE}};
    enum { COUNT = sizeof less / sizeof *less };
    hil_model *model;
    hil_trainer *t = start("llama", "fp32", &model);
    placed_need need[COUNT];
    for (int i = 0; i < COUNT; ++i) need[i] = placed_rehearse(t, &less[i], shapes, 3, STEPS);
    for (int i = 1; i < COUNT; ++i) CHECK(need[i].work < need[i - 1].work);
    for (int i = 0; i < COUNT; ++i) CHECK((need[i].offloaded > 0) == (i == 5));
    for (int i = 0; i < COUNT; ++i) CHECK((need[i].account.disk_read > 0) == (i == 6));
    CHECK(need[0].seconds > 0);
    for (int i = 1; i < 5; ++i) CHECK(need[i].seconds > need[i - 1].seconds); /* recomputes more */
    CHECK(need[6].seconds > need[5].seconds); /* waits for the disk */
    check_tapes(t, need);
    hil_trainer_destroy(t);
    hil_model_destroy(model);
}

int main(void)
{
    compare("gpt2", "bf16", 1);
    compare("llama", "fp32", 1 + CHECK_SLOW);
    if (!CHECK_SLOW) compare("gpt2", "fp32", 1);
    if (!CHECK_SLOW) compare("llama", "bf16", 1);
    compare_needs();
    return 0;
}
