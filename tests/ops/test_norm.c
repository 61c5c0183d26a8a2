/* test_norm.c - LayerNorm, RMSNorm and norms of heads: rows, weights and their gradients. */
#include "ops/op_refused.h"

static const hil_norm_attr attr = {.eps = 1e-5}, plus = {.eps = 1e-5, .offset = 1};

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    int64_t rows = hil_shape_rows(&c->in_shape[0]), n = hil_shape_cols(&c->in_shape[0]);
    bool centered = c->op != &hil_op_rmsnorm && c->op != &hil_op_head_rmsnorm;
    bool by_head = c->op == &hil_op_head_norm || c->op == &hil_op_head_rmsnorm;
    int64_t heads = by_head ? c->in_shape[0].dim[2] : 1;
    for (int64_t r = 0; r < rows; ++r) {
        const double *x = in[0] + r * n;
        double mean = 0, square = 0;
        for (int64_t i = 0; i < n; ++i) mean += centered ? x[i] / (double)n : 0;
        for (int64_t i = 0; i < n; ++i) square += (x[i] - mean) * (x[i] - mean) / (double)n;
        for (int64_t i = 0; i < n; ++i)
            out[0][r * n + i] = (x[i] - mean) / sqrt(square + attr.eps) *
                                    (c->params ? param[0][r % heads * n + i] +
                                                     ((const hil_norm_attr *)c->attr)->offset
                                               : 1) +
                                (c->params > 1 ? param[1][i] : 0);
    }
}

static op_case norm(const hil_op *op, hil_shape shape)
{
    int64_t n = hil_shape_cols(&shape);
    return (op_case){.op = op,
                     .attr = &attr,
                     .reference = reference,
                     .ins = 1,
                     .outs = 1,
                     .params = op == &hil_op_layernorm ? 2 : 1,
                     .in_shape = {shape},
                     .rows = {1, 1},
                     .cols = {n, n},
                     .spread = 2,
                     .slack = 3e-6};
}

/* A large mean must not cancel the deviation. */
static void check_offset(void)
{
    enum { N = 768 };
    float x[N], y[N], one[N], saved[2], scratch[4 * N] __attribute__((aligned(64)));
    for (int i = 0; i < N; ++i) x[i] = 1000 + (i % 2 ? 0.5f : -0.5f), one[i] = 1;
    op_result r = {
        .param = {{.dtype = HIL_F32, .rows = 1, .cols = N, .tile_rows = 1, .trainable = true},
                  {.dtype = HIL_F32, .rows = 1, .cols = N, .tile_rows = 1, .trainable = true}},
        .weight = {one, one}};
    hil_op_call call = {.op = &hil_op_layernorm,
                        .attr = &attr,
                        .params = 2,
                        .ins = 1,
                        .in = {{HIL_F32, {1, {N}}, x}},
                        .param = {r.param[0], r.param[1]},
                        .source = &op_source,
                        .owner = &r};
    CHECK_OK(hil_pool_create(&call.pool, 1));
    CHECK_OK(hil_op_layernorm.infer(&call));
    CHECK(call.forward_scratch <= sizeof scratch);
    call.out[0].data = y;
    call.saved[0].data = saved;
    call.scratch = scratch;
    CHECK_OK(hil_op_layernorm.forward(&call));
    for (int i = 0; i < N; ++i) CHECK_NEAR((double)y[i], i % 2 ? 2 : 0, 1e-4);
    hil_pool_destroy(call.pool);
}

/* Weights of all heads in a vector, or in a matrix with any tiles. */
static void check_heads(const hil_op *op)
{
    static const hil_shape shapes[] = {{4, {2, 1, 3, 6}}, {4, {1, 20, 2, 17}}, {4, {0, 2, 3, 4}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        op_case c = norm(op, shapes[i]);
        c.rows[0] = shapes[i].dim[2];
        op_check_dtypes(c);
        c.rows[0] = 1;
        c.cols[0] *= shapes[i].dim[2];
        op_check_dtypes(c);
        c.frozen[0] = true;
        op_check_dtypes(c);
    }
}

static void check_refused(void)
{
    op_case wrong = norm(&hil_op_head_norm, (hil_shape){4, {2, 1, 3, 6}});
    OP_REFUSED(&wrong, "head_norm: parameter 0 is (1, 6), expected 18 numbers for (2, 1, 3, 6)");
    wrong.in_shape[0] = (hil_shape){3, {2, 3, 6}};
    OP_REFUSED(&wrong, "head_norm: input 0 is (2, 3, 6), expected 4 dimensions");
    wrong.params = 2;
    OP_REFUSED(&wrong, "head_norm: 2 parameters, expected 1");
}

int main(void)
{
    static const hil_shape shapes[] = {{1, {1}},        {2, {0, 5}},       {2, {3, 16}},
                                       {3, {2, 2, 37}}, {4, {2, 1, 3, 6}}, /* per head */
                                       {2, {35, 3}}};
    const hil_op *ops[] = {&hil_op_layernorm, &hil_op_rmsnorm};
    for (int o = 0; o < 2; ++o) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
            op_case c = norm(ops[o], shapes[i]);
            op_check_dtypes(c);
            c.frozen[0] = c.frozen[1] = true;
            op_check_dtypes(c);
            c.frozen[1] = false;
            c.no_din = 1;
            op_check_dtypes(c);
            c = norm(ops[o], shapes[i]);
            c.attr = &plus;
            c.params = 1;
            op_check_dtypes(c);
            c.params = 0;
            op_check_dtypes(c);
        }
        op_case more = norm(ops[o], shapes[2]);
        more.attr = &plus; /* and a bias */
        op_check_dtypes(more);
        op_check_large(norm(ops[o], (hil_shape){2, {2100, 40}}));
        op_case wrong = norm(ops[o], shapes[2]);
        wrong.cols[0] = 15;
        OP_REFUSED(&wrong, "norm: parameter 0 is (1, 15), expected 16 numbers for (3, 16)");
        wrong.params = 3;
        OP_REFUSED(&wrong, "norm: 3 parameters, expected at most");
    }
    check_offset();
    check_heads(&hil_op_head_norm);
    check_heads(&hil_op_head_rmsnorm);
    check_refused();
    return 0;
}
