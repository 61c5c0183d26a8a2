/* test_low_rank.c - x times the transposes of small matrices, and the gradients. */
#include "ops/op_refused.h"

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    int64_t k = c->cols[0], rows = k ? hil_shape_count(&c->in_shape[0]) / k : 0;
    const hil_low_rank_attr *attr = c->attr;
    for (int p = 0; p < c->params; ++p)
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t i = 0; i < c->rows[p]; ++i) {
                double sum = 0;
                for (int64_t j = 0; j < k; ++j) sum += in[0][r * k + j] * param[p][i * k + j];
                out[p][r * c->rows[p] + i] = attr->scale[p] * sum;
            }
}

static const hil_low_rank_attr scales = {{2, -0.375, 1, 0.75}};

static op_case case_of(int params, const int64_t rows[HIL_OP_PARAMS], int64_t k, hil_shape in)
{
    return (op_case){.op = &hil_op_low_rank,
                     .attr = &scales,
                     .reference = reference,
                     .ins = 1,
                     .outs = params,
                     .params = params,
                     .in_shape = {in},
                     .rows = {rows[0], rows[1], rows[2], rows[3]},
                     .cols = {k, k, k, k}};
}

int main(void)
{
    static const int64_t ranks[][HIL_OP_PARAMS] = {{3, 5, 2, 4}, {8, 33, 16, 6}};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; ++i)
        for (int params = 1; params <= HIL_OP_PARAMS; ++params)
            op_check_dtypes(case_of(params, ranks[i], 7, (hil_shape){3, {2, 3, 7}}));
    op_case c = case_of(3, ranks[0], 7, (hil_shape){2, {4, 7}});
    c.frozen[0] = true;
    op_check_dtypes(c);
    c.frozen[1] = c.frozen[2] = true;
    op_check_dtypes(c);
    c.frozen[0] = c.frozen[1] = c.frozen[2] = false, c.no_din = 1;
    op_check_dtypes(c);
    c.no_din = 0, c.no_dout = 2;
    op_check_dtypes(c);
    op_case wrong = case_of(2, ranks[0], 4, (hil_shape){2, {2, 5}});
    OP_REFUSED(&wrong, "low rank: input (2, 5) does not fit matrix (3, 4)");
    return 0;
}
