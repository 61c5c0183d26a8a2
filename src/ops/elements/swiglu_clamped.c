/* swiglu_clamped.c - gated units of gpt-oss: g sigmoid(alpha g) (u + 1), with g and u bounded. */
#include "ops/elements/elements.h"
#include "ops/ops.h"

#include <math.h>

/* What forward and backward share of one element. */
typedef struct unit {
    float gate, up, open; /* bounded, and sigmoid(alpha gate) */
} unit;

static unit bound(const hil_swiglu_clamped_attr *attr, float gate, float up)
{
    float limit = (float)attr->limit;
    unit u = {gate < limit ? gate : limit, up < limit ? up : limit, 0};
    if (u.up < -limit) u.up = -limit;
    u.open = 1 / (1 + expf(-(float)attr->alpha * u.gate));
    return u;
}

static void forward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                          float *const *out)
{
    (void)at;
    for (int64_t i = 0; i < n; ++i) {
        unit u = bound(job->call->attr, in[0][i], in[1][i]);
        out[0][i] = (u.up + 1) * (u.gate * u.open);
    }
}

static hil_status forward(hil_op_call *call)
{
    return hil_elements_pair_run(call, forward_piece);
}

/* A bounded number has no gradient. */
static void backward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                           float *const *out)
{
    (void)at;
    const hil_swiglu_clamped_attr *attr = job->call->attr;
    float limit = (float)attr->limit, alpha = (float)attr->alpha;
    for (int64_t i = 0; i < n; ++i) {
        unit u = bound(attr, in[0][i], in[1][i]);
        float slope = u.open + alpha * u.gate * u.open * (1 - u.open);
        out[0][i] = in[0][i] <= limit ? in[2][i] * (u.up + 1) * slope : 0;
        out[1][i] = fabsf(in[1][i]) <= limit ? in[2][i] * u.gate * u.open : 0;
    }
}

static hil_status backward(hil_op_call *call)
{
    return hil_elements_pair_back(call, backward_piece);
}

const hil_op hil_op_swiglu_clamped = {
    .name = "swiglu_clamped", .attr_size = sizeof(hil_swiglu_clamped_attr), HIL_ELEMENTS_PAIR_OP};
