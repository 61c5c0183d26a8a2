/* Every rule gives the same bits for any placement, in every dtype, with and without a frozen
   parameter; this covers the staging of 8-bit moments and fp16 masters. */
#include "../store/rules.h"

enum { STEPS = 4 };

/* Returns the norms of some steps, then all states. */
static float *run(rig *r, int drives, int64_t *count)
{
    CHECK_OK(rig_open(r, drives, HIL_IO_AUTO));
    int64_t all = STEPS + rules_count(r);
    float *out = calloc((size_t)all, sizeof *out);
    CHECK(out != NULL);
    for (int s = 0; s < STEPS; ++s) {
        double norm;
        CHECK_OK(rig_step(r, s == 2 ? 1 : -1, &norm));
        out[s] = (float)norm;
    }
    rules_read(r, out + STEPS);
    *count = all;
    rig_close(r);
    return out;
}

static void check_plan(uint64_t number, const rules_kind *k, const float *expected)
{
    rig r;
    rules_create(&r, k);
    rig_place(&r, number);
    r.plan.window = 200 << 10;
    r.plan.chunk = 4096 << number % 3;
    r.plan.ring = (size_t)r.plan.chunk * 4 * 2;
    int64_t count;
    float *got = run(&r, 1 + (int)number % 2, &count);
    if (memcmp(got, expected, (size_t)count * sizeof *got) != 0) {
        fprintf(stderr, "plan %d gives other bits: %s in dtype %d\n", (int)number, rules_now->name,
                (int)k->dtype);
        exit(1);
    }
    free(got);
}

int main(void)
{
    static const rules_kind kinds[] = {
        {HIL_ADAMW, HIL_F16, -1}, {HIL_ADAMW, HIL_BF16, 0},     {HIL_LION, HIL_F32, -1},
        {HIL_LION, HIL_F16, 3},   {HIL_ADAMW8BIT, HIL_F32, -1}, {HIL_ADAMW8BIT, HIL_BF16, 5},
    };
    rules_each(&(rules_test){rules_create, run, check_plan}, kinds, sizeof kinds / sizeof *kinds,
               8);
    return 0;
}
