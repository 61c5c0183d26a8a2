/* short_conv.c - a gated convolution over a few positions: x is projected to two gates and a value;
   the value is gated, convolved, and gated again. */
#include "model/short_conv.h"

hil_status hil_short_conv_build(hil_model *model, const hil_config *c, int64_t n,
                                hil_short_conv *out)
{
    *out = (hil_short_conv){0};
    if (!hil_config_convolves(c, n)) return HIL_OK;
    int64_t d = c->hidden;
    const hil_build_row rows[] = {
        {"conv.in_proj", {HIL_MATRIX, 3 * d, d, c->init_std}, &out->in, false},
        {"conv.conv", {HIL_KERNEL, d, c->conv.kernel, c->init_std}, &out->kernel, false},
    };
    return hil_build_params(
        model, &(hil_build_table){c->arch->names->blocks, n, rows, sizeof rows / sizeof *rows});
}

hil_status hil_short_conv_run(hil_tape *t, const hil_short_conv *conv, hil_value *x, hil_value **y)
{
    hil_value *part[3]; /* the gate before, the gate after, the value */
    int64_t d = hil_value_dim(x, -1);
    HIL_TRY(hil_linear(t, x, conv->in, NULL, &x));
    HIL_TRY(hil_split(t, x, 3, (int64_t[]){d, d, d}, part));
    HIL_TRY(hil_multiply(t, part[0], part[2], y));
    HIL_TRY(hil_causal_conv_plain(t, *y, conv->kernel, y));
    return hil_multiply(t, part[1], *y, y);
}
