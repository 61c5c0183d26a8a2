/* Any placement of any state of any unit gives the same bits: weights, moments and norms after some
   steps equal those with everything on the device. Random plans, tiny windows and rings, one or two
   drives, both I/O engines, prefetch on and off, steps that skip a parameter. */
#include "base/philox.h"
#include "placement.h"
#include "store/state.h"

/* soak: --full */

enum { STEPS = 5 };

static float *run(rig *r, int drives, hil_io_kind io, int64_t *count)
{
    CHECK_OK(rig_open(r, drives, io));
    int64_t all = STEPS;
    for (int p = 0; p < PARAMS; ++p) all += 3 * hil_param_elements(r->param[p]);
    float *out = malloc((size_t)all * sizeof *out);
    CHECK(out != NULL);
    for (int s = 0; s < STEPS; ++s) {
        double norm;
        CHECK_OK(rig_step(r, s == 2 ? 1 : s == 3 ? 5 : -1, &norm));
        out[s] = (float)norm;
    }
    int64_t at = STEPS;
    for (int p = 0; p < PARAMS; ++p)
        for (int state = 0; state < HIL_STATES; ++state) {
            int64_t n = hil_param_elements(r->param[p]);
            CHECK_OK(hil_store_read(r->store, r->param[p], (hil_state)state, 0, n, out + at));
            at += n;
        }
    *count = all;
    rig_close(r);
    return out;
}

static void check_plan(uint64_t number, hil_dtype dtype, const float *expected)
{
    uint32_t word[4];
    rig r;
    rig_create(&r, dtype);
    rig_place(&r, number);
    hil_philox(number, 1u << 30, 0, word);
    r.plan.prefetch = word[0] % 4 != 0;
    r.plan.discrete = word[0] / 4 % 2;
    r.plan.window = ((size_t)130 + word[1] % 200) << 10;
    r.plan.chunk = 4096 << word[2] % 3;
    r.plan.ring = (size_t)r.plan.chunk * 4 * (2 + word[3] % 2);
    r.plan.slots = 2 + (int)(word[3] % 3);
    r.plan.spill = word[2] % 2 ? HIL_HOST : HIL_DISK;
    int64_t count;
    float *got =
        run(&r, 1 + (int)(word[0] % 2), word[1] % 2 ? HIL_IO_THREADS : HIL_IO_AUTO, &count);
    if (memcmp(got, expected, (size_t)count * sizeof *got) != 0) {
        fprintf(stderr, "plan %llu of dtype %d gives other bits\n", (unsigned long long)number,
                (int)dtype);
        exit(1);
    }
    free(got);
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    for (int d = 0; d < 2; ++d) {
        hil_dtype dtype = d ? HIL_BF16 : HIL_F32;
        rig r;
        int64_t count;
        rig_create(&r, dtype);
        float *expected = run(&r, 0, HIL_IO_AUTO, &count);
        CHECK(expected[0] > 0 && isfinite(expected[STEPS - 1]));
        for (uint64_t i = 1; i <= (full ? 1000 : CHECK_SLOW ? 8 : 24); ++i)
            check_plan(i, dtype, expected);
        free(expected);
    }
    return 0;
}
