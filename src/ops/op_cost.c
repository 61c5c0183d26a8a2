/* op_cost.c - estimates the work of each operation from its shapes. */
#include "ops/op_cost.h"

#include "ops/attention/attention_parts.h"
#include "ops/ops.h"

/* Cost of an element besides reading and writing it, in passes over its bytes: measured with
   bench_ops. */
#define PACK_PASSES 4 /* to pack a product's second matrix */
#define TANH_PASSES 3
/* Products with a weight of at most this many rows or columns, as adapters have, reach half of a
   GPU's memory bandwidth: fitted to steps of adapters on an H200. */
#define THIN 128
#define ERF_PASSES 6
#define RANDOM_PASSES 4
#define SCATTER_PASSES 3
#define SOFTMAX_PASSES 5 /* over fp32 logits: maximum, exp, sum, scale, round */

static double count(const hil_tensor *t)
{
    return (double)hil_shape_count(&t->shape);
}

static double bytes(const hil_tensor *t)
{
    return (double)hil_tensor_bytes(t);
}

/* Bytes that forward reads and writes; bytes that backward reads and writes. */
static double touched(const hil_op_call *call, bool backward)
{
    double sum = 0;
    for (int i = 0; i < call->ins; ++i) {
        if (!backward || call->op->keep_in >> i & 1) sum += bytes(&call->in[i]);
        if (backward && call->din[i].data) sum += bytes(&call->in[i]) * (call->din_add[i] ? 2 : 1);
    }
    for (int i = 0; i < call->outs; ++i) sum += bytes(&call->out[i]);
    return sum;
}

/* c (m x n) of `size` bytes an element = a (m x k) * b (k x n), read with `in` bytes an element. */
static void add_product(hil_work *w, const double mnk[3], size_t in, size_t out, bool add)
{
    double m = mnk[0], n = mnk[1], k = mnk[2];
    w->gemm += 2 * m * n * k;
    w->bytes += (n * k + m * k) * (double)in;
    w->extra += (PACK_PASSES - 1) * n * k * (double)in;
    w->bytes += m * n * (double)out * (add ? 2 : 1);
}

/* On a GPU every tile after the first reads the sum of those before, and a kernel of its own reads
   the last one and rounds it to the gradient. */
static void add_tile_sums(hil_work *w, double count, int64_t tiles, size_t size, bool add)
{
    if (tiles == 1) return;
    w->apart += count * (sizeof(float) * (double)tiles + (double)size * (add ? 2 : 1));
}

static void linear(const hil_op_call *call, bool backward, hil_work *w)
{
    const hil_op_param *p = &call->param[0];
    double rows = (double)hil_shape_rows(&call->in[0].shape);
    double n = (double)p->rows, k = (double)p->cols;
    int64_t tiles = hil_op_tiles(p);
    size_t size = hil_dtype_size(call->compute);
    if (!backward) add_product(w, (double[]){rows, n, k}, size, size, call->ins == 2);
    if (backward && call->din[0].data) {
        add_product(w, (double[]){rows, k, n}, size, tiles > 1 ? sizeof(float) : size,
                    tiles > 1 || call->din_add[0]);
        add_tile_sums(w, rows * k, tiles, size, call->din_add[0]);
    }
    if (backward && p->trainable) add_product(w, (double[]){n, k, rows}, size, sizeof(float), true);
    if (backward && call->params == 2 && call->param[1].trainable)
        w->bytes += rows * n * (double)size;
    if (p->rows <= THIN || p->cols <= THIN) w->apart += w->bytes;
}

/* Each row meets one expert's weights, but all weights are read. */
static void grouped(const hil_op_call *call, bool backward, hil_work *w)
{
    const hil_op_param *p = &call->param[0];
    const hil_grouped_attr *attr = call->attr;
    const hil_tensor *x = &call->in[0];
    double n = (double)p->rows, k = (double)p->cols;
    double flops = 2 * (double)hil_shape_rows(&x->shape) * n * k;
    double weights = (double)(p->rows * attr->experts) * k,
           size = (double)hil_dtype_size(call->compute);
    w->bytes += touched(call, backward);
    if (!backward || call->din[0].data) {
        w->gemm += flops;
        w->bytes += weights * size;
        w->extra += (PACK_PASSES - 1) * weights * size;
    }
    if (backward && p->trainable) {
        w->gemm += flops;
        w->bytes += 2 * weights * sizeof(float);
    }
}

static void low_rank(const hil_op_call *call, bool backward, hil_work *w)
{
    double rows = (double)hil_shape_rows(&call->in[0].shape), k = (double)call->param[0].cols;
    size_t size = hil_dtype_size(call->compute);
    double width = 0;
    bool trains = false;
    for (int i = 0; i < call->params; ++i) {
        width += (double)call->param[i].rows;
        trains = trains || call->param[i].trainable;
    }
    if (!backward) add_product(w, (double[]){rows, width, k}, size, sizeof(float), false);
    if (backward && call->din[0].data)
        add_product(w, (double[]){rows, k, width}, size, size, call->din_add[0]);
    if (backward && trains) add_product(w, (double[]){width, k, rows}, size, sizeof(float), true);
    if (width <= THIN) w->apart += w->bytes;
}

/* The thin products are made in the passes over gate and up, but for those with the gradients of
   both, which are read again. */
static void gated(const hil_op_call *call, bool backward, hil_work *w)
{
    double elements = count(&call->in[0]), ranks = 0;
    for (int i = 0; i < call->params; ++i) {
        const hil_op_param *p = &call->param[i];
        ranks += (double)(i < 2 ? p->cols : p->rows);
    }
    w->gemm = (backward ? 3 : 1) * 2 * elements * ranks;
    w->bytes = touched(call, backward);
    w->extra = (TANH_PASSES - 1) * w->bytes;
    if (backward) w->apart = 2 * bytes(&call->in[0]);
}

static void weight_norm(const hil_op_call *call, hil_work *w)
{
    const hil_op_param *p = &call->param[0];
    size_t size = hil_dtype_size(call->compute);
    double rank = (double)call->param[1].rows;
    add_product(w, (double[]){rank, (double)p->rows, (double)p->cols}, size, sizeof(float), false);
    w->bytes += (double)p->rows * (double)p->cols * (double)size;
}

static void head(const hil_op_call *call, bool backward, hil_work *w)
{
    const hil_op_param *p = &call->param[0];
    double rows = (double)hil_shape_rows(&call->in[0].shape);
    double n = (double)p->rows, k = (double)p->cols;
    size_t size = hil_dtype_size(call->compute);
    if (backward) {
        w->bytes += 2 * bytes(&call->in[0]);
        return;
    }
    add_product(w, (double[]){rows, n, k}, size, sizeof(float), false);
    w->extra += SOFTMAX_PASSES * rows * n * sizeof(float);
    if (!call->differentiate) return;
    add_product(w, (double[]){rows, k, n}, size, sizeof(float), true);
    if (p->trainable) add_product(w, (double[]){n, k, rows}, size, sizeof(float), true);
}

/* Pairs of a query and a key in its mask, for T queries after `past` positions. */
static double pairs(double queries, double past, double window)
{
    double all = queries * past + queries * (queries + 1) / 2;
    if (!(window > 0)) return all;
    /* Query t sees min(past + t + 1, window). */
    double full = past + queries - window; /* queries that see a whole window */
    if (full <= 0) return all;
    if (full > queries) full = queries;
    double rest = queries - full;
    return full * window + rest * past + rest * (rest + 1) / 2;
}

static void attention(const hil_op_call *call, bool backward, hil_work *w)
{
    hil_attention_parts parts = hil_attention_parts_of(call, call->in);
    const int64_t *q = parts.q.shape.dim; /* B, T, H, D */
    bool cached = call->op == &hil_op_attention_cached;
    const hil_cached_attr *cache = call->attr;
    const hil_attention_attr *attr = call->attr;
    double past = cached ? (double)cache->length : 0;
    double window = (double)(cached ? cache->window : attr->window);
    double each = pairs((double)q[1], past, window);
    /* Two products forward; five backward. */
    w->attention = (backward ? 10 : 4) * (double)q[0] * (double)q[2] * (double)q[3] * each;
    w->bytes = touched(call, backward);
    if (cached)
        w->bytes += 2 * past * (double)(parts.k.shape.dim[2] * q[3]) *
                    (double)hil_dtype_size(call->compute);
}

static double passes(const hil_op_call *call, bool backward)
{
    if (call->op == &hil_op_gelu || call->op == &hil_op_geglu) {
        const hil_gelu_attr *attr = call->attr;
        return attr->tanh ? TANH_PASSES : ERF_PASSES;
    }
    if (call->op == &hil_op_swiglu || call->op == &hil_op_softcap ||
        call->op == &hil_op_swiglu_clamped)
        return TANH_PASSES;
    if (call->op == &hil_op_custom) return ((const hil_custom_attr *)call->attr)->passes;
    if (call->op == &hil_op_dropout) return RANDOM_PASSES;
    if (call->op == &hil_op_embedding && backward) return SCATTER_PASSES;
    return 1;
}

void hil_op_work(const hil_op_call *call, bool backward, hil_work *out)
{
    *out = (hil_work){0};
    if (call->op == &hil_op_linear) {
        linear(call, backward, out);
    } else if (call->op == &hil_op_grouped_linear) {
        grouped(call, backward, out);
    } else if (call->op == &hil_op_low_rank) {
        low_rank(call, backward, out);
    } else if (call->op == &hil_op_gated) {
        gated(call, backward, out);
    } else if (call->op == &hil_op_weight_norm) {
        weight_norm(call, out);
    } else if (call->op == &hil_op_head) {
        head(call, backward, out);
    } else if (call->op == &hil_op_attention || call->op == &hil_op_attention_cached) {
        attention(call, backward, out);
    } else {
        out->bytes = touched(call, backward);
        out->extra = (passes(call, backward) - 1) * out->bytes;
        if (call->op == &hil_op_embedding) /* plus rows of the table, or of their fp32 sums */
            out->bytes += backward ? 8 * count(&call->out[0]) : bytes(&call->out[0]);
    }
}
