/* op_cost.c - estimates the work of each operation from its shapes. */
#include "ops/op_cost.h"

#include "ops/attention/attention_block.h"
#include "ops/attention/attention_parts.h"
#include "ops/attention/attention_work.h"
#include "ops/elements/elements.h"
#include "ops/linear/orthogonal.h"
#include "ops/recurrent/delta.h"
#include "ops/rows/rows.h"

/* Products with a weight of at most this many rows or columns, as adapters have, reach half of a
   GPU's memory bandwidth: fitted to steps of adapters on an H200. */
#define THIN 128
#define ROUND_BYTES 5 /* to round a number to 8 bits on a GPU: read twice, written once */
/* A GPU sums the gradient of a bias at half of its memory's bandwidth: measured. Gradients of
   vectors are partial sums, which kernels of their own add up. */
#define BIAS_PASSES 2
#define VECTOR_KERNELS 2
/* cuBLASLt takes about as long to launch a product as two other kernels: fitted to small steps of
   GPT-2 124M on an H200. */
#define PRODUCT_KERNELS 2

#define STORED_NUMBERS 2.5 /* packed in the time of rounding one of C */

/* What the CPU computes beside products. One operation is what a probed loop (SwiGLU) takes for one
   of its own; how the others compare was fitted to bench_ops on two cores with AVX-512. */
#define ROUND_OPERATIONS 60      /* for each number that is rounded to 8 bits */
#define SOFTMAX_OPERATIONS 50    /* for each logit */
#define NORM_ROW_OPERATIONS 1500 /* for each row of a norm */
#define DELTA_OPERATIONS 15      /* for each number of the states of all positions, in forward */
#define DELTA_BACK_OPERATIONS 85
#define SPACE_OPERATIONS 9 /* likewise */
#define SPACE_BACK_OPERATIONS 60

/* On a GPU the positions of the delta rule follow each other: as if each read and wrote its states
   in memory so often. Not measured yet. */
#define DELTA_PASSES 2
#define DELTA_BACK_PASSES 8

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

/* A product of matrices in dtype `in`, summed to c of dtype `out`. */
static hil_gemm product(int64_t m, int64_t n, int64_t k, hil_dtype in, hil_dtype out, bool add)
{
    return (hil_gemm){
        .m = m, .n = n, .k = k, .a = {.dtype = in}, .b = {.dtype = in}, .c_dtype = out, .add = add};
}

/* Adds what `times` products of this size take beyond multiplying and moving each number once. */
static void add_division(hil_work *w, const hil_gemm *g, double times, int threads)
{
    double flops = 2 * (double)g->m * (double)g->n * (double)g->k;
    double a = (double)g->m * (double)g->k, b = (double)g->n * (double)g->k;
    hil_gemm_division d = {.stretch = 1, .packs_a = 1, .packs_b = 1};
    if (threads > 0) hil_gemm_divide(g, threads, &d);
    w->gemm += times * (d.stretch - 1) * flops;
    w->packed += times * (d.packs_a * a + d.packs_b * b);
    if (g->c_dtype != HIL_F32)
        w->packed += times * STORED_NUMBERS * d.stretch * (double)g->m * (double)g->n;
    w->runs += times * d.runs;
    w->tiles += times;
}

/* Adds a product that is cut into tiles along the size `cut`, which is one of g's. */
static void add_tiled(hil_work *w, hil_gemm *g, int64_t *cut, const hil_op_param *p, int threads)
{
    int64_t whole = *cut, tiles = hil_op_tiles(p);
    size_t in = hil_dtype_size(g->a.dtype), out = hil_dtype_size(g->c_dtype);
    double m = (double)g->m, n = (double)g->n, k = (double)g->k;
    w->gemm += 2 * m * n * k;
    w->bytes += (n * k + m * k) * (double)in + m * n * (double)out * (g->add ? 2 : 1);
    if (tiles > 1) *cut = p->tile_rows;
    w->kernels += PRODUCT_KERNELS * (double)tiles;
    add_division(w, g, tiles > 1 ? (double)whole / (double)p->tile_rows : 1, threads);
}

void hil_work_add_product(hil_work *work, const hil_gemm *g, int threads)
{
    hil_gemm whole = *g;
    add_tiled(work, &whole, &whole.n, &(hil_op_param){.rows = 1, .tile_rows = 1}, threads);
}

/* On a GPU every tile after the first reads the sum of those before, and a kernel of its own reads
   the last one and rounds it to the gradient. */
static void add_tile_sums(hil_work *w, double count, int64_t tiles, size_t size, bool add)
{
    if (tiles == 1) return;
    w->apart += count * (sizeof(float) * (double)tiles + (double)size * (add ? 2 : 1));
}

/* Turns products into those of factors in 8 bits, and rounds x, dy and the weight before them. */
static void make_fp8(hil_work *w, const hil_op_call *call, double weights, bool backward)
{
    const hil_op_param *p = &call->param[0];
    double rows = (double)hil_shape_rows(&call->in[0].shape), numbers = 0;
    if (!p->fp8) return;
    if (!backward || call->din[0].data) numbers += weights;
    if (!backward || p->trainable) numbers += rows * (double)p->cols;
    if (backward) numbers += rows * (double)p->rows;
    w->gemm_fp8 = w->gemm;
    w->gemm = 0;
    w->apart += ROUND_BYTES * numbers;
    w->vector += ROUND_OPERATIONS * numbers;
    w->runs += backward ? 6 : 4;
}

static void linear(const hil_op_call *call, bool backward, int threads, hil_work *w)
{
    const hil_op_param *p = &call->param[0];
    int64_t rows = hil_shape_rows(&call->in[0].shape), n = p->rows, k = p->cols;
    int64_t tiles = hil_op_tiles(p);
    hil_dtype dtype = call->compute;
    if (!backward) {
        hil_gemm g = product(rows, n, k, dtype, dtype, call->ins == 2);
        g.b.row_stride = 1;
        add_tiled(w, &g, &g.n, p, threads);
    }
    if (backward && call->din[0].data) {
        hil_gemm g =
            product(rows, k, n, dtype, tiles > 1 ? HIL_F32 : dtype, tiles > 1 || call->din_add[0]);
        add_tiled(w, &g, &g.k, p, threads);
        add_tile_sums(w, (double)(rows * k), tiles, hil_dtype_size(dtype), call->din_add[0]);
        w->runs += tiles > 1;
    }
    if (backward && p->trainable) {
        hil_gemm g = product(n, k, rows, dtype, HIL_F32, true);
        add_tiled(w, &g, &g.m, p, threads);
    }
    if (p->rows <= THIN || p->cols <= THIN) w->apart += w->bytes;
    if (backward && call->params == 2 && call->param[1].trainable) {
        double bias = (double)(rows * n) * (double)hil_dtype_size(dtype);
        w->bytes += bias;
        w->apart += BIAS_PASSES * bias;
        w->runs += 2;
        w->kernels += VECTOR_KERNELS;
    }
    if (call->params == 2 && !backward) w->kernels += 1;
    make_fp8(w, call, (double)n * (double)k, backward);
}

/* Each row meets one expert's weights, but all weights are read. Of experts without weights come as
   many rows as of others. */
static void grouped(const hil_op_call *call, bool backward, int threads, hil_work *w)
{
    const hil_op_param *p = &call->param[0];
    const hil_grouped_attr *attr = call->attr;
    int64_t all = hil_shape_rows(&call->in[0].shape), n = p->rows, k = p->cols;
    int64_t rows = all * attr->experts / (call->in[1].shape.dim[0] - 1);
    int64_t each = rows > attr->experts ? rows / attr->experts : 1;
    double flops = 2 * (double)rows * (double)n * (double)k, experts = (double)attr->experts;
    double weights = (double)(p->rows * attr->experts) * (double)k,
           size = (double)hil_dtype_size(call->compute);
    hil_dtype dtype = call->compute;
    w->bytes += touched(call, backward);
    if (!backward || call->din[0].data) {
        hil_gemm g = backward ? product(each, k, n, dtype, dtype, false)
                              : product(each, n, k, dtype, dtype, false);
        g.b.row_stride = !backward;
        w->gemm += flops;
        w->bytes += weights * size;
        w->kernels += 1;
        add_division(w, &g, experts, threads);
    }
    if (backward && p->trainable) {
        hil_gemm g = product(n, k, each, dtype, HIL_F32, true);
        w->gemm += flops;
        w->bytes += 2 * weights * sizeof(float);
        w->kernels += 1;
        add_division(w, &g, experts, threads);
    }
    make_fp8(w, call, weights, backward);
}

static void low_rank(const hil_op_call *call, bool backward, int threads, hil_work *w)
{
    int64_t rows = hil_shape_rows(&call->in[0].shape), k = call->param[0].cols, width = 0;
    hil_dtype dtype = call->compute;
    bool trains = false;
    for (int i = 0; i < call->params; ++i) {
        width += call->param[i].rows;
        trains = trains || call->param[i].trainable;
    }
    hil_gemm forward = product(rows, width, k, dtype, HIL_F32, false),
             back = product(rows, k, width, dtype, dtype, call->din_add[0]),
             gradient = product(width, k, rows, dtype, HIL_F32, true);
    if (!backward) hil_work_add_product(w, &forward, threads);
    if (backward && call->din[0].data) hil_work_add_product(w, &back, threads);
    if (backward && trains) hil_work_add_product(w, &gradient, threads);
    w->runs += 1;
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
    w->vector = (backward ? 140 : 80) * elements;
    w->runs = backward ? 2 * call->params : call->params;
    if (backward) w->apart = 2 * bytes(&call->in[0]);
}

static void weight_norm(const hil_op_call *call, int threads, hil_work *w)
{
    const hil_op_param *p = &call->param[0];
    hil_gemm g = product(call->param[1].rows, p->rows, p->cols, call->compute, HIL_F32, false);
    hil_work_add_product(w, &g, threads);
    w->bytes += (double)p->rows * (double)p->cols * (double)hil_dtype_size(call->compute);
    w->runs += 2;
}

static void head(const hil_op_call *call, bool backward, int threads, hil_work *w)
{
    const hil_op_param *p = &call->param[0];
    int64_t rows = hil_shape_rows(&call->in[0].shape), n = p->rows, k = p->cols;
    hil_dtype dtype = call->compute;
    w->runs += backward ? 1 : 2;
    if (backward) {
        w->bytes += 2 * bytes(&call->in[0]);
        return;
    }
    hil_gemm logits = product(rows, n, k, dtype, HIL_F32, false);
    add_tiled(w, &logits, &logits.n, p, threads);
    w->vector += SOFTMAX_OPERATIONS * (double)(rows * n);
    w->apart = (call->differentiate ? 3 : 1) * (double)(rows * n) * (double)hil_dtype_size(dtype);
    w->kernels += 1;
    if (!call->differentiate) return;
    hil_gemm input = product(rows, k, n, dtype, HIL_F32, true),
             weight = product(n, k, rows, dtype, HIL_F32, true);
    add_tiled(w, &input, &input.k, p, threads);
    if (p->trainable) add_tiled(w, &weight, &weight.m, p, threads);
}

/* Tasks of attention: in forward blocks of queries of each group of heads, in backward groups. */
static int64_t attention_tasks(const int64_t *q, int64_t groups, bool backward)
{
    int64_t share = groups ? q[2] / groups : 1, step = share ? HIL_ATTENTION_ROWS / share : 1;
    if (step < 1) step = 1;
    return q[0] * groups * (backward ? 1 : (q[1] + step - 1) / step);
}

static void attention(const hil_op_call *call, bool backward, int threads, hil_work *w)
{
    hil_attention_parts parts = hil_attention_parts_of(call, call->in);
    const int64_t *q = parts.q.shape.dim; /* B, T, H, D */
    bool cached = call->op == &hil_op_attention_cached;
    const hil_cached_attr *cache = call->attr;
    const hil_attention_attr *attr = call->attr;
    hil_attention_size size = {.batch = q[0],
                               .queries = q[1],
                               .heads = q[2],
                               .groups = parts.k.shape.dim[2],
                               .dim = q[3],
                               .past = cached ? cache->length : 0,
                               .window = cached ? cache->window : attr->window};
    int64_t chunk = cached ? cache->chunk : attr->chunk;
    if (chunk && !size.window) size.window = (chunk + 1) / 2; /* a position sees half of one */
    w->attention = threads > 0 ? hil_attention_work(&size, backward)
                               : hil_attention_device_work(&size, backward);
    w->kernels = backward ? 3 : 1;
    int64_t tasks = attention_tasks(q, size.groups, backward);
    w->attention *= hil_pool_stretch(tasks, threads);
    if (tasks < threads) w->idle = (double)(threads - tasks) / (double)(threads - 1);
    w->runs = 1;
    w->bytes = touched(call, backward);
    if (cached)
        w->bytes +=
            2 * (double)(size.past * size.groups * q[3]) * (double)hil_dtype_size(call->compute);
}

static bool is_space(const hil_op_call *call)
{
    return call->op == &hil_op_state_space || call->op == &hil_op_state_space_cached;
}

/* Tasks are heads of values in each sequence, in backward parts of those that share keys. */
static void delta(const hil_op_call *call, bool backward, int threads, hil_work *w)
{
    const hil_delta_attr *attr = call->attr;
    const int64_t *y = call->out[0].shape.dim; /* B, T, H, V */
    double states = count(&call->out[0]) * (double)attr->key_dim;
    w->bytes = touched(call, backward);
    if (is_space(call))
        w->vector = (backward ? SPACE_BACK_OPERATIONS : SPACE_OPERATIONS) * states;
    else
        w->vector = (backward ? DELTA_BACK_OPERATIONS : DELTA_OPERATIONS) * states;
    int64_t parts = attr->key_heads * hil_delta_parts(call, y[2] / attr->key_heads);
    w->vector *= hil_pool_stretch(y[0] * (backward ? parts : y[2]), threads);
    w->apart = (backward ? DELTA_BACK_PASSES : DELTA_PASSES) * states * sizeof(float);
    w->runs = backward ? 1 + call->params : 1;
}

/* Each step makes a Gram matrix, squares it, and multiplies x by the result, all in bf16. */
static void orthogonal(const hil_op_call *call, int threads, hil_work *w)
{
    hil_orthogonal o = hil_orthogonal_of(call);
    int64_t n = o.side;
    hil_gemm step[] = {product(n, n, o.rows + o.cols - n, HIL_BF16, HIL_BF16, false),
                       product(n, n, n, HIL_BF16, HIL_BF16, false),
                       product(o.rows, o.cols, n, HIL_BF16, HIL_BF16, false)};
    for (int i = 0; i < HIL_ORTHOGONAL_STEPS; ++i)
        for (int j = 0; j < 3; ++j) hil_work_add_product(w, &step[j], threads);
    w->bytes += touched(call, false);
}

/* Operations of an element: forward and backward. */
typedef struct element_cost {
    const hil_op *op;
    double forward, backward;
} element_cost;

static double element_operations(const hil_op_call *call, bool backward)
{
    static const element_cost erf_form = {&hil_op_gelu, 130, 200};
    static const element_cost table[] = {{&hil_op_rmsnorm, 22, 42},
                                         {&hil_op_layernorm, 30, 55},
                                         {&hil_op_head_norm, 30, 55},
                                         {&hil_op_head_rmsnorm, 30, 55},
                                         {&hil_op_gelu, 80, 110},
                                         {&hil_op_geglu, 80, 140},
                                         {&hil_op_swiglu, 80, 140},
                                         {&hil_op_swiglu_clamped, 80, 140},
                                         {&hil_op_softcap, 80, 110},
                                         {&hil_op_xielu, 130, 200},
                                         {&hil_op_rope, 40, 40},
                                         {&hil_op_causal_conv, 60, 300},
                                         {&hil_op_causal_conv_cached, 60, 0},
                                         {&hil_op_causal_conv_plain, 20, 100},
                                         {&hil_op_causal_conv_plain_cached, 20, 0},
                                         {&hil_op_sigmoid_gate, 80, 140},
                                         {&hil_op_softplus_gate, 130, 200},
                                         {&hil_op_dropout, 110, 110},
                                         {&hil_op_embedding, 20, 400},
                                         {&hil_op_dispatch, 25, 25},
                                         {&hil_op_combine, 110, 140},
                                         {&hil_op_expert_identity, 15, 30},
                                         {&hil_op_route, 1400, 750},
                                         {&hil_op_router_z, 50, 60}};
    const element_cost *cost = NULL;
    bool gate = call->op == &hil_op_sigmoid_gate || call->op == &hil_op_softplus_gate;
    if (gate && hil_shape_cols(&call->in[1].shape) == 1) return 0;
    for (size_t i = 0; i < sizeof table / sizeof *table && !cost; ++i)
        if (call->op == table[i].op) cost = &table[i];
    if (!cost) return 0;
    bool gelu = call->op == &hil_op_gelu || call->op == &hil_op_geglu;
    if (gelu && !((const hil_gelu_attr *)call->attr)->tanh) cost = &erf_form;
    return backward ? cost->backward : cost->forward;
}

static bool is_delta(const hil_op *op)
{
    return op == &hil_op_delta_rule || op == &hil_op_delta_rule_cached ||
           op == &hil_op_channel_delta || op == &hil_op_channel_delta_cached;
}

static bool is_conv(const hil_op *op)
{
    return op == &hil_op_causal_conv || op == &hil_op_causal_conv_cached ||
           op == &hil_op_causal_conv_plain || op == &hil_op_causal_conv_plain_cached;
}

static bool is_norm(const hil_op *op)
{
    return op == &hil_op_layernorm || op == &hil_op_rmsnorm || op == &hil_op_head_norm ||
           op == &hil_op_head_rmsnorm;
}

/* Tasks of an operation that passes over its elements. */
static int64_t row_tasks(const hil_op_call *call)
{
    const hil_tensor *x = call->op == &hil_op_router_z ? &call->in[0] : &call->out[0];
    if (is_conv(call->op) || is_norm(call->op) || call->op == &hil_op_router_z)
        return hil_row_grid(hil_shape_rows(&x->shape)).blocks;
    return (hil_shape_count(&x->shape) + HIL_ELEMENTS_TASK - 1) / HIL_ELEMENTS_TASK;
}

static void rows(const hil_op_call *call, bool backward, int threads, hil_work *w)
{
    bool routes = call->op == &hil_op_route || call->op == &hil_op_router_z;
    const hil_tensor *x = routes ? &call->in[0] : &call->out[0];
    int64_t tasks = row_tasks(call);
    double elements = count(x), stretch = hil_pool_stretch(tasks, threads);
    w->bytes = touched(call, backward);
    w->vector = element_operations(call, backward) * elements;
    if (is_norm(call->op)) w->vector += NORM_ROW_OPERATIONS * (double)hil_shape_rows(&x->shape);
    if (call->op == &hil_op_custom) w->bytes *= ((const hil_custom_attr *)call->attr)->passes;
    if (call->op == &hil_op_embedding) /* plus rows of the table, or of their fp32 sums */
        w->bytes += backward ? 8 * count(&call->out[0]) : bytes(&call->out[0]);
    w->bytes *= stretch;
    w->vector *= stretch;
    w->runs = tasks > 1;
    w->kernels = 1;
    for (int i = 0; backward && i < call->params; ++i) {
        w->runs += call->param[i].trainable;
        w->kernels += VECTOR_KERNELS * call->param[i].trainable;
    }
}

void hil_op_work(const hil_op_call *call, bool backward, int threads, hil_work *out)
{
    *out = (hil_work){0};
    if (call->op == &hil_op_linear) {
        linear(call, backward, threads, out);
    } else if (call->op == &hil_op_grouped_linear) {
        grouped(call, backward, threads, out);
    } else if (call->op == &hil_op_low_rank) {
        low_rank(call, backward, threads, out);
    } else if (call->op == &hil_op_gated) {
        gated(call, backward, out);
    } else if (call->op == &hil_op_orthogonal) {
        orthogonal(call, threads, out);
    } else if (call->op == &hil_op_weight_norm) {
        weight_norm(call, threads, out);
    } else if (call->op == &hil_op_head) {
        head(call, backward, threads, out);
    } else if (call->op == &hil_op_attention || call->op == &hil_op_attention_cached) {
        attention(call, backward, threads, out);
    } else if (is_delta(call->op) || is_space(call)) {
        delta(call, backward, threads, out);
    } else {
        rows(call, backward, threads, out);
    }
}
