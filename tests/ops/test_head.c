/* test_head.c - cross-entropy and its gradients, missing targets, vocabulary in tiles. */
#include "ops/op_refused.h"

static const hil_head_attr *attr_of(const op_case *c)
{
    return c->attr;
}

/* The logit of row r and id v. */
static double logit_of(const op_case *c, double *const *in, double *const *param, int64_t r,
                       int64_t v)
{
    int64_t k = c->cols[0];
    double logit = c->params > 1 ? param[1][v] : 0, cap = c->attr ? attr_of(c)->cap : 0;
    for (int64_t i = 0; i < k; ++i) logit += in[0][r * k + i] * param[0][v * k + i];
    return cap > 0 ? cap * tanh(logit / cap) : logit;
}

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    int64_t rows = hil_shape_rows(&c->in_shape[0]), vocab = c->rows[0];
    for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        out[0][r] = 0;
        if (in[1][r] < 0) continue;
        /* exponents are relative to the target's logit */
        double zero = logit_of(c, in, param, r, (int64_t)in[1][r]);
        for (int64_t v = 0; v < vocab; ++v) sum += exp(logit_of(c, in, param, r, v) - zero);
        out[0][r] = log(sum);
    }
}

static const int32_t all[] = {3, 0, 6, 1, 1, 5, 2, 2, 0, 4, 4, 6};
static const int32_t some[] = {-1, 0, 6, -1, 1, 5, -1, -1, 0, 4, 4, -1};
static const int32_t none[] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

static op_case head(int64_t batch, int64_t length, int64_t cols, int64_t vocab)
{
    return (op_case){.op = &hil_op_head,
                     .reference = reference,
                     .out = OP_FP32,
                     .ins = 2,
                     .outs = 1,
                     .params = 1,
                     .in_shape = {{3, {batch, length, cols}}, {2, {batch, length}}},
                     .ids = {NULL, all},
                     .rows = {vocab},
                     .cols = {cols},
                     .fused = true,
                     .spread = 2,
                     .slack = 4e-3};
}

/* Logits with a bias, with a cap, and with both. */
static void check_options(void)
{
    static const hil_head_attr cap = {.cap = 1.5};
    for (int options = 1; options < 4; ++options) {
        op_case c = head(3, 4, 5, 7);
        if (options & 1) c.params = 2, c.rows[1] = 1, c.cols[1] = 7;
        if (options & 2) c.attr = &cap;
        c.ids[1] = some;
        c.slack = 2e-2; /* gradients of the logits are rounded before they are added up */
        op_check_dtypes(c);
        c.slack = 4e-6;
        for (int frozen = 0; frozen < 4; ++frozen) {
            c.frozen[0] = frozen & 1, c.frozen[1] = frozen & 2;
            c.ids[1] = frozen ? all : none;
            op_check_fp32(c);
        }
    }
    op_case wrong = head(2, 3, 5, 7);
    wrong.params = 2, wrong.rows[1] = 1, wrong.cols[1] = 6;
    OP_REFUSED(&wrong, "head: parameter 1 is (1, 6), expected 7 numbers");
}

/* More rows than one chunk holds give the same result as row by row. */
static void check_chunks(void)
{
    enum { ROWS = 70, VOCAB = 300000 }; /* a chunk holds 64 rows */
    static int32_t targets[ROWS];
    static float x[ROWS * 2], w[VOCAB * 2], loss[ROWS], dx[ROWS * 2], sum[VOCAB * 2];
    for (int i = 0; i < ROWS; ++i) targets[i] = i % 7 == 3 ? -1 : i * 4001;
    for (int i = 0; i < ROWS * 2; ++i) x[i] = (float)op_random();
    for (int i = 0; i < VOCAB * 2; ++i) w[i] = (float)op_random();
    op_result r = {
        .param =
            {{.dtype = HIL_F32, .rows = VOCAB, .cols = 2, .tile_rows = 100001, .trainable = true}},
        .weight = {w},
        .gradient = {sum}};
    hil_op_call call = {
        .op = &hil_op_head,
        .differentiate = true,
        .loss_scale = 1,
        .params = 1,
        .ins = 2,
        .in = {{HIL_F32, {3, {2, ROWS / 2, 2}}, x}, {HIL_I32, {2, {2, ROWS / 2}}, targets}},
        .param = {r.param[0]},
        .source = &op_source,
        .owner = &r};
    CHECK_OK(hil_pool_create(&call.pool, 2));
    CHECK_OK(hil_op_head.infer(&call));
    CHECK(call.forward_scratch < (size_t)90 << 20);
    call.out[0].data = loss;
    call.saved[0].data = dx;
    call.scratch = op_poisoned(call.forward_scratch);
    CHECK_OK(hil_op_head.forward(&call));
    double total = 0;
    for (int i = 0; i < VOCAB; ++i) total += (double)sum[2 * i];
    CHECK_NEAR(total, 0, 1e-3); /* each row of dlogits sums to zero */
    for (int i = 0; i < ROWS; ++i) {
        double exps = 0, back = 0;
        for (int v = 0; v < VOCAB; ++v)
            exps += exp((double)x[2 * i] * (double)w[2 * v] +
                        (double)x[2 * i + 1] * (double)w[2 * v + 1]);
        for (int v = 0; v < VOCAB; ++v)
            back += (double)w[2 * v] / exps *
                    exp((double)x[2 * i] * (double)w[2 * v] +
                        (double)x[2 * i + 1] * (double)w[2 * v + 1]);
        if (targets[i] < 0) {
            CHECK(loss[i] == 0 && dx[2 * i] == 0 && dx[2 * i + 1] == 0);
            continue;
        }
        const float *target = w + 2 * targets[i];
        CHECK_NEAR((double)loss[i],
                   log(exps) - (double)x[2 * i] * (double)target[0] -
                       (double)x[2 * i + 1] * (double)target[1],
                   1e-5);
        CHECK_NEAR((double)dx[2 * i], back - (double)target[0], 1e-4);
    }
    free(call.scratch);
    hil_pool_destroy(call.pool);
}

/* Up to three chunks of 64 positions, some without any target. The dry run, which sees no targets,
   asks for the same tiles. */
static void check_empty_chunks(void)
{
    enum { ROWS = 150 };
    static int32_t targets[ROWS];
    op_case c = head(1, ROWS, 3, 7);
    c.ids[1] = targets;
    for (int chunks = 0; chunks < 8; ++chunks) {
        for (int i = 0; i < ROWS; ++i) targets[i] = chunks >> i / 64 & 1 ? i % 8 - 1 : -1;
        op_check_fp32(c);
    }
}

int main(void)
{
    static const int64_t shapes[][4] = {/* B, T, C, V */
                                        {1, 1, 1, 7},
                                        {2, 0, 3, 7},
                                        {3, 4, 5, 7},
                                        {2, 6, 3, 40}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        op_case c = head(shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);
        op_check_dtypes(c);
        c.ids[1] = some;
        op_check_dtypes(c);
        c.ids[1] = none;
        op_check_dtypes(c);
        c.ids[1] = some;
        c.frozen[0] = true;
        op_check_dtypes(c);
        c.frozen[0] = false;
        c.slack = 0;
        c.compute = c.dout_dtype = c.din_dtype = c.in_dtype[0] = HIL_F32;
        c.in_dtype[1] = HIL_I32;
        op_check(c);
        c.spread = 8; /* logits of hundreds */
        c.slack = 1e-5;
        op_check(c);
    }
    check_options();
    check_chunks();
    check_empty_chunks();
    op_case wrong = head(2, 3, 5, 7);
    wrong.cols[0] = 6;
    OP_REFUSED(&wrong, "head: input (2, 3, 5) does not fit weight (7, 6)");
    wrong = head(2, 3, 5, 7);
    wrong.in_shape[1].dim[1] = 4;
    OP_REFUSED(&wrong, "head: input 1 is int32 (2, 4), expected int32 (2, 3)");
    wrong = head(2, 3, 5, 7); /* its parameters are trainable */
    wrong.attr = &(hil_head_attr){.weighted = true};
    OP_REFUSED(&wrong, "head: the weight of a weighted loss must be frozen");
    return 0;
}
