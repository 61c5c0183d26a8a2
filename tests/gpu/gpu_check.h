/* gpu_check.h - runs one operation on the CPU and on the GPU with the same inputs and compares the
   results; a second run on the GPU must give the same bits. Everything the GPU writes is poisoned
   first, tensors that the operation does not keep are poisoned before backward, and tiles are asked
   for in the same order as on the CPU. */
#ifndef HIL_TESTS_GPU_CHECK_H
#define HIL_TESTS_GPU_CHECK_H

#include "check.h"
#include "device/cuda.h"
#include "ops/cuda.h"
#include "ops/ops.h"

typedef struct gpu_case {
    const char *name;
    const hil_op *op;
    const void *attr;
    hil_dtype compute;
    int ins, outs, params;
    hil_shape in[HIL_OP_TENSORS];
    const int32_t *ids[HIL_OP_TENSORS]; /* contents of int32 inputs; others are random */
    int64_t rows[HIL_OP_PARAMS], cols[HIL_OP_PARAMS], tile_rows[HIL_OP_PARAMS]; /* 0: one tile */
    int64_t experts; /* each with a weight of its own; 0: one */
    size_t hold;     /* bytes of tiles that may be acquired at once */
    bool frozen[HIL_OP_PARAMS];
    bool fp8;                 /* products with parameter 0 are in 8 bits */
    unsigned whole;           /* bits: inputs in fp32, whatever `compute` is */
    unsigned no_dout, no_din; /* bits */
    bool add, fused, over;    /* over: din[0] overwrites dout[0] */
    double share;
    bool other_grid; /* the GPU may ask for tiles in another order */
    double spread;   /* of random inputs; 0: 1 */
    double slack;    /* error beyond one rounding, relative to the largest number; 0: 1e-5 */
    hil_op_random random;
} gpu_case;

#define GPU_LOSS_SCALE 0.37f
#define GPU_ASKS 512
#define GPU_TILES 64

/* The memory of a call on one side, CPU or GPU. Host copies are in `host`. */
typedef struct gpu_side {
    hil_device *device; /* NULL: the CPU */
    hil_op_call call;
    void *weight[HIL_OP_PARAMS];
    float *sum[HIL_OP_PARAMS];
    bool add; /* add to sums */
    int64_t experts;
    int held;   /* 1 + the parameter whose tiles are held; -1 - it: of gradients */
    int holds;  /* tiles */
    bool quiet; /* a tile is not poisoned when it is returned, so nothing waits */
    void *lent[GPU_TILES];
    char asked[GPU_ASKS];
    int asks;
} gpu_side;

static hil_device *gpu;
static uint64_t gpu_seed;

static double gpu_random(void)
{
    gpu_seed = gpu_seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(gpu_seed >> 11) * 0x1p-53 * 2 - 1;
}

/* Exits with 77 if there is no GPU. */
static void gpu_begin(void)
{
    if (hil_cuda_count() == 0) {
        fprintf(stderr, "no GPU here: skipped\n");
        exit(CHECK_SKIP);
    }
    CHECK_OK(hil_cuda_open(&gpu, 0));
}

static void gpu_end(void)
{
    CHECK_OK(gpu->queue->finish(gpu));
    hil_cuda_close(gpu);
}

static void gpu_poison(gpu_side *s, void *memory, size_t bytes)
{
    void *poison = malloc(bytes + 1);
    memset(poison, 0xff, bytes);
    CHECK_OK(s->device->queue->copy(s->device, HIL_STREAM_COMPUTE, memory, poison, bytes));
    CHECK_OK(s->device->queue->finish(s->device));
    free(poison);
}

/* Allocates memory of a side with these contents (NULL: poison). */
static void *gpu_memory(gpu_side *s, const void *contents, size_t bytes)
{
    void *memory = NULL;
    if (!s->device) {
        CHECK(posix_memalign(&memory, 64, bytes ? bytes : 1) == 0);
        if (contents)
            memcpy(memory, contents, bytes);
        else
            memset(memory, 0xff, bytes);
        return memory;
    }
    CHECK_OK(s->device->heap->alloc(s->device, bytes, &memory));
    if (contents)
        CHECK_OK(s->device->queue->copy(s->device, HIL_STREAM_COMPUTE, memory, contents, bytes));
    else
        gpu_poison(s, memory, bytes);
    CHECK_OK(s->device->queue->finish(s->device));
    return memory;
}

static void gpu_release(gpu_side *s, void *memory)
{
    if (s->device)
        s->device->heap->free(s->device, memory);
    else
        free(memory);
}

static void *gpu_read(gpu_side *s, const void *memory, size_t bytes)
{
    void *out = malloc(bytes + 1);
    if (!s->device) {
        memcpy(out, memory, bytes);
        return out;
    }
    CHECK_OK(s->device->queue->copy(s->device, HIL_STREAM_COMPUTE, out, memory, bytes));
    CHECK_OK(s->device->queue->finish(s->device));
    return out;
}

static void gpu_note(gpu_side *s, char what, int param, int64_t tile)
{
    CHECK(s->asks + 3 < GPU_ASKS);
    s->asked[s->asks++] = what;
    s->asked[s->asks++] = (char)('0' + param);
    s->asked[s->asks++] = (char)('A' + tile);
}

static bool gpu_has_asked(const gpu_side *s, char what, int param, int64_t tile)
{
    for (int i = 0; i < s->asks; i += 3)
        if (s->asked[i] == what && s->asked[i + 1] == '0' + param && s->asked[i + 2] == 'A' + tile)
            return true;
    return false;
}

static int64_t gpu_tile_rows(const hil_op_param *p, int64_t tile)
{
    int64_t left = p->rows - tile % hil_op_tiles(p) * p->tile_rows;
    return left < p->tile_rows ? left : p->tile_rows;
}

/* The first row of a tile among those of all experts. */
static int64_t gpu_tile_begin(const hil_op_param *p, int64_t tile)
{
    int64_t tiles = hil_op_tiles(p);
    return tile / tiles * p->rows + tile % tiles * p->tile_rows;
}

/* Notes that a tile is held; with `what` -1 - parameter its gradient. */
static void gpu_hold(gpu_side *s, const hil_op_param *p, int what, int64_t tile)
{
    CHECK(s->held == 0 || (s->call.hold && s->held == what));
    CHECK(tile >= 0 && tile < hil_op_tiles(p) * s->experts && tile < GPU_TILES);
    s->held = what;
    ++s->holds;
}

static void gpu_let_go(gpu_side *s, int what)
{
    CHECK_INT(s->held, what);
    if (--s->holds == 0) s->held = 0;
}

/* Lends a copy of a tile, which is poisoned when it is returned. */
static hil_status gpu_weight_begin(void *owner, int param, int64_t tile, const void **data)
{
    gpu_side *s = owner;
    const hil_op_param *p = &s->call.param[param];
    gpu_note(s, 'w', param, tile);
    gpu_hold(s, p, 1 + param, tile);
    size_t row = (size_t)p->cols * hil_dtype_size(p->dtype);
    size_t bytes = (size_t)gpu_tile_rows(p, tile) * row;
    const char *from = (char *)s->weight[param] + (size_t)gpu_tile_begin(p, tile) * row;
    void *lent = s->lent[tile] = gpu_memory(s, NULL, bytes);
    if (s->device)
        CHECK_OK(s->device->queue->copy(s->device, HIL_STREAM_COMPUTE, lent, from, bytes));
    else
        memcpy(lent, from, bytes);
    *data = lent;
    return HIL_OK;
}

static void gpu_weight_end(void *owner, int param, int64_t tile)
{
    gpu_side *s = owner;
    const hil_op_param *p = &s->call.param[param];
    gpu_note(s, 'W', param, tile);
    gpu_let_go(s, 1 + param);
    if (s->quiet) return;
    if (s->device) {
        size_t row = (size_t)p->cols * hil_dtype_size(p->dtype);
        gpu_poison(s, s->lent[tile], (size_t)gpu_tile_rows(p, tile) * row);
    }
    gpu_release(s, s->lent[tile]);
}

static hil_status gpu_gradient_begin(void *owner, int param, int64_t tile, float **sum, bool *add)
{
    gpu_side *s = owner;
    const hil_op_param *p = &s->call.param[param];
    *add = s->add || gpu_has_asked(s, 'g', param, tile);
    gpu_note(s, 'g', param, tile);
    CHECK(p->trainable);
    gpu_hold(s, p, -1 - param, tile);
    *sum = s->sum[param] + gpu_tile_begin(p, tile) * p->cols;
    return HIL_OK;
}

static void gpu_gradient_end(void *owner, int param, int64_t tile)
{
    gpu_side *s = owner;
    gpu_note(s, 'G', param, tile);
    gpu_let_go(s, -1 - param);
}

static const hil_op_source gpu_source = {gpu_weight_begin, gpu_weight_end, gpu_gradient_begin,
                                         gpu_gradient_end};

/* Random numbers in the tensor's dtype, in the side's memory. */
static void *gpu_filled(gpu_side *s, const hil_tensor *t, double spread)
{
    int64_t count = hil_shape_count(&t->shape);
    char *host = malloc(hil_tensor_bytes(t) + 1);
    for (int64_t i = 0; i < count; ++i) {
        float x = (float)(gpu_random() * spread);
        hil_dtype_from_f32(host + (size_t)i * hil_dtype_size(t->dtype), &x, t->dtype, 1);
    }
    void *memory = gpu_memory(s, host, hil_tensor_bytes(t));
    free(host);
    return memory;
}

static void gpu_make(const gpu_case *c, gpu_side *s)
{
    double spread = c->spread > 0 ? c->spread : 1;
    hil_op_call *call = &s->call;
    s->add = c->add;
    s->experts = c->experts ? c->experts : 1;
    *call = (hil_op_call){.op = c->op,
                          .attr = c->attr,
                          .compute = c->compute,
                          .differentiate = true,
                          .loss_scale = GPU_LOSS_SCALE,
                          .random = c->random,
                          .device = s->device,
                          .hold = c->hold,
                          .share = c->share,
                          .ins = c->ins,
                          .outs = c->outs,
                          .params = c->params,
                          .source = &gpu_source,
                          .owner = s};
    CHECK_OK(hil_pool_create(&call->pool, 2));
    gpu_seed = 7;
    for (int i = 0; i < c->ins; ++i) {
        hil_tensor *t = &call->in[i];
        hil_dtype dtype = c->whole >> i & 1 ? HIL_F32 : c->compute;
        *t = (hil_tensor){c->ids[i] ? HIL_I32 : dtype, c->in[i], NULL};
        t->data =
            c->ids[i] ? gpu_memory(s, c->ids[i], hil_tensor_bytes(t)) : gpu_filled(s, t, spread);
    }
    for (int i = 0; i < c->params; ++i) {
        hil_op_param *p = &call->param[i];
        *p = (hil_op_param){.dtype = c->rows[i] == 1 ? HIL_F32 : c->compute,
                            .rows = c->rows[i],
                            .cols = c->cols[i],
                            .tile_rows = c->tile_rows[i] ? c->tile_rows[i] : c->rows[i],
                            .trainable = !c->frozen[i],
                            .fp8 = i == 0 && c->fp8};
        hil_tensor w = {p->dtype, {2, {p->rows * s->experts, p->cols}}, NULL}, sum = w;
        sum.dtype = HIL_F32;
        s->weight[i] = gpu_filled(s, &w, spread);
        s->sum[i] = c->add || c->frozen[i] ? gpu_filled(s, &sum, 0.1)
                                           : gpu_memory(s, NULL, hil_tensor_bytes(&sum));
    }
}

static void gpu_run_forward(gpu_side *s)
{
    hil_op_call *call = &s->call;
    CHECK_OK(s->device ? hil_op_cuda_infer(call) : call->op->infer(call));
    for (int i = 0; i < call->outs; ++i)
        call->out[i].data = gpu_memory(s, NULL, hil_tensor_bytes(&call->out[i]));
    for (int i = 0; i < call->saveds; ++i)
        call->saved[i].data = gpu_memory(s, NULL, hil_tensor_bytes(&call->saved[i]));
    call->scratch = gpu_memory(s, NULL, call->forward_scratch);
    CHECK_OK(s->device ? hil_op_cuda_forward(call) : call->op->forward(call));
    if (s->device) CHECK_OK(s->device->queue->finish(s->device));
    gpu_release(s, call->scratch);
    CHECK_INT(s->held, 0);
}

static void gpu_run_backward(const gpu_case *c, gpu_side *s)
{
    hil_op_call *call = &s->call;
    for (int i = 0; i < call->outs; ++i) {
        call->dout[i] = call->out[i];
        call->dout[i].data = NULL;
        if (!c->fused && !(c->no_dout >> i & 1))
            call->dout[i].data = gpu_filled(s, &call->dout[i], 1);
    }
    for (int i = 0; i < c->ins; ++i) {
        call->din[i] = call->in[i];
        call->din[i].data = NULL;
        if (c->ids[i] || (c->op->pass | c->no_din) >> i & 1) continue;
        call->din_add[i] = c->add;
        if (c->over && i == 0)
            call->din[i].data = call->dout[0].data;
        else if (c->add)
            call->din[i].data = gpu_filled(s, &call->din[i], 0.5);
        else
            call->din[i].data = gpu_memory(s, NULL, hil_tensor_bytes(&call->din[i]));
    }
    hil_op_call kept = *call;
    for (int i = 0; i < c->ins; ++i)
        if (!(c->op->keep_in >> i & 1)) call->in[i].data = NULL;
    for (int i = 0; i < call->outs; ++i)
        if (!(c->op->keep_out >> i & 1)) call->out[i].data = NULL;
    call->scratch = gpu_memory(s, NULL, call->backward_scratch);
    if (s->device)
        CHECK_OK(hil_op_cuda_backward(call));
    else if (c->op->backward)
        CHECK_OK(c->op->backward(call));
    if (s->device) CHECK_OK(s->device->queue->finish(s->device));
    gpu_release(s, call->scratch);
    memcpy(call->in, kept.in, sizeof kept.in);
    memcpy(call->out, kept.out, sizeof kept.out);
    CHECK_INT(s->held, 0);
}

static void gpu_free(gpu_side *s)
{
    hil_op_call *call = &s->call;
    for (int i = 0; i < HIL_OP_TENSORS; ++i) {
        gpu_release(s, call->in[i].data);
        gpu_release(s, call->out[i].data);
        gpu_release(s, call->saved[i].data);
        if (call->din[i].data != call->dout[0].data) gpu_release(s, call->din[i].data);
    }
    for (int i = 0; i < HIL_OP_TENSORS; ++i) gpu_release(s, call->dout[i].data);
    for (int i = 0; i < HIL_OP_PARAMS; ++i) {
        gpu_release(s, s->weight[i]);
        gpu_release(s, s->sum[i]);
    }
    hil_pool_destroy(call->pool);
}

/* Half a unit in the last place of a number of size 1. */
static double gpu_unit(hil_dtype dtype)
{
    return dtype == HIL_F32 ? 0x1p-24 : dtype == HIL_BF16 ? 0x1p-8 : 0x1p-11;
}

/* Compares `got` on the GPU with `want` on the CPU: every element within its own rounding (twice,
   as both were rounded) plus the slack times the largest. */
static void gpu_compare(const gpu_case *c, const char *what, gpu_side *s[2], const hil_tensor *want,
                        const hil_tensor *got)
{
    int64_t count = hil_shape_count(&want->shape);
    CHECK_INT(want->dtype, got->dtype);
    char *side[2] = {gpu_read(s[0], want->data, hil_tensor_bytes(want)),
                     gpu_read(s[1], got->data, hil_tensor_bytes(got))};
    size_t size = hil_dtype_size(want->dtype);
    if (want->dtype == HIL_I32) {
        if (memcmp(side[0], side[1], (size_t)count * size) != 0) {
            fprintf(stderr, "%s %s: other numbers in %s\n", c->name, hil_dtype_name(c->compute),
                    what);
            exit(1);
        }
        count = 0;
    }
    double largest = 0, slack = c->slack > 0 ? c->slack : 1e-5, worst = 0;
    for (int64_t i = 0; i < count; ++i) {
        float x;
        hil_dtype_to_f32(&x, side[0] + (size_t)i * size, want->dtype, 1);
        largest = fmax(largest, fabs((double)x));
    }
    for (int64_t i = 0; i < count; ++i) {
        float x, y;
        hil_dtype_to_f32(&x, side[0] + (size_t)i * size, want->dtype, 1);
        hil_dtype_to_f32(&y, side[1] + (size_t)i * size, want->dtype, 1);
        double room = 2 * gpu_unit(want->dtype) * fabs((double)x) + slack * largest;
        double error = fabs((double)x - (double)y);
        if (error > worst) worst = error;
        if (error <= room) continue;
        fprintf(stderr, "%s %s: %s[%lld] is %.9g on the GPU, %.9g on the CPU, room %.3g\n", c->name,
                hil_dtype_name(c->compute), what, (long long)i, (double)y, (double)x, room);
        exit(1);
    }
    if (getenv("GPU_SHOW"))
        printf("  %-24s %-5s %-8s worst error %.2e of %.2e\n", c->name, hil_dtype_name(c->compute),
               what, worst, largest);
    free(side[0]);
    free(side[1]);
}

static void gpu_compare_all(const gpu_case *c, gpu_side *cpu, gpu_side *there)
{
    gpu_side *s[2] = {cpu, there};
    char what[32];
    for (int i = 0; i < cpu->call.outs; ++i) {
        snprintf(what, sizeof what, "out %d", i);
        gpu_compare(c, what, s, &cpu->call.out[i], &there->call.out[i]);
    }
    for (int i = 0; i < cpu->call.saveds; ++i) {
        snprintf(what, sizeof what, "saved %d", i);
        gpu_compare(c, what, s, &cpu->call.saved[i], &there->call.saved[i]);
    }
    for (int i = 0; i < c->ins; ++i) {
        snprintf(what, sizeof what, "din %d", i);
        if (cpu->call.din[i].data) gpu_compare(c, what, s, &cpu->call.din[i], &there->call.din[i]);
    }
    for (int i = 0; i < c->params; ++i) {
        const hil_op_param *p = &cpu->call.param[i];
        if (!c->add && !gpu_has_asked(cpu, 'g', i, 0)) continue; /* nothing was computed */
        hil_shape all = {2, {p->rows * cpu->experts, p->cols}};
        hil_tensor sums[2] = {{HIL_F32, all, cpu->sum[i]}, {HIL_F32, all, there->sum[i]}};
        snprintf(what, sizeof what, "sum %d", i);
        gpu_compare(c, what, s, &sums[0], &sums[1]);
    }
}

static void gpu_same(const gpu_case *c, const char *what, gpu_side *a, gpu_side *b,
                     const void *at[2], size_t bytes)
{
    char *x = gpu_read(a, at[0], bytes), *y = gpu_read(b, at[1], bytes);
    if (memcmp(x, y, bytes) != 0) {
        fprintf(stderr, "%s %s: two runs differ in %s\n", c->name, hil_dtype_name(c->compute),
                what);
        exit(1);
    }
    free(x);
    free(y);
}

static void gpu_same_all(const gpu_case *c, gpu_side *a, gpu_side *b)
{
    for (int i = 0; i < a->call.outs; ++i)
        gpu_same(c, "out", a, b, (const void *[]){a->call.out[i].data, b->call.out[i].data},
                 hil_tensor_bytes(&a->call.out[i]));
    for (int i = 0; i < c->ins; ++i)
        if (a->call.din[i].data)
            gpu_same(c, "din", a, b, (const void *[]){a->call.din[i].data, b->call.din[i].data},
                     hil_tensor_bytes(&a->call.din[i]));
    for (int i = 0; i < c->params; ++i)
        gpu_same(c, "sum", a, b, (const void *[]){a->sum[i], b->sum[i]},
                 (size_t)(a->experts * a->call.param[i].rows * a->call.param[i].cols) *
                     sizeof(float));
}

/* Whether this is an emulated GPU, which is slow: a sample of the cases is checked. */
static inline bool gpu_samples(void)
{
    return getenv("HIL_SAMPLE") != NULL;
}

static uint64_t gpu_mix(uint64_t key, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; ++i)
        key = (key ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
    return key;
}

/* Whether a case is in the sample: the first of each operation; if it is not huge the first of each
   name and shape; if it is small these for each dtype, and whether gradients are added to. */
static bool gpu_is_sampled(const gpu_case *c)
{
    enum { OP, NAME, SHAPE, NAME_TYPE, SHAPE_TYPE, KEYS };
    static uint64_t seen[4096];
    static size_t count;
    uint64_t key[KEYS] = {gpu_mix(0, &c->op, sizeof c->op), gpu_mix(1, c->name, strlen(c->name)),
                          gpu_mix(2, c->in, sizeof c->in)};
    key[SHAPE] = gpu_mix(gpu_mix(key[SHAPE], c->rows, sizeof c->rows), c->cols, sizeof c->cols);
    key[NAME_TYPE] = gpu_mix(gpu_mix(key[NAME], &c->compute, sizeof c->compute), &c->add, 1);
    key[SHAPE_TYPE] = gpu_mix(key[SHAPE], &c->compute, sizeof c->compute);
    int64_t elements = 0;
    for (int i = 0; i < c->ins; ++i) elements += hil_shape_count(&c->in[i]);
    for (int i = 0; i < c->params; ++i) elements += c->rows[i] * c->cols[i];
    int keys = elements < 100000 ? KEYS : elements < 8000000 ? NAME_TYPE : NAME;
    bool is_new[KEYS], wanted = false;
    for (int k = 0; k < KEYS; ++k) {
        is_new[k] = true;
        for (size_t i = 0; i < count; ++i) is_new[k] = is_new[k] && seen[i] != key[k];
        wanted = wanted || (is_new[k] && k < keys);
    }
    for (int k = 0; k < KEYS && wanted; ++k) {
        CHECK(count < sizeof seen / sizeof *seen);
        if (is_new[k]) seen[count++] = key[k];
    }
    return wanted;
}

static void gpu_check(gpu_case c)
{
    if (gpu_samples() && !gpu_is_sampled(&c)) return;
    gpu_side side[3] = {{.device = NULL}, {.device = gpu}, {.device = gpu}};
    for (int i = 0; i < 3; ++i) {
        gpu_make(&c, &side[i]);
        gpu_run_forward(&side[i]);
        gpu_run_backward(&c, &side[i]);
    }
    gpu_compare_all(&c, &side[0], &side[1]);
    gpu_same_all(&c, &side[1], &side[2]);
    if (!c.other_grid) CHECK_TEXT(side[1].asked, side[0].asked);
    for (int i = 0; i < 3; ++i) gpu_free(&side[i]);
}

/* Checks fp32, bf16 and fp16, with gradients overwritten and added to; `slack` is for 16 bits. */
static inline void gpu_check_dtypes(gpu_case c)
{
    double slack = c.slack;
    for (int d = HIL_F32; d <= HIL_F16; ++d)
        for (int add = 0; add < 2; ++add) {
            c.compute = (hil_dtype)d;
            c.slack = d == HIL_F32 ? 0 : slack > 0 ? slack : gpu_unit(c.compute);
            c.add = add && !c.over;
            gpu_check(c);
        }
}

#endif
