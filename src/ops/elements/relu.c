/* relu.c - positive numbers, 0 for others. */
#include "ops/elements/elements.h"
#include "ops/ops.h"

static void forward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                          float *const *out)
{
    (void)job, (void)at;
    for (int64_t i = 0; i < n; ++i) out[0][i] = in[0][i] < 0 ? 0 : in[0][i];
}

static hil_status forward(hil_op_call *call)
{
    return hil_elements_single_run(call, forward_piece);
}

static void backward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                           float *const *out)
{
    (void)job, (void)at;
    for (int64_t i = 0; i < n; ++i) out[0][i] = in[0][i] > 0 ? in[1][i] : 0;
}

static hil_status backward(hil_op_call *call)
{
    return hil_elements_single_back(call, backward_piece);
}

const hil_op hil_op_relu = {.name = "relu", HIL_ELEMENTS_SINGLE_OP};
