/* An estimate says what placing the same store does, within the budgets, and fails as it does. */
#include "param_store_rig.h"

static void check_same(const char *dtype, uint64_t device, uint64_t host, size_t disks)
{
    rig real, dry;
    hil_param_store_estimate e;
    rig_options(&real, dtype, device, host);
    real.options.memory.disk_count = disks;
    dry = real;
    dry.options.memory.disks = dry.disk;
    dry.options.disk_speeds = dry.speed;
    CHECK_OK(hil_param_store_create(&dry.store, &dry.options));
    rig_add(&dry);
    CHECK_OK(hil_param_store_estimate_place(dry.store, &e));
    CHECK_FAILS(hil_param_store_place(dry.store), HIL_ERR_USAGE, "already");
    CHECK_FAILS(hil_param_store_estimate_place(dry.store, &e), HIL_ERR_USAGE, "new store");
    hil_param_store_destroy(dry.store);
    CHECK_OK(hil_param_store_create(&real.store, &real.options));
    rig_add(&real);
    CHECK_OK(hil_param_store_place(real.store));
    hil_param_store_bytes placed = hil_param_store_placed(real.store);
    CHECK(memcmp(&placed, &e.states, sizeof placed) == 0);
    CHECK(e.taken.device <= device && e.taken.host <= host);
    CHECK(e.taken.device >= placed.device + e.window && e.taken.host >= placed.host);
    CHECK(e.taken.disk >= placed.disk && (disks || !e.taken.disk));
    CHECK(e.window >= e.least_window && e.least_window > 0);
    hil_param_store_destroy(real.store);
}

int main(void)
{
    hil_param_store_estimate e;
    rig r;
    check_same("bf16", 4 << 20, 1 << 20, 0);
    check_same("bf16", 300 << 10, 4 << 20, 0);
    check_same("fp32", 400 << 10, 600 << 10, 2);
    rig_options(&r, "bf16", 200 << 10, 100 << 10);
    CHECK_OK(hil_param_store_create(&r.store, &r.options));
    rig_add(&r);
    CHECK_FAILS(hil_param_store_estimate_place(r.store, &e), HIL_ERR_BUDGET, "missing");
    hil_param_store_destroy(r.store);
    return 0;
}
