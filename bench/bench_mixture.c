/* bench_mixture.c - forward and backward of a mixture layer on the CPU: router, experts and their
   weighted sum, with the gradients of x and of all weights. For each line of its input it runs once
   and prints seconds, and CPU seconds of all threads: bench/mixture_cpu.py lets it take turns with
   PyTorch.

       bench_mixture DTYPE TOKENS HIDDEN WIDTH EXPERTS CHOSEN THREADS */
#include "base/clock.h"
#include "base/philox.h"
#include "op_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUTER, ROUTE, DISPATCH, GATE, UP, SWIGLU, DOWN, COMBINE, CALLS };

static hil_pool *pool;
static hil_op_call call[CALLS];
static lent_params lent[CALLS];

static void *memory(size_t bytes)
{
    void *out = NULL;
    if (posix_memalign(&out, 64, bytes + 64)) exit(1);
    memset(out, 0, bytes);
    return out;
}

static void check(hil_status status)
{
    if (status == HIL_OK) return;
    fprintf(stderr, "%s\n", hil_status_message());
    exit(1);
}

static void fill(const hil_tensor *t, uint64_t seed, double scale)
{
    size_t size = hil_dtype_size(t->dtype);
    for (int64_t i = 0; i < hil_shape_count(&t->shape); ++i) {
        uint32_t word[4];
        hil_philox(seed, 0, (uint64_t)i, word);
        float x = (float)(((double)word[0] / 4294967296.0 - 0.5) * scale);
        hil_dtype_from_f32((char *)t->data + (size_t)i * size, &x, t->dtype, 1);
    }
}

static hil_op_call *begin(int number, const hil_op *op, hil_dtype compute, const void *attr)
{
    hil_op_call *c = &call[number];
    *c = (hil_op_call){.op = op,
                       .attr = attr,
                       .pool = pool,
                       .compute = compute,
                       .differentiate = true,
                       .loss_scale = 1,
                       .source = &lent_source,
                       .owner = &lent[number],
                       .hold = SIZE_MAX};
    return c;
}

/* `experts` matrices of (rows, cols). */
static void add_weights(int number, int64_t experts, int64_t rows, int64_t cols)
{
    hil_op_call *c = &call[number];
    hil_tensor w = {c->compute, {2, {experts * rows, cols}}, NULL};
    w.data = memory(hil_tensor_bytes(&w));
    fill(&w, (uint64_t)number, 2 / sqrt((double)cols));
    c->params = 1;
    c->param[0] = (hil_op_param){
        .dtype = c->compute, .rows = rows, .cols = cols, .tile_rows = rows, .trainable = true};
    lent[number] = (lent_params){.weight = {w.data},
                                 .sum = {memory((size_t)(experts * rows * cols) * sizeof(float))},
                                 .expert = (size_t)(rows * cols),
                                 .size = hil_dtype_size(c->compute)};
}

static void add_input(int number, const hil_tensor *x)
{
    call[number].in[call[number].ins++] = *x;
}

/* Gives memory to results, to gradients of inputs that are numbers, and to the rest. */
static void finish(int number, int outs)
{
    hil_op_call *c = &call[number];
    c->outs = outs;
    check(hil_op_infer(c));
    for (int i = 0; i < c->outs; ++i) {
        c->out[i].data = memory(hil_tensor_bytes(&c->out[i]));
        c->dout[i] = c->out[i];
        c->dout[i].data = NULL;
    }
    for (int i = 0; i < c->saveds; ++i) c->saved[i].data = memory(hil_tensor_bytes(&c->saved[i]));
    for (int i = 0; i < c->ins; ++i) {
        c->din[i] = c->in[i];
        c->din[i].data = c->in[i].dtype == HIL_I32 ? NULL : memory(hil_tensor_bytes(&c->in[i]));
    }
    size_t most =
        c->forward_scratch > c->backward_scratch ? c->forward_scratch : c->backward_scratch;
    c->scratch = memory(most);
}

/* The gradient of a result is that of the input which reads it. */
static void connect(int maker, int out, int reader, int in)
{
    call[maker].dout[out].data = call[reader].din[in].data;
}

typedef struct shape {
    hil_dtype dtype;
    int64_t tokens, hidden, width, experts, chosen;
} shape;

/* A product with a matrix (rows, cols) for each of `experts`; of one: the router's. */
static void add_product(const shape *s, int number, const hil_tensor *x, int64_t rows, int64_t cols)
{
    static hil_grouped_attr grouped;
    bool router = number == ROUTER;
    grouped = (hil_grouped_attr){s->experts};
    begin(number, router ? &hil_op_linear : &hil_op_grouped_linear, s->dtype, &grouped);
    add_input(number, x);
    if (!router) add_input(number, &call[ROUTE].out[2]);
    add_weights(number, router ? 1 : s->experts, rows, cols);
    finish(number, 1);
}

/* An operation without weights, on two tensors and perhaps a third. */
static void add_op(const shape *s, int number, const hil_op *op, const hil_tensor *in[3])
{
    begin(number, op, s->dtype, NULL);
    for (int i = 0; i < 3 && in[i]; ++i) add_input(number, in[i]);
    finish(number, 1);
}

static void build(const shape *s)
{
    static hil_route_attr route;
    hil_tensor x = {s->dtype, {2, {s->tokens, s->hidden}}, NULL};
    route = (hil_route_attr){.chosen = s->chosen, .normalized = true};
    x.data = memory(hil_tensor_bytes(&x));
    fill(&x, 99, 3.4);
    add_product(s, ROUTER, &x, s->experts, s->hidden);
    begin(ROUTE, &hil_op_route, s->dtype, &route);
    add_input(ROUTE, &call[ROUTER].out[0]);
    finish(ROUTE, 4);
    const hil_tensor *weights = &call[ROUTE].out[0], *places = &call[ROUTE].out[1];
    const hil_tensor *rows = &call[DISPATCH].out[0];
    add_op(s, DISPATCH, &hil_op_dispatch, (const hil_tensor *[3]){&x, places});
    for (int i = GATE; i <= UP; ++i) add_product(s, i, rows, s->width, s->hidden);
    add_op(s, SWIGLU, &hil_op_swiglu,
           (const hil_tensor *[3]){&call[GATE].out[0], &call[UP].out[0]});
    add_product(s, DOWN, &call[SWIGLU].out[0], s->hidden, s->width);
    add_op(s, COMBINE, &hil_op_combine,
           (const hil_tensor *[3]){&call[DOWN].out[0], weights, places});
    call[COMBINE].dout[0].data = memory(hil_tensor_bytes(&call[COMBINE].out[0]));
    fill(&call[COMBINE].dout[0], 98, 1);
    connect(DOWN, 0, COMBINE, 0);
    connect(ROUTE, 0, COMBINE, 1);
    connect(SWIGLU, 0, DOWN, 0);
    connect(GATE, 0, SWIGLU, 0);
    connect(UP, 0, SWIGLU, 1);
    connect(DISPATCH, 0, UP, 0); /* the gate adds to it */
    call[GATE].din[0].data = call[UP].din[0].data;
    call[GATE].din_add[0] = true;
    connect(ROUTER, 0, ROUTE, 0);
    call[ROUTER].din[0].data = call[DISPATCH].din[0].data;
    call[ROUTER].din_add[0] = true;
}

static double cpu_seconds(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now)) exit(1);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int count, char **arguments)
{
    if (count != 8) {
        fprintf(stderr, "usage: bench_mixture DTYPE TOKENS HIDDEN WIDTH EXPERTS CHOSEN THREADS\n");
        return 1;
    }
    const shape s = {strcmp(arguments[1], "fp32") == 0 ? HIL_F32 : HIL_BF16,
                     strtoll(arguments[2], NULL, 10),
                     strtoll(arguments[3], NULL, 10),
                     strtoll(arguments[4], NULL, 10),
                     strtoll(arguments[5], NULL, 10),
                     strtoll(arguments[6], NULL, 10)};
    check(hil_pool_create(&pool, (int)strtol(arguments[7], NULL, 10)));
    build(&s);
    for (int c = getchar(); c != EOF; c = getchar()) {
        double start = hil_clock_now(), busy = cpu_seconds();
        for (int i = 0; i < CALLS; ++i) check(hil_op_forward(&call[i]));
        for (int i = CALLS; i-- > 0;) check(hil_op_backward(&call[i]));
        printf("%.9f %.9f\n", hil_clock_now() - start, cpu_seconds() - busy);
        fflush(stdout);
    }
    return 0;
}
