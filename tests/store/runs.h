/* runs.h - whole runs of the rig in a folder of their own, with all states that result. */
#ifndef TESTS_STORE_RUNS_H
#define TESTS_STORE_RUNS_H

#include "base/philox.h"
#include "io/io_fixture.h"
#include "placement.h"
#include "store/internal.h"

enum { EVERYTHING_ON_DEVICE, EVERYTHING_ON_DISK, MIXED }; /* MIXED + n is another mix */

/* Small window, ring and slots; sums spill to disk. */
static inline void runs_create_as(rig *r, const hil_store_options *options, int placement,
                                  int frozen)
{
    rig_create_as(r, options, frozen);
    r->drive[0].path = r->drive[1].path = folder;
    if (placement == EVERYTHING_ON_DEVICE) return;
    for (size_t u = 0; u < r->plan.units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s) {
            uint32_t word[4];
            hil_philox((uint64_t)placement, u, (uint64_t)s, word);
            r->plan.unit[u].tier[s] =
                (unsigned char)(placement == EVERYTHING_ON_DISK ? HIL_DISK : word[0] % 3);
        }
    r->plan.window = 140 << 10;
    r->plan.chunk = 8192;
    r->plan.ring = (size_t)r->plan.chunk * 8;
    r->plan.spill = HIL_DISK;
}

static inline void runs_create_frozen(rig *r, hil_dtype dtype, int placement, int frozen)
{
    hil_store_options options = {
        .compute = dtype, .training = true, .tile_size = 128 * 72 * 2, .moments = 2};
    runs_create_as(r, &options, placement, frozen);
}

static inline void runs_create(rig *r, hil_dtype dtype, int placement)
{
    runs_create_frozen(r, dtype, placement, -1);
}

static inline int64_t runs_count(const rig *r, int steps)
{
    int64_t count = steps;
    for (int p = 0; p < PARAMS; ++p) count += HIL_STATES * hil_param_elements(r->param[p]);
    return count;
}

/* Writes the norms of `steps` steps to out[0 .. steps), then every state of every parameter. */
static inline hil_status runs_go(rig *r, int steps, float *out)
{
    for (int s = 0; s < steps; ++s) {
        double norm;
        HIL_TRY(rig_step(r, -1, &norm));
        *out++ = (float)norm;
    }
    for (int p = 0; p < PARAMS; ++p)
        for (int state = 0; state < HIL_STATES; ++state) {
            int64_t n = hil_param_elements(r->param[p]);
            HIL_TRY(hil_store_read(r->store, r->param[p], (hil_state)state, 0, n, out));
            out += n;
        }
    return HIL_OK;
}

/* The result with everything on the device: `count` numbers, which the caller frees. */
static inline float *runs_expected(hil_dtype dtype, int steps, int64_t *count)
{
    rig r;
    runs_create(&r, dtype, EVERYTHING_ON_DEVICE);
    *count = runs_count(&r, steps);
    float *out = malloc((size_t)*count * sizeof *out);
    CHECK(out != NULL);
    CHECK_OK(rig_open(&r, 0, HIL_IO_AUTO));
    CHECK_OK(runs_go(&r, steps, out));
    rig_close(&r);
    return out;
}

static inline void runs_same(const float *got, const float *expected, int64_t count)
{
    for (int64_t i = 0; i < count; ++i)
        if (memcmp(&got[i], &expected[i], sizeof *got) != 0) {
            fprintf(stderr, "number %lld is %.9g, expected %.9g\n", (long long)i, (double)got[i],
                    (double)expected[i]);
            exit(1);
        }
}

#endif
