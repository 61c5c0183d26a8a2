/* On a device the n-th allocation of a step fails, on any thread: the step reports it, nothing
   hangs, and everything can be closed while streams are still busy. */
/* soak: --full */
#include "device_net.h"
#include "store/update.h"

static hil_status step(net_rig *r)
{
    const hil_optimizer adamw = {
        .rule = &hil_rules[HIL_ADAMW], .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .clip = 1};
    hil_store *store = r->model->store;
    hil_step what = {r->micro, NET_MICROS, 9, 1, 4.0f / (NET_BATCH * NET_SEQ), 0};
    double loss, norm;
    HIL_TRY(hil_engine_train(r->engine, &what, &loss));
    HIL_TRY(hil_store_norm(store, &norm));
    hil_update update = {.lr = 1e-2, .norm = norm / 4, .loss_scale = 4, .updates = 1};
    HIL_TRY(hil_optimizer_update(store, &adamw, &update));
    return hil_store_sweep_wait(store);
}

/* False: no allocation failed. */
static bool fail_at(const net_how *how, long n)
{
    net_rig r;
    net_open(&r, how);
    hil_alloc_fail_at(n);
    hil_status status = step(&r);
    bool failed = status != HIL_OK;
    if (failed) CHECK_INT(status, HIL_ERR_MEMORY);
    hil_alloc_fail_at(0);
    net_close(&r);
    return failed;
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    net_how how = {.model = "llama",
                   .dtype = HIL_BF16,
                   .training = true,
                   .delay = 2,
                   .weights = HIL_HOST,
                   .states = HIL_DISK,
                   .keep = {0, 1, 2},
                   .values = {HIL_HOST, HIL_DISK, HIL_DEVICE}};
    for (int away = 0; away < 2; ++away) {
        long n = 1, faults = 0;
        for (int i = 0; i < 3 && away; ++i) how.tapes[i] = i ? HIL_HOST : HIL_DISK;
        how.lean[0] = away;
        for (; fail_at(&how, n); n += full ? 1 : n / 3 + 1) ++faults;
        CHECK(faults > 20);
        printf("%ld of fewer than %ld allocations failed\n", faults, n);
    }
    return 0;
}
