/* probe_device.c - measures products, attention, memory, copies and update on a device. Operations
   are queued in rounds and the host waits at the end of a round, as in a step. */
#include "base/alloc.h"
#include "base/clock.h"
#include "io/align.h"
#include "ops/ops.h"
#include "optim/update.h"
#include "machine/devices.h"
#include "machine/probe.h"
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

#define ROOM_MOST ((size_t)1536 << 20) /* of the device's memory */
#define ROOM_LEAST ((size_t)64 << 20)
#define ROOM_SHARE 8                 /* at most 1 / ROOM_SHARE of what is free */
#define COPY_MOST ((size_t)64 << 20) /* pinned, for each direction */
#define COPY_LEAST ((size_t)1 << 20)
#define ROUND_SECONDS 2e-3 /* long enough that the wait at its end does not matter */
#define LASTING 4          /* times as long: until power limits lower the clock */
enum {
    ROUNDS_LEAST = 3,
    ROUNDS_MOST = 64,
    SIDE_LEAST = 512,
    SIDE_MOST = 8192,
    HEADS = 16,
    WIDTH = 128
};
enum { QUERIES_LEAST = 128, QUERIES_MOST = 4096, TINY = 64, UPDATE_BYTES = 14 };

/* The weight of a product, as the source of its parameter. */
typedef struct product_weight {
    const void *weight;
    float *sum;
} product_weight;

typedef struct probe {
    hil_device *device;
    hil_pool *pool;
    double seconds;
    bool states;
    char *memory; /* the device's */
    size_t room, used;
    char *host; /* pinned: one half for each direction */
    size_t half;
    hil_event *event[2];
    hil_op_call call;
    product_weight weight; /* parameter of `call` */
    hil_block block;
} probe;

typedef hil_status action(probe *p);

static void *take(probe *p, size_t bytes)
{
    char *at = p->memory + p->used;
    p->used += hil_align_up(bytes);
    assert(p->used <= p->room);
    return at;
}

static hil_status run_round(probe *p, action *act, int count, double *seconds)
{
    double began = hil_clock_now();
    for (int i = 0; i < count; ++i) HIL_TRY(act(p));
    HIL_TRY(p->device->queue->finish(p->device));
    *seconds = hil_clock_now() - began;
    return HIL_OK;
}

/* Seconds of one action; the first round is a warm-up. */
static hil_status time_of(probe *p, action *act, double *out)
{
    double seconds, took[ROUNDS_MOST];
    int count = 1, rounds = 0;
    HIL_TRY(run_round(p, act, 1, &seconds)); /* a library may compile kernels */
    double began = hil_clock_now();
    do {
        HIL_TRY(run_round(p, act, count, &seconds));
        if (seconds < ROUND_SECONDS) count *= 2;
    } while (seconds < ROUND_SECONDS && hil_clock_now() - began < p->seconds);
    while (rounds < ROUNDS_MOST &&
           (rounds < ROUNDS_LEAST || hil_clock_now() - began < p->seconds)) {
        HIL_TRY(run_round(p, act, count, &seconds));
        took[rounds++] = seconds / count;
    }
    *out = fmax(hil_probe_mean(took, rounds), 1e-9);
    return HIL_OK;
}

/* The same in the second half of a longer run: the sustained speed. */
static hil_status lasting_time_of(probe *p, action *act, double once, double *out)
{
    int rounds = 0, count = once < ROUND_SECONDS ? (int)(ROUND_SECONDS / once) + 1 : 1;
    double seconds, all = 0, began = hil_clock_now(), half = LASTING * p->seconds / 2;
    while (rounds == 0 || hil_clock_now() - began < 2 * half) {
        HIL_TRY(run_round(p, act, count, &seconds));
        if (hil_clock_now() - began < half) continue;
        all += seconds;
        ++rounds;
    }
    *out = all / rounds / count;
    return HIL_OK;
}

static hil_status lend_weight(void *owner, int param, int64_t tile, const void **data)
{
    (void)param, (void)tile;
    *data = ((const product_weight *)owner)->weight;
    return HIL_OK;
}

static hil_status lend_sum(void *owner, int param, int64_t tile, float **sum, bool *add)
{
    (void)param, (void)tile;
    *sum = ((const product_weight *)owner)->sum;
    *add = false;
    return HIL_OK;
}

static void end(void *owner, int param, int64_t tile)
{
    (void)owner, (void)param, (void)tile;
}

static const hil_op_source source = {lend_weight, end, lend_sum, end};

static hil_status forward(probe *p)
{
    return hil_op_forward(&p->call);
}

static hil_status both_ways(probe *p)
{
    HIL_TRY(hil_op_forward(&p->call));
    return hil_op_backward(&p->call);
}

static hil_tensor new_tensor(probe *p, hil_dtype dtype, hil_shape shape)
{
    hil_tensor t = {dtype, shape, NULL};
    t.data = take(p, hil_tensor_bytes(&t));
    return t;
}

static void begin_call(probe *p, const hil_op *op, hil_dtype dtype)
{
    p->used = 0;
    p->call = (hil_op_call){.op = op,
                            .pool = p->pool,
                            .compute = dtype,
                            .differentiate = true,
                            .device = p->device,
                            .share = 1,
                            .outs = 1,
                            .source = &source};
}

/* Infers shapes from the inputs' and assigns memory to all other tensors of the call. */
static hil_status complete_call(probe *p, bool backward)
{
    hil_op_call *c = &p->call;
    HIL_TRY(hil_op_infer(c));
    c->out[0].data = take(p, hil_tensor_bytes(&c->out[0]));
    for (int i = 0; i < c->saveds; ++i) c->saved[i].data = take(p, hil_tensor_bytes(&c->saved[i]));
    size_t scratch = c->forward_scratch;
    if (backward && scratch < c->backward_scratch) scratch = c->backward_scratch;
    c->scratch = take(p, scratch);
    if (!backward) return HIL_OK;
    c->dout[0] = new_tensor(p, c->out[0].dtype, c->out[0].shape);
    for (int i = 0; i < c->ins; ++i)
        if (c->in[i].dtype != HIL_I32) c->din[i] = new_tensor(p, c->in[i].dtype, c->in[i].shape);
    return HIL_OK;
}

static hil_status probe_product(probe *p, hil_dtype dtype, bool fp8, int64_t n, double *seconds)
{
    begin_call(p, &hil_op_linear, dtype);
    p->call.ins = p->call.params = 1;
    p->call.owner = &p->weight;
    p->call.param[0] = (hil_op_param){dtype, n, n, n, true, fp8};
    p->call.in[0] = new_tensor(p, dtype, (hil_shape){2, {n, n}});
    p->weight.weight = take(p, (size_t)(n * n) * hil_dtype_size(dtype));
    p->weight.sum = take(p, (size_t)(n * n) * sizeof(float));
    HIL_TRY(complete_call(p, true));
    return time_of(p, both_ways, seconds);
}

static hil_status probe_gemm(probe *p, hil_dtype dtype, bool fp8, double *speed)
{
    double seconds;
    int64_t n = SIDE_LEAST / 2;
    do {
        n *= 2;
        HIL_TRY(probe_product(p, dtype, fp8, n, &seconds));
    } while (seconds < ROUND_SECONDS && n < SIDE_MOST && (size_t)(n * n) * 256 <= p->room);
    if (dtype == HIL_BF16) HIL_TRY(lasting_time_of(p, both_ways, seconds, &seconds));
    *speed = 6 * (double)n * (double)n * (double)n / seconds;
    return HIL_OK;
}

static double attention_flops(int64_t t)
{
    return (4 + 10) * (double)(HEADS * WIDTH) * (double)t * (double)(t + 1) / 2;
}

/* Chooses the sequence length so that a call takes long enough at half the speed of products. */
static hil_status probe_attention(probe *p, hil_dtype dtype, double gemm, double *speed)
{
    hil_attention_attr attr = {.scale = 0.088};
    int64_t t = QUERIES_LEAST;
    double seconds;
    while (t < QUERIES_MOST && attention_flops(t) < gemm / 2 * ROUND_SECONDS &&
           (size_t)t * HEADS * WIDTH * 256 <= p->room)
        t *= 2;
    begin_call(p, &hil_op_attention, dtype);
    p->call.attr = &attr;
    p->call.ins = 4;
    for (int i = 0; i < 3; ++i)
        p->call.in[i] = new_tensor(p, dtype, (hil_shape){4, {1, t, HEADS, WIDTH}});
    p->call.in[3] = new_tensor(p, HIL_I32, (hil_shape){2, {1, t}});
    HIL_TRY(complete_call(p, true));
    size_t bytes = hil_tensor_bytes(&p->call.in[3]);
    HIL_TRY(p->device->queue->zero(p->device, HIL_STREAM_COMPUTE, p->call.in[3].data, bytes));
    HIL_TRY(time_of(p, both_ways, &seconds));
    *speed = attention_flops(t) / seconds;
    return HIL_OK;
}

/* z = x + y. */
static hil_status probe_add(probe *p, int64_t count, double *seconds)
{
    begin_call(p, &hil_op_add, HIL_BF16);
    p->call.ins = 2;
    for (int i = 0; i < 2; ++i)
        p->call.in[i] = new_tensor(p, HIL_BF16, (hil_shape){2, {count / TINY, TINY}});
    HIL_TRY(complete_call(p, false));
    return time_of(p, forward, seconds);
}

static hil_status begin_copy_in(probe *p)
{
    HIL_TRY(p->device->queue->copy(p->device, HIL_STREAM_IN, p->memory, p->host, p->half));
    return p->device->events->record(p->device, HIL_STREAM_IN, p->event[0]);
}

static hil_status copy_in(probe *p)
{
    HIL_TRY(begin_copy_in(p));
    return p->device->events->wait(p->device, p->event[0]);
}

/* Copies in both directions at once, as a step does; the host waits for the slower one. */
static hil_status copy_both(probe *p)
{
    HIL_TRY(begin_copy_in(p));
    HIL_TRY(p->device->queue->copy(p->device, HIL_STREAM_OUT, p->host + p->half,
                                   p->memory + p->half, p->half));
    HIL_TRY(p->device->events->record(p->device, HIL_STREAM_OUT, p->event[1]));
    for (int i = 0; i < 2; ++i) HIL_TRY(p->device->events->wait(p->device, p->event[i]));
    return HIL_OK;
}

static hil_status update(probe *p)
{
    static const hil_update_rule rule = {&hil_rules[HIL_ADAMW],
                                         {{0.999f, 0.1f, 0.95f, 0.05f, 1e-4f, 1, 1e-8f, 1, 1e-4f}}};
    return hil_device_math_of(p->device)->update(p->device, HIL_STREAM_COMPUTE, &rule, &p->block,
                                                 1);
}

static hil_status probe_update(probe *p, double *speed)
{
    int64_t count = (int64_t)(p->room / 2 / UPDATE_BYTES) / HIL_BLOCK * HIL_BLOCK;
    double seconds;
    p->used = 0;
    p->block = (hil_block){.count = count, .dtype = HIL_BF16, .gradients = 1};
    p->block.weight = take(p, 2 * (size_t)count);
    p->block.rest = take(p, 2 * (size_t)count);
    for (int i = 0; i < 2; ++i) p->block.moment[i] = take(p, 4 * (size_t)count);
    p->block.gradient[0] = take(p, 2 * (size_t)count);
    HIL_TRY(time_of(p, update, &seconds));
    *speed = (double)count / seconds;
    return HIL_OK;
}

static hil_status probe_all(probe *p, hil_speeds *out)
{
    double seconds;
    int64_t large = (int64_t)(p->room / 16);
    HIL_TRY(time_of(p, copy_both, &seconds));
    out->to_device = out->to_host = (double)p->half / seconds;
    HIL_TRY(time_of(p, copy_in, &seconds));
    out->one_way = (double)p->half / seconds;
    HIL_TRY(probe_update(p, &out->update_device));
    if (p->states) return HIL_OK;
    HIL_TRY(probe_add(p, TINY, &out->op_call));
    HIL_TRY(probe_add(p, large, &seconds));
    out->memory = 3 * 2 * (double)large / seconds;
    for (int d = HIL_F32; d <= HIL_BF16; ++d) {
        HIL_TRY(probe_gemm(p, (hil_dtype)d, false, &out->gemm[d]));
        HIL_TRY(probe_attention(p, (hil_dtype)d, out->gemm[d], &out->attention[d]));
    }
    if (p->device->fp8 && hil_devices_gpu(p->device))
        HIL_TRY(probe_gemm(p, HIL_BF16, true, &out->gemm_fp8));
    out->gemm[HIL_F16] = out->gemm[HIL_BF16]; /* the same tensor cores */
    out->attention[HIL_F16] = out->attention[HIL_BF16];
    return HIL_OK;
}

/* Fills with small numbers of both signs, valid in both formats: zeros take less power and would
   run faster. */
static hil_status fill(probe *p)
{
    uint32_t state = 1;
    uint16_t *at = (uint16_t *)(void *)p->host;
    for (size_t i = 0; i < p->half; ++i) {
        state = state * 1664525u + 1013904223u;
        at[i] = (uint16_t)(0x3d00u + (state >> 16 & 0x81ffu));
    }
    for (size_t done = 0; done < p->room; done += 2 * p->half) {
        size_t bytes = p->room - done < 2 * p->half ? p->room - done : 2 * p->half;
        HIL_TRY(p->device->queue->copy(p->device, HIL_STREAM_COMPUTE, p->memory + done, p->host,
                                       bytes));
    }
    return p->device->queue->finish(p->device);
}

static hil_status run(probe *p, hil_speeds *out)
{
    void *memory;
    HIL_TRY(p->device->heap->alloc(p->device, p->room, &memory));
    p->memory = memory;
    for (int i = 0; i < 2; ++i) HIL_TRY(p->device->events->create(p->device, &p->event[i]));
    HIL_TRY(fill(p));
    return probe_all(p, out);
}

size_t hil_probe_device_room(const hil_device *device, uint64_t limit)
{
    size_t room = ROOM_MOST;
    if (!limit) limit = UINT64_MAX;
    while (room > ROOM_LEAST && (room > device->available / ROOM_SHARE || room > limit)) room /= 2;
    return room;
}

hil_status hil_probe_device(hil_device *device, hil_pool *pool, const hil_probe_room *room,
                            hil_speeds *out)
{
    probe p = {.device = device,
               .pool = pool,
               .seconds = room->seconds,
               .states = room->states,
               .room = room->device};
    p.half = p.room / 4 < COPY_MOST ? p.room / 4 : COPY_MOST;
    while (p.half > COPY_LEAST && 2 * p.half > room->memory) p.half /= 2;
    void *host = mmap(NULL, 2 * p.half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (host == MAP_FAILED) return hil_fail(HIL_ERR_MEMORY, "no memory to measure the device with");
    p.host = host;
    hil_status status = device->heap->pin(device, p.host, 2 * p.half);
    if (status == HIL_OK) {
        status = run(&p, out);
        device->heap->unpin(device, p.host, 2 * p.half);
    }
    for (int i = 0; i < 2; ++i)
        if (p.event[i]) device->events->destroy(device, p.event[i]);
    if (p.memory) device->heap->free(device, p.memory);
    munmap(p.host, 2 * p.half);
    return status;
}
