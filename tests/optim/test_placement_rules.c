/* Every rule gives the same bits for any placement, in every dtype, with a frozen parameter or
   without: 8-bit moments and fp16 masters move and are staged like everything else. */
#include "../store/placement.h"
#include "base/philox.h"
#include "optim/sweep.h"

enum { STEPS = 4 };

static const hil_rule *rule;
static int64_t updates;

static hil_status sweep(rig *r, double norm)
{
    hil_optimizer optimizer = {rule, 0.9, rule->beta2, 1e-8, 0.1, 1};
    hil_update update = {.lr = 0.01, .norm = norm, .loss_scale = 1, .updates = ++updates};
    return hil_sweep_update(r->store, &optimizer, &update, NULL);
}

typedef struct kind {
    hil_rule_kind rule;
    hil_dtype dtype;
    int frozen;
} kind;

static void create(rig *r, const kind *k)
{
    rule = &hil_rules[k->rule];
    updates = 0;
    hil_store_options options = {.compute = k->dtype,
                                 .training = true,
                                 .tile_size = 128 * 72 * 2,
                                 .moments = rule->moments,
                                 .codec = rule->codec};
    rig_create_as(r, &options, k->frozen);
    r->square = hil_block_square;
    r->sweep = sweep;
}

/* Norms and all states that there are, after some steps. */
static float *run(rig *r, int drives, int64_t *count)
{
    CHECK_OK(rig_open(r, drives, HIL_IO_AUTO));
    int64_t all = STEPS;
    for (int p = 0; p < PARAMS; ++p) all += 3 * hil_param_elements(r->param[p]);
    float *out = calloc((size_t)all, sizeof *out);
    CHECK(out != NULL);
    for (int s = 0; s < STEPS; ++s) {
        double norm;
        CHECK_OK(rig_step(r, s == 2 ? 1 : -1, &norm));
        out[s] = (float)norm;
    }
    int64_t at = STEPS;
    for (int p = 0; p < PARAMS; ++p)
        for (int state = 0; state < HIL_STATES; ++state) {
            int64_t n = hil_param_elements(r->param[p]);
            if (hil_param_has(r->param[p], (hil_state)state))
                CHECK_OK(hil_store_read(r->store, r->param[p], (hil_state)state, 0, n, out + at));
            at += n;
        }
    *count = all;
    rig_close(r);
    return out;
}

static void check_plan(uint64_t number, const kind *k, const float *expected)
{
    uint32_t word[4];
    rig r;
    create(&r, k);
    for (size_t u = 0; u < r.plan.units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s) {
            hil_philox(number, u, (uint64_t)s, word);
            uint32_t uniform = number % 4; /* 1 to 3: everything on one tier */
            r.plan.unit[u].tier[s] = (unsigned char)(uniform ? uniform - 1 : word[0] % 3);
        }
    r.plan.window = 200 << 10;
    r.plan.chunk = 4096 << number % 3;
    r.plan.ring = (size_t)r.plan.chunk * 4 * 2;
    int64_t count;
    float *got = run(&r, 1 + (int)number % 2, &count);
    if (memcmp(got, expected, (size_t)count * sizeof *got) != 0) {
        fprintf(stderr, "plan %d gives other bits: %s in dtype %d\n", (int)number, rule->name,
                (int)k->dtype);
        exit(1);
    }
    free(got);
}

int main(void)
{
    static const kind kinds[] = {
        {HIL_ADAMW, HIL_F16, -1}, {HIL_ADAMW, HIL_BF16, 0},     {HIL_LION, HIL_F32, -1},
        {HIL_LION, HIL_F16, 3},   {HIL_ADAMW8BIT, HIL_F32, -1}, {HIL_ADAMW8BIT, HIL_BF16, 5},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
        rig r;
        int64_t count;
        create(&r, &kinds[i]);
        float *expected = run(&r, 0, &count);
        CHECK(expected[0] > 0 && isfinite(expected[STEPS - 1]));
        for (uint64_t n = 1; n <= 8; ++n) check_plan(n, &kinds[i], expected);
        free(expected);
    }
    return 0;
}
