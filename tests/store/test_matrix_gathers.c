/* Two ranks that update matrices as a whole gather each tile's momentum, one after the other: a
   rehearsal takes the network's time for it once. */
#include "ops/ops.h"
#include "rehearsal.h"
#include "store/pass.h"
#include "store/unit.h"
#include "store/update.h"

enum { TILES = 3 };

static void no_update(const void *rule, const hil_block *block)
{
    (void)rule;
    (void)block;
}

static void step(hil_store *store, hil_param *matrix)
{
    double norm;
    CHECK_OK(hil_store_pass_begin(store, HIL_PASS_TRAIN));
    CHECK_OK(hil_store_pass_mark(store));
    for (int64_t t = 0; t < TILES; ++t) {
        float *sum;
        bool add;
        CHECK_OK(hil_store_sum_acquire(store, matrix, 0, t, &sum, &add));
        hil_store_sum_release(store, matrix, 0, t);
    }
    CHECK_OK(hil_store_give_gradients(store, 0));
    CHECK_OK(hil_store_pass_end(store));
    CHECK_OK(hil_store_norm(store, &norm));
}

int main(void)
{
    hil_store *store;
    hil_param *matrix;
    hil_tiers tiers;
    hil_account account;
    hil_unit_place unit[TILES] = {{{0}, false}};
    hil_plan plan = {
        .window = 1 << 20, .chunk = 4096, .slots = 2, .ranks = 2, .unit = unit, .units = TILES};
    const hil_param_spec spec = {.name = "h.0.w", .shape = {2, {300, 72}}};
    const hil_store_options options = {.compute = HIL_BF16,
                                       .training = true,
                                       .tile_size = 128 * 72 * 2,
                                       .moments = 1,
                                       .matrix = &hil_op_orthogonal,
                                       .ranks = 2};
    CHECK_OK(hil_store_create(&store));
    CHECK_OK(hil_store_add(store, &spec, &matrix));
    CHECK_OK(hil_store_arrange(store, &options));
    CHECK_OK(hil_store_declare_use(store, matrix, 0));
    CHECK_INT(hil_store_units(store), TILES);
    hil_pool *dry = rehearsal_open(store, (hil_tiers_options){0},
                                   (hil_store_opening){.tiers = &tiers, .plan = &plan});
    step(store, matrix);
    hil_links_take_account(tiers.links, &account);
    CHECK_OK(hil_store_update(store, no_update, "", 1));
    CHECK_OK(hil_store_sweep_wait(store));
    hil_links_take_account(tiers.links, &account);
    double bytes = (double)account.bytes[HIL_LINK_GATHER];
    CHECK(bytes >= 300 * 72 * 2 / 2);
    CHECK_NEAR(account.busy[HIL_LINK_GATHER] * any_speeds.network, bytes, 1e-3 * bytes);
    hil_store_step_end(store);
    hil_store_close(store);
    hil_tiers_close(&tiers);
    hil_pool_destroy(dry);
    hil_store_destroy(store);
    return 0;
}
