/* test_attention.c - causal attention, grouped heads, windows, documents, sinks, packed inputs and
   the cache. */
#include "ops/op_refused.h"

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    const hil_attention_attr *attr = c->attr;
    const int64_t *q = c->in_shape[0].dim, *k = c->in_shape[1].dim;
    int64_t length = q[1], heads = q[2], dim = q[3], share = k[2] ? heads / k[2] : 1;
    double *p = malloc(sizeof(double) * (size_t)length + 1);
    for (int64_t b = 0; b < q[0]; ++b)
        for (int64_t h = 0; h < heads; ++h)
            for (int64_t t = 0; t < length; ++t) {
                int64_t from = (int64_t)in[3][b * length + t];
                if (attr->chunk) from += (t - from) / attr->chunk * attr->chunk;
                if (attr->window > 0 && t - attr->window + 1 > from) from = t - attr->window + 1;
                double total = c->params ? exp(param[0][h]) : 0,
                       *y = out[0] + ((b * length + t) * heads + h) * dim;
                for (int64_t s = from; s <= t; ++s) {
                    double score = 0;
                    for (int64_t i = 0; i < dim; ++i)
                        score += in[0][((b * length + t) * heads + h) * dim + i] *
                                 in[1][((b * length + s) * k[2] + h / share) * dim + i];
                    score *= attr->scale;
                    if (attr->cap > 0) score = attr->cap * tanh(score / attr->cap);
                    p[s] = exp(score);
                    total += p[s];
                }
                for (int64_t i = 0; i < dim; ++i) {
                    y[i] = 0;
                    for (int64_t s = from; s <= t; ++s)
                        y[i] +=
                            p[s] / total * in[2][((b * length + s) * k[2] + h / share) * dim + i];
                }
            }
    free(p);
}

/* The same for q, k and v side by side in one input. */
static void packed_reference(const op_case *c, double *const *in, double *const *param,
                             double *const *out)
{
    const int64_t *x = c->in_shape[0].dim;
    int64_t rows = x[0] * x[1], row = x[2] / 3 * x[3];
    double *part[4];
    op_case apart = *c;
    for (int i = 0; i < 3; ++i) {
        part[i] = malloc(sizeof(double) * (size_t)(rows * row) + 1);
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t j = 0; j < row; ++j) part[i][r * row + j] = in[0][(3 * r + i) * row + j];
        apart.in_shape[i] = (hil_shape){4, {x[0], x[1], x[2] / 3, x[3]}};
    }
    part[3] = in[1];
    reference(&apart, part, param, out);
    for (int i = 0; i < 3; ++i) free(part[i]);
}

static const int32_t zeros[64];
static const int32_t documents[] = {0, 0, 0, 3, 3, 3, 3, 0, 1, 1, 3, 3, 5, 6};

static op_case attention(const hil_attention_attr *attr, hil_shape q, int64_t groups)
{
    hil_shape k = {4, {q.dim[0], q.dim[1], groups, q.dim[3]}};
    return (op_case){.op = &hil_op_attention,
                     .attr = attr,
                     .reference = reference,
                     .ins = 4,
                     .outs = 1,
                     .in_shape = {q, k, k, {2, {q.dim[0], q.dim[1]}}},
                     .ids = {NULL, NULL, NULL, zeros},
                     .slack = 3e-6};
}

static op_case packed_attention(const hil_attention_attr *attr, hil_shape q)
{
    hil_shape x = q;
    x.dim[2] *= 3;
    return (op_case){.op = &hil_op_attention,
                     .attr = attr,
                     .reference = packed_reference,
                     .ins = 2,
                     .outs = 1,
                     .in_shape = {x, {2, {q.dim[0], q.dim[1]}}},
                     .ids = {NULL, zeros},
                     .slack = 3e-6};
}

/* bf16 kernels may round probabilities, and the gradient is computed from the rounded out. */
static void op_check_attention(op_case c)
{
    op_check_fp32(c);
    c.slack = 1e-2;
    op_check_dtypes(c);
}

/* Generation position by position gives the results of one call over all positions. */
static void check_cached(hil_dtype dtype, int64_t window, int64_t chunk)
{
    enum { B = 2, T = 7, H = 4, G = 2, D = 5 };
    hil_attention_attr attr = {
        .scale = 0.4, .window = window, .cap = 0.6 * (double)(window > 0), .chunk = chunk};
    op_case c = attention(&attr, (hil_shape){4, {B, T, H, D}}, G);
    for (int i = 0; i < 4; ++i) c.in_dtype[i] = i < 3 ? dtype : HIL_I32;
    c.compute = c.dout_dtype = c.din_dtype = dtype;
    c.threads = 1;
    c.tiles = 1;
    op_result whole;
    op_run(&c, &whole);
    size_t size = hil_dtype_size(dtype);
    hil_cached_attr cached = {
        .scale = 0.4, .window = window, .capacity = T + 2, .cap = attr.cap, .chunk = chunk};
    cached.k = op_poisoned((size_t)(B * (T + 2) * G * D) * size);
    cached.v = op_poisoned((size_t)(B * (T + 2) * G * D) * size);
    hil_op_call call = {
        .op = &hil_op_attention_cached, .attr = &cached, .compute = dtype, .ins = 3};
    CHECK_OK(hil_pool_create(&call.pool, 2));
    for (int64_t step; cached.length < T; cached.length += step) {
        step = cached.length == 0 ? 3 : 1;
        char *part[4] = {0};
        for (int i = 0; i < 3; ++i) {
            int64_t row = (i ? G : H) * D;
            call.in[i] = (hil_tensor){dtype, {4, {B, step, i ? G : H, D}}, NULL};
            call.in[i].data = part[i] = malloc((size_t)(B * step * row) * size);
            for (int64_t b = 0; b < B; ++b)
                memcpy(part[i] + (size_t)(b * step * row) * size,
                       (char *)whole.in[i].data + (size_t)((b * T + cached.length) * row) * size,
                       (size_t)(step * row) * size);
        }
        CHECK_OK(hil_op_attention_cached.infer(&call));
        call.out[0].data = part[3] = malloc((size_t)(B * step * H * D) * size);
        call.scratch = op_poisoned(call.forward_scratch);
        CHECK_OK(hil_op_attention_cached.forward(&call));
        double *got = op_doubles(&call.out[0]), *want = op_doubles(&whole.out[0]);
        for (int64_t b = 0; b < B; ++b)
            for (int64_t i = 0; i < step * H * D; ++i)
                CHECK_NEAR(got[b * step * H * D + i], want[(b * T + cached.length) * H * D + i],
                           dtype == HIL_F32 ? 1e-6 : 1e-2);
        for (int i = 0; i < 4; ++i) free(part[i]);
        free(got);
        free(want);
        free(call.scratch);
    }
    call.in[0].shape.dim[1] = call.in[1].shape.dim[1] = call.in[2].shape.dim[1] = 3;
    CHECK_FAILS(hil_op_attention_cached.infer(&call), HIL_ERR_USAGE,
                "attention: 3 new positions after 7, room for 9");
    hil_pool_destroy(call.pool);
    free(cached.k);
    free(cached.v);
    op_free(&whole);
}

/* One input that holds q, k and v gives the bits of three inputs, in the results and in the
   cache. */
static void check_cached_packed(hil_dtype dtype, int64_t window)
{
    enum { B = 2, T = 5, H = 3, D = 6, ROW = H * D, ROOM = T + 2 };
    size_t size = hil_dtype_size(dtype), row = ROW * size;
    char *x = malloc(B * T * 3 * row), *part[3], *cache[2][2], *out[2];
    for (int64_t i = 0; i < B * T * 3 * ROW; ++i) {
        float number = (float)(i * 37 % 101) * 0.02f - 1;
        hil_dtype_from_f32(x + (size_t)i * size, &number, dtype, 1);
    }
    for (size_t i = 0; i < 3; ++i) {
        part[i] = malloc(B * T * row);
        for (size_t r = 0; r < B * T; ++r) memcpy(part[i] + r * row, x + (3 * r + i) * row, row);
    }
    hil_op_call call = {.op = &hil_op_attention_cached, .compute = dtype};
    CHECK_OK(hil_pool_create(&call.pool, 2));
    for (int i = 0; i < 2; ++i) {
        cache[i][0] = op_poisoned(B * ROOM * row), cache[i][1] = op_poisoned(B * ROOM * row);
        hil_cached_attr attr = {0.4, window, cache[i][0], cache[i][1], ROOM, 0, 0, 0};
        call.attr = &attr;
        call.ins = i ? 1 : 3;
        for (int k = 0; k < 3; ++k) call.in[k] = (hil_tensor){dtype, {4, {B, T, H, D}}, part[k]};
        if (i) call.in[0] = (hil_tensor){dtype, {4, {B, T, 3 * H, D}}, x};
        CHECK_OK(hil_op_attention_cached.infer(&call));
        CHECK_INT(hil_tensor_bytes(&call.out[0]), B * T * row);
        call.out[0].data = out[i] = op_poisoned(B * T * row);
        CHECK_OK(hil_op_attention_cached.forward(&call));
    }
    CHECK(memcmp(out[0], out[1], B * T * row) == 0);
    for (int k = 0; k < 2; ++k) CHECK(memcmp(cache[0][k], cache[1][k], B * ROOM * row) == 0);
    hil_pool_destroy(call.pool);
    for (int i = 0; i < 2; ++i) free(cache[i][0]), free(cache[i][1]), free(out[i]);
    for (int i = 0; i < 3; ++i) free(part[i]);
    free(x);
}

int main(void)
{
    static const hil_attention_attr plain = {.scale = 0.5}, window = {.scale = 0.7, .window = 3};
    static const hil_attention_attr capped = {.scale = 0.7, .window = 3, .cap = 0.4};
    static const hil_attention_attr chunked = {.scale = 0.7, .chunk = 3};
    static const struct {
        hil_shape q;
        int64_t groups;
    } shapes[] = {{{4, {1, 1, 1, 1}}, 1},
                  {{4, {2, 0, 2, 4}}, 1},
                  {{4, {2, 7, 4, 3}}, 2},
                  {{4, {1, 7, 3, 6}}, 1},
                  {{4, {2, 5, 2, 2}}, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        op_case c = attention(&plain, shapes[i].q, shapes[i].groups);
        op_check_attention(c);
        c.attr = &window;
        op_check_attention(c);
        c.attr = &capped;
        op_check_attention(c);
        c.attr = &chunked;
        op_check_attention(c);
        if (shapes[i].q.dim[1] == 7) {
            c.ids[3] = documents;
            op_check_attention(c);
        }
    }
    for (size_t i = 2; i < sizeof shapes / sizeof *shapes; ++i) {
        op_case c = attention(i % 2 ? &window : &plain, shapes[i].q, shapes[i].groups);
        c.params = 1;
        c.rows[0] = 1;
        c.cols[0] = shapes[i].q.dim[2];
        op_check_attention(c);
        c.frozen[0] = true;
        op_check_attention(c);
        c.cols[0] += 1;
        OP_REFUSED(&c, "are not one for each of");
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        op_case c = packed_attention(i % 2 ? &window : &plain, shapes[i].q);
        if (shapes[i].q.dim[1] == 7) c.ids[1] = documents;
        op_check_attention(c);
    }
    for (int w = 0; w < 2; ++w) {
        check_cached(HIL_F32, w * 2, 0);
        check_cached(HIL_BF16, w * 2, 0);
        check_cached(HIL_F32, w * 2, 4);
        check_cached_packed(HIL_F32, w * 2);
        check_cached_packed(HIL_BF16, w * 2);
    }
    op_case wrong = attention(&plain, (hil_shape){4, {2, 3, 4, 6}}, 3);
    OP_REFUSED(&wrong, "attention: queries (2, 3, 4, 6) do not fit keys (2, 3, 3, 6)");
    wrong = attention(&plain, (hil_shape){4, {2, 3, 4, 6}}, 2);
    wrong.in_shape[2].dim[1] = 2;
    OP_REFUSED(&wrong, "attention: keys (2, 3, 2, 6) do not fit values (2, 2, 2, 6)");
    wrong = packed_attention(&plain, (hil_shape){4, {2, 3, 4, 6}});
    wrong.in_shape[0].dim[2] = 7;
    OP_REFUSED(&wrong, "attention: (2, 3, 7, 6) does not hold as many heads of");
    return 0;
}
