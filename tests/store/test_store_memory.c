/* For every n the n-th allocation of open, two steps and close fails: one clear line, no crash, no
   leak. A store that ran out of memory in a step can run another step. */
#include "runs.h"
#include "store/pass.h"
#include "store/update.h"

/* soak: --full */

static hil_status steps(rig *r)
{
    hil_status status = HIL_OK;
    for (int s = 0; s < 2 && status == HIL_OK; ++s) {
        double norm;
        status = rig_step(r, -1, &norm);
    }
    return status == HIL_OK ? hil_store_sweep_wait(r->store) : status;
}

/* False: there are fewer than n allocations. */
static bool fail_nth(long n, int placement, hil_io_kind engine)
{
    rig r;
    int before = open_descriptors();
    runs_create(&r, HIL_BF16, placement);
    alarm(60); /* a hang ends the test */
    long made = hil_alloc_count();
    hil_alloc_fail_at(n);
    hil_status status = rig_open(&r, 1 + placement % 2, engine);
    bool opened = status == HIL_OK;
    if (opened) status = steps(&r);
    bool reached = hil_alloc_count() - made >= n;
    if (reached)
        CHECK_FAILS(status, HIL_ERR_MEMORY, "out of memory");
    else
        CHECK_OK(status);
    if (reached && opened) {
        hil_store_pass_drop(r.store);
        hil_store_step_end(r.store);
        CHECK_OK(steps(&r));
    }
    rig_close(&r);
    alarm(0);
    hil_alloc_fail_at(0);
    CHECK_INT(open_descriptors(), before);
    return reached;
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    fixture_open();
    for (int placement = EVERYTHING_ON_DEVICE; placement < MIXED + 2; ++placement) {
        long n = 1, reached = 0;
        while (fail_nth(n, placement, placement % 2 ? HIL_IO_THREADS : HIL_IO_AUTO)) {
            n += full ? 1 : 1 + (n * 7 + placement) % 13;
            ++reached;
        }
        CHECK(reached > 10);
    }
    fixture_close();
    return 0;
}
