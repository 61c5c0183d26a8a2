/* The work of operations: matrix products by definition, attention by counting pairs. */
#include "check.h"
#include "ops/ops.h"
#include "ops/attention/attention_work.h"
#include "ops/op_cost.h"
#include "autograd/cost.h"
#include "speeds.h"

static char somewhere;

static hil_op_call call_of(const hil_op *op, const void *attr, hil_shape in)
{
    hil_op_call call = {.op = op, .attr = attr, .compute = HIL_BF16, .ins = 1, .outs = 1};
    call.in[0] = (hil_tensor){HIL_BF16, in, NULL};
    return call;
}

static hil_work work_on(hil_op_call *call, bool backward, int threads)
{
    hil_work w;
    CHECK_OK(call->op->infer(call));
    hil_op_work(call, backward, threads, &w);
    CHECK(w.gemm >= 0 && w.attention >= 0 && w.bytes > 0 && w.vector >= 0 && w.runs >= 0);
    return w;
}

static hil_work work_of(hil_op_call *call, bool backward)
{
    return work_on(call, backward, 0);
}

static void check_products(void)
{
    hil_op_call call = call_of(&hil_op_linear, NULL, (hil_shape){3, {2, 5, 7}});
    call.params = 1;
    call.param[0] = (hil_op_param){HIL_BF16, 11, 7, 11, true, false};
    CHECK_NEAR(work_of(&call, false).gemm, 2. * 10 * 11 * 7, 0);
    CHECK_NEAR(work_of(&call, true).gemm, 2. * 10 * 11 * 7, 0); /* no gradient of the input */
    hil_op_call residual = call;
    residual.ins = 2;
    residual.in[1] = (hil_tensor){HIL_BF16, {3, {2, 5, 11}}, NULL};
    CHECK_NEAR(work_of(&residual, false).gemm, work_of(&call, false).gemm, 0);
    CHECK_NEAR(work_of(&residual, false).bytes - work_of(&call, false).bytes, 2. * 10 * 11, 0);
    CHECK_NEAR(work_of(&residual, true).bytes, work_of(&call, true).bytes, 0);
    call.din[0].data = &somewhere;
    CHECK_NEAR(work_of(&call, true).gemm, 4. * 10 * 11 * 7, 0);
    call.param[0].trainable = false;
    CHECK_NEAR(work_of(&call, true).gemm, 2. * 10 * 11 * 7, 0);

    call = call_of(&hil_op_head, NULL, (hil_shape){3, {2, 5, 7}});
    call.ins = 2;
    call.in[1] = (hil_tensor){HIL_I32, {2, {2, 5}}, NULL};
    call.params = 1;
    call.param[0] = (hil_op_param){HIL_BF16, 100, 7, 100, true, false};
    CHECK_NEAR(work_of(&call, false).gemm, 2. * 10 * 100 * 7, 0);
    call.differentiate = true;
    CHECK_NEAR(work_of(&call, false).gemm, 6. * 10 * 100 * 7, 0);
    CHECK_NEAR(work_of(&call, true).gemm, 0, 0);
}

/* On a GPU: thin weights take twice the time of their bytes; the sums of a tiled product over its
   tiles are read again, and rounded by a pass of their own. */
static void check_apart(void)
{
    hil_op_call call = call_of(&hil_op_linear, NULL, (hil_shape){2, {512, 1024}});
    call.params = 1;
    call.din[0].data = &somewhere;
    call.param[0] = (hil_op_param){HIL_BF16, 16, 1024, 16, true, false};
    CHECK_NEAR(work_of(&call, false).apart, work_of(&call, false).bytes, 0);
    CHECK_NEAR(work_of(&call, true).apart, work_of(&call, true).bytes, 0);
    call.param[0] = (hil_op_param){HIL_BF16, 1024, 1024, 1024, false, false};
    CHECK_NEAR(work_of(&call, false).apart, 0, 0);
    CHECK_NEAR(work_of(&call, true).apart, 0, 0);
    call.param[0].tile_rows = 256; /* 3 sums of earlier tiles and the last, then 2 bytes rounded */
    CHECK_NEAR(work_of(&call, false).apart, 0, 0);
    CHECK_NEAR(work_of(&call, true).apart, 512. * 1024 * (4 * 4 + 2), 0);
    call.din_add[0] = true;
    CHECK_NEAR(work_of(&call, true).apart, 512. * 1024 * (4 * 4 + 4), 0);
}

/* A GPU launches each tile of a product, which counts as two kernels, and further ones for
   gradients of vectors, each of which takes its overhead; a bias's gradient is a slow pass over dy.
 */
static void check_launches(void)
{
    hil_op_call call = call_of(&hil_op_linear, NULL, (hil_shape){2, {512, 1024}});
    call.params = 1;
    call.din[0].data = &somewhere;
    call.param[0] = (hil_op_param){HIL_BF16, 1024, 1024, 1024, true, false};
    call.param[1] = (hil_op_param){HIL_BF16, 1, 1024, 1, true, false};
    CHECK_NEAR(work_of(&call, false).kernels, 2, 0);
    CHECK_NEAR(work_of(&call, true).kernels, 4, 0);
    double apart = work_of(&call, true).apart;
    call.params = 2;
    CHECK_NEAR(work_of(&call, true).kernels, 6, 0);
    CHECK_NEAR(work_of(&call, true).apart - apart, 2 * 512. * 1024 * 2, 0);
    call.param[1].trainable = false;
    CHECK_NEAR(work_of(&call, false).kernels, 3, 0);
    CHECK_NEAR(work_of(&call, true).kernels, 4, 0);
    call.params = 1;
    call.param[0].tile_rows = 256;
    CHECK_NEAR(work_of(&call, false).kernels, 8, 0);
    hil_speeds speeds = any_speeds;
    hil_work small = {.gemm = 1, .kernels = 3}, one = {.gemm = 1};
    CHECK_NEAR(hil_cost_seconds(&small, &speeds, HIL_BF16), 3 * speeds.op_call, 1e-9);
    CHECK_NEAR(hil_cost_seconds(&one, &speeds, HIL_BF16), speeds.op_call, 1e-9);
}

/* In 8 bits: the same products, and what is rounded before them: x and the weight, in backward dy,
   the weight for dx, and x for the gradient of the weight. */
static void check_fp8(void)
{
    hil_op_call call = call_of(&hil_op_linear, NULL, (hil_shape){2, {512, 1024}});
    call.params = 1;
    call.din[0].data = &somewhere;
    call.param[0] = (hil_op_param){HIL_BF16, 256, 1024, 256, true, false};
    for (int backward = 0; backward < 2; ++backward) {
        double rounded = 256. * 1024 + 512. * 1024 + (backward ? 512. * 256 : 0);
        call.param[0].fp8 = false;
        hil_work half = work_of(&call, backward);
        CHECK_NEAR(half.gemm_fp8, 0, 0);
        call.param[0].fp8 = true;
        hil_work eight = work_of(&call, backward);
        CHECK_NEAR(eight.gemm, 0, 0);
        CHECK_NEAR(eight.gemm_fp8, half.gemm, 0);
        CHECK_NEAR(eight.apart - half.apart, 5 * rounded, 0);
        CHECK(eight.vector > half.vector);
    }
    call.param[0].trainable = false;
    CHECK_NEAR(work_of(&call, true).apart, 5 * (512. * 256 + 256. * 1024), 0);
    hil_speeds speeds = any_speeds;
    hil_work work = {.gemm_fp8 = 1e10};
    CHECK_NEAR(hil_cost_seconds(&work, &speeds, HIL_BF16), 1 + 1e-6, 1e-12);
    speeds.gemm_fp8 = 2e10;
    CHECK_NEAR(hil_cost_seconds(&work, &speeds, HIL_BF16), 0.5 + 1e-6, 1e-12);
}

/* Loops and packing take the time that was measured for their dtype; where nothing was, as long as
   multiplications in fp32. */
static void check_cost(void)
{
    hil_speeds speeds = any_speeds;
    hil_work loop = {.vector = 1e9}, packing = {.packed = 1e9};
    speeds.update_device = 0;
    CHECK_NEAR(hil_cost_rest(&loop, &speeds, HIL_BF16), 0.1, 1e-12);
    CHECK_NEAR(hil_cost_rest(&packing, &speeds, HIL_BF16), 1.8, 1e-12);
    speeds.vector[HIL_BF16] = 4e9;
    speeds.pack[HIL_BF16] = 5e9;
    CHECK_NEAR(hil_cost_rest(&loop, &speeds, HIL_BF16), 0.25, 1e-12);
    CHECK_NEAR(hil_cost_rest(&packing, &speeds, HIL_BF16), 0.2, 1e-12);
    CHECK_NEAR(hil_cost_rest(&loop, &speeds, HIL_F32), 0.1, 1e-12);
    CHECK_NEAR(hil_cost_rest(&packing, &speeds, HIL_F32), 1.8, 1e-12);
    hil_speeds cpu = {.memory = 1e10, .cached = 4e10, .threads = 2};
    CHECK_NEAR(hil_cost_cached(&cpu, 20e6), 4e10, 1); /* states that the caches hold */
    CHECK_NEAR(hil_cost_cached(&cpu, 50e6), 1.6e10, 1);
    CHECK_NEAR(hil_cost_cached(&cpu, 1e9), 1e10, 1);
    hil_work tiles = {.tiles = 10}; /* beyond two: the overhead of an operation without runs */
    hil_speeds pool = {.memory = 1, .gemm = {1, 1, 1}, .op_call = 5e-6, .pool_run = 1e-6};
    CHECK_NEAR(hil_cost_rest(&tiles, &pool, HIL_BF16), 8 * 3e-6, 1e-12);
    cpu.cached = 0; /* not known */
    CHECK_NEAR(hil_cost_cached(&cpu, 20e6), 0, 0);
}

/* A product of few rows packs all of its weight and rounds all of its output. */
static void check_packing(void)
{
    hil_gemm g = {.m = 64, .n = 512, .k = 256, .a = {.dtype = HIL_BF16}, .b = {.dtype = HIL_BF16}};
    hil_work sum = {0}, rounded = {0};
    g.c_dtype = HIL_F32;
    hil_work_add_product(&sum, &g, 1);
    CHECK(sum.packed >= 512. * 256 + 64. * 256);
    CHECK_NEAR(sum.vector, 0, 0);
    g.c_dtype = HIL_BF16;
    hil_work_add_product(&rounded, &g, 1);
    CHECK(rounded.packed - sum.packed >= 64. * 512);
    CHECK_NEAR(rounded.vector, 0, 0);
}

static double count_pairs(int64_t queries, int64_t past, int64_t window)
{
    double pairs = 0;
    for (int64_t t = past; t < past + queries; ++t)
        for (int64_t key = 0; key <= t; ++key) pairs += !window || t - key < window;
    return pairs;
}

static void check_attention(void)
{
    enum { B = 2, T = 9, H = 6, KV = 3, D = 4 };
    for (int64_t window = 0; window < 20; ++window) {
        hil_attention_attr attr = {.scale = 1, .window = window};
        hil_op_call call = call_of(&hil_op_attention, &attr, (hil_shape){4, {B, T, H, D}});
        call.ins = 4;
        call.in[1] = call.in[2] = (hil_tensor){HIL_BF16, {4, {B, T, KV, D}}, NULL};
        call.in[3] = (hil_tensor){HIL_I32, {2, {B, T}}, NULL};
        hil_attention_size size = {B, T, H, KV, D, 0, window};
        double pairs = count_pairs(T, 0, window) * B * H;
        CHECK_NEAR(hil_attention_flops(&size, false), 2. * 2 * D * pairs, 0);
        CHECK_NEAR(hil_attention_flops(&size, true), 5. * 2 * D * pairs, 0);
        CHECK_NEAR(work_of(&call, false).attention, hil_attention_device_work(&size, false), 0);
        hil_op_call packed = call_of(&hil_op_attention, &attr, (hil_shape){4, {B, T, 3 * H, D}});
        packed.ins = 2;
        packed.in[1] = call.in[3];
        CHECK_NEAR(work_of(&packed, false).attention, work_of(&call, false).attention, 0);
        for (size.past = 0; size.past < 15; size.past += 7) {
            hil_cached_attr cached = {1, window, NULL, NULL, 100, size.past, 0, 0};
            call.op = &hil_op_attention_cached;
            call.attr = &cached;
            call.ins = 3;
            CHECK_NEAR(hil_attention_flops(&size, false),
                       4. * D * B * H * count_pairs(T, size.past, window), 0);
            CHECK_NEAR(work_of(&call, false).attention, hil_attention_device_work(&size, false), 0);
        }
    }
}

static double attention_on(int64_t batch, int64_t seq, int64_t dim, int threads)
{
    hil_attention_attr attr = {.scale = 1};
    hil_op_call call = call_of(&hil_op_attention, &attr, (hil_shape){4, {batch, seq, 8, dim}});
    call.ins = 4;
    call.in[1] = call.in[2] = call.in[0];
    call.in[3] = (hil_tensor){HIL_I32, {2, {batch, seq}}, NULL};
    return work_on(&call, false, threads).attention + work_on(&call, true, threads).attention;
}

static double pairs_work(int64_t batch, int64_t seq, int64_t dim)
{
    return (4 + 10) * (double)(batch * 8 * dim) * (double)count_pairs(seq, 0, 0);
}

/* On a GPU what the probe measures counts as its pairs, shorter sequences and smaller heads as more
   than theirs, as measured on an H200. */
static void check_device_attention(void)
{
    double last = 1e9;
    for (int64_t seq = 128; seq <= 4096; seq *= 2) {
        double part = attention_on(1, seq, 128, 0) / pairs_work(1, seq, 128);
        CHECK(part < last && part > 0.999);
        last = part;
    }
    CHECK(last < 1.001);
    double part = attention_on(2, 1024, 128, 0) / pairs_work(2, 1024, 128);
    CHECK(part > 1.3 && part < 1.7);
    CHECK(attention_on(1, 1024, 64, 0) > 1.1 * attention_on(1, 1024, 128, 0) / 2);
    /* A window hides two ends of as many keys as a sequence of its length has at most, which hides
       one of half as many on average. */
    const hil_attention_size slides = {1, 32768, 8, 8, 128, 0, 1024},
                             whole = {1, 1024, 8, 8, 128, 0, 0},
                             beyond = {1, 1024, 8, 8, 128, 0, 1024};
    double per_pair =
        hil_attention_device_work(&slides, false) / hil_attention_flops(&slides, false);
    double expected = hil_attention_device_work(&whole, false) / hil_attention_flops(&whole, false);
    CHECK_NEAR(per_pair, expected, 0.02 * expected);
    CHECK_NEAR(hil_attention_device_work(&beyond, false), hil_attention_device_work(&whole, false),
               0);
}

/* Threads compute blocks: what the probe measures counts as its pairs, shorter sequences and
   smaller heads as more than theirs, longer and larger ones as less, at most by what was measured.
 */
static void check_blocks(void)
{
    CHECK_NEAR(attention_on(1, 256, 64, 1), pairs_work(1, 256, 64), 1e-9 * pairs_work(1, 256, 64));
    double last = 4;
    for (int64_t seq = 32; seq <= 4096; seq *= 2) {
        double part = attention_on(1, seq, 64, 1) / pairs_work(1, seq, 64);
        CHECK(part < last && part > 0.5);
        last = part;
    }
    CHECK(attention_on(4, 128, 32, 1) > 1.8 * pairs_work(4, 128, 32));
    CHECK(attention_on(1, 512, 256, 1) < 0.8 * pairs_work(1, 512, 256));
}

static void check_rows(void)
{
    hil_op_call call = call_of(&hil_op_add, NULL, (hil_shape){2, {64, 128}});
    call.ins = 2;
    call.in[1] = call.in[0];
    CHECK_NEAR(work_of(&call, false).bytes, 3. * 2 * 64 * 128, 0);
    hil_gelu_attr tanh_form = {true}, erf_form = {false};
    hil_op_call gelu = call_of(&hil_op_gelu, &tanh_form, call.in[0].shape);
    hil_work simple = work_of(&gelu, false);
    CHECK_NEAR(simple.bytes, 2. * 2 * 64 * 128, 0);
    gelu.attr = &erf_form;
    CHECK_NEAR(work_of(&gelu, false).bytes, simple.bytes, 0);
    CHECK(work_of(&gelu, false).vector > simple.vector && simple.vector > 0);
}

/* Work is stretched where threads idle, and never shrinks; without threads nothing is. */
static void check_threads(void)
{
    hil_op_call call = call_of(&hil_op_linear, NULL, (hil_shape){2, {64, 96}});
    call.params = 1;
    call.din[0].data = &somewhere;
    call.param[0] = (hil_op_param){HIL_BF16, 64, 96, 64, true, false};
    for (int backward = 0; backward < 2; ++backward) {
        double plain = work_of(&call, backward).gemm, last = 0;
        CHECK(work_of(&call, backward).runs == 0);
        for (int threads = 1; threads <= 256; threads *= 2) {
            hil_work w = work_on(&call, backward, threads);
            CHECK(w.gemm >= plain && w.gemm >= last && w.gemm <= plain * threads * 4);
            last = w.gemm;
        }
        CHECK(last > 2 * plain);      /* too small for so many threads */
        call.param[0].tile_rows = 16; /* four products instead of one, or two */
        CHECK(work_on(&call, backward, 4).runs >= work_on(&call, backward, 1).runs);
        CHECK_NEAR(work_of(&call, backward).gemm, plain, 0);
        call.param[0].tile_rows = 64;
    }
    /* Large enough for all of them: as much work as without threads, but for tasks that are not
       equally large, with AMX by a panel of nine. */
    call = call_of(&hil_op_linear, NULL, (hil_shape){2, {4608, 1024}});
    call.params = 1;
    call.param[0] = (hil_op_param){HIL_BF16, 4096, 1024, 4096, true, false};
    CHECK_NEAR(work_on(&call, false, 16).gemm, work_of(&call, false).gemm,
               0.15 * work_of(&call, false).gemm);
    CHECK(work_on(&call, false, 16).runs >= 2);

    /* One sequence with two groups of heads: backward has two tasks. */
    hil_attention_attr attr = {.scale = 1};
    call = call_of(&hil_op_attention, &attr, (hil_shape){4, {1, 9, 4, 8}});
    call.ins = 4;
    call.in[1] = call.in[2] = (hil_tensor){HIL_BF16, {4, {1, 9, 2, 8}}, NULL};
    call.in[3] = (hil_tensor){HIL_I32, {2, {1, 9}}, NULL};
    CHECK_NEAR(work_on(&call, true, 16).attention, 8 * work_on(&call, true, 2).attention, 0);

    /* 8192 elements are one task. */
    call = call_of(&hil_op_add, NULL, (hil_shape){2, {64, 128}});
    call.ins = 2;
    call.in[1] = call.in[0];
    hil_work w = work_on(&call, false, 4), one = work_of(&call, false);
    CHECK_NEAR(w.bytes, 4 * one.bytes, 0);
    CHECK(w.runs == 0);
}

/* The delta rule: by the numbers of its states; half of the threads idle where heads are few. */
static void check_delta(void)
{
    hil_delta_attr attr = {.key_heads = 2, .key_dim = 8};
    hil_op_call call = call_of(&hil_op_delta_rule, &attr, (hil_shape){3, {1, 50, 32 + 4 * 16}});
    call.ins = 4, call.params = 2;
    call.in[1] = call.in[2] = (hil_tensor){HIL_BF16, {3, {1, 50, 4}}, NULL};
    call.in[3] = (hil_tensor){HIL_I32, {2, {1, 50}}, NULL};
    call.param[0] = call.param[1] = (hil_op_param){HIL_F32, 1, 4, 1, true, false};
    double one = work_on(&call, false, 1).vector, back = work_on(&call, true, 1).vector;
    CHECK(one >= 4 * 50 * 4 * 8 * 16 && back > 2 * one);
    CHECK_NEAR(work_on(&call, false, 4).vector, one, 1e-9);
    CHECK_NEAR(work_on(&call, true, 4).vector, 2 * back, 1e-9);
    CHECK(work_of(&call, false).apart > 0);
}

/* State spaces: by the numbers of their states, without the correction, which is most of the delta
   rule's backward; heads of one group are taken in up to eight parts there. */
static void check_space(void)
{
    hil_state_space_attr attr = {.rule = {.key_heads = 1, .key_dim = 8}, .most = INFINITY};
    hil_op_call call = call_of(&hil_op_state_space, &attr, (hil_shape){3, {1, 50, 12 * 16 + 16}});
    call.ins = 3, call.params = 3;
    call.in[1] = (hil_tensor){HIL_BF16, {3, {1, 50, 12}}, NULL};
    call.in[2] = (hil_tensor){HIL_I32, {2, {1, 50}}, NULL};
    for (int i = 0; i < 3; ++i) call.param[i] = (hil_op_param){HIL_F32, 1, 12, 1, true, false};
    double one = work_on(&call, false, 1).vector, back = work_on(&call, true, 1).vector;
    CHECK(one >= 4 * 50 * 12 * 8 * 16 && back > 2 * one);
    CHECK_NEAR(work_on(&call, false, 12).vector, one, 1e-9);
    CHECK_NEAR(work_on(&call, true, 8).vector, back, 1e-9);
    CHECK_NEAR(work_on(&call, true, 16).vector, 2 * back, 1e-9);
    double bytes = 2. * 50 * (2 * 12 * 16 + 16 + 12) + 4 * 50;
    CHECK_NEAR(work_of(&call, false).bytes, bytes, 0);
    CHECK(work_of(&call, false).apart > 0);
}

/* Short convolutions: once through x in forward; in backward the output is computed again. */
static void check_convolution(void)
{
    hil_conv_attr attr = {.size = 4};
    hil_op_call call = call_of(&hil_op_causal_conv, &attr, (hil_shape){3, {2, 64, 96}});
    call.ins = 2, call.params = 1;
    call.in[1] = (hil_tensor){HIL_I32, {2, {2, 64}}, NULL};
    call.param[0] = (hil_op_param){HIL_F32, 1, 4 * 96, 1, true, false};
    hil_work silu = work_of(&call, false), back = work_of(&call, true);
    CHECK_NEAR(silu.bytes, 2. * 2 * 2 * 64 * 96 + 4 * 2 * 64, 0);
    CHECK(silu.vector > 0 && back.vector > 2 * silu.vector);
    call.op = &hil_op_causal_conv_plain;
    CHECK_NEAR(work_of(&call, false).bytes, silu.bytes, 0);
    CHECK(work_of(&call, false).vector < silu.vector && work_of(&call, false).vector > 0);
}

/* Rows of logits are divided among the threads: 64 tokens among 4, but not among 8. */
static void check_router_z(void)
{
    hil_router_z_attr attr = {.coefficient = 0.1, .layers = 1};
    hil_op_call call = call_of(&hil_op_router_z, &attr, (hil_shape){3, {2, 32, 8}});
    call.ins = 2;
    call.in[1] = (hil_tensor){HIL_I32, {2, {2, 32}}, NULL};
    call.din[0].data = &somewhere;
    for (int back = 0; back < 2; ++back) {
        double one = work_on(&call, back, 1).vector;
        CHECK_NEAR(work_on(&call, back, 4).vector, one, 1e-9);
        CHECK_NEAR(work_on(&call, back, 8).vector, 2 * one, 1e-9);
    }
}

int main(void)
{
    check_threads();
    check_products();
    check_delta();
    check_space();
    check_convolution();
    check_apart();
    check_launches();
    check_fp8();
    check_cost();
    check_packing();
    check_attention();
    check_device_attention();
    check_blocks();
    check_rows();
    check_router_z();
    return 0;
}
