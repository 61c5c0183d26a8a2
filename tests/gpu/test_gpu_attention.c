/* test_gpu_attention.c - attention on a GPU: cuDNN's and our own kernels, masks, groups, dropout,
   packed q, k and v. */
#include "gpu/gpu_check.h"

static int32_t zeros[8192], documents[8192];

static gpu_case attention(const hil_attention_attr *attr, hil_shape q, int64_t groups)
{
    hil_shape k = {4, {q.dim[0], q.dim[1], groups, q.dim[3]}};
    return (gpu_case){.name = "attention",
                      .op = &hil_op_attention,
                      .attr = attr,
                      .ins = 4,
                      .outs = 1,
                      .in = {q, k, k, {2, {q.dim[0], q.dim[1]}}},
                      .ids = {NULL, NULL, NULL, zeros}};
}

static gpu_case packed_attention(const hil_attention_attr *attr, hil_shape q)
{
    hil_shape x = q;
    x.dim[2] *= 3;
    return (gpu_case){.name = "packed attention",
                      .op = &hil_op_attention,
                      .attr = attr,
                      .ins = 2,
                      .outs = 1,
                      .in = {x, {2, {q.dim[0], q.dim[1]}}},
                      .ids = {NULL, zeros}};
}

/* Probabilities are rounded in between, and the gradient is computed from the rounded out. */
static void check_both(gpu_case c)
{
    c.slack = 1e-2;
    gpu_check_dtypes(c);
    if (c.ids[c.ins - 1] == documents) return;
    c.name = c.ins == 4 ? "attention, whole" : "packed attention, whole", c.share = 1;
    gpu_check_dtypes(c);
}

static void make_documents(hil_shape q)
{
    for (int64_t i = 0, first = 0; i < q.dim[0] * q.dim[1]; ++i) {
        int64_t t = i % q.dim[1];
        if (t == 0 || i * 7919 % 23 == 0) first = t;
        documents[i] = (int32_t)first;
    }
}

static void check_packed(hil_shape q)
{
    hil_attention_attr plain = {.scale = 0.125}, windowed = {.scale = 0.125, .window = 19};
    hil_attention_attr dropping = {.scale = 0.125, .dropout = 0.2};
    check_both(packed_attention(&plain, q));
    check_both(packed_attention(&windowed, q));
    gpu_case c = packed_attention(&dropping, q);
    c.name = "packed attention, dropout", c.random = (hil_op_random){77, 3, 11, 5};
    check_both(c);
    make_documents(q);
    c = packed_attention(&plain, q);
    c.name = "packed attention, documents", c.ids[1] = documents;
    check_both(c);
}

static void check_shape(hil_shape q, int64_t groups)
{
    hil_attention_attr plain = {.scale = 0.125}, windowed = {.scale = 0.125, .window = 19};
    hil_attention_attr dropping = {.scale = 0.125, .dropout = 0.2};
    check_both(attention(&plain, q, groups));
    check_both(attention(&windowed, q, groups));
    gpu_case c = attention(&plain, q, groups);
    c.name = "attention, no dk", c.no_din = 2;
    check_both(c);
    hil_attention_attr capped = {.scale = 0.125, .window = 19, .cap = 0.3};
    c = attention(&capped, q, groups);
    c.name = "attention, capped";
    check_both(c);
    c = attention(&dropping, q, groups);
    c.name = "attention, dropout", c.random = (hil_op_random){77, 3, 11, 5};
    check_both(c);
    make_documents(q);
    c = attention(&plain, q, groups);
    c.name = "attention, documents", c.ids[3] = documents;
    check_both(c);
    c.name = "attention, both masks", c.attr = &windowed;
    check_both(c);
    hil_attention_attr chunked = {.scale = 0.125, .chunk = 23};
    c.name = "attention, chunks of documents", c.attr = &chunked;
    check_both(c);
    c = attention(&chunked, q, groups);
    c.name = "attention, chunks";
    check_both(c);
}

/* The same with a sink for each head, added by plain kernels or after the fast ones. */
static gpu_case with_sinks(gpu_case c)
{
    int64_t heads = c.in[0].dim[2] / (c.ins == 2 ? 3 : 1);
    c.name = "attention, sinks", c.params = 1, c.rows[0] = 1, c.cols[0] = heads;
    return c;
}

static void check_sinks(hil_shape q, int64_t groups)
{
    hil_attention_attr plain = {.scale = 0.125}, windowed = {.scale = 0.125, .window = 19};
    hil_attention_attr dropping = {.scale = 0.125, .dropout = 0.2};
    check_both(with_sinks(attention(&plain, q, groups)));
    check_both(with_sinks(attention(&windowed, q, groups)));
    check_both(with_sinks(packed_attention(&plain, q)));
    gpu_case c = with_sinks(attention(&dropping, q, groups));
    c.random = (hil_op_random){77, 3, 11, 5};
    check_both(c);
    c = with_sinks(attention(&plain, q, groups));
    c.name = "attention, frozen sinks", c.frozen[0] = true;
    check_both(c);
    c.name = "attention, only sinks", c.frozen[0] = false, c.no_din = 7;
    check_both(c);
    make_documents(q);
    c = with_sinks(attention(&windowed, q, groups));
    c.ids[3] = documents;
    check_both(c);
}

/* Long enough for the backward kernel of compute capability 9.0; other GPUs use cuDNN. An emulated
   one has neither. */
static void check_long(gpu_case c)
{
    if (gpu_samples()) return;
    c.slack = 1e-2, c.compute = HIL_BF16, c.share = 1;
    c.name = c.params ? "attention, long, sinks" : "attention, long";
    gpu_check(c);
    c.add = true, c.no_din = 2;
    gpu_check(c);
}

/* Documents by our kernel and by cuDNN: in sequence 0 they begin at tile edges and some have one
   token, sequence 1 is one document, in the others they begin anywhere. */
static void check_documents(gpu_case c)
{
    static const int64_t edge[] = {0, 1, 63, 64, 65, 128, 129, 192, 256, 257};
    int64_t length = c.in[0].dim[1];
    gpu_seed = 99;
    for (int64_t b = 0; b < c.in[0].dim[0]; ++b)
        for (int64_t t = 0, first = 0; t < length; ++t) {
            bool begins = b > 1 && gpu_random() > 1 - 4.0 / (double)length;
            for (size_t i = 0; b == 0 && i < sizeof edge / sizeof *edge; ++i)
                if (t == edge[i]) begins = true;
            if (begins) first = t;
            documents[b * length + t] = (int32_t)first;
        }
    c.ids[c.ins - 1] = documents, c.slack = 1e-2;
    for (int d = HIL_BF16; d <= HIL_F16; ++d)
        for (int dense = 0; dense < 2; ++dense) {
            c.name = dense ? "attention, documents, dense" : "attention, documents, sparse";
            c.compute = (hil_dtype)d, c.share = dense ? 0.9 : 0.01, c.add = d == HIL_F16;
            gpu_check(c);
        }
}

/* Joins three parts into rows that hold them side by side. */
static char *join(char *const part[3], size_t rows, size_t row)
{
    char *all = malloc(3 * rows * row);
    for (size_t r = 0; r < 3 * rows; ++r) memcpy(all + r * row, part[r % 3] + r / 3 * row, row);
    return all;
}

static void check_joined(gpu_side *apart, const hil_tensor *x, gpu_side *packed,
                         const hil_tensor *all)
{
    size_t rows = (size_t)(x->shape.dim[0] * x->shape.dim[1]), bytes = hil_tensor_bytes(x);
    char *part[3];
    for (int i = 0; i < 3; ++i) part[i] = gpu_read(apart, x[i].data, bytes);
    char *want = join(part, rows, bytes / rows), *got = gpu_read(packed, all->data, 3 * bytes);
    CHECK(memcmp(got, want, 3 * bytes) == 0);
    for (int i = 0; i < 3; ++i) free(part[i]);
    free(want);
    free(got);
}

/* Chooses the same kernel and gives the same bits as with three inputs. */
static void check_same_bits(hil_shape q, hil_dtype dtype, bool whole)
{
    hil_attention_attr attr = {.scale = 0.125};
    gpu_case c[2] = {attention(&attr, q, q.dim[2]), packed_attention(&attr, q)};
    gpu_side side[2] = {{.device = gpu}, {.device = gpu}};
    for (int i = 0; i < 2; ++i) {
        c[i].compute = dtype;
        c[i].share = whole;
        gpu_make(&c[i], &side[i]);
    }
    hil_op_call *apart = &side[0].call, *packed = &side[1].call;
    size_t bytes = hil_tensor_bytes(&apart->in[0]), rows = (size_t)(q.dim[0] * q.dim[1]);
    char *part[3];
    for (int i = 0; i < 3; ++i) part[i] = gpu_read(&side[0], apart->in[i].data, bytes);
    char *all = join(part, rows, bytes / rows);
    gpu_release(&side[1], packed->in[0].data);
    packed->in[0].data = gpu_memory(&side[1], all, 3 * bytes);
    for (int i = 0; i < 2; ++i) {
        gpu_seed = 9;
        gpu_run_forward(&side[i]);
        gpu_run_backward(&c[i], &side[i]);
    }
    gpu_same(&c[1], "out", &side[0], &side[1],
             (const void *[]){apart->out[0].data, packed->out[0].data}, bytes);
    check_joined(&side[0], apart->din, &side[1], packed->din);
    for (int i = 0; i < 3; ++i) free(part[i]);
    free(all);
    for (int i = 0; i < 2; ++i) gpu_free(&side[i]);
}

/* Positions one by one against a cache give the results of one call over all positions. */
static void check_cached(hil_dtype dtype, bool packed, bool sinks)
{
    enum { B = 2, T = 9, H = 4, D = 32, ROOM = T + 3 };
    size_t G = packed ? H : 2;
    int64_t window = packed ? 5 : 0, chunk = packed ? 0 : 4;
    hil_attention_attr attr = {.scale = 0.3, .window = window, .chunk = chunk};
    gpu_case c = attention(&attr, (hil_shape){4, {B, T, H, D}}, (int64_t)G);
    if (sinks) c = with_sinks(c);
    c.compute = dtype;
    gpu_side whole = {.device = gpu};
    gpu_make(&c, &whole);
    gpu_run_forward(&whole);
    size_t size = hil_dtype_size(dtype), row[2] = {H * D * size, G * D * size};
    hil_cached_attr cached = {.scale = 0.3, .window = window, .capacity = ROOM, .chunk = chunk};
    cached.k = gpu_memory(&whole, NULL, B * ROOM * row[1]);
    cached.v = gpu_memory(&whole, NULL, B * ROOM * row[1]);
    char *all[3], *want = gpu_read(&whole, whole.call.out[0].data, B * T * row[0]);
    for (int i = 0; i < 3; ++i)
        all[i] = gpu_read(&whole, whole.call.in[i].data, B * T * row[i > 0]);
    for (int64_t step; cached.length < T; cached.length += step) {
        step = cached.length == 0 ? 4 : 1;
        hil_op_call call = {.op = &hil_op_attention_cached,
                            .attr = &cached,
                            .compute = dtype,
                            .device = gpu,
                            .pool = whole.call.pool,
                            .source = whole.call.source,
                            .owner = whole.call.owner,
                            .params = whole.call.params,
                            .param = {whole.call.param[0]},
                            .ins = packed ? 1 : 3};
        char *part[3];
        for (int i = 0; i < 3; ++i) {
            size_t bytes = row[i > 0], count = (size_t)step * bytes;
            part[i] = malloc(B * count);
            for (size_t b = 0; b < B; ++b)
                memcpy(part[i] + b * count, all[i] + (b * T + (size_t)cached.length) * bytes,
                       count);
            if (packed) continue;
            call.in[i] = (hil_tensor){dtype, {4, {B, step, i ? (int64_t)G : H, D}}, NULL};
            call.in[i].data = gpu_memory(&whole, part[i], B * count);
        }
        if (packed) {
            char *joined = join(part, B * (size_t)step, row[0]);
            call.in[0] = (hil_tensor){dtype, {4, {B, step, 3 * H, D}}, NULL};
            call.in[0].data = gpu_memory(&whole, joined, 3 * B * (size_t)step * row[0]);
            free(joined);
        }
        for (int i = 0; i < 3; ++i) free(part[i]);
        CHECK_OK(hil_op_cuda_infer(&call));
        call.out[0].data = gpu_memory(&whole, NULL, hil_tensor_bytes(&call.out[0]));
        CHECK_OK(hil_op_cuda_forward(&call));
        char *got = gpu_read(&whole, call.out[0].data, hil_tensor_bytes(&call.out[0]));
        for (size_t b = 0; b < B; ++b)
            for (size_t i = 0; i < (size_t)step * H * D; ++i) {
                float x, y;
                hil_dtype_to_f32(&x, want + (b * T + (size_t)cached.length) * row[0] + i * size,
                                 dtype, 1);
                hil_dtype_to_f32(&y, got + b * (size_t)step * row[0] + i * size, dtype, 1);
                CHECK_NEAR(y, x, dtype == HIL_F32 ? 1e-5 : 1e-2);
            }
        free(got);
        for (int i = 0; i < call.ins; ++i) gpu_release(&whole, call.in[i].data);
        gpu_release(&whole, call.out[0].data);
    }
    for (int i = 0; i < 3; ++i) free(all[i]);
    free(want);
    gpu_release(&whole, cached.k);
    gpu_release(&whole, cached.v);
    gpu_free(&whole);
}

/* More heads of all sequences than the second dimension of a grid may have. Of a single key the
   result is its value. */
static void check_many(void)
{
    hil_attention_attr attr = {.scale = 0.5};
    gpu_case c = attention(&attr, (hil_shape){4, {1024, 1, 65, 8}}, 65);
    gpu_side s = {.device = gpu};
    if (gpu_samples()) return;
    gpu_make(&c, &s);
    gpu_run_forward(&s);
    size_t bytes = hil_tensor_bytes(&s.call.out[0]);
    char *out = gpu_read(&s, s.call.out[0].data, bytes);
    char *value = gpu_read(&s, s.call.in[2].data, bytes);
    CHECK(memcmp(out, value, bytes) == 0);
    free(out);
    free(value);
    gpu_free(&s);
}

/* Half as many sequences, heads or groups where a GPU is emulated. */
static int64_t less(int64_t count)
{
    return gpu_samples() ? count / 2 : count;
}

int main(void)
{
    gpu_begin();
    check_shape((hil_shape){4, {2, 64, 4, 64}}, 4);
    check_shape((hil_shape){4, {less(2), 200, less(8), 64}}, 2);
    check_shape((hil_shape){4, {1, 130, 4, 128}}, 2);
    check_shape((hil_shape){4, {1, 150, less(4), 96}}, less(4));
    check_shape((hil_shape){4, {2, 70, 2, 40}}, 1);
    check_shape((hil_shape){4, {2, 37, 3, 20}}, 1);
    check_many();
    check_shape((hil_shape){4, {1, 40, 2, 256}}, 1);
    check_shape((hil_shape){4, {less(2), 150, less(4), 192}}, less(4));
    check_sinks((hil_shape){4, {less(2), 200, less(8), 64}}, 2);
    check_sinks((hil_shape){4, {1, 130, 4, 128}}, 2);
    check_sinks((hil_shape){4, {2, 37, 3, 20}}, 1);
    check_packed((hil_shape){4, {less(2), 200, less(4), 64}});
    check_packed((hil_shape){4, {1, 130, 3, 128}});
    check_packed((hil_shape){4, {2, 37, 3, 20}});
    for (int d = HIL_F32; d <= HIL_F16; ++d)
        for (int whole = 0; whole < 2; ++whole)
            check_same_bits((hil_shape){4, {less(2), 130, gpu_samples() ? 2 : 12, 64}},
                            (hil_dtype)d, whole);
    hil_attention_attr plain = {.scale = 0.125}, windowed = {.scale = 0.125, .window = 19};
    check_long(attention(&plain, (hil_shape){4, {7, 520, 4, 64}}, 4));
    check_long(attention(&plain, (hil_shape){4, {13, 512, 6, 128}}, 3));
    check_long(packed_attention(&plain, (hil_shape){4, {7, 514, 5, 64}}));
    check_long(with_sinks(attention(&plain, (hil_shape){4, {7, 520, 4, 64}}, 4)));
    check_long(with_sinks(attention(&plain, (hil_shape){4, {13, 512, 6, 128}}, 3)));
    if (!gpu_samples()) check_same_bits((hil_shape){4, {3, 520, 12, 64}}, HIL_BF16, true);
    check_documents(attention(&plain, (hil_shape){4, {3, 300, less(8), 64}}, 2));
    check_documents(attention(&plain, (hil_shape){4, {3, 257, less(4), 80}}, less(4)));
    check_documents(attention(&plain, (hil_shape){4, {3, 320, less(4), 128}}, 1));
    check_documents(attention(&windowed, (hil_shape){4, {3, 130, 4, 128}}, 2));
    check_documents(packed_attention(&plain, (hil_shape){4, {3, 300, less(4), 64}}));
    for (int packed = 0; packed < 2; ++packed) {
        for (int sinks = 0; sinks < 2; ++sinks) {
            check_cached(HIL_F32, packed, sinks);
            check_cached(HIL_BF16, packed, sinks);
        }
    }
    check_shape((hil_shape){4, {1, 37, 2, 512}}, 1);
    check_shape((hil_shape){4, {1, 20, 2, 264}}, 2);
    gpu_end();
    return 0;
}
