/* test_gpu_recurrent.c - the causal convolution, the gated delta rule, also with a decay per
   channel, and state spaces on a GPU, across documents and chunks, and their forms for generation.
 */
#include "gpu/gpu_check.h"

enum { B = 2, LENGTH_MOST = 1200 };

/* Two sequences; in the second, documents begin at a few positions. */
static const int32_t *documents(int64_t length)
{
    static int32_t first[B * LENGTH_MOST];
    int32_t begin = 0;
    for (int32_t t = 0; t < length; ++t) {
        if (t == 2 || t == 3 || t == 16 || t == 37 || t == 128 || t == 141 || t == 256) begin = t;
        first[t] = 0;
        first[length + t] = begin;
    }
    return first;
}

static gpu_case conv(const hil_conv_attr *attr, int64_t length, int64_t channels)
{
    return (gpu_case){.name = "causal conv",
                      .op = &hil_op_causal_conv,
                      .attr = attr,
                      .ins = 2,
                      .outs = 1,
                      .params = 1,
                      .in = {{3, {B, length, channels}}, {2, {B, length}}},
                      .ids = {NULL, documents(length)},
                      .rows = {1},
                      .cols = {channels * attr->size}};
}

static void check_conv(int64_t size, int64_t length, int64_t channels)
{
    hil_conv_attr attr = {.size = size};
    gpu_case c = conv(&attr, length, channels);
    gpu_check_dtypes(c);
    c.name = "causal conv, no din", c.no_din = 1;
    gpu_check_dtypes(c);
    c.name = "causal conv, frozen", c.no_din = 0, c.frozen[0] = true;
    gpu_check_dtypes(c);
    c.name = "causal conv, plain", c.frozen[0] = false, c.op = &hil_op_causal_conv_plain;
    gpu_check_dtypes(c);
    c.name = "causal conv, bias", c.op = &hil_op_causal_conv;
    c.params = 2, c.rows[1] = 1, c.cols[1] = channels;
    gpu_check_dtypes(c);
    c.name = "causal conv, bias alone", c.frozen[0] = true;
    gpu_check_dtypes(c);
}

static gpu_case delta(const hil_delta_attr *attr, int64_t length, int64_t heads, int64_t values)
{
    hil_shape gates = {3, {B, length, heads}};
    int64_t width = 2 * attr->key_heads * attr->key_dim + heads * values;
    return (gpu_case){.name = "delta rule",
                      .op = &hil_op_delta_rule,
                      .attr = attr,
                      .ins = 4,
                      .outs = 1,
                      .params = 2,
                      .in = {{3, {B, length, width}}, gates, gates, {2, {B, length}}},
                      .ids = {NULL, NULL, NULL, documents(length)},
                      .rows = {1, 1},
                      .cols = {heads, heads}};
}

static void check_delta(hil_delta_attr attr, int64_t length, int64_t heads, int64_t values)
{
    gpu_case c = delta(&attr, length, heads, values);
    gpu_check_dtypes(c);
    c.name = "delta rule, wide spread", c.spread = 4, c.slack = 1e-4;
    gpu_check(c);
    c.name = "delta rule, no gradient of qkv", c.spread = c.slack = 0, c.no_din = 1;
    gpu_check_dtypes(c);
    c.name = "delta rule, frozen", c.no_din = 6, c.frozen[0] = c.frozen[1] = true;
    gpu_check_dtypes(c);
    attr.write = 2;
    c = delta(&attr, length, heads, values), c.name = "delta rule, writes doubled";
    gpu_check_dtypes(c);
}

static void check_size(hil_delta_attr attr, int64_t length, int64_t heads, int64_t values)
{
    gpu_case c = delta(&attr, length, heads, values);
    c.name = "delta rule, size";
    gpu_check(c);
    c.compute = HIL_BF16, c.slack = gpu_unit(HIL_BF16), c.add = true;
    gpu_check(c);
}

static gpu_case channels(const hil_channel_delta_attr *attr, int64_t length, int64_t values)
{
    int64_t heads = attr->rule.key_heads, keys = heads * attr->rule.key_dim;
    gpu_case c = delta(&attr->rule, length, heads, values);
    c.name = "channel delta", c.op = &hil_op_channel_delta, c.attr = attr;
    c.in[2].dim[2] = keys, c.cols[1] = keys;
    return c;
}

static void check_channels(hil_channel_delta_attr attr, int64_t length, int64_t values)
{
    gpu_case c = channels(&attr, length, values);
    gpu_check_dtypes(c);
    c.name = "channel delta, wide spread", c.spread = 4, c.slack = 1e-4;
    gpu_check(c);
    c.spread = c.slack = 0;
    for (c.no_din = 1; c.no_din < 7; ++c.no_din) {
        c.name = "channel delta, some gradients";
        gpu_check(c);
    }
    c.name = "channel delta, frozen", c.no_din = 6, c.frozen[0] = c.frozen[1] = true;
    gpu_check_dtypes(c);
}

static void check_channels_size(hil_channel_delta_attr attr, int64_t length, int64_t values)
{
    gpu_case c = channels(&attr, length, values);
    c.name = "channel delta, size";
    gpu_check(c);
    c.compute = HIL_BF16, c.slack = gpu_unit(HIL_BF16), c.add = true;
    gpu_check(c);
}

static gpu_case space(const hil_state_space_attr *attr, int64_t length, int64_t heads,
                      int64_t values)
{
    int64_t width = 2 * attr->rule.key_heads * attr->rule.key_dim + heads * values;
    return (gpu_case){.name = "state space",
                      .op = &hil_op_state_space,
                      .attr = attr,
                      .ins = 3,
                      .outs = 1,
                      .params = 3,
                      .in = {{3, {B, length, width}}, {3, {B, length, heads}}, {2, {B, length}}},
                      .ids = {NULL, NULL, documents(length)},
                      .rows = {1, 1, 1},
                      .cols = {heads, heads, heads}};
}

static void check_space(hil_delta_attr rule, int64_t length, int64_t heads, int64_t values)
{
    hil_state_space_attr attr = {.rule = rule, .most = INFINITY};
    gpu_case c = space(&attr, length, heads, values);
    gpu_check_dtypes(c);
    c.name = "state space, limits", attr.least = 0.6, attr.most = 0.9;
    gpu_check(c);
    c.name = "state space, no gradient of xbc", c.no_din = 1;
    gpu_check_dtypes(c);
    c.name = "state space, frozen", c.no_din = 2, c.frozen[0] = c.frozen[1] = c.frozen[2] = true;
    gpu_check_dtypes(c);
}

static void check_space_size(hil_delta_attr rule, int64_t length, int64_t heads, int64_t values)
{
    hil_state_space_attr attr = {.rule = rule, .most = INFINITY};
    gpu_case c = space(&attr, length, heads, values);
    c.name = "state space, size", c.compute = HIL_BF16, c.slack = gpu_unit(HIL_BF16), c.add = true;
    gpu_check(c);
}

/* Positions [at, at + count) of a call over all of them, against the state of earlier ones. */
static void run_piece(gpu_side *whole, hil_op_call call, int64_t at, int64_t count, char *out)
{
    int64_t length = call.in[0].shape.dim[1];
    for (int i = 0; i < call.ins; ++i) {
        hil_tensor *x = &call.in[i];
        size_t row = hil_tensor_bytes(x) / (size_t)(B * length), bytes = (size_t)count * row;
        char *all = gpu_read(whole, x->data, hil_tensor_bytes(x)), *part = malloc(B * bytes);
        for (int64_t b = 0; b < B; ++b)
            memcpy(part + (size_t)b * bytes, all + (size_t)(b * length + at) * row, bytes);
        x->shape.dim[1] = count;
        x->data = gpu_memory(whole, part, B * bytes);
        free(all);
        free(part);
    }
    CHECK_OK(hil_op_cuda_infer(&call));
    CHECK_INT(call.saveds, 0);
    size_t bytes = hil_tensor_bytes(&call.out[0]), each = bytes / B;
    call.out[0].data = gpu_memory(whole, NULL, bytes);
    call.scratch = gpu_memory(whole, NULL, call.forward_scratch);
    CHECK_OK(hil_op_cuda_forward(&call));
    char *got = gpu_read(whole, call.out[0].data, bytes);
    for (size_t b = 0; b < B; ++b)
        memcpy(out + (b * (size_t)length + (size_t)at) * (each / (size_t)count), got + b * each,
               each);
    free(got);
    for (int i = 0; i < call.ins; ++i) gpu_release(whole, call.in[i].data);
    gpu_release(whole, call.out[0].data);
    gpu_release(whole, call.scratch);
}

/* Pieces of sequences without documents, one after the other, give the bits of the whole. The
   attribute of the cached form is `attr`, whose state has `bytes`: `set` names it for a piece. */
static void check_pieces(gpu_case c, const hil_op *cached, const void *attr, size_t bytes,
                         void (*set)(int64_t length, void *state[2]))
{
    static const int64_t pieces[] = {1, 1, 2, 7, 130, 9};
    static const int32_t none[B * LENGTH_MOST];
    c.ids[c.ins - 1] = none;
    gpu_side whole = {.device = gpu};
    gpu_make(&c, &whole);
    gpu_run_forward(&whole);
    void *state[2] = {gpu_memory(&whole, NULL, bytes), gpu_memory(&whole, NULL, bytes)};
    size_t size = hil_tensor_bytes(&whole.call.out[0]);
    char *want = gpu_read(&whole, whole.call.out[0].data, size), *got = malloc(size);
    int64_t at = 0;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; at += pieces[i++]) {
        hil_op_call call = whole.call;
        call.op = cached, call.attr = attr, call.differentiate = false;
        --call.ins;
        set(at, (void *[]){state[i % 2], state[(i + 1) % 2]});
        run_piece(&whole, call, at, pieces[i], got);
    }
    CHECK_INT(at, c.in[0].dim[1]);
    CHECK(memcmp(want, got, size) == 0);
    free(want);
    free(got);
    gpu_release(&whole, state[0]);
    gpu_release(&whole, state[1]);
    gpu_free(&whole);
}

static hil_conv_attr conv_attr = {.size = 4};
static hil_delta_attr delta_attr = {.key_heads = 2, .key_dim = 10};
static hil_channel_delta_attr channel_attr = {.rule = {.key_heads = 2, .key_dim = 10}};
static hil_state_space_attr space_attr = {.rule = {.key_heads = 2, .key_dim = 10},
                                          .most = INFINITY};

static void set_conv(int64_t length, void *state[2])
{
    conv_attr.length = length, conv_attr.past = state[0], conv_attr.next = state[1];
}

static void set_delta(int64_t length, void *state[2])
{
    delta_attr.length = length, delta_attr.state = state[0], delta_attr.next = state[1];
}

static void set_channels(int64_t length, void *state[2])
{
    hil_delta_attr *rule = &channel_attr.rule;
    rule->length = length, rule->state = state[0], rule->next = state[1];
}

static void set_space(int64_t length, void *state[2])
{
    hil_delta_attr *rule = &space_attr.rule;
    rule->length = length, rule->state = state[0], rule->next = state[1];
}

static void check_generation(hil_dtype dtype)
{
    enum { LENGTH = 150, CHANNELS = 300, HEADS = 4, VALUES = 40 };
    gpu_case c = conv(&conv_attr, LENGTH, CHANNELS);
    c.compute = dtype;
    check_pieces(c, &hil_op_causal_conv_cached, &conv_attr,
                 B * 3 * CHANNELS * hil_dtype_size(dtype), set_conv);
    c.op = &hil_op_causal_conv_plain;
    check_pieces(c, &hil_op_causal_conv_plain_cached, &conv_attr,
                 B * 3 * CHANNELS * hil_dtype_size(dtype), set_conv);
    c = delta(&delta_attr, LENGTH, HEADS, VALUES);
    c.compute = dtype;
    check_pieces(c, &hil_op_delta_rule_cached, &delta_attr, B * HEADS * 10 * VALUES * sizeof(float),
                 set_delta);
    c = channels(&channel_attr, LENGTH, VALUES);
    c.compute = dtype;
    check_pieces(c, &hil_op_channel_delta_cached, &channel_attr,
                 B * 2 * 10 * VALUES * sizeof(float), set_channels);
    c = space(&space_attr, LENGTH, HEADS, VALUES);
    c.compute = dtype;
    check_pieces(c, &hil_op_state_space_cached, &space_attr,
                 B * HEADS * 10 * VALUES * sizeof(float), set_space);
}

static void check_spaces(void)
{
    static const struct {
        int64_t groups, dim, length, heads, values;
        bool large;
    } rows[] = {{2, 3, 40, 4, 5, false},
                {1, 4, 150, 3, 2, false},
                {1, 40, 290, 2, 70, true},
                {1, 130, 33, 3, 24, true},
                {1, 4, 1160, 2, 3, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        hil_delta_attr rule = {.key_heads = rows[i].groups, .key_dim = rows[i].dim};
        (rows[i].large ? check_space_size : check_space)(rule, rows[i].length, rows[i].heads,
                                                         rows[i].values);
    }
}

int main(void)
{
    gpu_begin();
    check_conv(4, 45, 7);
    check_conv(4, 300, 264);
    check_conv(1, 5, 3);
    check_conv(3, 41, 130);
    check_conv(7, 140, 16);
    check_delta((hil_delta_attr){.key_heads = 2, .key_dim = 3}, 40, 4, 5);
    check_delta((hil_delta_attr){.key_heads = 1, .key_dim = 4}, 150, 3, 2);
    check_delta((hil_delta_attr){.key_heads = 1, .key_dim = 2}, 1, 1, 1);
    check_size((hil_delta_attr){.key_heads = 1, .key_dim = 40}, 290, 2, 70);
    check_size((hil_delta_attr){.key_heads = 1, .key_dim = 128}, 70, 2, 128);
    check_size((hil_delta_attr){.key_heads = 1, .key_dim = 200}, 33, 3, 24);
    check_size((hil_delta_attr){.key_heads = 2, .key_dim = 8}, 1160, 2, 8); /* parts of backward */
    check_channels((hil_channel_delta_attr){.rule = {.key_heads = 2, .key_dim = 3}}, 40, 5);
    check_channels((hil_channel_delta_attr){{.key_heads = 1, .key_dim = 4}, -5}, 150, 2);
    check_channels((hil_channel_delta_attr){{.key_heads = 1, .key_dim = 2}, 0}, 1, 1);
    check_channels_size((hil_channel_delta_attr){{.key_heads = 1, .key_dim = 40}, -2}, 290, 70);
    check_channels_size((hil_channel_delta_attr){{.key_heads = 1, .key_dim = 128}, 0}, 70, 128);
    check_channels_size((hil_channel_delta_attr){{.key_heads = 2, .key_dim = 8}, 0}, 1160, 8);
    check_spaces();
    check_generation(HIL_F32);
    check_generation(HIL_BF16);
    gpu_end();
    return 0;
}
