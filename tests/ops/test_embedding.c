/* test_embedding.c - rows by id, ids that repeat, tables in tiles, shifted ids. */
#include "ops/op_refused.h"

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    int64_t count = hil_shape_count(&c->in_shape[0]), n = c->cols[0];
    int64_t shift = c->attr ? ((const hil_embedding_attr *)c->attr)->shift : 0;
    for (int64_t r = 0; r < count; ++r)
        for (int64_t i = 0; i < n; ++i)
            out[0][r * n + i] = param[0][((int64_t)in[0][r] + shift) * n + i];
}

static const int32_t ids[] = {3, 0, 3, 9, 3, 1, 9, 3, 8, 0, 3, 2};

/* The row of the pad id gets no gradient; the others get theirs. */
static void check_pad(void)
{
    static const hil_embedding_attr none = {.pad = -1}, pad = {.pad = 3};
    op_case c = {.op = &hil_op_embedding,
                 .attr = &none,
                 .ins = 1,
                 .outs = 1,
                 .params = 1,
                 .in_shape = {{2, {3, 4}}},
                 .ids = {ids},
                 .rows = {10},
                 .cols = {5},
                 .threads = 2,
                 .tiles = 3};
    op_set_dtypes(&c, (const hil_dtype[4]){HIL_F32, HIL_F32, HIL_F32, HIL_F32});
    op_result all, padded;
    uint64_t seed = op_seed;
    op_run(&c, &all);
    c.attr = &pad;
    op_seed = seed;
    op_run(&c, &padded);
    for (int row = 0; row < 10; ++row)
        for (int i = row * 5; i < row * 5 + 5; ++i) {
            CHECK(row != 3 || padded.gradient[0][i] == 0);
            CHECK(row == 3 || padded.gradient[0][i] == all.gradient[0][i]);
            CHECK(row != 3 || all.gradient[0][i] != 0);
        }
    op_free(&all);
    op_free(&padded);
}

int main(void)
{
    check_pad();
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
        static const hil_embedding_attr shift = {.pad = -1, .shift = 2};
        c.attr = &shift;
        c.rows[0] += 2;
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
