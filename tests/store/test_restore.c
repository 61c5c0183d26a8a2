/* States written and read back in any order are equal in every placement: with the smallest ring,
   with 8-bit moments, and whatever the ring contained before. */
#include "base/philox.h"
#include "runs.h"
#include "store/state.h"
#include "store/store.h"

static const hil_state orders[][HIL_STATES] = {{HIL_MASTER, HIL_MOMENT1, HIL_MOMENT2},
                                               {HIL_MOMENT1, HIL_MOMENT2, HIL_MASTER}};

static void create(rig *r, hil_dtype dtype, hil_codec codec, int placement)
{
    hil_store_options options = {.compute = dtype,
                                 .training = true,
                                 .tile_size = 128 * 72 * 2,
                                 .moments = 2,
                                 .codec = codec};
    rig_create_as(r, &options, -1);
    r->drive[0].path = r->drive[1].path = folder;
    if (placement == EVERYTHING_ON_DEVICE) return;
    for (size_t u = 0; u < r->plan.units; ++u)
        memset(r->plan.unit[u].tier, HIL_DISK, sizeof r->plan.unit[u].tier);
    r->plan.chunk = 8192;
    r->plan.ring = (size_t)r->plan.chunk * 8;
}

/* Masters are large and moments small, so leftovers of one in the ring would show in the other. */
static void make_values(hil_state state, int p, float *out, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        uint32_t word[4];
        hil_philox((uint64_t)state, (uint64_t)i, (uint64_t)p, word);
        float value = (float)word[0] * 0x1p-32f;
        out[i] = state == HIL_MASTER ? 1000 * value - 500 : value * 1e-3f;
    }
}

/* Goes range by range; for each range, through all states in `order`. */
static void go(rig *r, const hil_state *order, float *out)
{
    float *values = malloc(500 * 72 * sizeof *values);
    CHECK(values != NULL);
    for (int p = 0; p < PARAMS; ++p) {
        hil_param *param = r->param[p];
        for (int64_t at = 0, n; (n = hil_param_held(param, &at)); at += n)
            for (int s = 0; s < HIL_STATES; ++s) {
                make_values(order[s], p, values, at + n);
                CHECK_OK(hil_store_write(r->store, param, order[s], at, n, values + at));
            }
    }
    for (int p = 0; p < PARAMS; ++p) {
        hil_param *param = r->param[p];
        int64_t elements = hil_param_elements(param);
        for (int64_t at = 0, n; (n = hil_param_held(param, &at)); at += n)
            for (int s = 0; s < HIL_STATES; ++s)
                CHECK_OK(hil_store_read(r->store, param, order[s], at, n, out + s * elements + at));
        out += HIL_STATES * elements;
    }
    free(values);
}

static void check(hil_dtype dtype, hil_codec codec, const hil_state *order)
{
    float *out[2];
    int64_t count = 0;
    for (int placement = EVERYTHING_ON_DEVICE; placement <= EVERYTHING_ON_DISK; ++placement) {
        rig r;
        create(&r, dtype, codec, placement);
        count = runs_count(&r, 0);
        out[placement] = malloc((size_t)count * sizeof **out);
        CHECK(out[placement] != NULL);
        CHECK_OK(rig_open(&r, 2, HIL_IO_THREADS));
        go(&r, order, out[placement]);
        rig_close(&r);
    }
    runs_same(out[1], out[0], count);
    free(out[0]);
    free(out[1]);
}

int main(void)
{
    const hil_dtype dtypes[] = {HIL_F32, HIL_BF16, HIL_F16};
    fixture_open();
    for (int d = 0; d < 3; ++d)
        for (int q8 = 0; q8 < 2; ++q8)
            for (int o = 0; o < 2; ++o)
                check(dtypes[d], q8 ? HIL_CODEC_Q8 : HIL_CODEC_F32, orders[o]);
    fixture_close();
    return 0;
}
