/* bench_gpu_ops.c - each operation on a GPU against its floor: the bytes that it must move at the
   speed of a copy, or its operations at the speed of the best large product, whichever is longer.
   All speeds are measured in this run.
   bench_gpu_ops [--quick] [NAME]: only operations whose name contains NAME. */
#include "device/cuda.h"
#include "ops/cuda.h"
#include "op_bench.h"
#include "ops/ops.h"
#include "kernels/cuda.h"
#include "optim/cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 5
#define RANDOM_BYTES ((size_t)32 << 20)

static hil_device *gpu;
static hil_pool *pool;
static void *random_half, *random_float; /* RANDOM_BYTES each, numbers of -1 to 1 */
static double copy_rate, product_rate;   /* bytes and operations per second */
static bool quick;
static const char *only = "";

static void must(hil_status status)
{
    if (status == HIL_OK) return;
    printf("%s\n", hil_status_message());
    exit(1);
}

static void *device_memory(size_t bytes)
{
    void *out;
    must(gpu->heap->alloc(gpu, bytes, &out));
    return out;
}

static void *upload(const void *host, size_t bytes)
{
    void *out = device_memory(bytes);
    must(gpu->queue->copy(gpu, HIL_STREAM_COMPUTE, out, host, bytes));
    must(gpu->queue->finish(gpu));
    return out;
}

static void make_random(void)
{
    size_t count = RANDOM_BYTES / 2;
    float *numbers = malloc(count * 4);
    uint16_t *half = malloc(count * 2);
    uint64_t seed = 1;
    for (size_t i = 0; i < count; ++i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        numbers[i] = (float)(seed >> 40) * 0x1p-23f - 1;
    }
    hil_dtype_from_f32(half, numbers, HIL_BF16, (int64_t)count);
    random_half = upload(half, RANDOM_BYTES);
    random_float = upload(numbers, RANDOM_BYTES);
    free(numbers);
    free(half);
}

static void fill(hil_tensor *t, int64_t ids)
{
    size_t bytes = hil_tensor_bytes(t);
    if (t->dtype == HIL_I32) {
        int64_t count = hil_shape_count(&t->shape);
        int32_t *host = malloc(bytes);
        for (int64_t i = 0; i < count; ++i)
            host[i] = ids                  ? (int32_t)(i * 7919 % ids)
                      : t->shape.ndim == 1 ? (int32_t)(i * 7919 % count)
                                           : (int32_t)(i % t->shape.dim[1]);
        t->data = upload(host, bytes);
        free(host);
        return;
    }
    t->data = device_memory(bytes);
    const void *from = t->dtype == HIL_F32 ? random_float : random_half;
    for (size_t at = 0; at < bytes; at += RANDOM_BYTES)
        must(gpu->queue->copy(gpu, HIL_STREAM_COMPUTE, (char *)t->data + at, from,
                              bytes - at < RANDOM_BYTES ? bytes - at : RANDOM_BYTES));
}

static int64_t document; /* length of those that attention sees */

static void fill_documents(const hil_tensor *first)
{
    int64_t count = hil_shape_count(&first->shape), length = first->shape.dim[1];
    int32_t *host = malloc(hil_tensor_bytes(first));
    for (int64_t i = 0; i < count; ++i) host[i] = (int32_t)(i % length / document * document);
    must(gpu->queue->copy(gpu, HIL_STREAM_COMPUTE, first->data, host, hil_tensor_bytes(first)));
    must(gpu->queue->finish(gpu));
    free(host);
}

/* Experts have equally many of the rows. */
static void fill_begins(const hil_tensor *begin, int64_t rows)
{
    int64_t experts = begin->shape.dim[0] - 1;
    int32_t *host = malloc(hil_tensor_bytes(begin));
    for (int64_t e = 0; e <= experts; ++e) host[e] = (int32_t)(rows * e / experts);
    must(gpu->queue->copy(gpu, HIL_STREAM_COMPUTE, begin->data, host, hil_tensor_bytes(begin)));
    must(gpu->queue->finish(gpu));
    free(host);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of several rounds, each of as many calls as take about 10 ms. */
static double measure(hil_status (*run)(void *context), void *context)
{
    double seconds, round[ROUNDS];
    must(run(context));
    must(hil_cuda_timer_begin(gpu));
    must(run(context));
    must(hil_cuda_timer_end(gpu, &seconds));
    int calls = (int)((quick ? 2e-3 : 1e-2) / seconds);
    calls = calls < 1 ? 1 : calls > 200 ? 200 : calls;
    for (int r = 0; r < ROUNDS; ++r) {
        must(hil_cuda_timer_begin(gpu));
        for (int i = 0; i < calls; ++i) must(run(context));
        must(hil_cuda_timer_end(gpu, &seconds));
        round[r] = seconds / calls;
    }
    qsort(round, ROUNDS, sizeof *round, compare);
    return round[ROUNDS / 2];
}

static void report(const char *name, const char *pass, double seconds, double bytes, double flops)
{
    double by_bytes = bytes / copy_rate, by_flops = product_rate > 0 ? flops / product_rate : 0;
    double floor = fmax(by_bytes, by_flops);
    printf("  %-22s %-8s %9.3f ms  floor %9.3f ms  %4.0f%%  %7.2f TB/s %7.1f TFLOP/s\n", name, pass,
           seconds * 1e3, floor * 1e3, 100 * floor / seconds, bytes / seconds * 1e-12,
           flops / seconds * 1e-12);
}

static hil_status run_forward(void *context)
{
    return hil_op_cuda_forward(context);
}
static hil_status run_backward(void *context)
{
    return hil_op_cuda_backward(context);
}

/* flops: of forward and of backward. */
static void bench(const char *name, hil_op_call call, const double flops[2])
{
    lent_params p = {0};
    if (!strstr(name, only)) return;
    call.device = gpu;
    call.pool = pool;
    call.source = &lent_source;
    call.owner = &p;
    call.differentiate = true;
    call.loss_scale = 1e-4f;
    bool grouped = call.op == &hil_op_grouped_linear;
    int64_t experts = grouped ? ((const hil_grouped_attr *)call.attr)->experts : 1;
    call.hold = (size_t)1 << 30;
    for (int i = 0; i < call.ins; ++i) fill(&call.in[i], call.params ? call.param[0].rows : 0);
    if (grouped) fill_begins(&call.in[1], call.in[0].shape.dim[0]);
    if (grouped) p.expert = (size_t)(call.param[0].rows * call.param[0].cols);
    p.size = hil_dtype_size(call.compute);
    if (call.op == &hil_op_attention) fill_documents(&call.in[call.ins - 1]);
    double weights = 0;
    for (int i = 0; i < call.params; ++i) {
        hil_op_param *q = &call.param[i];
        q->dtype = q->rows == 1 ? HIL_F32 : call.compute;
        q->tile_rows = q->rows;
        q->trainable = true;
        hil_tensor w = {q->dtype, {2, {q->rows * experts, q->cols}}, NULL}, sum = w;
        sum.dtype = HIL_F32;
        fill(&w, 0);
        fill(&sum, 0);
        p.weight[i] = w.data;
        p.sum[i] = sum.data;
        if (call.op != &hil_op_embedding) weights += (double)hil_tensor_bytes(&w);
    }
    must(hil_op_cuda_infer(&call));
    for (int i = 0; i < call.outs; ++i) {
        call.dout[i] = call.out[i];
        fill(&call.out[i], 0);
        fill(&call.dout[i], 0);
    }
    for (int i = 0; i < call.saveds; ++i) fill(&call.saved[i], 0);
    for (int i = 0; i < call.ins; ++i)
        if (call.in[i].dtype != HIL_I32 && !(call.op->pass >> i & 1)) {
            call.din[i] = call.in[i];
            fill(&call.din[i], 0);
        }
    /* What goes into a norm also goes around it: a gradient is there already. */
    call.din_add[0] = call.op == &hil_op_rmsnorm || call.op == &hil_op_layernorm;
    size_t most =
        call.forward_scratch > call.backward_scratch ? call.forward_scratch : call.backward_scratch;
    call.scratch = device_memory(most);
    double seconds = measure(run_forward, &call);
    double bytes = call_bytes(&call, false) + weights;
    if (call.op == &hil_op_embedding) bytes += (double)hil_tensor_bytes(&call.out[0]);
    if (call.op == &hil_op_head) bytes += 5 * weights; /* again, and the sums read and written */
    report(name, "forward", seconds, bytes, flops ? flops[0] : 0);
    if (call.op->backward && call.op != &hil_op_head) {
        seconds = measure(run_backward, &call);
        bytes = call_bytes(&call, true) + weights +
                (call.op == &hil_op_linear || grouped ? 4 * weights : 0);
        if (call.op == &hil_op_embedding) bytes += 4 * (double)hil_tensor_bytes(&call.out[0]);
        if (call.din_add[0]) bytes += (double)hil_tensor_bytes(&call.din[0]);
        report(name, "backward", seconds, bytes, flops ? flops[1] : 0);
    }
    must(gpu->queue->finish(gpu));
    for (int i = 0; i < HIL_OP_TENSORS; ++i) {
        gpu->heap->free(gpu, call.in[i].data);
        gpu->heap->free(gpu, call.out[i].data);
        gpu->heap->free(gpu, call.dout[i].data);
        gpu->heap->free(gpu, call.din[i].data);
        gpu->heap->free(gpu, call.saved[i].data);
    }
    for (int i = 0; i < HIL_OP_PARAMS; ++i) {
        gpu->heap->free(gpu, p.weight[i]);
        gpu->heap->free(gpu, p.sum[i]);
    }
    gpu->heap->free(gpu, call.scratch);
}

typedef struct shape {
    const char *name;
    int64_t batch, length, hidden, heads, groups, dim, inner, vocab;
} shape;

static hil_op_call call_of(const hil_op *op, const hil_tensor *x)
{
    return (hil_op_call){.op = op, .compute = x->dtype, .ins = 1, .in = {*x}};
}

/* What a product is made with. */
enum { BIAS = 1, RESIDUAL = 2 };

static void bench_linear(const char *name, const shape *s, int64_t n, int64_t k, unsigned with)
{
    hil_tensor x = {HIL_BF16, {3, {s->batch, s->length, k}}, NULL}, y = x;
    hil_op_call call = call_of(&hil_op_linear, &x);
    double product = 2 * (double)(s->batch * s->length) * (double)n * (double)k;
    y.shape.dim[2] = n;
    if (with & RESIDUAL) call.ins = 2, call.in[1] = y;
    call.params = with & BIAS ? 2 : 1;
    call.param[0] = (hil_op_param){.rows = n, .cols = k};
    call.param[1] = (hil_op_param){.rows = 1, .cols = n};
    bench(name, call, (double[]){product, 2 * product});
}

/* Attention in `call`, whose first input holds q, k and v, or q alone. */
static void bench_heads(const char *name, hil_op_call call, const shape *s, int64_t length)
{
    hil_attention_attr attr = {.scale = 1 / sqrt((double)s->dim)};
    call.attr = &attr;
    call.in[call.ins++] = (hil_tensor){HIL_I32, {2, {s->batch, s->length}}, NULL};
    document = length;
    double pairs = (double)s->length * (double)(length + 1) / 2;
    double two = 4 * (double)(s->batch * s->heads * s->dim) * pairs;
    bench(name, call, (double[]){two, 2.5 * two});
}

/* Sequences of documents of `length` tokens each; `share`: of all pairs, as attention is told. */
static void bench_attention(const char *name, const shape *s, int64_t length, double share)
{
    hil_tensor q = {HIL_BF16, {4, {s->batch, s->length, s->heads, s->dim}}, NULL}, k = q;
    k.shape.dim[2] = s->groups;
    hil_op_call call = call_of(&hil_op_attention, &q);
    call.ins = 3, call.in[1] = call.in[2] = k, call.share = share;
    bench_heads(name, call, s, length);
}

/* The same with q, k and v side by side, as one linear layer leaves them. */
static void bench_packed(const char *name, const shape *s, int64_t length, double share)
{
    hil_tensor x = {HIL_BF16, {4, {s->batch, s->length, 3 * s->heads, s->dim}}, NULL};
    hil_op_call call = call_of(&hil_op_attention, &x);
    call.share = share;
    bench_heads(name, call, s, length);
}

/* What every model has besides its layers: sums and the embedding. */
static void bench_residual(const shape *s)
{
    hil_tensor x = {HIL_BF16, {3, {s->batch, s->length, s->hidden}}, NULL};
    hil_tensor ids = {HIL_I32, {2, {s->batch, s->length}}, NULL};
    hil_op_call call = call_of(&hil_op_add, &x);
    call.ins = 2, call.in[1] = x;
    bench("add", call, NULL);
    call = call_of(&hil_op_embedding, &ids), call.compute = HIL_BF16, call.params = 1;
    call.param[0] = (hil_op_param){.rows = s->vocab, .cols = s->hidden};
    bench("embedding", call, NULL);
}

static void bench_rows(const shape *s)
{
    static float frequency[128];
    for (int i = 0; i < s->dim / 2; ++i)
        frequency[i] = powf(500000, -(float)i / (float)(s->dim / 2));
    hil_norm_attr norm = {.eps = 1e-5};
    hil_rope_attr rope = {.frequency = frequency};
    hil_tensor x = {HIL_BF16, {3, {s->batch, s->length, s->hidden}}, NULL}, inner = x, q = x, k;
    hil_tensor ids = {HIL_I32, {2, {s->batch, s->length}}, NULL};
    inner.shape.dim[2] = s->inner;
    q.shape = (hil_shape){4, {s->batch, s->length, s->heads, s->dim}};
    k = q, k.shape.dim[2] = s->groups;
    hil_op_call call = call_of(&hil_op_rmsnorm, &x);
    call.attr = &norm, call.params = 1;
    call.param[0] = (hil_op_param){.rows = 1, .cols = s->hidden};
    bench("rmsnorm", call, NULL);
    call = call_of(&hil_op_rope, &q), call.attr = &rope, call.ins = 2, call.in[1] = ids;
    bench("rope of q", call, NULL);
    call.in[0] = k;
    bench("rope of k", call, NULL);
    call = call_of(&hil_op_swiglu, &inner), call.ins = 2, call.in[1] = inner;
    bench("swiglu", call, NULL);
    bench_residual(s);
}

static void bench_head(const shape *s)
{
    hil_tensor x = {HIL_BF16, {3, {s->batch, s->length, s->hidden}}, NULL};
    hil_op_call call = call_of(&hil_op_head, &x);
    double product = 2 * (double)(s->batch * s->length) * (double)s->vocab * (double)s->hidden;
    call.ins = 2, call.params = 1;
    call.in[1] = (hil_tensor){HIL_I32, {2, {s->batch, s->length}}, NULL};
    call.param[0] = (hil_op_param){.rows = s->vocab, .cols = s->hidden};
    bench("head with gradients", call, (double[]){3 * product, 0});
}

static void bench_model(const shape *s)
{
    printf("%s, %lld x %lld tokens, bf16\n", s->name, (long long)s->batch, (long long)s->length);
    bench_linear("linear q", s, s->heads * s->dim, s->hidden, 0);
    bench_linear("linear k", s, s->groups * s->dim, s->hidden, 0);
    bench_linear("linear o + x", s, s->hidden, s->heads * s->dim, RESIDUAL);
    bench_linear("linear gate", s, s->inner, s->hidden, 0);
    bench_linear("linear down", s, s->hidden, s->inner, 0);
    bench_linear("linear down + x", s, s->hidden, s->inner, RESIDUAL);
    bench_attention("attention", s, s->length, 1);
    bench_attention("attention in tiles", s, s->length, 0);
    bench_attention("attention, documents", s, 1024, 0);
    bench_attention("attention, documents by mask", s, 1024, 0.99);
    bench_rows(s);
    bench_head(s);
}

/* The experts' part of a layer: `experts` of them, of which each token uses `chosen`. */
typedef struct mixture_shape {
    int64_t tokens, hidden, inner, experts, chosen;
} mixture_shape;

static void bench_grouped(const char *name, const mixture_shape *s, int64_t n, int64_t k)
{
    hil_grouped_attr attr = {s->experts};
    hil_tensor rows = {HIL_BF16, {2, {s->tokens * s->chosen, k}}, NULL};
    hil_op_call call = call_of(&hil_op_grouped_linear, &rows);
    double product = 2 * (double)(s->tokens * s->chosen) * (double)n * (double)k;
    call.attr = &attr, call.ins = 2, call.params = 1;
    call.in[1] = (hil_tensor){HIL_I32, {1, {s->experts + 1}}, NULL};
    call.param[0] = (hil_op_param){.rows = n, .cols = k};
    bench(name, call, (double[]){product, 2 * product});
}

static void bench_mixture(const mixture_shape *s)
{
    hil_route_attr attr = {.chosen = s->chosen, .normalized = true};
    hil_tensor x = {HIL_BF16, {2, {s->tokens, s->hidden}}, NULL}, logits = x, rows = x;
    hil_tensor weights = {HIL_F32, {2, {s->tokens, s->chosen}}, NULL};
    hil_tensor places = {HIL_I32, {1, {s->tokens * s->chosen}}, NULL};
    logits.shape.dim[1] = s->experts, rows.shape.dim[0] = s->tokens * s->chosen;
    printf("mixture, %lld tokens, %lld of %lld experts, bf16\n", (long long)s->tokens,
           (long long)s->chosen, (long long)s->experts);
    hil_op_call call = call_of(&hil_op_route, &logits);
    call.attr = &attr;
    bench("route", call, NULL);
    call = call_of(&hil_op_dispatch, &x), call.ins = 2, call.in[1] = places;
    bench("dispatch", call, NULL);
    bench_grouped("grouped gate", s, s->inner, s->hidden);
    bench_grouped("grouped down", s, s->hidden, s->inner);
    call = call_of(&hil_op_combine, &rows), call.ins = 4;
    call.in[1] = weights, call.in[2] = places, call.in[3] = x;
    bench("combine", call, NULL);
}

/* GPT-2: linear layers with bias, one for q, k and v. */
static void bench_gpt(const shape *s)
{
    hil_norm_attr norm = {.eps = 1e-5};
    hil_gelu_attr gelu = {.tanh = true};
    hil_tensor x = {HIL_BF16, {3, {s->batch, s->length, s->hidden}}, NULL}, inner = x;
    inner.shape.dim[2] = s->inner;
    printf("%s, %lld x %lld tokens, bf16\n", s->name, (long long)s->batch, (long long)s->length);
    bench_linear("linear qkv", s, 3 * s->hidden, s->hidden, BIAS);
    bench_linear("linear out", s, s->hidden, s->hidden, BIAS);
    bench_linear("linear out + x", s, s->hidden, s->hidden, BIAS | RESIDUAL);
    bench_linear("linear up", s, s->inner, s->hidden, BIAS);
    bench_linear("linear down", s, s->hidden, s->inner, BIAS);
    bench_linear("linear down + x", s, s->hidden, s->inner, BIAS | RESIDUAL);
    bench_attention("attention", s, s->length, 1);
    bench_packed("attention, packed", s, s->length, 1);
    bench_packed("the same in tiles", s, s->length, 0);
    hil_op_call call = call_of(&hil_op_layernorm, &x);
    call.attr = &norm, call.params = 2;
    call.param[0] = call.param[1] = (hil_op_param){.rows = 1, .cols = s->hidden};
    bench("layernorm", call, NULL);
    call = call_of(&hil_op_gelu, &inner), call.attr = &gelu;
    bench("gelu", call, NULL);
    bench_residual(s);
    bench_head(s);
}

typedef struct update {
    const hil_rule *rule;
    hil_block block;
    double *lane, *square;
} update;

static hil_status run_update(void *context)
{
    const update *u = context;
    const struct {
        const hil_rule *rule;
        hil_rule_step step; /* the first of a hil_update_rule's */
    } rule = {u->rule, {1, 0.1f, 0.95f, 0.05f, 1e-3f, 1, 1e-8f, 1, 1e-3f}};
    return hil_cuda_math.update(gpu, HIL_STREAM_COMPUTE, &rule, &u->block, 1);
}

static hil_status run_square(void *context)
{
    const update *u = context;
    return hil_kernels_cuda_square(gpu, HIL_STREAM_COMPUTE, &u->block, 0, u->lane);
}

/* Of a sum where a moment would be, over the gradient. */
static hil_status run_round(void *context)
{
    const update *u = context;
    hil_rounding rounding = {.dtype = u->block.dtype, .ranges = 1};
    rounding.range[0] = (hil_rounding_range){.count = u->block.count,
                                             .sum = u->block.moment[0],
                                             .out = (void *)(uintptr_t)u->block.gradient[0],
                                             .lanes = u->lane,
                                             .square = u->square,
                                             .last = true};
    return hil_cuda_math.round(gpu, HIL_STREAM_COMPUTE, &rounding);
}

static void bench_rules(void)
{
    int64_t count = (int64_t)1 << 28;
    hil_tensor part[5];
    for (int i = 0; i < 5; ++i) {
        part[i] = (hil_tensor){i == 2 || i == 3 ? HIL_F32 : HIL_BF16, {1, {count}}, NULL};
        fill(&part[i], 0);
    }
    update u = {.block = {.count = count,
                          .dtype = HIL_BF16,
                          .weight = part[0].data,
                          .rest = part[1].data,
                          .moment = {part[2].data, part[3].data},
                          .gradient = {part[4].data},
                          .gradients = 1}};
    printf("update of %lld elements, bf16\n", (long long)count);
    must(gpu->heap->share(gpu, (size_t)(count / HIL_BLOCK) * sizeof(double), (void **)&u.square));
    u.lane = device_memory((size_t)(count / HIL_BLOCK) * HIL_SQUARES * sizeof(double));
    must(gpu->queue->zero(gpu, HIL_STREAM_COMPUTE, u.lane,
                          (size_t)(count / HIL_BLOCK) * HIL_SQUARES * sizeof(double)));
    report("squares", "", measure(run_square, &u), (double)count * 2, 0);
    report("round, squares", "", measure(run_round, &u), (double)count * 6, 0);
    u.block.count = 1 << 22; /* a matrix of a layer */
    report("squares of 4M", "", measure(run_square, &u), (double)u.block.count * 2, 0);
    report("round, squares of 4M", "", measure(run_round, &u), (double)u.block.count * 6, 0);
    u.block.count = count;
    const double bytes[HIL_RULES] = {26, 18, 10 + 4 * 260.0 / 256};
    for (int i = 0; i < HIL_RULES; ++i) {
        u.rule = &hil_rules[i];
        report(u.rule->name, "", measure(run_update, &u), (double)count * bytes[i], 0);
    }
    must(gpu->queue->finish(gpu));
    for (int i = 0; i < 5; ++i) gpu->heap->free(gpu, part[i].data);
    gpu->heap->unshare(gpu, u.square);
    gpu->heap->free(gpu, u.lane);
}

typedef struct copying {
    void *from, *to;
    size_t bytes;
} copying;

static hil_status run_copy(void *context)
{
    const copying *c = context;
    return gpu->queue->copy(gpu, HIL_STREAM_COMPUTE, c->to, c->from, c->bytes);
}

static void measure_limits(void)
{
    hil_tensor a = {HIL_BF16, {1, {(int64_t)1 << 30}}, NULL}, b = a;
    fill(&a, 0);
    fill(&b, 0);
    copying c = {a.data, b.data, (size_t)1 << 31};
    copy_rate = 2 * (double)c.bytes / measure(run_copy, &c);
    must(gpu->queue->finish(gpu));
    gpu->heap->free(gpu, a.data);
    gpu->heap->free(gpu, b.data);
    static lent_params p;
    enum { N = 8192 };
    hil_tensor x = {HIL_BF16, {2, {N, N}}, NULL}, w = x;
    hil_op_call call = call_of(&hil_op_linear, &x);
    fill(&w, 0);
    fill(&call.in[0], 0);
    p.weight[0] = w.data;
    call.params = 1, call.device = gpu, call.pool = pool, call.source = &lent_source,
    call.owner = &p;
    call.param[0] = (hil_op_param){.dtype = HIL_BF16, .rows = N, .cols = N, .tile_rows = N};
    must(hil_op_cuda_infer(&call));
    fill(&call.out[0], 0);
    product_rate = 2 * (double)N * N * N / measure(run_forward, &call);
    must(gpu->queue->finish(gpu));
    gpu->heap->free(gpu, w.data);
    gpu->heap->free(gpu, call.in[0].data);
    gpu->heap->free(gpu, call.out[0].data);
    printf("%s: copy %.2f TB/s (read and written), product of 8192 x 8192 bf16 %.0f TFLOP/s\n",
           gpu->name, copy_rate * 1e-12, product_rate * 1e-12);
}

int main(int argc, char **argv)
{
    static const shape shapes[] = {
        {"125M", 32, 1024, 768, 12, 12, 64, 3072, 50257},
        {"1B", 8, 4096, 2048, 32, 8, 64, 8192, 128256},
        {"3B", 4, 4096, 3072, 24, 8, 128, 8192, 128256},
        {"8B", 4, 4096, 4096, 32, 8, 128, 14336, 128256},
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--quick") == 0)
            quick = true;
        else
            only = argv[i];
    }
    if (hil_cuda_count() == 0) {
        printf("no GPU here\n");
        return 0;
    }
    must(hil_pool_create(&pool, 1));
    must(hil_cuda_open(&gpu, 0));
    make_random();
    measure_limits();
    bench_gpt(&shapes[0]);
    for (size_t i = 1; i < sizeof shapes / sizeof *shapes; ++i) bench_model(&shapes[i]);
    bench_mixture(&(mixture_shape){8192, 2048, 768, 128, 8}); /* of Qwen3-30B-A3B */
    bench_mixture(&(mixture_shape){32768, 2048, 768, 128, 8});
    if (!*only) bench_rules();
    gpu->heap->free(gpu, random_half);
    gpu->heap->free(gpu, random_float);
    hil_cuda_close(gpu);
    hil_pool_destroy(pool);
    return 0;
}
