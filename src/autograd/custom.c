/* custom.c - operations that a program brings. */
#include "hilbert/nn.h"

#include "autograd/tape.h"
#include "base/sized.h"
#include "ops/ops.h"

void hil_custom_defaults_sized(hil_custom_options *options, size_t size)
{
    const hil_custom_options defaults = {.name = "custom", .passes = 1};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

hil_status hil_custom(hil_tape *t, const hil_custom_options *options, int count,
                      hil_value *const *x, hil_value **y)
{
    hil_custom_options own;
    HIL_TRY(HIL_SIZED_TAKE(hil_custom, &own, options));
    if (count < 1 || count > HIL_CUSTOM_INPUTS || !own.forward || !own.backward)
        return hil_fail(HIL_ERR_USAGE,
                        "operation %s: it needs 1 to %d inputs, forward and backward", own.name,
                        HIL_CUSTOM_INPUTS);
    hil_custom_attr attr = {own.context, own.forward, own.backward, own.passes};
    hil_apply apply = {.op = &hil_op_custom, .attr = &attr, .ins = count, .outs = 1};
    for (int i = 0; i < count; ++i) apply.in[i] = x[i];
    return hil_tape_apply(t, &apply, y);
}
