/* When a sum must be evicted and there is no memory to spill it to (no drives, or drives without
   staging), the step fails with one line, and the store can still be closed. */
#include "runs.h"
#include "store/pass.h"
#include "store/update.h"

static void check(int drives)
{
    rig r;
    double norm;
    rig_create(&r, HIL_BF16);
    r.drive[0].path = folder;
    for (size_t u = 0; u < r.plan.units; ++u)
        memset(r.plan.unit[u].tier, HIL_HOST, sizeof r.plan.unit[u].tier);
    r.plan.window = 100 << 10;
    r.plan.ring = r.plan.spilled = 0;
    CHECK_OK(rig_open(&r, drives, HIL_IO_THREADS));
    CHECK_FAILS(rig_step(&r, -1, &norm), HIL_ERR_BUDGET, "out of host memory");
    hil_store_pass_drop(r.store);
    hil_store_step_end(r.store);
    rig_close(&r);
}

int main(void)
{
    fixture_open();
    check(0);
    check(1);
    fixture_close();
    return 0;
}
