/* bench_ops.c - each operation against the time that its bytes take to move. Prints milliseconds,
   and the share of the bandwidth of a plain copy that each pass reaches. */
#include "base/clock.h"
#include "base/cpu.h"
#include "op_bench.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 4, T = 512, C = 768, WIDE = 3072, H = 12, VOCAB = 50257 };
#define REPEAT 7

static void *memory(size_t bytes)
{
    void *out = NULL;
    if (posix_memalign(&out, 64, bytes + 64)) exit(1);
    memset(out, 0, bytes);
    return out;
}

static hil_pool *pool;
static double copy_rate; /* bytes per second, read and written */

typedef struct copy_job {
    char *from, *to;
    size_t part;
} copy_job;

static void copy_part(void *context, int64_t i, int thread)
{
    (void)thread;
    const copy_job *j = context;
    memcpy(j->to + (size_t)i * j->part, j->from + (size_t)i * j->part, j->part);
}

static void measure_copy(void)
{
    copy_job j = {memory(64 << 20), memory(64 << 20), 1 << 18};
    double best = INFINITY;
    for (int i = 0; i < REPEAT; ++i) {
        double start = hil_clock_now();
        hil_pool_run(pool, copy_part, &j, 256);
        best = fmin(best, hil_clock_now() - start);
    }
    copy_rate = 2 * 64.0 * (1 << 20) / best;
    printf("copy %.1f GB/s, %d threads, %s\n", copy_rate * 1e-9, hil_pool_threads(pool),
           hil_cpu_name(hil_cpu_best()));
    free(j.from);
    free(j.to);
}

static int ids = T; /* of them in a tensor of integers */

static void fill(hil_tensor *t)
{
    int64_t count = hil_shape_count(&t->shape);
    t->data = memory(hil_tensor_bytes(t));
    if (t->dtype == HIL_I32)
        for (int64_t i = 0; i < count; ++i) ((int32_t *)t->data)[i] = (int32_t)(i * 7919 % ids);
    else
        for (int64_t i = 0; i < count; ++i) {
            float x = sinf((float)i);
            hil_dtype_from_f32((char *)t->data + (size_t)i * hil_dtype_size(t->dtype), &x, t->dtype,
                               1);
        }
}

static void report(const char *name, const char *pass, double seconds, double bytes)
{
    printf("  %-10s %-8s %8.2f ms  %5.1f GB/s  %4.0f%%\n", name, pass, seconds * 1e3,
           bytes / seconds * 1e-9, 100 * bytes / seconds / copy_rate);
}

static void run(hil_op_call call)
{
    lent_params p = {0};
    call.pool = pool;
    call.source = &lent_source;
    call.owner = &p;
    call.differentiate = true;
    call.loss_scale = 1;
    for (int i = 0; i < call.ins; ++i) fill(&call.in[i]);
    for (int i = 0; i < call.params; ++i) {
        hil_op_param *q = &call.param[i];
        q->dtype = q->rows == 1 ? HIL_F32 : call.compute;
        q->tile_rows = q->rows;
        q->trainable = true;
        hil_tensor w = {q->dtype, {2, {q->rows, q->cols}}, NULL};
        fill(&w);
        p.weight[i] = w.data;
        p.sum[i] = memory((size_t)(q->rows * q->cols) * 4);
    }
    if (call.op->infer(&call)) {
        puts(hil_status_message());
        exit(1);
    }
    for (int i = 0; i < call.outs; ++i) {
        fill(&call.out[i]);
        call.dout[i] = call.out[i];
        fill(&call.dout[i]);
    }
    for (int i = 0; i < call.saveds; ++i) fill(&call.saved[i]);
    for (int i = 0; i < call.ins; ++i)
        if (call.in[i].dtype != HIL_I32) {
            call.din[i] = call.in[i];
            fill(&call.din[i]);
        }
    size_t most =
        call.forward_scratch > call.backward_scratch ? call.forward_scratch : call.backward_scratch;
    call.scratch = memory(most);
    double best[2] = {INFINITY, INFINITY};
    int repeat = call.op == &hil_op_head ? 1 : REPEAT;
    for (int i = 0; i < repeat; ++i) {
        double start = hil_clock_now();
        if (call.op->forward(&call)) exit(1);
        double middle = hil_clock_now();
        if (call.op->backward && call.op->backward(&call)) exit(1);
        best[0] = fmin(best[0], middle - start);
        best[1] = fmin(best[1], hil_clock_now() - middle);
    }
    report(call.op->name, "forward", best[0], call_bytes(&call, false));
    if (call.op->backward) report(call.op->name, "backward", best[1], call_bytes(&call, true));
    for (int i = 0; i < HIL_OP_TENSORS; ++i) {
        free(call.in[i].data);
        free(call.out[i].data);
        free(call.dout[i].data);
        free(call.din[i].data);
        free(call.saved[i].data);
    }
    for (int i = 0; i < HIL_OP_PARAMS; ++i) {
        free(p.weight[i]);
        free(p.sum[i]);
    }
    free(call.scratch);
}

static void run_all(hil_dtype compute)
{
    static float frequency[C / H / 2];
    for (int i = 0; i < C / H / 2; ++i) frequency[i] = powf(10000, -(float)i / (C / H / 2));
    hil_norm_attr norm = {.eps = 1e-5};
    hil_gelu_attr tanh_form = {true}, erf_form = {false};
    hil_rope_attr rope = {.frequency = frequency};
    hil_dropout_attr dropout = {0.1};
    hil_shape narrow = {3, {B, T, C}}, wide = {3, {B, T, WIDE}};
    hil_shape heads = {4, {B, T, H, C / H}}, tokens = {2, {B, T}};
    hil_tensor x = {compute, narrow, NULL}, y = {compute, narrow, NULL};
    hil_tensor inner = {compute, wide, NULL}, index = {HIL_I32, tokens, NULL};
    printf("%s\n", hil_dtype_name(compute));
    hil_op_call base = {.compute = compute, .ins = 1, .in = {x}};
    hil_op_call call = base;
    call.op = &hil_op_layernorm, call.attr = &norm, call.params = 2;
    call.param[0] = call.param[1] = (hil_op_param){.rows = 1, .cols = C};
    run(call);
    call.op = &hil_op_rmsnorm, call.params = 1;
    run(call);
    call = base, call.op = &hil_op_gelu, call.attr = &tanh_form, call.in[0] = inner;
    run(call);
    call.attr = &erf_form;
    run(call);
    call = base, call.op = &hil_op_swiglu, call.ins = 2, call.in[0] = call.in[1] = inner;
    run(call);
    call = base, call.op = &hil_op_add, call.ins = 2, call.in[1] = y;
    run(call);
    call = base, call.op = &hil_op_dropout, call.attr = &dropout;
    run(call);
    call = base, call.op = &hil_op_rope, call.attr = &rope, call.ins = 2, call.in[0] = y;
    call.in[0].shape = heads, call.in[1] = index;
    run(call);
    call = base, call.op = &hil_op_embedding, call.params = 1, call.in[0] = index;
    call.param[0] = (hil_op_param){.rows = VOCAB, .cols = C};
    run(call);
    call = base, call.op = &hil_op_linear, call.params = 2, call.in[0] = y;
    call.param[0] = (hil_op_param){.rows = WIDE, .cols = C};
    call.param[1] = (hil_op_param){.rows = 1, .cols = WIDE};
    run(call);
    call = base, call.op = &hil_op_head, call.ins = 2, call.params = 1, call.in[0] = y;
    call.in[0].shape.dim[0] = index.shape.dim[0] = 1;
    call.in[1] = index, call.param[0] = (hil_op_param){.rows = VOCAB, .cols = C};
    run(call);
}

/* Of layers about half as wide as those of Qwen3-Next and Granite 4: one sequence each. */
static void run_recurrent(hil_dtype compute)
{
    enum { LENGTH = 1024, HEADS = 16, KEYS = 8, DIM = 128, SPACES = 48, SPACE = 64, STATES = 128 };
    hil_delta_attr delta = {.key_heads = KEYS, .key_dim = DIM};
    hil_state_space_attr space = {.rule = {.key_heads = 1, .key_dim = STATES}, .most = INFINITY};
    hil_conv_attr conv = {.size = 4};
    hil_tensor first = {HIL_I32, {2, {1, LENGTH}}, NULL}; /* all 0: one document */
    hil_tensor x = {compute, {3, {1, LENGTH, (2 * KEYS + HEADS) * DIM}}, NULL};
    hil_tensor gate = {compute, {3, {1, LENGTH, HEADS}}, NULL};
    hil_op_call call = {.op = &hil_op_causal_conv, .attr = &conv, .compute = compute};
    call.ins = 2, call.in[0] = x, call.in[1] = first, call.params = 1;
    call.param[0] = (hil_op_param){.rows = 1, .cols = x.shape.dim[2] * conv.size};
    run(call);
    call.op = &hil_op_delta_rule, call.attr = &delta, call.ins = 4, call.params = 2;
    call.in[1] = call.in[2] = gate, call.in[3] = first;
    call.param[0] = call.param[1] = (hil_op_param){.rows = 1, .cols = HEADS};
    run(call);
    x.shape.dim[2] = SPACES * SPACE + 2 * STATES, gate.shape.dim[2] = SPACES;
    call.op = &hil_op_state_space, call.attr = &space, call.ins = 3, call.params = 3;
    call.in[0] = x, call.in[1] = gate, call.in[2] = first;
    for (int i = 0; i < 3; ++i) call.param[i] = (hil_op_param){.rows = 1, .cols = SPACES};
    run(call);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1) hil_cpu_limit((hil_cpu_level)strtol(argv[1], NULL, 10));
    if (hil_pool_create(&pool, 0)) return 1;
    measure_copy();
    run_all(HIL_F32);
    run_all(HIL_BF16);
    ids = 1;
    run_recurrent(HIL_F32);
    run_recurrent(HIL_BF16);
    hil_pool_destroy(pool);
    return 0;
}
