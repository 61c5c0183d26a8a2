/* An expert without tokens has a gradient of zeros: hil_store_sum_idle leaves the same bits in
   every state of every parameter as a sum of zeros that is rounded, kept and read, for any
   placement; it moves fewer bytes. Where another micro-batch adds to the gradient, that alone
   counts. */
#include "runs.h"

enum { STEPS = 4, EXPERT = 1, SEGMENT = EXPERT % SEGMENTS };

/* Zeros for the expert, as a sum or by hil_store_sum_idle. */
static hil_status add_zeros(rig *r, bool idle)
{
    hil_param *param = r->param[EXPERT];
    for (int64_t t = 0; t < rig_tiles(param); ++t) {
        bool done = false;
        float *sum;
        if (idle) HIL_TRY(hil_store_sum_idle(r->store, param, SEGMENT, t, &done));
        CHECK(done == idle);
        if (done) continue;
        HIL_TRY(hil_store_sum_acquire(r->store, param, SEGMENT, t, &sum, NULL));
        hil_store_sum_release(r->store, param, SEGMENT, t);
    }
    return HIL_OK;
}

/* A step of two micro-batches. The expert has tokens in both, in neither, in the first, in the
   second: as the number of the step says. */
static hil_status one_step(rig *r, int number, bool idle, double *norm)
{
    HIL_TRY(hil_store_pass_begin(r->store, HIL_PASS_TRAIN));
    for (int s = SEGMENTS - 1; s >= 0; --s) {
        for (int m = 0; m < 2; ++m) {
            bool tokens = number % 4 == 0 || number % 4 == 2 + m;
            bool zeros = s == SEGMENT && !tokens;
            HIL_TRY(rig_segment_run(r, s, (float)(m + 1) * 0.25f, zeros ? EXPERT : -1));
            if (zeros) HIL_TRY(add_zeros(r, idle));
        }
        HIL_TRY(hil_store_give_gradients(r->store, s));
    }
    return rig_finish(r, norm);
}

/* All states after the steps; *moved: bytes of all links. */
static float *train(hil_dtype dtype, int placement, bool idle, int64_t *count, uint64_t *moved)
{
    rig r;
    hil_account account;
    runs_create(&r, dtype, placement);
    const hil_expert expert = {.segment = SEGMENT, .routing = 1, .experts = 2, .chosen = 1};
    CHECK_OK(hil_store_declare_expert(r.store, r.param[EXPERT], &expert));
    *count = runs_count(&r, STEPS);
    float *out = malloc((size_t)*count * sizeof *out);
    CHECK(out != NULL);
    CHECK_OK(rig_open(&r, 1, HIL_IO_AUTO));
    for (int s = 0; s < STEPS; ++s) {
        double norm;
        CHECK_OK(one_step(&r, s, idle, &norm));
        out[s] = (float)norm;
    }
    CHECK_OK(hil_store_sweep_wait(r.store));
    hil_links_take_account(r.tiers.links, &account);
    *moved = account.to_host + account.to_device + account.disk_read + account.disk_written;
    CHECK_OK(runs_go(&r, 0, out + STEPS));
    rig_close(&r);
    return out;
}

int main(void)
{
    fixture_open();
    for (int placement = 0; placement < MIXED + 3; ++placement)
        for (int k = 0; k < 2; ++k) {
            hil_dtype dtype = k ? HIL_BF16 : HIL_F32;
            int64_t counts[2];
            uint64_t moved[2];
            float *zeros = train(dtype, placement, false, &counts[0], &moved[0]);
            float *idle = train(dtype, placement, true, &counts[1], &moved[1]);
            CHECK_INT(counts[0], counts[1]);
            CHECK(memcmp(zeros, idle, (size_t)counts[0] * sizeof *idle) == 0);
            CHECK(placement == EVERYTHING_ON_DEVICE ? moved[1] == moved[0] : moved[1] <= moved[0]);
            CHECK(placement != EVERYTHING_ON_DISK || moved[1] < moved[0]);
            free(zeros);
            free(idle);
        }
    fixture_close();
    return 0;
}
