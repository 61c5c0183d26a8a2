/* Values survive in every tier; steps follow the formula of AdamW; and the bits are the same for
   budgets from everything on the device to nearly everything on disk. */
#include "param_store_rig.h"

#include "tier/fence.h"

enum { STEPS = 6 };
#define M ((uint64_t)1 << 20)

typedef struct outcome {
    double norm[STEPS];
    float value[3][RIG_PARAMS][300 * 64];
} outcome;

static void read_all(rig *r, outcome *out)
{
    memset(out->value, 0, sizeof out->value);
    int states = strcmp(r->options.optimizer, "lion") == 0 ? 2 : 3;
    for (int s = 0; s < states; ++s)
        for (int p = 0; p < RIG_PARAMS; ++p)
            if (s == 0 || !rig_form[p].frozen)
                CHECK_OK(hil_param_store_read(r->store, r->param[p], (hil_param_store_state)s, 0,
                                              rig_elements(p), out->value[s][p]));
}

typedef struct budgets {
    uint64_t device, host;
    int drives;
    rig_order order;
    hil_tier most; /* where most of the state is to be */
} budgets;

static void run(const char *dtype, const char *optimizer, const budgets *b, outcome *out)
{
    rig r;
    rig_options(&r, dtype, b->device, b->host);
    r.options.optimizer = optimizer;
    r.options.memory.disk_count = (size_t)b->drives;
    rig_open(&r);
    hil_param_store_bytes at = hil_param_store_placed(r.store);
    uint64_t tier[] = {at.device, at.host, at.disk}, all = at.device + at.host + at.disk;
    CHECK(tier[b->most] > all / 2);
    for (int i = 0; i < STEPS; ++i) out->norm[i] = rig_step(&r, b->order);
    read_all(&r, out);
    hil_step_account account;
    hil_param_store_account(r.store, &account);
    CHECK(account.device_peak <= b->device && account.host_peak <= b->host);
    CHECK((account.disk_read_bytes > 0) == (b->most == HIL_DISK));
    hil_param_store_destroy(r.store);
}

static void check_budgets(const char *dtype, const char *optimizer)
{
    static const budgets row[] = {
        {8 * M, 0, 0, RIG_GROUP_MAJOR, HIL_DEVICE},
        {8 * M, 0, 0, RIG_MICRO_MAJOR, HIL_DEVICE},
        {200 << 10, 4 * M, 0, RIG_GROUP_MAJOR, HIL_HOST},
        {200 << 10, 4 * M, 1, RIG_MICRO_MAJOR, HIL_HOST},
        {160 << 10, 200 << 10, 1, RIG_GROUP_MAJOR, HIL_DISK},
        {160 << 10, 200 << 10, 2, RIG_MICRO_MAJOR, HIL_DISK},
    };
    static outcome first, other;
    run(dtype, optimizer, &row[0], &first);
    for (size_t i = 1; i < sizeof row / sizeof *row; ++i) {
        run(dtype, optimizer, &row[i], &other);
        if (memcmp(&first, &other, sizeof first) != 0) {
            fprintf(stderr, "%s, %s: budgets %zu give other bits\n", dtype, optimizer, i);
            exit(1);
        }
    }
}

/* AdamW by its formula, in double precision. */
static void check_formula(void)
{
    static outcome got;
    static double w[300 * 64 * 6], m[300 * 64 * 6], v[300 * 64 * 6];
    const budgets all = {8 * M, 0, 0, RIG_GROUP_MAJOR, HIL_DEVICE};
    const double lr = 0.05, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.1;
    run("fp32", "adamw", &all, &got);
    for (int p = 0; p < RIG_PARAMS; ++p)
        for (int64_t i = 0; i < rig_elements(p); ++i) w[p * 19200 + i] = (double)rig_start(p, i);
    for (int s = 1; s <= STEPS; ++s) {
        double squares = 0;
        for (int pass = 0; pass < 2; ++pass)
            for (int p = 0; p < RIG_PARAMS; ++p)
                for (int64_t i = 0; i < rig_elements(p) && !rig_form[p].frozen; ++i) {
                    double *x = &w[p * 19200 + i], *a = &m[p * 19200 + i], *b = &v[p * 19200 + i];
                    double g = *x - (double)rig_goal(p, i);
                    if (pass == 0) {
                        squares += g * g;
                        continue;
                    }
                    if (sqrt(squares) > 1) g /= sqrt(squares);
                    *a = beta1 * *a + (1 - beta1) * g;
                    *b = beta2 * *b + (1 - beta2) * g * g;
                    if (!rig_form[p].no_decay) *x *= 1 - lr * decay;
                    *x -= lr * (*a / (1 - pow(beta1, s))) / (sqrt(*b / (1 - pow(beta2, s))) + eps);
                }
        CHECK_NEAR(got.norm[s - 1] / sqrt(squares), 1, 1e-4);
    }
    for (int p = 0; p < RIG_PARAMS; ++p)
        for (int64_t i = 0; i < rig_elements(p); ++i)
            CHECK_NEAR((double)got.value[0][p][i], w[p * 19200 + i], 1e-5);
}

/* A parameter store that gets another's numbers goes on with the same bits. */
static void check_restored(const char *dtype)
{
    static outcome saved, straight, restored;
    rig a, b;
    rig_options(&a, dtype, 8 * M, 0);
    rig_options(&b, dtype, 160 << 10, 200 << 10);
    b.options.memory.disk_count = 1;
    rig_open(&a);
    rig_open(&b);
    for (int i = 0; i < 3; ++i) (void)rig_step(&a, RIG_GROUP_MAJOR);
    read_all(&a, &saved);
    for (int s = 0; s < 3; ++s)
        for (int p = 0; p < RIG_PARAMS; ++p)
            for (int64_t at = 0; at < rig_elements(p) && (!s || !rig_form[p].frozen); at += 1000) {
                int64_t n = rig_elements(p) - at < 1000 ? rig_elements(p) - at : 1000;
                CHECK_OK(hil_param_store_write(b.store, b.param[p], (hil_param_store_state)s, at, n,
                                               saved.value[s][p] + at));
            }
    hil_param_store_progress progress = hil_param_store_get_progress(a.store);
    bool scaled = strcmp(dtype, "fp16") == 0; /* differences of 2 at 65536 and 32768 overflow */
    CHECK_INT(progress.updates, scaled ? 1 : 3);
    CHECK_INT(progress.loss_scale, scaled ? 16384 : 1);
    CHECK_OK(hil_param_store_set_progress(b.store, &progress));
    for (int i = 0; i < 3; ++i)
        CHECK(rig_step(&a, RIG_GROUP_MAJOR) == rig_step(&b, RIG_MICRO_MAJOR));
    read_all(&a, &straight);
    read_all(&b, &restored);
    CHECK(memcmp(straight.value, restored.value, sizeof straight.value) == 0);
    hil_param_store_destroy(a.store);
    hil_param_store_destroy(b.store);
}

/* A pass that reads finds what was written, rounded to the dtype, also while the update runs. */
static void check_reading(void)
{
    rig r;
    static outcome out;
    rig_options(&r, "fp32", 160 << 10, 200 << 10);
    r.options.memory.disk_count = 1;
    rig_open(&r);
    for (int round = 0; round < 3; ++round) {
        read_all(&r, &out);
        CHECK_OK(hil_param_store_begin(r.store, HIL_PARAM_STORE_EVAL));
        for (int p = 0; p < RIG_PARAMS; ++p) {
            int64_t tile = hil_param_store_tile_rows(r.param[p]) * rig_form[p].cols;
            for (int64_t t = 0; t < hil_param_store_tiles(r.param[p]); ++t) {
                const void *w;
                int64_t left = rig_elements(p) - t * tile, n = left < tile ? left : tile;
                CHECK_OK(hil_param_store_acquire(r.store, r.param[p], t, &w));
                CHECK(memcmp(w, out.value[0][p] + t * tile, (size_t)n * 4) == 0);
                hil_param_store_release(r.store, r.param[p], t);
            }
        }
        CHECK_OK(hil_param_store_end(r.store));
        (void)rig_step(&r, RIG_GROUP_MAJOR);
    }
    CHECK_OK(hil_param_store_wait(r.store));
    hil_param_store_destroy(r.store);
}

int main(void)
{
    check_formula();
    check_budgets("fp32", "adamw");
    check_budgets("bf16", "adamw");
    check_budgets("fp16", "adamw");
    check_budgets("bf16", "lion");
    check_budgets("bf16", "adamw8bit");
    check_restored("fp32");
    check_restored("bf16");
    check_restored("fp16");
    check_reading();
    return 0;
}
