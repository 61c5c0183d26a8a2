/* Parameters of any shape, each one tile, with several rates and gradients of all dtypes: steps
   follow the formula of AdamW with each parameter's own rates and number of updates, frozen rates
   change nothing, and five placements give the same bits. */
#include "param_store_kinds.h"

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

/* Equal rates under several numbers give the bits of one. */
static void check_equal_rates(void)
{
    static outcome one, many;
    static const placement at = {.device = 8 * M};
    outcome *out[] = {&one, &many};
    for (int k = 0; k < 2; ++k) {
        hil_stored_param *param[PARAMS];
        hil_param_store *store = open_store("bf16", &kinds_cpu, &at, param);
        hil_param_store_rates same;
        double norm;
        CHECK_OK(hil_param_store_get_rates(store, 0, &same));
        CHECK(same.lr == 1 && same.weight_decay == 0.1 && !same.frozen);
        same.lr = k ? 0.25 : 1;
        for (int n = 0; n < 3; ++n) CHECK_OK(hil_param_store_set_rates(store, n, &same));
        CHECK_OK(hil_param_store_begin(store, HIL_PARAM_STORE_TRAIN));
        for (int p = 0; p < PARAMS; ++p) give(store, &kinds_cpu, param[p], 0, 0, p);
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
    static const placement at = {.device = 8 * M};
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
    store = open_store("fp32", &kinds_cpu, &at, param);
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
    static const placement row[] = {
        {.device = 8 * M},
        {.device = 500 << 10, .host = 4 * M, .early = true},
        {.device = 500 << 10, .host = 4 * M, .drives = 1},
        {.device = 400 << 10, .host = 200 << 10, .drives = 1, .early = true},
        {.device = 400 << 10, .host = 200 << 10, .drives = 2},
        {.device = 8 * M, .host = 8 * M, .late = true},
        {.device = 500 << 10, .host = 4 * M, .late = true},
        {.device = 400 << 10, .host = 1 * M, .drives = 1, .late = true},
    };
    static const char *const dtype[] = {"bf16", "fp16", "fp32"};
    static outcome first;
    for (int d = 0; d < 3; ++d)
        check_placements(dtype[d], &kinds_cpu, row, sizeof row / sizeof *row, true, &first);
    check_formula(&first);
    check_equal_rates();
    check_refused();
    return 0;
}
