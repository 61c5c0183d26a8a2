/* test_recurrent.c - the causal convolution, the gated delta rule and state spaces, with their
   gradients, across documents and chunks, and their forms for generation. */
#include "ops/op_refused.h"

static void conv(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    const int64_t *x = c->in_shape[0].dim, size = ((const hil_conv_attr *)c->attr)->size;
    for (int64_t b = 0; b < x[0]; ++b)
        for (int64_t t = 0; t < x[1]; ++t)
            for (int64_t n = 0; n < x[2]; ++n) {
                double sum = c->params > 1 ? param[1][n] : 0;
                for (int64_t i = 0; i < size; ++i) {
                    int64_t s = t - size + 1 + i;
                    if (s < 0 || (double)s < in[1][b * x[1] + t]) continue;
                    sum += param[0][n * size + i] * in[0][(b * x[1] + s) * x[2] + n];
                }
                bool plain =
                    c->op == &hil_op_causal_conv_plain || c->op == &hil_op_causal_conv_plain_cached;
                out[0][(b * x[1] + t) * x[2] + n] = plain ? sum : sum / (1 + exp(-sum));
            }
}

enum { STATE_MOST = 64 };

/* exp(g) of channel i of a key at a position, of a head of the gated delta rule. */
static double decay_of(const op_case *c, double *const *in, double *const *param, int64_t gate,
                       int64_t i)
{
    const hil_channel_delta_attr *attr = c->attr;
    bool by_channel = c->op == &hil_op_channel_delta;
    int64_t head = gate % c->in_shape[1].dim[2], decays = by_channel ? attr->rule.key_dim : 1;
    int64_t at = by_channel ? i : 0;
    double rate = exp(param[0][head]), y = in[2][gate * decays + at] + param[1][head * decays + at];
    if (by_channel && attr->floor < 0) return exp(attr->floor / (1 + exp(-rate * y)));
    return exp(-rate * log1p(exp(y)));
}

/* One head of values in one sequence. */
static void delta_head(const op_case *c, double *const *in, double *const *param, int64_t b,
                       int64_t h, double *out)
{
    const hil_delta_attr *attr = c->attr;
    int64_t length = c->in_shape[0].dim[1], width = c->in_shape[0].dim[2];
    int64_t heads = c->in_shape[1].dim[2], dim = attr->key_dim, keys = attr->key_heads * dim;
    int64_t values = (width - 2 * keys) / heads, group = h / (heads / attr->key_heads);
    double state[STATE_MOST] = {0}, write = attr->write > 0 ? attr->write : 1;
    CHECK(dim * values <= STATE_MOST);
    for (int64_t t = 0; t < length; ++t) {
        const double *row = in[0] + (b * length + t) * width;
        const double *q = row + group * dim, *k = row + keys + group * dim;
        const double *v = row + 2 * keys + h * values;
        int64_t gate = (b * length + t) * heads + h;
        double qq = 1e-6, kk = 1e-6, beta = write / (1 + exp(-in[1][gate]));
        bool begins = in[3][b * length + t] == (double)t;
        for (int64_t i = 0; i < dim; ++i) qq += q[i] * q[i], kk += k[i] * k[i];
        for (int64_t i = 0; i < dim * values; ++i)
            state[i] *= begins ? 0 : decay_of(c, in, param, gate, i / values);
        for (int64_t n = 0; n < values; ++n) {
            double read = 0, y = 0;
            for (int64_t i = 0; i < dim; ++i) read += state[i * values + n] * k[i] / sqrt(kk);
            for (int64_t i = 0; i < dim; ++i)
                state[i * values + n] += k[i] / sqrt(kk) * beta * (v[n] - read);
            for (int64_t i = 0; i < dim; ++i)
                y += state[i * values + n] * q[i] / sqrt(qq) / sqrt((double)dim);
            out[gate * values + n] = y;
        }
    }
}

static void delta(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    for (int64_t b = 0; b < c->in_shape[0].dim[0]; ++b)
        for (int64_t h = 0; h < c->in_shape[1].dim[2]; ++h) delta_head(c, in, param, b, h, out[0]);
}

/* One head in one sequence. */
static void space_head(const op_case *c, double *const *in, double *const *param, int64_t b,
                       int64_t h, double *out)
{
    const hil_state_space_attr *attr = c->attr;
    int64_t length = c->in_shape[0].dim[1], width = c->in_shape[0].dim[2];
    int64_t heads = c->in_shape[1].dim[2], dim = attr->rule.key_dim;
    int64_t all = attr->rule.key_heads * dim, values = (width - 2 * all) / heads;
    int64_t group = h / (heads / attr->rule.key_heads);
    double state[STATE_MOST] = {0};
    CHECK(dim * values <= STATE_MOST);
    for (int64_t t = 0; t < length; ++t) {
        const double *row = in[0] + (b * length + t) * width, *x = row + h * values;
        const double *toward = row + heads * values + group * dim, *from = toward + all;
        int64_t gate = (b * length + t) * heads + h;
        double step = log1p(exp(in[1][gate] + param[1][h]));
        step = fmin(fmax(step, attr->least), attr->most);
        double keep = exp(-exp(param[0][h]) * step);
        if (in[2][b * length + t] == (double)t) keep = 0;
        for (int64_t n = 0; n < values; ++n) {
            double y = param[2][h] * x[n];
            for (int64_t i = 0; i < dim; ++i) {
                double *s = &state[i * values + n];
                *s = *s * keep + toward[i] * step * x[n];
                y += *s * from[i];
            }
            out[gate * values + n] = y;
        }
    }
}

static void space(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    for (int64_t b = 0; b < c->in_shape[0].dim[0]; ++b)
        for (int64_t h = 0; h < c->in_shape[1].dim[2]; ++h) space_head(c, in, param, b, h, out[0]);
}

enum { LENGTH_MOST = 300 };

/* Two sequences; in the second, documents begin at a few positions. */
static const int32_t *documents(int64_t length)
{
    static int32_t first[2 * LENGTH_MOST];
    int32_t begin = 0;
    for (int32_t t = 0; t < length; ++t) {
        if (t == 2 || t == 3 || t == 16 || t == 37 || t == 128 || t == 141) begin = t;
        first[t] = 0;
        first[length + t] = begin;
    }
    return first;
}

static void check_conv(const hil_op *op, int64_t size, int64_t length, int64_t channels)
{
    hil_conv_attr attr = {.size = size};
    op_case c = {.op = op,
                 .attr = &attr,
                 .reference = conv,
                 .ins = 2,
                 .outs = 1,
                 .params = 1,
                 .in_shape = {{3, {2, length, channels}}, {2, {2, length}}},
                 .ids = {NULL, documents(length)},
                 .rows = {1},
                 .cols = {channels * size},
                 .slack = 2e-6,
                 .samples = 40};
    op_check_dtypes(c);
    c.no_din = 1;
    op_check_fp32(c);
    c.no_din = 0, c.frozen[0] = true;
    op_check_fp32(c);
    c.params = 2, c.rows[1] = 1, c.cols[1] = channels;
    op_check_fp32(c);
    c.frozen[0] = false;
    op_check_dtypes(c);
    c.frozen[1] = true;
    op_check_fp32(c);
}

static void check_delta(int64_t length, int64_t key_heads, int64_t dim, int64_t heads,
                        int64_t values)
{
    hil_delta_attr attr = {.key_heads = key_heads, .key_dim = dim};
    hil_shape gates = {3, {2, length, heads}};
    op_case c = {.op = &hil_op_delta_rule,
                 .attr = &attr,
                 .reference = delta,
                 .ins = 4,
                 .outs = 1,
                 .params = 2,
                 .in_shape = {{3, {2, length, 2 * key_heads * dim + heads * values}},
                              gates,
                              gates,
                              {2, {2, length}}},
                 .ids = {NULL, NULL, NULL, documents(length)},
                 .rows = {1, 1},
                 .cols = {heads, heads},
                 .slack = 5e-6,
                 .samples = 12};
    op_check_dtypes(c);
    c.samples = 3;
    for (c.no_din = 1; c.no_din < 7; ++c.no_din) op_check_fp32(c);
    c.no_din = 0, c.frozen[0] = c.frozen[1] = true;
    op_check_fp32(c);
    attr.write = 2, c.frozen[0] = c.frozen[1] = false;
    op_check_fp32(c);
}

static void check_channels(int64_t length, int64_t heads, int64_t dim, int64_t values, double floor)
{
    hil_channel_delta_attr attr = {.rule = {.key_heads = heads, .key_dim = dim}, .floor = floor};
    op_case c = {.op = &hil_op_channel_delta,
                 .attr = &attr,
                 .reference = delta,
                 .ins = 4,
                 .outs = 1,
                 .params = 2,
                 .in_shape = {{3, {2, length, heads * (2 * dim + values)}},
                              {3, {2, length, heads}},
                              {3, {2, length, heads * dim}},
                              {2, {2, length}}},
                 .ids = {NULL, NULL, NULL, documents(length)},
                 .rows = {1, 1},
                 .cols = {heads, heads * dim},
                 .slack = 5e-6,
                 .samples = 12};
    op_check_dtypes(c);
    c.samples = 3;
    for (c.no_din = 1; c.no_din < 7; ++c.no_din) op_check_fp32(c);
    c.no_din = 0, c.frozen[0] = true;
    op_check_fp32(c);
    c.frozen[0] = false, c.frozen[1] = true;
    op_check_fp32(c);
    c.in_shape[2].dim[2] = heads;
    OP_REFUSED(&c, "are not gates for");
}

static op_case space_case(const hil_state_space_attr *attr, int64_t length, int64_t heads,
                          int64_t values)
{
    int64_t width = heads * values + 2 * attr->rule.key_heads * attr->rule.key_dim;
    return (op_case){
        .op = &hil_op_state_space,
        .attr = attr,
        .reference = space,
        .ins = 3,
        .outs = 1,
        .params = 3,
        .in_shape = {{3, {2, length, width}}, {3, {2, length, heads}}, {2, {2, length}}},
        .ids = {NULL, NULL, documents(length)},
        .rows = {1, 1, 1},
        .cols = {heads, heads, heads},
        .slack = 5e-6,
        .samples = 12};
}

static void check_space(int64_t length, int64_t groups, int64_t dim, int64_t heads, int64_t values)
{
    hil_state_space_attr attr = {.rule = {.key_heads = groups, .key_dim = dim}, .most = INFINITY};
    op_case c = space_case(&attr, length, heads, values);
    op_check_dtypes(c);
    c.samples = 3;
    for (c.no_din = 1; c.no_din < 4; ++c.no_din) op_check_fp32(c);
    c.no_din = 0, c.frozen[0] = c.frozen[1] = c.frozen[2] = true;
    op_check_fp32(c);
    attr.least = 0.6, attr.most = 0.9;
    c.frozen[0] = c.frozen[1] = c.frozen[2] = false;
    op_check_fp32(c);
}

static void check_floors(void)
{
    const double wrong[] = {5, NAN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        hil_channel_delta_attr attr = {.rule = {.key_heads = 2, .key_dim = 3}, .floor = wrong[i]};
        op_case c = {.op = &hil_op_channel_delta,
                     .attr = &attr,
                     .ins = 4,
                     .params = 2,
                     .in_shape = {{3, {1, 5, 20}}, {3, {1, 5, 2}}, {3, {1, 5, 6}}, {2, {1, 5}}}};
        OP_REFUSED(&c, "the floor of its decays is");
        attr.floor = 0, attr.rule.write = wrong[i];
        OP_REFUSED(&c, "the factor of its writes is");
    }
}

static void check_refused(void)
{
    hil_delta_attr attr = {.key_heads = 2, .key_dim = 3};
    op_case wrong = {.op = &hil_op_delta_rule,
                     .attr = &attr,
                     .ins = 3,
                     .in_shape = {{3, {1, 5, 20}}, {3, {1, 5, 3}}, {3, {1, 5, 3}}}};
    OP_REFUSED(&wrong, "delta_rule: (1, 5, 20) does not hold 2 heads of 3 for q and k, and 3 of "
                       "values");
    hil_state_space_attr groups = {.rule = attr};
    wrong = space_case(&groups, 5, 4, 2);
    wrong.in_shape[0].dim[2] = 21;
    OP_REFUSED(&wrong, "state_space: (2, 5, 21) does not hold 4 heads, and 2 groups of 3 for B and "
                       "C");
    wrong.in_shape[1].dim[1] = 4;
    OP_REFUSED(&wrong, "state_space: (2, 4, 4) are not steps for (2, 5, 21)");
}

/* Positions [at, at + count) of `x`, which has `length` positions in one sequence. */
typedef struct piece {
    const hil_op *op;
    const void *attr;
    const hil_tensor *x;
    int ins, params;
    int64_t cols; /* of each vector */
    const float *vector[3];
    float *out;     /* of position 0 */
    int64_t second; /* of the second vector, in place of `cols`; 0: those */
} piece;

static hil_status lend(void *owner, int param, int64_t tile, const void **data)
{
    CHECK_INT(tile, 0);
    *data = ((const piece *)owner)->vector[param];
    return HIL_OK;
}

static void end(void *owner, int param, int64_t tile)
{
    (void)owner, (void)param, (void)tile;
}

static void run(piece p, int64_t at, int64_t count)
{
    static const hil_op_source borrowed = {lend, end, NULL, NULL};
    hil_op_call call = {.op = p.op,
                        .attr = p.attr,
                        .compute = HIL_F32,
                        .ins = p.ins,
                        .outs = 1,
                        .params = p.params,
                        .source = &borrowed,
                        .owner = &p};
    for (int i = 0; i < p.ins; ++i) {
        call.in[i] = p.x[i];
        call.in[i].shape.dim[1] = count;
        int64_t row = p.x[i].dtype == HIL_F32 ? p.x[i].shape.dim[2] : 1;
        call.in[i].data = (float *)p.x[i].data + at * row;
    }
    for (int i = 0; i < p.params; ++i)
        call.param[i] = (hil_op_param){.dtype = HIL_F32,
                                       .rows = 1,
                                       .cols = i == 1 && p.second ? p.second : p.cols,
                                       .tile_rows = 1};
    CHECK_OK(hil_pool_create(&call.pool, 2));
    CHECK_OK(p.op->infer(&call));
    CHECK_INT(call.saveds, 0);
    call.out[0].data = p.out + at * hil_shape_count(&call.out[0].shape) / count;
    call.scratch = op_poisoned(call.forward_scratch);
    CHECK_OK(p.op->forward(&call));
    free(call.scratch);
    hil_pool_destroy(call.pool);
}

/* Pieces of a sequence, one after the other, give the bits of the whole. */
static void check_generation(void)
{
    enum { LENGTH = 150, KEYS = 2, DIM = 3, HEADS = 4, VALUES = 5, SIZE = 4 };
    enum { WIDTH = 2 * KEYS * DIM + HEADS * VALUES };
    static const int64_t pieces[] = {1, 1, 1, 2, 7, 130, 8};
    static float state[2][HEADS * DIM * VALUES], past[2][(SIZE - 1) * WIDTH], whole[LENGTH * WIDTH],
        parts[LENGTH * WIDTH], kernel[WIDTH * SIZE], rate[HEADS], bias[HEADS];
    hil_tensor x[4] = {{HIL_F32, {3, {1, LENGTH, WIDTH}}, NULL},
                       {HIL_F32, {3, {1, LENGTH, HEADS}}, NULL},
                       {HIL_F32, {3, {1, LENGTH, HEADS}}, NULL},
                       {HIL_I32, {2, {1, LENGTH}}, NULL}};
    for (int i = 0; i < 4; ++i) x[i].data = calloc(1, hil_tensor_bytes(&x[i]));
    for (int i = 0; i < 3; ++i) op_fill(&x[i], 1);
    op_fill(&(hil_tensor){HIL_F32, {1, {WIDTH * SIZE}}, kernel}, 1);
    op_fill(&(hil_tensor){HIL_F32, {1, {HEADS}}, rate}, 1);
    op_fill(&(hil_tensor){HIL_F32, {1, {HEADS}}, bias}, 1);
    memset(state, 0xff, sizeof state);
    memset(past, 0xff, sizeof past);
    hil_delta_attr delta_attr = {.key_heads = KEYS, .key_dim = DIM};
    hil_conv_attr conv_attr = {.size = SIZE};
    hil_tensor conv_in[2] = {x[0], x[3]}, space_in[3] = {x[0], x[1], x[3]};
    hil_state_space_attr space_attr = {.rule = delta_attr, .most = INFINITY};
    piece rule = {&hil_op_delta_rule, &delta_attr, x, 4, 2, HEADS, {rate, bias}, whole, 0};
    piece filter = {&hil_op_causal_conv, &conv_attr, conv_in, 2, 1,
                    WIDTH * SIZE,        {kernel},   NULL,    0};
    hil_channel_delta_attr channel_attr = {.rule = {.key_heads = HEADS, .key_dim = DIM}};
    /* Its heads of values have two numbers. */
    hil_tensor by_channel[4] = {x[0], x[1], x[0], x[3]};
    by_channel[2].shape.dim[2] = HEADS * DIM;
    piece channels = {&hil_op_channel_delta, &channel_attr, by_channel, 4, 2, HEADS,
                      {rate, kernel},        whole,         HEADS * DIM};
    piece steps = {&hil_op_state_space,  &space_attr, space_in, 3, 3, HEADS,
                   {rate, bias, kernel}, whole,       0};

    hil_delta_attr *const attrs[] = {&delta_attr, &space_attr.rule, &channel_attr.rule};
    static const hil_op *const cached[] = {&hil_op_delta_rule_cached, &hil_op_state_space_cached,
                                           &hil_op_channel_delta_cached};
    for (int kind = 0; kind < 3; ++kind) {
        hil_delta_attr *attr = attrs[kind];
        run(rule, 0, LENGTH);
        rule.op = cached[kind];
        --rule.ins, rule.out = parts;
        for (size_t i = 0, at = 0; i < sizeof pieces / sizeof *pieces; at += (size_t)pieces[i++]) {
            attr->length = (int64_t)at;
            attr->state = state[i % 2], attr->next = state[(i + 1) % 2];
            run(rule, (int64_t)at, pieces[i]);
        }
        CHECK(memcmp(whole, parts, LENGTH * HEADS * VALUES * sizeof(float)) == 0);
        rule = kind ? channels : steps;
    }

    filter.out = whole;
    run(filter, 0, LENGTH);
    filter.op = &hil_op_causal_conv_cached, filter.ins = 1, filter.out = parts;
    int64_t length = 0;
    for (int i = 0; length < LENGTH; length += pieces[i++]) {
        conv_attr = (hil_conv_attr){SIZE, past[i % 2], past[(i + 1) % 2], length};
        run(filter, length, pieces[i]);
    }
    CHECK(memcmp(whole, parts, sizeof whole) == 0);
    for (int i = 0; i < 4; ++i) free(x[i].data);
}

int main(void)
{
    check_conv(&hil_op_causal_conv, 4, 45, 7);
    check_conv(&hil_op_causal_conv, 4, 2, 1);
    check_conv(&hil_op_causal_conv, 1, 5, 3);
    check_conv(&hil_op_causal_conv, 3, 41, 130);
    check_conv(&hil_op_causal_conv_plain, 3, 45, 7);
    check_delta(40, 2, 3, 4, 5);
    check_delta(150, 1, 4, 3, 2);
    check_delta(1, 1, 2, 1, 1);
    check_channels(40, 2, 3, 5, 0);
    check_channels(150, 1, 4, 2, -5);
    check_generation();
    check_space(40, 2, 3, 4, 5);
    check_space(150, 1, 4, 9, 2);
    check_space(1, 1, 2, 1, 1);
    check_floors();
    check_refused();
    return 0;
}
