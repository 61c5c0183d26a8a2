/* Small units next to each other share a job of the update on the CPU, hundreds of them, but for
   those whose states are on disk: wherever states are, the bits are those of units with one job
   each. */
#define RIG_MATRICES 400
#include "placement.h"
#include "store/state.h"

enum { STEPS = 4 };

/* Norms of all steps, then weights and moments. */
static float *run(uint64_t number, hil_dtype dtype, int64_t *count)
{
    rig r;
    int64_t at = STEPS, all = STEPS;
    rig_create(&r, dtype);
    rig_place(&r, number);
    r.plan.window = 4 << 20;
    CHECK_OK(rig_open(&r, 2, HIL_IO_AUTO));
    for (int p = 0; p < PARAMS; ++p) all += HIL_STATES * hil_param_elements(r.param[p]);
    float *out = malloc((size_t)all * sizeof *out);
    CHECK(out != NULL);
    for (int s = 0; s < STEPS; ++s) {
        double norm;
        CHECK_OK(rig_step(&r, s == 1 ? 300 : -1, &norm));
        out[s] = (float)norm;
    }
    for (int p = 0; p < PARAMS; ++p)
        for (int state = 0; state < HIL_STATES; ++state) {
            int64_t n = hil_param_elements(r.param[p]);
            CHECK_OK(hil_store_read(r.store, r.param[p], (hil_state)state, 0, n, out + at));
            at += n;
        }
    CHECK_INT(at, all);
    rig_close(&r);
    *count = all;
    return out;
}

int main(void)
{
    enum { IN_RAM = 2, ON_DISK = 3, MIXED = 4 }; /* of rig_place; each fourth is mixed */
    for (int d = 0; d < 2; ++d) {
        hil_dtype dtype = d ? HIL_BF16 : HIL_F32;
        int64_t count, expected_count;
        float *expected = run(ON_DISK, dtype, &expected_count);
        CHECK(expected[0] > 0 && isfinite(expected[STEPS - 1]));
        for (uint64_t i = IN_RAM; i <= 4 * MIXED; i = i == IN_RAM ? MIXED : i + 4) {
            float *got = run(i, dtype, &count);
            CHECK_INT(count, expected_count);
            if (memcmp(got, expected, (size_t)count * sizeof *got) != 0) {
                fprintf(stderr, "placement %d of dtype %d gives other bits\n", (int)i, d);
                return 1;
            }
            free(got);
        }
        free(expected);
    }
    return 0;
}
