/* Parameters of any shape, each one tile, with several rates and gradients of all dtypes: steps
   follow the formula of AdamW with each parameter's own rates and number of updates, frozen rates
   change nothing, and five placements give the same bits. */
#include "hilbert/store.h"

#include "check.h"
#include "tensor/tensor.h"

enum { PARAMS = 7, STEPS = 6, MOST = 300 * 64, MICROS = 2 };
#define M ((uint64_t)1 << 20)

typedef struct kind {
    int ndim;
    int64_t shape[5];
    int group, rates;
    bool no_decay;
    hil_dtype gradient;
} kind;

static const kind kinds[PARAMS] = {
    {2, {300, 64}, 0, 0, false, HIL_BF16},     {1, {64}, 0, 1, true, HIL_F32},
    {4, {24, 3, 5, 5}, 1, 1, false, HIL_F16},  {0, {0}, 1, 2, false, HIL_F32},
    {3, {96, 4, 20}, 1, 2, false, HIL_F32},    {1, {100}, 2, 0, false, HIL_BF16},
    {5, {2, 3, 4, 5, 6}, 2, 1, true, HIL_F16},
};

static const hil_param_store_rates rates[3] = {
    {.lr = 0.02, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8},
    {.lr = 0.05, .weight_decay = 0, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6},
    {.lr = 0.01, .weight_decay = 0.3, .beta1 = 0.95, .beta2 = 0.9, .eps = 1e-8},
};

static int64_t elements(int p)
{
    int64_t n = 1;
    for (int d = 0; d < kinds[p].ndim; ++d) n *= kinds[p].shape[d];
    return n;
}

/* Rates 2 are frozen in steps 2 and 3; parameter 5 has a gradient in every third step only. */
static bool is_frozen(int step, int p)
{
    return kinds[p].rates == 2 && (step == 2 || step == 3);
}

static bool has_gradient(int step, int p)
{
    return !is_frozen(step, p) && (p != 5 || step % 3 == 1);
}

/* A multiple of 1/64 below 2: exact in all dtypes, and so are its sums. */
static float gradient_of(int step, int micro, int p, int64_t i)
{
    return (float)((i * 7 + p * 13 + step * 31 + micro * 5) % 127 - 63) / 64.0f;
}

static void give(hil_param_store *store, hil_stored_param *param, int step, int micro, int p)
{
    static uint16_t half[MOST];
    static float full[MOST];
    int64_t n = elements(p);
    const void *data = kinds[p].gradient == HIL_F32 ? (const void *)full : half;
    for (int64_t i = 0; i < n; ++i) {
        float g = gradient_of(step, micro, p, i);
        full[i] = g;
        half[i] = kinds[p].gradient == HIL_F16 ? hil_f16_round(g) : hil_bf16_round(g);
    }
    CHECK_OK(
        hil_param_store_add_gradient(store, param, 0, data, hil_dtype_name(kinds[p].gradient)));
    memset(full, 0x7f, sizeof full); /* the store has read it */
    memset(half, 0x7f, sizeof half);
}

typedef struct placement {
    uint64_t device, host;
    int drives;
    bool early; /* gives a group's gradients as soon as they are complete */
} placement;

typedef struct outcome {
    double norm[STEPS];
    float state[3][PARAMS][MOST];
    int64_t updates[PARAMS];
} outcome;

static hil_param_store *open_store(const char *dtype, const placement *at,
                                   hil_stored_param *param[PARAMS])
{
    hil_param_store *store;
    hil_param_store_options options;
    const hil_disk_budget disk[] = {{.path = "/tmp", .bytes = 8 * M}, {".", 8 * M}};
    hil_param_store_defaults(&options);
    options.dtype = dtype;
    options.tile_size = UINT64_MAX;
    options.clip = 1;
    options.threads = 2;
    options.memory.device = at->device;
    options.memory.host = at->host;
    options.memory.disks = disk;
    options.memory.disk_count = (size_t)at->drives;
    CHECK_OK(hil_param_store_create(&store, &options));
    for (int p = 0; p < PARAMS; ++p) {
        char name[16];
        snprintf(name, sizeof name, "p%d", p);
        hil_param_store_form form = {.shape = kinds[p].shape,
                                     .ndim = kinds[p].ndim,
                                     .group = kinds[p].group,
                                     .rates = kinds[p].rates,
                                     .no_decay = kinds[p].no_decay};
        CHECK_OK(hil_param_store_add(store, name, &form, &param[p]));
    }
    CHECK_OK(hil_param_store_place(store));
    for (int p = 0; p < PARAMS; ++p) {
        static float start[MOST];
        CHECK_INT(hil_param_store_tiles(param[p]), 1);
        for (int64_t i = 0; i < elements(p); ++i) start[i] = (float)(i % 11) / 4.0f - 1;
        CHECK_OK(
            hil_param_store_write(store, param[p], HIL_PARAM_STORE_WEIGHT, 0, elements(p), start));
    }
    return store;
}

static void set_rates(hil_param_store *store, int step)
{
    for (int k = 0; k < 3; ++k) {
        hil_param_store_rates own = rates[k];
        own.frozen = k == 2 && (step == 2 || step == 3);
        CHECK_OK(hil_param_store_set_rates(store, k, &own));
    }
}

static double take_step(hil_param_store *store, hil_stored_param *param[PARAMS], int step,
                        bool early)
{
    double norm;
    set_rates(store, step);
    CHECK_OK(hil_param_store_begin(store, HIL_PARAM_STORE_TRAIN));
    for (int micro = 0; micro < MICROS; ++micro)
        for (int p = 0; p < PARAMS; ++p) {
            const void *weights;
            CHECK_OK(hil_param_store_acquire(store, param[p], 0, &weights));
            if (is_frozen(step, p))
                CHECK_FAILS(hil_param_store_add_gradient(store, param[p], 0, weights, "fp32"),
                            HIL_ERR_USAGE, "rates, number 2, are frozen");
            if (has_gradient(step, p)) give(store, param[p], step, micro, p);
            hil_param_store_release(store, param[p], 0);
            bool last = p + 1 == PARAMS || kinds[p + 1].group != kinds[p].group;
            if (early && last && micro + 1 == MICROS)
                CHECK_OK(hil_param_store_give_gradients(store, kinds[p].group));
        }
    CHECK_OK(hil_param_store_step(store, 0.5, &norm));
    CHECK_OK(hil_param_store_end(store));
    return norm;
}

static void run(const char *dtype, const placement *at, outcome *out)
{
    hil_stored_param *param[PARAMS];
    hil_param_store *store = open_store(dtype, at, param);
    memset(out, 0, sizeof *out);
    for (int s = 0; s < STEPS; ++s) out->norm[s] = take_step(store, param, s, at->early);
    for (int p = 0; p < PARAMS; ++p) {
        out->updates[p] = hil_param_store_updates(param[p]);
        for (int k = 0; k < 3; ++k)
            CHECK_OK(hil_param_store_read(store, param[p], (hil_param_store_state)k, 0, elements(p),
                                          out->state[k][p]));
    }
    CHECK_INT(hil_param_store_get_progress(store).updates, STEPS);
    hil_param_store_destroy(store);
}

/* AdamW by its formula, in double precision, with the state of one element. */
static void check_element(const outcome *got, const double norm[STEPS], int p, int64_t i)
{
    const hil_param_store_rates *r = &rates[kinds[p].rates];
    double w = (double)(i % 11) / 4 - 1, m = 0, v = 0, lr = 0.5 * r->lr;
    int updates = 0;
    for (int s = 0; s < STEPS; ++s) {
        double g = 0;
        if (!has_gradient(s, p)) continue;
        for (int micro = 0; micro < MICROS; ++micro) g += (double)gradient_of(s, micro, p, i);
        if (norm[s] > 1) g /= norm[s];
        ++updates;
        m = r->beta1 * m + (1 - r->beta1) * g;
        v = r->beta2 * v + (1 - r->beta2) * g * g;
        if (!kinds[p].no_decay) w *= 1 - lr * r->weight_decay;
        w -= lr * (m / (1 - pow(r->beta1, updates))) /
             (sqrt(v / (1 - pow(r->beta2, updates))) + r->eps);
    }
    CHECK_INT(got->updates[p], updates);
    CHECK_NEAR((double)got->state[0][p][i], w, 1e-5);
    CHECK_NEAR((double)got->state[1][p][i], m, 1e-5);
    CHECK_NEAR((double)got->state[2][p][i], v, 1e-5);
}

static void check_formula(const outcome *got)
{
    double norm[STEPS];
    for (int s = 0; s < STEPS; ++s) {
        double squares = 0;
        for (int p = 0; p < PARAMS; ++p)
            for (int64_t i = 0; i < elements(p) && has_gradient(s, p); ++i) {
                double g = 0;
                for (int micro = 0; micro < MICROS; ++micro)
                    g += (double)gradient_of(s, micro, p, i);
                squares += g * g;
            }
        norm[s] = sqrt(squares);
        CHECK_NEAR(got->norm[s] / norm[s], 1, 1e-6);
    }
    for (int p = 0; p < PARAMS; ++p)
        for (int64_t i = 0; i < elements(p); ++i) check_element(got, norm, p, i);
}

static void check_placements(const char *dtype, outcome *first)
{
    static const placement row[] = {
        {8 * M, 0, 0, false},
        {500 << 10, 4 * M, 0, true},
        {500 << 10, 4 * M, 1, false},
        {400 << 10, 200 << 10, 1, true},
        {400 << 10, 200 << 10, 2, false},
    };
    static outcome other;
    run(dtype, &row[0], first);
    for (size_t i = 1; i < sizeof row / sizeof *row; ++i) {
        run(dtype, &row[i], &other);
        if (memcmp(first, &other, sizeof other) == 0) continue;
        fprintf(stderr, "%s: placement %zu gives other bits\n", dtype, i);
        exit(1);
    }
}

/* Equal rates under several numbers give the bits of one. */
static void check_equal_rates(void)
{
    static outcome one, many;
    static const placement at = {8 * M, 0, 0, false};
    outcome *out[] = {&one, &many};
    for (int k = 0; k < 2; ++k) {
        hil_stored_param *param[PARAMS];
        hil_param_store *store = open_store("bf16", &at, param);
        hil_param_store_rates same;
        double norm;
        CHECK_OK(hil_param_store_get_rates(store, 0, &same));
        CHECK(same.lr == 1 && same.weight_decay == 0.1 && !same.frozen);
        same.lr = k ? 0.25 : 1;
        for (int n = 0; n < 3; ++n) CHECK_OK(hil_param_store_set_rates(store, n, &same));
        CHECK_OK(hil_param_store_begin(store, HIL_PARAM_STORE_TRAIN));
        for (int p = 0; p < PARAMS; ++p) give(store, param[p], 0, 0, p);
        CHECK_OK(hil_param_store_step(store, k ? 0.4 : 0.1, &norm));
        CHECK_OK(hil_param_store_end(store));
        for (int p = 0; p < PARAMS; ++p)
            CHECK_OK(hil_param_store_read(store, param[p], HIL_PARAM_STORE_WEIGHT, 0, elements(p),
                                          out[k]->state[0][p]));
        hil_param_store_destroy(store);
    }
    CHECK(memcmp(&one, &many, sizeof one) == 0);
}

static void check_refused(void)
{
    static const placement at = {8 * M, 0, 0, false};
    hil_stored_param *param[PARAMS], *p;
    hil_param_store *store;
    hil_param_store_options options;
    hil_param_store_rates bad = rates[0];
    float x = 0;
    hil_param_store_defaults(&options);
    CHECK_OK(hil_param_store_create(&store, &options));
    hil_param_store_form form = {.shape = (const int64_t[]){4, 0, 2}, .ndim = 3};
    CHECK_FAILS(hil_param_store_add(store, "x", &form, &p), HIL_ERR_USAGE, "above 0");
    form = (hil_param_store_form){.shape = (const int64_t[]){4, INT64_MAX, 2}, .ndim = 3};
    CHECK_FAILS(hil_param_store_add(store, "x", &form, &p), HIL_ERR_USAGE, "above 0");
    form = (hil_param_store_form){.cols = 4, .rates = -1};
    CHECK_FAILS(hil_param_store_add(store, "x", &form, &p), HIL_ERR_USAGE, "rates -1");
    CHECK_FAILS(hil_param_store_get_rates(store, 7, &bad), HIL_ERR_USAGE, "rates 7");
    bad.beta2 = 1;
    CHECK_FAILS(hil_param_store_set_rates(store, 0, &bad), HIL_ERR_USAGE, "betas");
    hil_param_store_destroy(store);
    store = open_store("fp32", &at, param);
    CHECK_FAILS(hil_param_store_add_gradient(store, param[3], 0, &x, "fp32"), HIL_ERR_USAGE, "p3");
    CHECK_OK(hil_param_store_begin(store, HIL_PARAM_STORE_TRAIN));
    CHECK_FAILS(hil_param_store_add_gradient(store, param[3], 1, &x, "fp32"), HIL_ERR_USAGE,
                "tile 1");
    CHECK_FAILS(hil_param_store_add_gradient(store, param[3], 0, &x, "int4"), HIL_ERR_USAGE,
                "int4");
    CHECK_OK(hil_param_store_end(store));
    CHECK_FAILS(hil_param_store_set_updates(param[0], -1), HIL_ERR_INPUT, "-1 updates");
    hil_param_store_destroy(store);
}

int main(void)
{
    static outcome first;
    check_placements("fp32", &first);
    check_formula(&first);
    check_placements("bf16", &first);
    check_placements("fp16", &first);
    check_equal_rates();
    check_refused();
    return 0;
}
