/* test_join.c - columns side by side; one head given to all; zeros behind. */
#include "ops/op_refused.h"

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    const hil_join_attr *attr = c->attr;
    int64_t heads = 1, rows = 1, cols = 0, at = 0;
    for (int i = 0; i < c->ins; ++i) {
        const hil_shape *s = &c->in_shape[i];
        if (hil_shape_rows(s) > rows) rows = hil_shape_rows(s);
        if (s->ndim > 1 && s->dim[s->ndim - 2] > heads) heads = s->dim[s->ndim - 2];
        cols += hil_shape_cols(s);
    }
    if (attr->cols) cols = attr->cols;
    for (int64_t i = 0; i < rows * cols; ++i) out[0][i] = 0;
    for (int i = 0; i < c->ins; ++i) {
        int64_t n = hil_shape_cols(&c->in_shape[i]);
        bool one = hil_shape_rows(&c->in_shape[i]) < rows;
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t k = 0; k < n; ++k)
                out[0][r * cols + at + k] = in[i][(one ? r / heads : r) * n + k];
        at += n;
    }
}

int main(void)
{
    static const hil_join_attr plain = {0}, wide = {23};
    static const hil_shape sets[][3] = {
        {{4, {2, 3, 5, 7}}, {4, {2, 3, 1, 4}}, {4, {2, 3, 5, 2}}},
        {{4, {2, 3, 1, 6}}, {4, {2, 3, 4, 3}}, {4, {2, 3, 1, 9}}},
        {{2, {3, 5}}, {2, {3, 2}}, {2, {3, 1}}},
        {{1, {5}}, {1, {4}}, {1, {1}}},
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; ++i)
        for (int ins = 1; ins <= 3; ++ins) {
            op_case c = {.op = &hil_op_join,
                         .attr = ins == 2 ? &plain : &wide,
                         .reference = reference,
                         .ins = ins,
                         .outs = 1,
                         .in_shape = {sets[i][0], sets[i][1], sets[i][2]}};
            op_check_dtypes(c);
            c.no_din = 1;
            if (ins > 1) op_check_dtypes(c);
        }
    op_case wrong = {.op = &hil_op_join,
                     .attr = &plain,
                     .ins = 2,
                     .in_shape = {{4, {2, 3, 4, 6}}, {4, {2, 3, 2, 6}}}};
    OP_REFUSED(&wrong, "join: input 0 is (2, 3, 4, 6), which does not go with (2, 3, 2, 12)");
    static const hil_join_attr narrow = {11};
    wrong.attr = &narrow;
    OP_REFUSED(&wrong, "join: inputs of 12 columns do not fit into 11");
    return 0;
}
