/* multiply.c - x times y, element by element. */
#include "ops/elements/elements.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

static void forward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                          float *const *out)
{
    (void)job, (void)at;
    hil_rows()->math.multiply(out[0], in[0], in[1], n);
}

static hil_status forward(hil_op_call *call)
{
    return hil_elements_pair_run(call, forward_piece);
}

static void backward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                           float *const *out)
{
    (void)job, (void)at;
    hil_rows()->math.multiply(out[0], in[1], in[2], n);
    hil_rows()->math.multiply(out[1], in[0], in[2], n);
}

static hil_status backward(hil_op_call *call)
{
    return hil_elements_pair_back(call, backward_piece);
}

const hil_op hil_op_multiply = {.name = "multiply", HIL_ELEMENTS_PAIR_OP};
