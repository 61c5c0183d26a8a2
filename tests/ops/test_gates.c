/* test_gates.c - products of two inputs (multiply, GeGLU, gates of rows), ReLU, its square and the
   soft cap, with their gradients. */
#include "ops/op_refused.h"

static void product(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    for (int64_t i = 0; i < hil_shape_count(&c->in_shape[0]); ++i) out[0][i] = in[0][i] * in[1][i];
}

static void geglu(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    bool tanh_form = ((const hil_gelu_attr *)c->attr)->tanh;
    for (int64_t i = 0; i < hil_shape_count(&c->in_shape[0]); ++i) {
        double x = in[0][i], u = sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x);
        double part = tanh_form ? tanh(u) : erf(x / sqrt(2));
        out[0][i] = 0.5 * x * (1 + part) * in[1][i];
    }
}

static void positive(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    for (int64_t i = 0; i < hil_shape_count(&c->in_shape[0]); ++i) out[0][i] = fmax(in[0][i], 0);
}

static void squared(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    for (int64_t i = 0; i < hil_shape_count(&c->in_shape[0]); ++i)
        out[0][i] = in[0][i] > 0 ? in[0][i] * in[0][i] : 0;
}

static void capped(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    double cap = ((const hil_softcap_attr *)c->attr)->cap;
    for (int64_t i = 0; i < hil_shape_count(&c->in_shape[0]); ++i)
        out[0][i] = cap * tanh(in[0][i] / cap);
}

static void gated(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    int64_t cols = hil_shape_cols(&c->in_shape[0]);
    for (int64_t i = 0; i < hil_shape_count(&c->in_shape[0]); ++i)
        out[0][i] = in[0][i] / (1 + exp(-in[1][i / cols]));
}

static void gated_apart(const op_case *c, double *const *in, double *const *param,
                        double *const *out)
{
    (void)param;
    for (int64_t i = 0; i < hil_shape_count(&c->in_shape[0]); ++i)
        out[0][i] = in[0][i] / (1 + exp(-in[1][i]));
}

/* Likewise by softplus: a gate for each row, or for each element. */
static void softened(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    int64_t cols = hil_shape_cols(&c->in_shape[0]), each = hil_shape_cols(&c->in_shape[1]);
    for (int64_t i = 0; i < hil_shape_count(&c->in_shape[0]); ++i)
        out[0][i] = in[0][i] * log1p(exp(in[1][each == 1 ? i / cols : i]));
}

static void clamped(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    const hil_swiglu_clamped_attr *attr = c->attr;
    for (int64_t i = 0; i < hil_shape_count(&c->in_shape[0]); ++i) {
        double g = fmin(in[0][i], attr->limit), u = fmax(fmin(in[1][i], attr->limit), -attr->limit);
        out[0][i] = g / (1 + exp(-attr->alpha * g)) * (u + 1);
    }
}

static void check_rows(const hil_op *op, op_reference *reference, const char *refusal)
{
    op_case c = {.op = op,
                 .reference = reference,
                 .ins = 2,
                 .outs = 1,
                 .spread = 3,
                 .slack = 2e-6,
                 .in_shape = {{3, {2, 9, 17}}, {3, {2, 9, 1}}}};
    for (c.no_din = 0; c.no_din <= 2; ++c.no_din) op_check_dtypes(c);
    c.in_shape[0] = (hil_shape){2, {19, 1300}}, c.in_shape[1] = (hil_shape){2, {19, 1}};
    c.samples = 9;
    c.no_din = 0;
    op_check_fp32(c);
    c.in_shape[1] = (hil_shape){2, {19, 2}};
    OP_REFUSED(&c, refusal);
}

int main(void)
{
    static const hil_shape shapes[] = {{1, {1}}, {1, {0}}, {3, {2, 3, 17}}, {2, {41, 401}}};
    static const hil_gelu_attr tanh_form = {true}, erf_form = {false};
    static const hil_swiglu_clamped_attr bounds = {1.702, 1.25};
    static const hil_softcap_attr low = {0.75}, high = {30};
    static const op_case cases[] = {
        {.op = &hil_op_multiply, .reference = product, .ins = 2},
        {.op = &hil_op_swiglu_clamped,
         .attr = &bounds,
         .reference = clamped,
         .ins = 2,
         .spread = 3},
        {.op = &hil_op_geglu, .attr = &tanh_form, .reference = geglu, .ins = 2, .spread = 4},
        {.op = &hil_op_geglu, .attr = &erf_form, .reference = geglu, .ins = 2, .spread = 4},
        {.op = &hil_op_sigmoid_gate, .reference = gated_apart, .ins = 2, .spread = 3},
        {.op = &hil_op_softplus_gate, .reference = softened, .ins = 2, .spread = 3},
        {.op = &hil_op_relu, .reference = positive, .ins = 1},
        {.op = &hil_op_relu_squared, .reference = squared, .ins = 1},
        {.op = &hil_op_softcap, .attr = &low, .reference = capped, .ins = 1, .spread = 4},
        {.op = &hil_op_softcap, .attr = &high, .reference = capped, .ins = 1, .spread = 40},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
            op_case c = cases[k];
            c.outs = 1;
            c.slack = 2e-6;
            for (int n = 0; n < c.ins; ++n) c.in_shape[n] = shapes[i];
            if (i == 3) {
                c.samples = 9;
                op_check_fp32(c);
                continue;
            }
            op_check_dtypes(c);
            if (c.ins == 1) continue;
            for (c.no_din = 1; c.no_din <= 2; ++c.no_din) op_check_dtypes(c);
        }
    check_rows(&hil_op_sigmoid_gate, gated,
               "sigmoid_gate: gates (19, 2) are not one for each row of (19, 1300), or as many");
    check_rows(&hil_op_softplus_gate, softened, "softplus_gate: gates (19, 2) are not one for");
    op_case wrong = {.op = &hil_op_multiply, .ins = 2, .in_shape = {{2, {3, 4}}, {2, {4, 3}}}};
    OP_REFUSED(&wrong, "multiply: input 1 is (4, 3), but input 0 is (3, 4)");
    return 0;
}
