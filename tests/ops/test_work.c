/* The work of operations: matrix products by definition, attention by counting pairs. */
#include "check.h"
#include "ops/ops.h"
#include "ops/op_cost.h"

static char somewhere;

static hil_op_call call_of(const hil_op *op, const void *attr, hil_shape in)
{
    hil_op_call call = {.op = op, .attr = attr, .compute = HIL_BF16, .ins = 1, .outs = 1};
    call.in[0] = (hil_tensor){HIL_BF16, in, NULL};
    return call;
}

static hil_work work_of(hil_op_call *call, bool backward)
{
    hil_work w;
    CHECK_OK(call->op->infer(call));
    hil_op_work(call, backward, &w);
    CHECK(w.gemm >= 0 && w.attention >= 0 && w.bytes > 0 && w.extra >= 0);
    return w;
}

static void check_products(void)
{
    hil_op_call call = call_of(&hil_op_linear, NULL, (hil_shape){3, {2, 5, 7}});
    call.params = 1;
    call.param[0] = (hil_op_param){HIL_BF16, 11, 7, 11, true};
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
    call.param[0] = (hil_op_param){HIL_BF16, 100, 7, 100, true};
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
    call.param[0] = (hil_op_param){HIL_BF16, 16, 1024, 16, true};
    CHECK_NEAR(work_of(&call, false).apart, work_of(&call, false).bytes, 0);
    CHECK_NEAR(work_of(&call, true).apart, work_of(&call, true).bytes, 0);
    call.param[0] = (hil_op_param){HIL_BF16, 1024, 1024, 1024, false};
    CHECK_NEAR(work_of(&call, false).apart, 0, 0);
    CHECK_NEAR(work_of(&call, true).apart, 0, 0);
    call.param[0].tile_rows = 256; /* 3 sums of earlier tiles and the last, then 2 bytes rounded */
    CHECK_NEAR(work_of(&call, false).apart, 0, 0);
    CHECK_NEAR(work_of(&call, true).apart, 512. * 1024 * (4 * 4 + 2), 0);
    call.din_add[0] = true;
    CHECK_NEAR(work_of(&call, true).apart, 512. * 1024 * (4 * 4 + 4), 0);
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
        double pairs = count_pairs(T, 0, window) * B * H;
        CHECK_NEAR(work_of(&call, false).attention, 2. * 2 * D * pairs, 0);
        CHECK_NEAR(work_of(&call, true).attention, 5. * 2 * D * pairs, 0);
        hil_op_call packed = call_of(&hil_op_attention, &attr, (hil_shape){4, {B, T, 3 * H, D}});
        packed.ins = 2;
        packed.in[1] = call.in[3];
        CHECK_NEAR(work_of(&packed, false).attention, 2. * 2 * D * pairs, 0);
        for (int64_t past = 0; past < 15; past += 7) {
            hil_cached_attr cached = {1, window, NULL, NULL, 100, past, 0};
            call.op = &hil_op_attention_cached;
            call.attr = &cached;
            call.ins = 3;
            CHECK_NEAR(work_of(&call, false).attention,
                       4. * D * B * H * count_pairs(T, past, window), 0);
        }
    }
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
    CHECK(work_of(&gelu, false).extra > simple.extra && simple.extra > 0);
}

int main(void)
{
    check_products();
    check_apart();
    check_attention();
    check_rows();
    return 0;
}
