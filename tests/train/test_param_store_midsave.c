/* A store that is saved in the middle of a step goes on with the same bits, and the checkpoint is
   that of the step's beginning. */
#include "param_store_rig.h"

#include "io/file.h"

#include <stdlib.h>

#define STEPS 4
#define AT 2 /* the step in which it is saved */

static char folder[] = "/tmp/param_store_midsave_XXXXXX";

typedef struct outcome {
    float weight[RIG_PARAMS][300 * 64], moment[300 * 64];
} outcome;

static void note(rig *r, outcome *out)
{
    memset(out, 0, sizeof *out);
    for (int p = 0; p < RIG_PARAMS; ++p)
        CHECK_OK(hil_param_store_read(r->store, r->param[p], HIL_PARAM_STORE_WEIGHT, 0,
                                      rig_elements(p), out->weight[p]));
    CHECK_OK(hil_param_store_read(r->store, r->param[0], HIL_PARAM_STORE_MOMENT2, 0,
                                  rig_elements(0), out->moment));
}

/* As rig_step; saves after `after` of its parts, if that is above 0. */
static void step(rig *r, rig_order order, int after)
{
    double norm;
    CHECK_OK(hil_param_store_begin(r->store, HIL_PARAM_STORE_TRAIN));
    for (int i = 0; i < 2 * RIG_GROUPS; ++i) {
        int group = order == RIG_GROUP_MAJOR ? i / 2 : i % RIG_GROUPS;
        rig_use_group(r, group, 0.5f);
        if (order == RIG_GROUP_MAJOR && i % 2)
            CHECK_OK(hil_param_store_give_gradients(r->store, group));
        if (i + 1 == after) CHECK_OK(hil_param_store_save(r->store, folder, "here", 1));
    }
    CHECK_OK(hil_param_store_step(r->store, 0.05, &norm));
    CHECK_OK(hil_param_store_end(r->store));
}

static void start(rig *r, uint64_t device, uint64_t host, size_t disks)
{
    rig_options(r, "bf16", device, host);
    r->options.memory.disk_count = disks;
    r->options.saves = true;
    rig_open(r);
}

static void check(uint64_t device, uint64_t host, size_t disks, rig_order order, int after)
{
    static outcome straight, saved, resumed;
    hil_param_store_loaded loaded;
    rig r;
    start(&r, device, host, disks);
    for (int i = 0; i < STEPS; ++i) step(&r, order, 0);
    note(&r, &straight);
    hil_param_store_destroy(r.store);
    CHECK_OK(hil_file_remove_tree(folder));
    start(&r, device, host, disks);
    for (int i = 0; i < STEPS; ++i) step(&r, order, i == AT ? after : 0);
    note(&r, &saved);
    CHECK(memcmp(&straight, &saved, sizeof saved) == 0);
    CHECK_OK(hil_param_store_saved(r.store));
    hil_param_store_destroy(r.store);
    start(&r, 8 << 20, 8 << 20, 0);
    CHECK_OK(hil_param_store_load(r.store, folder, &loaded));
    CHECK_INT(loaded.step, AT);
    for (int i = AT; i < STEPS; ++i) step(&r, order, 0);
    note(&r, &resumed);
    CHECK(memcmp(&straight, &resumed, sizeof resumed) == 0);
    hil_param_store_destroy(r.store);
}

int main(void)
{
    rig r;
    const void *w;
    CHECK(mkdtemp(folder) != NULL);
    for (int order = RIG_GROUP_MAJOR; order <= RIG_MICRO_MAJOR; ++order)
        for (int after = 1; after < 2 * RIG_GROUPS; after += 2) {
            check(8 << 20, 8 << 20, 0, (rig_order)order, after);
            check(300 << 10, 8 << 20, 0, (rig_order)order, after);
            check(300 << 10, 600 << 10, 2, (rig_order)order, after);
        }
    start(&r, 8 << 20, 8 << 20, 0);
    CHECK_OK(hil_param_store_begin(r.store, HIL_PARAM_STORE_TRAIN));
    CHECK_OK(hil_param_store_acquire(r.store, r.param[0], 0, &w));
    CHECK_FAILS(hil_param_store_save(r.store, folder, NULL, 0), HIL_ERR_USAGE, "between steps");
    hil_param_store_destroy(r.store);
    CHECK_OK(hil_file_remove_tree(folder));
    return 0;
}
