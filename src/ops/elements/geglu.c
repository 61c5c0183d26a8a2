/* geglu.c - gelu(gate) * up, with erf or the tanh approximation. */
#include "ops/elements/elements.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

static void gelu(const hil_op_call *call, float *out, const float *x, int64_t n)
{
    const hil_row_activation *rows = &hil_rows()->activation;
    (((const hil_gelu_attr *)call->attr)->tanh ? rows->gelu_tanh : rows->gelu_erf)(out, x, n);
}

static void forward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                          float *const *out)
{
    (void)at;
    float gate[HIL_PIECE];
    gelu(job->call, gate, in[0], n);
    hil_rows()->math.multiply(out[0], gate, in[1], n);
}

static hil_status forward(hil_op_call *call)
{
    return hil_elements_pair_run(call, forward_piece);
}

static void backward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                           float *const *out)
{
    (void)at;
    const hil_row_kernel *rows = hil_rows();
    bool tanh = ((const hil_gelu_attr *)job->call->attr)->tanh;
    float part[HIL_PIECE];
    rows->math.multiply(part, in[1], in[2], n);
    (tanh ? rows->activation.gelu_tanh_back : rows->activation.gelu_erf_back)(out[0], in[0], part,
                                                                              n);
    gelu(job->call, part, in[0], n);
    rows->math.multiply(out[1], part, in[2], n);
}

static hil_status backward(hil_op_call *call)
{
    return hil_elements_pair_back(call, backward_piece);
}

const hil_op hil_op_geglu = {
    .name = "geglu", .attr_size = sizeof(hil_gelu_attr), HIL_ELEMENTS_PAIR_OP};
