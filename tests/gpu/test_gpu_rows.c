/* test_gpu_rows.c - element-wise operations, norms, rope and dropout on a GPU. */
#include "gpu/gpu_check.h"

static void check_elements(hil_shape shape)
{
    hil_gelu_attr tanh_form = {true}, erf_form = {false};
    gpu_check_dtypes(
        (gpu_case){.name = "add", .op = &hil_op_add, .ins = 2, .outs = 1, .in = {shape, shape}});
    hil_scale_attr factor = {-1.7};
    gpu_case scale = {
        .name = "scale", .op = &hil_op_scale, .attr = &factor, .ins = 1, .outs = 1, .in = {shape}};
    gpu_case scaled = scale;
    scaled.name = "scale by a parameter", scaled.params = 1, scaled.frozen[0] = true;
    scaled.rows[0] = scaled.cols[0] = 1;
    gpu_check_dtypes(scaled);
    gpu_check_dtypes(scale);
    scale.over = true;
    gpu_check_dtypes(scale);
    gpu_case gelu = {.name = "gelu tanh",
                     .op = &hil_op_gelu,
                     .attr = &tanh_form,
                     .ins = 1,
                     .outs = 1,
                     .in = {shape},
                     .spread = 6};
    gpu_check_dtypes(gelu);
    gelu.over = true;
    gpu_check_dtypes(gelu);
    gelu.name = "gelu erf", gelu.attr = &erf_form;
    gpu_check_dtypes(gelu);
    gpu_case swiglu = {.name = "swiglu",
                       .op = &hil_op_swiglu,
                       .ins = 2,
                       .outs = 1,
                       .in = {shape, shape},
                       .spread = 8};
    gpu_check_dtypes(swiglu);
    swiglu.over = true;
    gpu_check_dtypes(swiglu);
    swiglu.over = false, swiglu.no_din = 2;
    gpu_check_dtypes(swiglu);
}

static void check_gates(hil_shape shape)
{
    hil_gelu_attr tanh_form = {true}, erf_form = {false};
    hil_softcap_attr cap = {2.5};
    int64_t cols = hil_shape_cols(&shape);
    hil_split_attr parts = {3, {cols - 3, 2, 1}};
    gpu_case pair = {.name = "multiply",
                     .op = &hil_op_multiply,
                     .ins = 2,
                     .outs = 1,
                     .in = {shape, shape},
                     .spread = 4};
    gpu_check_dtypes(pair);
    pair.name = "geglu tanh", pair.op = &hil_op_geglu, pair.attr = &tanh_form;
    gpu_check_dtypes(pair);
    pair.name = "geglu erf", pair.attr = &erf_form;
    gpu_check_dtypes(pair);
    gpu_case one = {.name = "softcap",
                    .op = &hil_op_softcap,
                    .attr = &cap,
                    .ins = 1,
                    .outs = 1,
                    .in = {shape},
                    .spread = 6};
    gpu_check_dtypes(one);
    one.name = "relu", one.op = &hil_op_relu, one.attr = NULL;
    gpu_check_dtypes(one);
    one.name = "relu squared", one.op = &hil_op_relu_squared, one.attr = NULL;
    gpu_check_dtypes(one);
    one.name = "split", one.op = &hil_op_split, one.attr = &parts, one.outs = 3;
    gpu_check_dtypes(one);
    one.name = "split without a gradient", one.no_dout = 2;
    gpu_check_dtypes(one);
}

static void check_xielu(int64_t count)
{
    gpu_case c = {.name = "xielu",
                  .op = &hil_op_xielu,
                  .ins = 1,
                  .outs = 1,
                  .params = 4,
                  .in = {{2, {3, count}}},
                  .rows = {1, 1, 1, 1},
                  .cols = {1, 1, 1, 1},
                  .frozen = {false, false, true, true},
                  .spread = 3};
    gpu_check_dtypes(c);
    c.name = "xielu, one number trained", c.frozen[0] = true;
    gpu_check_dtypes(c);
    c.name = "xielu, no din", c.no_din = 1;
    gpu_check_dtypes(c);
}

/* The second tensor has one head for all of the first. */
static void check_join(int64_t heads, int64_t left, int64_t right)
{
    hil_join_attr all = {0}, wider = {left + right + 5};
    gpu_case c = {.name = "join",
                  .op = &hil_op_join,
                  .attr = &all,
                  .ins = 2,
                  .outs = 1,
                  .in = {{4, {2, 9, heads, left}}, {4, {2, 9, 1, right}}}};
    gpu_check_dtypes(c);
    c.name = "join with zeros behind", c.attr = &wider;
    gpu_check_dtypes(c);
    c.name = "join, no gradient of the one head", c.no_din = 2;
    gpu_check_dtypes(c);
    c.name = "join of one", c.no_din = 0, c.ins = 1;
    gpu_check_dtypes(c);
}

static void check_norms(int64_t rows, int64_t cols)
{
    hil_norm_attr attr = {.eps = 1e-5};
    gpu_case c = {.name = "layernorm",
                  .op = &hil_op_layernorm,
                  .attr = &attr,
                  .ins = 1,
                  .outs = 1,
                  .params = 2,
                  .in = {{2, {rows, cols}}},
                  .rows = {1, 1},
                  .cols = {cols, cols}};
    gpu_check_dtypes(c);
    hil_norm_attr plus = {.eps = 1e-5, .offset = 1};
    c.name = "layernorm without bias", c.params = 1;
    gpu_check_dtypes(c);
    c.name = "layernorm plus", c.attr = &plus;
    gpu_check_dtypes(c);
    c.name = "layernorm without weight", c.attr = &attr, c.params = 0;
    gpu_check_dtypes(c);
    c.name = "rmsnorm without weight", c.op = &hil_op_rmsnorm;
    gpu_check_dtypes(c);
    c.params = 1;
    c.name = "rmsnorm plus", c.op = &hil_op_rmsnorm, c.attr = &plus;
    gpu_check_dtypes(c);
    c.attr = &attr;
    c.name = "rmsnorm", c.op = &hil_op_rmsnorm, c.params = 1;
    gpu_check_dtypes(c);
    c.name = "rmsnorm frozen", c.frozen[0] = true;
    gpu_check_dtypes(c);
    c.name = "rmsnorm no din", c.frozen[0] = false, c.no_din = 1;
    gpu_check_dtypes(c);
}

/* The weights of all heads in a matrix with any tiles, or in a vector. */
static void check_head_norm_of(const hil_op *op, int64_t length, int64_t heads, int64_t dim)
{
    hil_norm_attr attr = {.eps = 1e-5};
    gpu_case c = {.name = "norm of heads",
                  .op = op,
                  .attr = &attr,
                  .ins = 1,
                  .outs = 1,
                  .params = 1,
                  .in = {{4, {2, length, heads, dim}}},
                  .rows = {heads},
                  .cols = {dim}};
    for (c.tile_rows[0] = 0; c.tile_rows[0] < 4; ++c.tile_rows[0]) gpu_check_dtypes(c);
    c.name = "norm of heads, one vector", c.tile_rows[0] = 0;
    c.rows[0] = 1, c.cols[0] = heads * dim;
    gpu_check_dtypes(c);
    c.name = "norm of heads, frozen", c.frozen[0] = true;
    gpu_check_dtypes(c);
    c.name = "norm of heads, no din", c.frozen[0] = false, c.no_din = 1;
    gpu_check_dtypes(c);
}

static void check_head_norm(int64_t length, int64_t heads, int64_t dim)
{
    check_head_norm_of(&hil_op_head_norm, length, heads, dim);
    check_head_norm_of(&hil_op_head_rmsnorm, length, heads, dim);
}

static void check_magnitude(hil_shape shape)
{
    int64_t cols = hil_shape_cols(&shape);
    gpu_case c = {.name = "magnitude",
                  .op = &hil_op_magnitude,
                  .ins = 2,
                  .outs = 1,
                  .params = 1,
                  .in = {shape, {1, {cols}}, shape},
                  .no_din = 2,
                  .rows = {1, 1},
                  .cols = {cols, cols},
                  .slack = 1e-4};
    gpu_check_dtypes(c);
    c.name = "magnitude with bias and residual", c.ins = 3, c.params = 2;
    gpu_check_dtypes(c);
    c.name = "magnitude frozen", c.frozen[0] = c.frozen[1] = true;
    gpu_check_dtypes(c);
}

static void check_rope(int64_t length, int64_t heads, int64_t dim)
{
    enum { B = 2 };
    static float frequency[256];
    static int32_t position[B * 4096];
    for (int i = 0; i < dim / 2; ++i) frequency[i] = powf(500000, -(float)i / (float)(dim / 2));
    for (int i = 0; i < B * length; ++i) position[i] = (int32_t)(i * 37 % 100000);
    hil_rope_attr attr = {.frequency = frequency};
    gpu_case c = {.name = "rope",
                  .op = &hil_op_rope,
                  .attr = &attr,
                  .ins = 2,
                  .outs = 1,
                  .in = {{4, {B, length, heads, dim}}, {2, {B, length}}},
                  .ids = {NULL, position}};
    gpu_check_dtypes(c);
    attr.dims = dim / 4 * 2, attr.factor = 1.2;
    c.name = "rope of a part";
    gpu_check_dtypes(c);
    attr.interleaved = true;
    c.name = "rope of a part, interleaved";
    gpu_check_dtypes(c);
    attr.dims = 0;
    c.name = "rope interleaved";
    gpu_check_dtypes(c);
    attr.growth = 0.1, attr.growth_from = 1000;
    c.name = "rope interleaved that grows";
    gpu_check_dtypes(c);
    attr.interleaved = false;
    c.name = "rope that grows";
    gpu_check_dtypes(c);
    attr.growth_from = 3, attr.growth_shift = 1;
    c.name = "rope that grows from a later position";
    gpu_check_dtypes(c);
    attr.interleaved = true, attr.growth = 0;
    attr.first = dim / 4 * 2;
    c.name = "rope of the end, interleaved";
    gpu_check_dtypes(c);
    attr.interleaved = false;
    c.name = "rope of the end";
    gpu_check_dtypes(c);
    attr.first = dim;
    c.name = "rope of nothing";
    gpu_check_dtypes(c);
}

static void check_dropout(hil_shape shape)
{
    hil_dropout_attr attr = {0.3};
    gpu_case c = {.name = "dropout",
                  .op = &hil_op_dropout,
                  .attr = &attr,
                  .ins = 1,
                  .outs = 1,
                  .in = {shape},
                  .random = {0x123456789abcdef, 17, 5, 99}};
    gpu_check_dtypes(c);
    c.over = true;
    gpu_check_dtypes(c);
}

static void check_convert(void)
{
    enum { N = 1003 };
    for (int from = HIL_F32; from <= HIL_F16; ++from)
        for (int to = HIL_F32; to <= HIL_F16; ++to)
            for (int add = 0; add < 2; ++add) {
                gpu_side s = {.device = gpu};
                hil_tensor a = {(hil_dtype)from, {1, {N}}, NULL},
                           b = {(hil_dtype)to, {1, {N}}, NULL};
                gpu_seed = 3;
                a.data = gpu_filled(&s, &a, 2);
                b.data = gpu_filled(&s, &b, 2);
                char *x = gpu_read(&s, a.data, hil_tensor_bytes(&a));
                char *before = gpu_read(&s, b.data, hil_tensor_bytes(&b));
                CHECK_OK(hil_op_cuda_convert(gpu, &b, &a, add));
                char *y = gpu_read(&s, b.data, hil_tensor_bytes(&b));
                for (int i = 0; i < N; ++i) {
                    float in, old, want;
                    hil_dtype_to_f32(&in, x + (size_t)i * hil_dtype_size(a.dtype), a.dtype, 1);
                    hil_dtype_to_f32(&old, before + (size_t)i * hil_dtype_size(b.dtype), b.dtype,
                                     1);
                    want = add ? in + old : in;
                    char rounded[4];
                    hil_dtype_from_f32(rounded, &want, b.dtype, 1);
                    CHECK(memcmp(rounded, y + (size_t)i * hil_dtype_size(b.dtype),
                                 hil_dtype_size(b.dtype)) == 0);
                }
                free(x);
                free(before);
                free(y);
                gpu_release(&s, a.data);
                gpu_release(&s, b.data);
            }
}

int main(void)
{
    gpu_begin();
    check_elements((hil_shape){3, {2, 33, 48}});
    check_elements((hil_shape){2, {3, 7}});
    check_gates((hil_shape){3, {2, 33, 48}});
    check_gates((hil_shape){2, {3, 7}});
    check_magnitude((hil_shape){3, {2, 33, 48}});
    check_magnitude((hil_shape){2, {300, 257}});
    check_norms(37, 64);
    check_norms(5000, 128);
    check_norms(20, 100);
    check_norms(9, 7);
    check_norms(70, 768);
    check_norms(1500, 2048);
    check_norms(33, 4096);
    check_norms(300, 3072);
    check_norms(700, 1000);
    check_norms(20, 5120);
    check_norms(5, 12288);
    check_head_norm(19, 6, 64);
    check_head_norm(300, 8, 128);
    check_head_norm(5, 3, 10);
    check_head_norm(7, 2, 300);
    check_head_norm(700, 3, 300);
    check_head_norm(3, 1, 512);
    check_join(6, 64, 32);
    check_join(16, 128, 64);
    check_join(3, 7, 5);
    check_xielu(7);
    check_xielu(20001);
    check_rope(19, 4, 64);
    check_rope(300, 32, 128);
    check_rope(5, 3, 10);
    check_rope(4, 2, 512);
    check_dropout((hil_shape){3, {3, 17, 64}});
    check_dropout((hil_shape){2, {4, 31}});
    check_convert();
    gpu_end();
    return 0;
}
