/* Steps whose path depends on their numbers: parameters skipped, used twice, or used by another
   segment. The bits are those of everything on the device, with and without prefetch. A changed
   path costs misses in proportion to the tiles it touches; the others are still prefetched. */
#include "runs.h"
#include "store/pass.h"
#include "store/update.h"

/* soak: --full */

enum { STEPS = 10 };

static int64_t count;
static uint64_t salt; /* varies the paths */
static float *expected, *got;

typedef struct cost {
    int64_t misses[STEPS];
    int64_t touched[STEPS]; /* tiles skipped or used once more */
    int64_t repairs;
} cost;

/* How a segment uses a parameter: a function of the last norm, which is equal in all placements. */
typedef enum detour { NONE, OMITTED, TWICE, ELSEWHERE } detour;
static detour detour_of(int step, double norm, int micro, int p)
{
    uint32_t word[4];
    uint64_t bits;
    memcpy(&bits, &norm, sizeof bits);
    if (step < 3 || step == STEPS - 1) return NONE;
    hil_philox(bits, (uint64_t)step + (salt << 32), (uint64_t)(micro * PARAMS + p), word);
    if (word[0] % 4) return NONE;
    return (detour)(1 + word[1] % (step > 6 ? 3 : 2));
}

static hil_status run_segment(rig *r, int segment, int micro, const detour *detours)
{
    float factor = (float)(micro + 1) * 0.25f;
    HIL_TRY(hil_store_pass_mark(r->store));
    for (int p = 0; p < PARAMS; ++p) {
        if (rig_segment(p) != segment || detours[p] == OMITTED) continue;
        HIL_TRY(rig_use(r, p, segment, factor));
        if (detours[p] == TWICE) HIL_TRY(rig_use(r, p, segment, factor / 2));
    }
    for (int p = 1; p < PARAMS; ++p)
        if (detours[p] == ELSEWHERE && (rig_segment(p) + 1) % SEGMENTS == segment)
            HIL_TRY(rig_use(r, p, segment, factor / 4));
    return segment == 2 ? rig_use(r, 0, 2, factor / 2) : HIL_OK;
}

static hil_status step(rig *r, int number, double *norm, cost *c)
{
    detour detours[2][PARAMS];
    for (int m = 0; m < 2; ++m)
        for (int p = 0; p < PARAMS; ++p) {
            detours[m][p] = detour_of(number, *norm, m, p);
            if (detours[m][p] != NONE) c->touched[number] += rig_tiles(r->param[p]);
        }
    int64_t misses = hil_store_misses(r->store);
    HIL_TRY(hil_store_pass_begin(r->store, HIL_PASS_TRAIN));
    for (int s = SEGMENTS - 1; s >= 0; --s) {
        for (int m = 0; m < 2; ++m) HIL_TRY(run_segment(r, s, m, detours[m]));
        HIL_TRY(hil_store_give_gradients(r->store, s));
    }
    HIL_TRY(hil_store_pass_end(r->store));
    c->misses[number] = hil_store_misses(r->store) - misses;
    HIL_TRY(hil_store_norm(r->store, norm));
    float scale = (float)(1 / (1 + *norm));
    hil_status status = HIL_OK;
    /* Step 5 skips its update, as after an overflow. */
    if (number != 5) status = hil_store_update(r->store, rig_rule, &scale, sizeof scale);
    hil_store_step_end(r->store);
    return status;
}

static void run(rig *r, int drives, hil_io_kind engine, float *out, cost *c)
{
    double norm = 0;
    alarm(60);
    *c = (cost){0};
    CHECK_OK(rig_open(r, drives, engine));
    for (int s = 0; s < STEPS; ++s) {
        CHECK_OK(step(r, s, &norm, c));
        out[s] = (float)norm;
    }
    CHECK_OK(runs_go(r, 0, out + STEPS));
    c->repairs = hil_store_repairs(r->store);
    rig_close(r);
    alarm(0);
}

/* Returns the misses of a run. */
static int64_t check(int placement, hil_dtype dtype, bool prefetch)
{
    rig r;
    cost c;
    runs_create(&r, dtype, placement);
    r.plan.prefetch = prefetch;
    r.plan.window = (size_t)(placement % 3 ? 300 : 150) << 10;
    run(&r, 1 + placement % 2, placement % 2 ? HIL_IO_AUTO : HIL_IO_THREADS, got, &c);
    runs_same(got, expected, count);
    CHECK(c.repairs > 0);
    /* At most two misses (weight and sum) for each tile touched in this step or in the one
       before, whose order is followed. One step may exceed that because of evictions, their total
       may not. */
    int64_t misses = 0, touched = 0;
    for (int s = 1; s < STEPS; ++s) {
        misses += c.misses[s];
        touched += c.touched[s] + c.touched[s - 1];
        CHECK(!prefetch || c.misses[s] == 0 || c.touched[s] + c.touched[s - 1] > 0);
    }
    CHECK(!prefetch || misses <= 2 * touched);
    return misses;
}

static void check_paths(hil_dtype dtype, int placements)
{
    rig r;
    cost c;
    runs_create(&r, dtype, EVERYTHING_ON_DEVICE);
    count = runs_count(&r, STEPS);
    expected = malloc((size_t)count * sizeof *expected);
    got = malloc((size_t)count * sizeof *got);
    CHECK(expected && got);
    run(&r, 0, HIL_IO_AUTO, expected, &c);
    for (int placement = EVERYTHING_ON_DISK; placement < MIXED + placements; ++placement)
        CHECK(10 * check(placement, dtype, true) < 9 * check(placement, dtype, false));
    free(expected);
    free(got);
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    fixture_open();
    for (salt = 0; salt < (full ? 40 : 3); ++salt) {
        check_paths(HIL_F32, full ? 12 : 2);
        check_paths(HIL_BF16, full ? 12 : 2);
    }
    fixture_close();
    return 0;
}
