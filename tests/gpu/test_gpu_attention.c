/* test_gpu_attention.c - attention on a GPU: cuDNN's and the plain kernel, masks, groups, dropout.
 */
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

/* Probabilities are rounded on the way, and out enters the gradient rounded. */
static void check_both(gpu_case c)
{
    c.slack = 1e-2;
    gpu_check_dtypes(c);
    if (c.ids[3] == documents) return;
    c.name = "attention, whole", c.whole = true;
    gpu_check_dtypes(c);
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
    c = attention(&dropping, q, groups);
    c.name = "attention, dropout", c.random = (hil_op_random){77, 3, 11, 5};
    check_both(c);
    for (int64_t i = 0, first = 0; i < q.dim[0] * q.dim[1]; ++i) {
        int64_t t = i % q.dim[1];
        if (t == 0 || i * 7919 % 23 == 0) first = t;
        documents[i] = (int32_t)first;
    }
    c = attention(&plain, q, groups);
    c.name = "attention, documents", c.ids[3] = documents;
    check_both(c);
    c.name = "attention, both masks", c.attr = &windowed;
    check_both(c);
}

/* Position by position against a cache, what one call over all positions gives. */
static void check_cached(hil_dtype dtype)
{
    enum { B = 2, T = 9, H = 4, G = 2, D = 32, ROOM = T + 3 };
    hil_attention_attr attr = {.scale = 0.3, .window = 5};
    gpu_case c = attention(&attr, (hil_shape){4, {B, T, H, D}}, G);
    c.compute = dtype;
    gpu_side whole = {.device = gpu};
    gpu_make(&c, &whole);
    gpu_run_forward(&whole);
    size_t size = hil_dtype_size(dtype), row[2] = {H * D * size, G * D * size};
    hil_cached_attr cached = {.scale = 0.3, .window = 5, .capacity = ROOM};
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
                            .ins = 3};
        for (int i = 0; i < 3; ++i) {
            size_t bytes = row[i > 0], count = (size_t)step * bytes;
            char *part = malloc(B * count);
            for (size_t b = 0; b < B; ++b)
                memcpy(part + b * count, all[i] + (b * T + (size_t)cached.length) * bytes, count);
            call.in[i] = (hil_tensor){dtype, {4, {B, step, i ? G : H, D}}, NULL};
            call.in[i].data = gpu_memory(&whole, part, B * count);
            free(part);
        }
        CHECK_OK(hil_cuda_infer(&call));
        call.out[0].data = gpu_memory(&whole, NULL, hil_tensor_bytes(&call.out[0]));
        CHECK_OK(hil_cuda_forward(&call));
        char *got = gpu_read(&whole, call.out[0].data, hil_tensor_bytes(&call.out[0]));
        for (size_t b = 0; b < B; ++b)
            for (size_t i = 0; i < (size_t)step * H * D; ++i) {
                float x, y;
                hil_to_f32(&x, want + (b * T + (size_t)cached.length) * row[0] + i * size, dtype,
                           1);
                hil_to_f32(&y, got + b * (size_t)step * row[0] + i * size, dtype, 1);
                CHECK_NEAR(y, x, dtype == HIL_F32 ? 1e-5 : 1e-2);
            }
        free(got);
        for (int i = 0; i < 3; ++i) gpu_release(&whole, call.in[i].data);
        gpu_release(&whole, call.out[0].data);
    }
    for (int i = 0; i < 3; ++i) free(all[i]);
    free(want);
    gpu_release(&whole, cached.k);
    gpu_release(&whole, cached.v);
    gpu_free(&whole);
}

int main(void)
{
    gpu_begin();
    check_shape((hil_shape){4, {2, 64, 4, 64}}, 4);
    check_shape((hil_shape){4, {2, 200, 8, 64}}, 2);
    check_shape((hil_shape){4, {1, 130, 4, 128}}, 2);
    check_shape((hil_shape){4, {1, 150, 4, 96}}, 4);
    check_shape((hil_shape){4, {2, 70, 2, 40}}, 1);
    check_shape((hil_shape){4, {2, 37, 3, 20}}, 1);
    check_shape((hil_shape){4, {1, 40, 2, 256}}, 1);
    check_cached(HIL_F32);
    check_cached(HIL_BF16);
    gpu_end();
    return 0;
}
