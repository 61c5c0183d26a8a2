/* math_threads.c - kernels and update rules of the CPU, queued on the threads of a device. */
#include "optim/math_threads.h"

#include "device/device_threads.h"
#include "kernels/kernels_threads.h"
#include "optim/update.h"

typedef struct updating {
    const hil_rule *rule;
    hil_rule_step step;
    hil_block block;
} updating;

static hil_status run_update(void *args)
{
    const updating *u = args;
    hil_rule_update(u->rule, &u->step, &u->block);
    return HIL_OK;
}

static hil_status queue_update(hil_device *device, hil_stream stream, const void *rule,
                               const hil_block *block, int blocks)
{
    const hil_update_rule *sweep = rule;
    for (int i = 0; i < blocks; ++i) {
        updating u = {sweep->rule, sweep->step[block[i].numbers], block[i]};
        HIL_TRY(hil_device_threads_call(device, stream, run_update, &u, sizeof u));
    }
    return HIL_OK;
}

const hil_device_math hil_math_threads = {
    .round = hil_threads_round,
    .square = hil_threads_square,
    .squared = hil_threads_squared,
    .update = queue_update,
    .reduce = hil_threads_reduce,
    .expand = hil_threads_expand,
    .draw = hil_threads_draw,
    .add = hil_threads_add,
};
