/* relu_squared.c - the square of positive numbers, 0 for others. */
#include "ops/elements/elements.h"
#include "ops/ops.h"

static void forward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                          float *const *out)
{
    (void)job, (void)at;
    const float *x = in[0];
    for (int64_t i = 0; i < n; ++i) out[0][i] = x[i] < 0 ? 0 : x[i] * x[i];
}

static hil_status forward(hil_op_call *call)
{
    return hil_elements_single_run(call, forward_piece);
}

static void backward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                           float *const *out)
{
    (void)job, (void)at;
    const float *x = in[0], *dy = in[1];
    for (int64_t i = 0; i < n; ++i) out[0][i] = x[i] < 0 ? 0 : 2 * x[i] * dy[i];
}

static hil_status backward(hil_op_call *call)
{
    return hil_elements_single_back(call, backward_piece);
}

const hil_op hil_op_relu_squared = {.name = "relu squared", HIL_ELEMENTS_SINGLE_OP};
