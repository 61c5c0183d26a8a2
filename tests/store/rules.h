/* rules.h - the rig with one of the update rules, and all states of its parameters. */
#ifndef TESTS_STORE_RULES_H
#define TESTS_STORE_RULES_H

#include "optim/update.h"
#include "placement.h"
#include "store/state.h"
#include "store/store.h"

typedef struct rules_kind {
    hil_rule_kind rule;
    hil_dtype dtype;
    int frozen;
} rules_kind;

static const hil_rule *rules_now; /* of the rig created last */
static int64_t rules_updates;

static inline hil_status rules_sweep(rig *r, double norm)
{
    hil_optimizer optimizer = {rules_now, 0.9, rules_now->beta2, 1e-8, 0.1, 1};
    hil_update update = {.lr = 0.01, .norm = norm, .loss_scale = 1, .updates = ++rules_updates};
    if (r->saving) hil_store_save_next(r->store, r->saving);
    return hil_optimizer_update(r->store, &optimizer, &update);
}

static inline void rules_create(rig *r, const rules_kind *k)
{
    rules_now = &hil_rules[k->rule];
    rules_updates = 0;
    hil_store_options options = {.compute = k->dtype,
                                 .training = true,
                                 .tile_size = 128 * 72 * 2,
                                 .moments = rules_now->moments,
                                 .codec = rules_now->codec,
                                 .in_parts = rules_now->in_parts};
    rig_create_as(r, &options, k->frozen);
    r->sweep = rules_sweep;
}

/* The length of rules_read's output. */
static inline int64_t rules_count(const rig *r)
{
    int64_t count = 0;
    for (int p = 0; p < PARAMS; ++p) count += HIL_STATES * hil_param_elements(r->param[p]);
    return count;
}

/* Skips states that a parameter does not have. */
static inline void rules_read(rig *r, float *out)
{
    for (int p = 0; p < PARAMS; ++p)
        for (int state = 0; state < HIL_STATES; ++state) {
            int64_t n = hil_param_elements(r->param[p]);
            if (hil_param_has(r->param[p], (hil_state)state))
                CHECK_OK(hil_store_read(r->store, r->param[p], (hil_state)state, 0, n, out));
            out += n;
        }
}

/* What a test provides: it creates a rig, runs it (no drives: all on the device), checks a plan. */
typedef struct rules_test {
    void (*create)(rig *r, const rules_kind *k);
    float *(*run)(rig *r, int drives, int64_t *count);
    void (*check)(uint64_t number, const rules_kind *k, const float *expected);
} rules_test;

/* Checks plans 1 to `plans` for each kind. */
static inline void rules_each(const rules_test *test, const rules_kind *kinds, size_t count,
                              uint64_t plans)
{
    for (size_t i = 0; i < count; ++i) {
        rig r;
        int64_t numbers;
        test->create(&r, &kinds[i]);
        float *expected = test->run(&r, 0, &numbers);
        CHECK(expected[0] > 0);
        for (int64_t k = 0; k < numbers; ++k) CHECK(isfinite(expected[k]));
        for (uint64_t n = 1; n <= plans; ++n) test->check(n, &kinds[i], expected);
        free(expected);
    }
}

#endif
