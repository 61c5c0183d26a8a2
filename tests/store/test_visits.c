/* A plan by segment: a visit holds everything that its segment may use, in any order, any number of
   times or never. The bits equal those of everything on the device with single uses; on any path
   the same bytes are copied to the device, and everything is prefetched in time. */
#include "runs.h"
#include "store/pass.h"
#include "store/unit.h"
#include "store/update.h"

enum { STEPS = 8, MICROS = 2, UNUSED = 1 }; /* no segment uses parameter UNUSED in the last step */

static int64_t count;
static float *expected, *got;

/* Bytes read from disk, and copied from host to device. */
typedef struct moved {
    uint64_t fetched, in;
} moved;

/* How a segment uses a parameter for one micro-batch; at least one of the two micro-batches uses
   it. */
typedef enum detour { NONE, OMITTED, TWICE } detour;
static detour detour_of(int step, int micro, int p)
{
    uint32_t word[4];
    hil_philox(7, (uint64_t)step, (uint64_t)p, word);
    if (step == STEPS - 1 && p == UNUSED) return OMITTED;
    if (step < 2 || (int)(word[0] % MICROS) != micro) return NONE;
    return (detour)(word[1] % 3);
}

static hil_status visit(rig *r, int step, int segment, int micro, hil_direction way)
{
    float factor = (float)(micro + 1) * 0.25f;
    bool reversed = step > 2 && (step + micro) % 2, back = way == HIL_BACKWARD;
    HIL_TRY(hil_store_pass_enter(r->store, &(hil_segment_visit){segment, way, "a segment"}));
    for (int i = 0; i < PARAMS; ++i) {
        int p = reversed ? PARAMS - 1 - i : i;
        detour how = detour_of(step, micro, p);
        if (rig_segment(p) != segment || how == OMITTED) continue;
        HIL_TRY(rig_use(r, p, back ? segment : -1, factor));
        if (how == TWICE) HIL_TRY(rig_use(r, p, back ? segment : -1, factor / 2));
    }
    return segment == 2 ? rig_use(r, 0, back ? 2 : -1, factor / 2) : HIL_OK;
}

static hil_status pass(rig *r, int step)
{
    HIL_TRY(hil_store_pass_begin(r->store, HIL_PASS_TRAIN));
    for (int s = 0; s < SEGMENTS; ++s)
        for (int m = 0; m < MICROS; ++m) HIL_TRY(visit(r, step, s, m, HIL_FORWARD));
    for (int s = SEGMENTS - 1; s >= 0; --s) {
        for (int m = 0; m < MICROS; ++m) HIL_TRY(visit(r, step, s, m, HIL_BACKWARD));
        HIL_TRY(hil_store_pass_exit(r->store));
        HIL_TRY(hil_store_give_gradients(r->store, s));
    }
    return hil_store_pass_end(r->store);
}

/* A pass over the weights only, like an evaluation. */
static hil_status evaluate(rig *r, int step)
{
    HIL_TRY(hil_store_pass_begin(r->store, HIL_PASS_LOSS));
    for (int s = 0; s < SEGMENTS; ++s) HIL_TRY(visit(r, step, s, 0, HIL_FORWARD));
    return hil_store_pass_end(r->store);
}

/* `prefetched`: a weight that was not prefetched fails the test. */
static void run(rig *r, bool prefetched, float *out, moved *of)
{
    alarm(60);
    CHECK_OK(rig_open(r, 1, HIL_IO_AUTO));
    for (int s = 0; s < STEPS; ++s) {
        hil_account account;
        double norm;
        int64_t misses = hil_store_misses(r->store);
        CHECK_OK(hil_store_sweep_wait(r->store));
        hil_links_take_account(r->tiers.links, &account);
        CHECK_OK(pass(r, s));
        CHECK_OK(hil_links_drain(r->tiers.links));
        hil_links_take_account(r->tiers.links, &account);
        of[s] = (moved){account.bytes[HIL_LINK_FETCH], account.bytes[HIL_LINK_IN]};
        if (prefetched && s > 0) CHECK_INT(hil_store_misses(r->store), misses);
        CHECK_OK(hil_store_norm(r->store, &norm));
        CHECK_OK(r->sweep(r, norm));
        hil_store_step_end(r->store);
        out[s] = (float)norm;
        CHECK_OK(evaluate(r, s));
    }
    CHECK_OK(runs_go(r, 0, out + STEPS));
    if (r->plan.by_segment) CHECK_INT(hil_store_repairs(r->store), 0);
    rig_close(r);
    alarm(0);
}

/* The smallest window for whole visits, computed here: weights and sums of the largest segment. */
static size_t segment_bytes(const rig *r)
{
    size_t most = 0;
    for (int s = 0; s < SEGMENTS; ++s) {
        const size_t *unit;
        size_t bytes = 0, units = hil_store_declared(r->store, s, &unit);
        for (size_t i = 0; i < units; ++i)
            bytes += (hil_unit_bytes(r->store, unit[i], HIL_WEIGHT) + 4095) / 4096 * 4096 +
                     ((size_t)hil_unit_elements(r->store, unit[i]) * 4 + 4095) / 4096 * 4096;
        if (bytes > most) most = bytes;
    }
    return most;
}

static void check(int placement, hil_dtype dtype, bool prefetch, int more)
{
    rig r;
    moved of[STEPS];
    runs_create(&r, dtype, placement);
    r.plan.prefetch = prefetch;
    r.plan.by_segment = true;
    /* With no room to spare a segment fits only if its blocks are adjacent. */
    r.plan.window = segment_bytes(&r) + (size_t)r.plan.chunk * 2 * (size_t)more;
    run(&r, more > 1, got, of);
    runs_same(got, expected, count);
    for (int s = 1; s < STEPS; ++s) {
        CHECK(of[s].fetched == of[1].fetched);
        CHECK(of[s].in == of[1].in);
    }
    if (placement == EVERYTHING_ON_DISK) CHECK(of[1].fetched > 0);
}

/* An undeclared use is fetched on its own. */
static void check_undeclared(void)
{
    rig r;
    runs_create(&r, HIL_F32, EVERYTHING_ON_DISK);
    r.plan.by_segment = true;
    r.plan.window = 2 * segment_bytes(&r);
    CHECK_OK(rig_open(&r, 1, HIL_IO_AUTO));
    CHECK_OK(hil_store_pass_begin(r.store, HIL_PASS_TRAIN));
    CHECK_OK(hil_store_pass_enter(r.store, &(hil_segment_visit){0, HIL_BACKWARD, "a segment"}));
    CHECK_OK(rig_use(&r, 1, 0, 1));
    CHECK_OK(hil_store_pass_exit(r.store));
    CHECK_OK(hil_store_give_gradients(r.store, 0));
    CHECK_OK(hil_store_pass_end(r.store));
    hil_store_step_end(r.store);
    rig_close(&r);
}

int main(void)
{
    fixture_open();
    for (int d = 0; d < 2; ++d) {
        hil_dtype dtype = d ? HIL_BF16 : HIL_F32;
        rig r;
        moved of[STEPS];
        runs_create(&r, dtype, EVERYTHING_ON_DEVICE);
        count = runs_count(&r, STEPS);
        expected = malloc((size_t)count * sizeof *expected);
        got = malloc((size_t)count * sizeof *got);
        CHECK(expected && got);
        run(&r, false, expected, of);
        for (int placement = EVERYTHING_ON_DEVICE; placement < MIXED + 6; ++placement)
            for (int more = 0; more < 32; more = 4 * more + 1)
                check(placement, dtype, more != 1, more);
        free(expected);
        free(got);
    }
    check_undeclared();
    fixture_close();
    return 0;
}
