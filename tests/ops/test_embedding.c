/* test_embedding.c - rows by id, ids that repeat, tables in tiles. */
#include "ops/op_refused.h"

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    int64_t count = hil_shape_count(&c->in_shape[0]), n = c->cols[0];
    for (int64_t r = 0; r < count; ++r)
        for (int64_t i = 0; i < n; ++i) out[0][r * n + i] = param[0][(int64_t)in[0][r] * n + i];
}

static const int32_t ids[] = {3, 0, 3, 9, 3, 1, 9, 3, 8, 0, 3, 2};

int main(void)
{
    static const int64_t shapes[][4] = {/* B, T, V, C */
                                        {1, 1, 4, 1},
                                        {2, 0, 10, 3},
                                        {3, 4, 10, 5},
                                        {2, 6, 11, 130}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        const int64_t *s = shapes[i];
        op_case c = {.op = &hil_op_embedding,
                     .reference = reference,
                     .out = OP_COMPUTE,
                     .ins = 1,
                     .outs = 1,
                     .params = 1,
                     .in_shape = {{2, {s[0], s[1]}}},
                     .ids = {ids},
                     .rows = {s[2]},
                     .cols = {s[3]}};
        op_check_dtypes(c);
        c.frozen[0] = true;
        op_check_dtypes(c);
    }
    op_case wrong = {.op = &hil_op_embedding,
                     .ins = 1,
                     .params = 1,
                     .in_shape = {{3, {2, 3, 1}}},
                     .ids = {ids},
                     .rows = {10},
                     .cols = {5}};
    OP_REFUSED(&wrong, "embedding: input is int32 (2, 3, 1), expected int32 (B, T)");
    return 0;
}
