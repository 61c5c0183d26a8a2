/* Sums of a segment whose visits are over do not keep the next segment's weights out of the window:
   a group of many micro-batches fetches each weight once or twice, not at each visit. In a window
   too small for a segment, sums are evicted in turn and weights stay. */
#include "runs.h"
#include "store/pass.h"
#include "store/store.h"
#include "store/unit.h"
#include "store/update.h"

enum { EACH = 3, WEIGHTS = 2 * EACH, SIDE = 64, VISITS = 20, GROUPS = 2, UNIT = SIDE * SIDE * 4 };

static void create(rig *r, bool discrete, size_t window)
{
    hil_store_options options = {
        .compute = HIL_F32, .training = true, .tile_size = UNIT, .moments = 2};
    *r = (rig){.sweep = rig_sweep};
    CHECK_OK(hil_pool_create(&r->pool, 2));
    CHECK_OK(hil_pool_create(&r->update, 2));
    CHECK_OK(hil_store_create(&r->store));
    for (int p = 0; p < WEIGHTS; ++p) {
        char name[16];
        snprintf(name, sizeof name, "p%d", p);
        hil_param_spec spec = {.name = name, .shape = {2, {SIDE, SIDE}}};
        CHECK_OK(hil_store_add(r->store, &spec, &r->param[p]));
    }
    CHECK_OK(hil_store_arrange(r->store, &options));
    for (int p = 0; p < WEIGHTS; ++p)
        CHECK_OK(hil_store_declare_use(r->store, r->param[p], p / EACH));
    CHECK_INT(hil_store_units(r->store), WEIGHTS);
    r->plan = (hil_plan){.prefetch = true,
                         .discrete = discrete,
                         .window = window,
                         .spilled = WEIGHTS * UNIT,
                         .chunk = 4096,
                         .slots = 3,
                         .spill = HIL_HOST,
                         .units = WEIGHTS};
    CHECK_OK(HIL_ALLOC(r->plan.units, &r->plan.unit));
    for (size_t u = 0; u < WEIGHTS; ++u)
        memset(r->plan.unit[u].tier, HIL_HOST, sizeof r->plan.unit[u].tier);
}

static void step(rig *r)
{
    double norm;
    CHECK_OK(hil_store_pass_begin(r->store, HIL_PASS_TRAIN));
    for (int g = 0; g < GROUPS; ++g)
        for (int s = 1; s >= 0; --s) {
            for (int m = 0; m < VISITS; ++m) {
                CHECK_OK(hil_store_pass_mark(r->store));
                for (int p = EACH * s; p < EACH * (s + 1); ++p) CHECK_OK(rig_use(r, p, s, 1));
            }
            if (g + 1 == GROUPS) CHECK_OK(hil_store_give_gradients(r->store, s));
        }
    CHECK_OK(hil_store_pass_end(r->store));
    CHECK_OK(hil_store_norm(r->store, &norm));
    CHECK_OK(r->sweep(r, norm));
    hil_store_step_end(r->store);
}

/* Bytes copied to the device in a step. */
static uint64_t fetched_bytes(bool discrete, size_t window)
{
    rig r;
    hil_account account;
    create(&r, discrete, window);
    CHECK_OK(rig_open(&r, 0, HIL_IO_THREADS));
    step(&r); /* learns the order of uses */
    hil_links_take_account(r.tiers.links, &account);
    step(&r);
    hil_links_take_account(r.tiers.links, &account);
    rig_close(&r);
    return account.bytes[HIL_LINK_IN];
}

int main(void)
{
    const uint64_t group = (uint64_t)GROUPS * WEIGHTS * UNIT; /* each weight once in each group */
    uint64_t in = fetched_bytes(true, (2 * EACH + 2) * UNIT); /* a segment and two units fit */
    CHECK(in >= group && in <= 2 * group);
    in = fetched_bytes(false, (EACH + 1) * UNIT); /* the weights and one sum of a segment fit */
    CHECK(in >= group && in <= 2 * group);
    return 0;
}
