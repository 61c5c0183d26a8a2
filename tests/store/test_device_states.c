/* Writing any range of a state on a device gives the same bits as writing it in memory of the CPU,
   and the device computes with the new numbers. */
#include "base/normal.h"
#include "optim/rule.h"
#include "runs.h"
#include "store/pass.h"
#include "store/store.h"
#include "store/update.h"

enum { WRITES = 300, LONGEST = 9000 };

typedef struct variant {
    hil_dtype dtype;
    hil_codec codec;
    int placement;
} variant;

static void create(rig *r, const variant *w, hil_device *device)
{
    hil_store_options options = {.compute = w->dtype,
                                 .training = true,
                                 .tile_size = 128 * 72 * 2,
                                 .moments = 2,
                                 .codec = w->codec};
    runs_create_as(r, &options, w->placement, 2);
    r->device = device;
    r->plan.discrete = device != NULL;
    CHECK_OK(rig_open(r, 2, HIL_IO_AUTO));
}

/* A range of a state, chosen by a number; choose returns false if the parameter has no such
   state. */
typedef struct range {
    int p;
    hil_state state;
    int64_t first, count;
} range;

static bool choose(const rig *r, uint64_t number, range *out)
{
    uint32_t word[4];
    hil_philox(4, number, 0, word);
    *out = (range){.p = (int)(word[0] % PARAMS), .state = (hil_state)(word[1] % HIL_STATES)};
    int64_t all = hil_param_elements(r->param[out->p]);
    out->first = number % 3 ? word[2] % all : word[2] % all / 256 * 256;
    out->count = 1 + word[3] % LONGEST;
    if (out->count > all - out->first) out->count = all - out->first;
    return hil_param_has(r->param[out->p], out->state);
}

static void check_same_states(rig *a, rig *b)
{
    for (int p = 0; p < PARAMS; ++p)
        for (int k = 0; k < HIL_STATES; ++k) {
            int64_t n = hil_param_elements(a->param[p]);
            float *x = malloc((size_t)n * 4), *y = malloc((size_t)n * 4);
            CHECK(x && y);
            if (hil_param_has(a->param[p], (hil_state)k)) {
                CHECK_OK(hil_store_read(a->store, a->param[p], (hil_state)k, 0, n, x));
                CHECK_OK(hil_store_read(b->store, b->param[p], (hil_state)k, 0, n, y));
                runs_same(x, y, n);
            }
            free(x);
            free(y);
        }
}

/* The norm of a pass that adds every weight to its sum: equal norms mean equal weights. */
static double norm_of_weights(rig *r)
{
    double norm;
    CHECK_OK(hil_store_pass_begin(r->store, HIL_PASS_TRAIN));
    for (int s = SEGMENTS - 1; s >= 0; --s) {
        CHECK_OK(rig_segment_run(r, s, 1, -1));
        CHECK_OK(hil_store_give_gradients(r->store, s));
    }
    CHECK_OK(hil_store_pass_end(r->store));
    CHECK_OK(hil_store_norm(r->store, &norm));
    hil_store_step_end(r->store);
    return norm;
}

static void check_variant(const variant *w)
{
    static float data[LONGEST], back[2][LONGEST];
    hil_device *device = adding_device(3, 50);
    rig plain, other;
    create(&plain, w, NULL);
    create(&other, w, device);
    check_same_states(&plain, &other);
    for (uint64_t i = 0; i < WRITES; ++i) {
        range at;
        if (!choose(&plain, i, &at)) continue;
        hil_normal_fill(5, i, 0, at.count, 1, data);
        for (int64_t k = 0; k < at.count && at.state == HIL_MOMENT2; ++k) data[k] = fabsf(data[k]);
        rig *both[2] = {&plain, &other};
        for (int b = 0; b < 2; ++b) {
            hil_param *param = both[b]->param[at.p];
            CHECK_OK(hil_store_write(both[b]->store, param, at.state, at.first, at.count, data));
            if (i % 4 == 0)
                CHECK_OK(
                    hil_store_read(both[b]->store, param, at.state, at.first, at.count, back[b]));
        }
        if (i % 4 == 0) runs_same(back[1], back[0], at.count);
        if (i % 100 == 50) CHECK(norm_of_weights(&plain) == norm_of_weights(&other));
    }
    CHECK(norm_of_weights(&plain) == norm_of_weights(&other));
    check_same_states(&plain, &other);
    rig_close(&plain);
    rig_close(&other);
    device->close(device);
}

int main(void)
{
    static const variant variants[] = {{HIL_BF16, HIL_CODEC_F32, EVERYTHING_ON_DEVICE},
                                       {HIL_BF16, HIL_CODEC_Q8, EVERYTHING_ON_DEVICE},
                                       {HIL_F16, HIL_CODEC_Q8, MIXED},
                                       {HIL_F32, HIL_CODEC_F32, MIXED + 1}};
    fixture_open();
    alarm(120);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; ++i) check_variant(&variants[i]);
    fixture_close();
    return 0;
}
