/* Operations on the device of threads ask for tiles at once, in the order of the CPU. They compute
   later and give the CPU's bits; the call, its attributes and the host's memory may be freed by
   then. finish reports the errors that an operation finds. */
#include "check.h"
#include "device/device_threads.h"
#include "ops/ops.h"
#include "ops/ops_threads.h"

enum { ROWS = 6, IN = 16, OUT = 40, TILE = 16, X = ROWS * IN, Y = ROWS * OUT, W = OUT * IN };

/* The memory of a linear layer and of an embedding. */
typedef struct memory {
    float x[X], w[W], bias[OUT], y[Y], dy[Y], dx[X], dw[W], dbias[OUT], scratch[4096];
    int32_t ids[ROWS];
    float rows[X];
} memory;

typedef struct side {
    memory *at; /* the call's tensors */
    bool add;
    char asked[256];
    int asks;
} side;

static void note(side *s, char what, int param, int64_t tile)
{
    CHECK(s->asks + 3 <= (int)sizeof s->asked);
    s->asked[s->asks++] = what;
    s->asked[s->asks++] = (char)('0' + param);
    s->asked[s->asks++] = (char)('0' + tile);
}

static hil_status begin_weight(void *owner, int param, int64_t tile, const void **data)
{
    side *s = owner;
    note(s, 'w', param, tile);
    *data = param ? s->at->bias : s->at->w + tile * TILE * IN;
    return HIL_OK;
}

static hil_status begin_gradient(void *owner, int param, int64_t tile, float **sum, bool *add)
{
    side *s = owner;
    note(s, 'g', param, tile);
    *sum = param ? s->at->dbias : s->at->dw + tile * TILE * IN;
    *add = s->add;
    return HIL_OK;
}

static void end(void *owner, int param, int64_t tile)
{
    note(owner, '.', param, tile);
}

static const hil_op_source source = {begin_weight, end, begin_gradient, end};

static hil_op_call linear(side *s, hil_device *device, hil_pool *pool)
{
    memory *m = s->at;
    hil_op_call call = {.op = &hil_op_linear,
                        .pool = pool,
                        .compute = HIL_F32,
                        .device = device,
                        .ins = 1,
                        .outs = 1,
                        .params = 2,
                        .source = &source,
                        .owner = s};
    call.param[0] = (hil_op_param){HIL_F32, OUT, IN, TILE, true, false};
    call.param[1] = (hil_op_param){HIL_F32, 1, OUT, 1, true, false};
    call.in[0] = (hil_tensor){HIL_F32, {2, {ROWS, IN}}, m->x};
    CHECK_OK(hil_op_infer(&call));
    CHECK(call.forward_scratch <= sizeof m->scratch && call.backward_scratch <= sizeof m->scratch);
    call.out[0].data = m->y;
    call.dout[0] = call.out[0];
    call.dout[0].data = m->dy;
    call.din[0] = call.in[0];
    call.din[0].data = m->dx;
    call.scratch = m->scratch;
    return call;
}

/* Computes y, then all gradients from dy; twice: the first time overwrites the sums, the second
   adds. */
static void compute(side *s, hil_device *device, hil_pool *pool)
{
    for (int i = 0; i < 2; ++i) {
        hil_op_call call = linear(s, device, pool);
        s->asks = 0;
        s->add = i > 0;
        CHECK_OK(hil_op_forward(&call));
        CHECK_OK(hil_op_backward(&call));
        memset(&call, 0xff, sizeof call);
    }
}

static void fill(memory *m)
{
    float *all = (float *)m;
    memset(m, 0, sizeof *m);
    for (size_t i = 0; i < offsetof(memory, dx) / sizeof *all; ++i)
        all[i] = (float)((int)(i * i * 37 % 101) - 50) / 16;
    for (int i = 0; i < W; ++i) m->dw[i] = NAN;
    for (int i = 0; i < OUT; ++i) m->dbias[i] = NAN;
    for (int i = 0; i < ROWS; ++i) m->ids[i] = i * 5 % OUT;
}

static void check_linear(hil_device *device, memory *arena, memory *shared, hil_pool *pool)
{
    static memory expected;
    side cpu = {.at = &expected}, here = {.at = arena};
    fill(&expected);
    fill(shared);
    CHECK_OK(device->queue->copy(device, HIL_STREAM_COMPUTE, arena, shared, sizeof *shared));
    compute(&cpu, NULL, pool);
    compute(&here, device, pool);
    CHECK_INT(here.asks, cpu.asks);
    CHECK(memcmp(here.asked, cpu.asked, (size_t)cpu.asks) == 0);
    CHECK_OK(device->queue->copy(device, HIL_STREAM_COMPUTE, shared, arena, sizeof *shared));
    CHECK_OK(device->queue->finish(device));
    CHECK(memcmp(shared->y, expected.y, sizeof expected.y) == 0);
    CHECK(memcmp(shared->dx, expected.dx, sizeof expected.dx) == 0);
    CHECK(memcmp(shared->dw, expected.dw, sizeof expected.dw) == 0);
    CHECK(memcmp(shared->dbias, expected.dbias, sizeof expected.dbias) == 0);
}

static void check_numbers(hil_device *device, memory *arena, memory *shared)
{
    hil_pool *pool;
    CHECK_OK(hil_pool_create(&pool, 1));
    hil_tensor x = {HIL_F32, {1, {X}}, arena->x}, dx = {HIL_F32, {1, {X}}, arena->dx};
    double *sum = (double *)(void *)shared, expected = 5;
    double of_x = 0;
    fill(shared);
    CHECK_OK(device->queue->copy(device, HIL_STREAM_COMPUTE, arena, shared, sizeof *shared));
    CHECK_OK(device->queue->finish(device));
    for (int i = 0; i < X; ++i) of_x += (double)(3 * shared->x[i]);
    *sum = 5;
    CHECK_OK(hil_op_convert(device, pool, &dx, &x, false));
    CHECK_OK(hil_op_convert(device, pool, &dx, &x, true));
    CHECK_OK(hil_op_convert(device, pool, &dx, &x, true));
    CHECK_OK(hil_op_sum(device, pool, &dx, sum));
    CHECK_OK(device->queue->finish(device));
    CHECK(*sum == expected + of_x);
    hil_pool_destroy(pool);
}

static hil_status embed(side *s, hil_device *device, hil_pool *pool)
{
    hil_op_call call = {.op = &hil_op_embedding,
                        .pool = pool,
                        .compute = HIL_F32,
                        .device = device,
                        .ins = 1,
                        .outs = 1,
                        .params = 1,
                        .source = &source,
                        .owner = s};
    call.param[0] = (hil_op_param){HIL_F32, OUT, IN, TILE, false, false};
    call.in[0] = (hil_tensor){HIL_I32, {2, {1, ROWS}}, s->at->ids};
    HIL_TRY(hil_op_infer(&call));
    call.out[0].data = s->at->rows;
    return hil_op_forward(&call);
}

/* The host does not check ids: the device finds bad ones, later. */
static void check_ids(hil_device *device, memory *arena, memory *shared, hil_pool *pool)
{
    side here = {.at = arena};
    fill(shared);
    shared->ids[3] = OUT;
    CHECK_OK(device->queue->copy(device, HIL_STREAM_COMPUTE, arena, shared, sizeof *shared));
    CHECK_OK(embed(&here, device, pool));
    CHECK_FAILS(device->queue->finish(device), HIL_ERR_INPUT, "id 40 is outside the table");
}

int main(void)
{
    hil_device *device;
    hil_pool *pool;
    void *arena, *shared;
    CHECK_OK(hil_device_threads_open(&device));
    hil_device_ops_set(device, &hil_ops_threads);
    hil_device_threads_delay(device, 7, 200);
    CHECK_OK(hil_pool_create(&pool, 2));
    CHECK_OK(device->heap->alloc(device, sizeof(memory), &arena));
    CHECK_OK(device->heap->share(device, sizeof(memory), &shared));
    check_linear(device, arena, shared, pool);
    check_numbers(device, arena, shared);
    check_ids(device, arena, shared, pool);
    device->heap->unshare(device, shared);
    device->heap->free(device, arena);
    hil_pool_destroy(pool);
    device->close(device);
    return 0;
}
