/* test_split.c - the last dimension in parts; parts without a gradient give zeros. */
#include "ops/op_refused.h"

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    const hil_split_attr *attr = c->attr;
    int64_t rows = hil_shape_rows(&c->in_shape[0]), cols = hil_shape_cols(&c->in_shape[0]);
    for (int64_t r = 0; r < rows; ++r) {
        const double *x = in[0] + r * cols;
        for (int i = 0; i < attr->parts; x += attr->size[i++])
            for (int64_t k = 0; k < attr->size[i]; ++k) out[i][r * attr->size[i] + k] = x[k];
    }
}

int main(void)
{
    static const hil_split_attr three = {3, {5, 2, 2}}, two = {2, {4, 5}}, one = {1, {9}};
    static const hil_split_attr *const attrs[] = {&three, &two, &one};
    static const hil_shape shapes[] = {{1, {9}}, {2, {0, 9}}, {3, {2, 3, 9}}, {4, {2, 9, 2, 9}}};
    for (size_t a = 0; a < sizeof attrs / sizeof *attrs; ++a)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
            op_case c = {.op = &hil_op_split,
                         .attr = attrs[a],
                         .reference = reference,
                         .ins = 1,
                         .outs = attrs[a]->parts,
                         .in_shape = {shapes[i]}};
            op_check_dtypes(c);
            c.no_dout = 2;
            if (c.outs > 1) op_check_dtypes(c);
            c.no_dout = 0;
            c.no_din = 1;
            op_check_dtypes(c);
        }
    op_case wrong = {.op = &hil_op_split, .attr = &two, .ins = 1, .in_shape = {{2, {3, 8}}}};
    OP_REFUSED(&wrong, "split: parts of 9 numbers in all, but rows are (3, 8)");
    return 0;
}
