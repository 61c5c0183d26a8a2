/* causal_conv.cu - a convolution over the positions of each channel, with SiLU or plain, on a GPU.

   [Note: runs of positions] A thread has HIL_WIDE channels and walks over a run of positions, with
   the inputs that the next position still reads in registers. In backward it also walks over the
   few positions after its run, whose gradients reach back into it. */
#include "ops/cuda_kernel.h"

#include <string.h>

#define LANES 32
#define WARPS 8
#define THREADS (LANES * WARPS)
#define SPAN (LANES * HIL_WIDE)  /* channels of a block */
#define RUN 16                   /* positions of a warp */
#define BLOCK_ROWS (WARPS * RUN) /* positions of a block, all of one sequence */
#define SIZE_MOST 8

typedef struct job {
    int64_t batch, length, channels, size;
    hil_view x, y, past, next; /* past, next: in generation */
    int64_t known;             /* rows of `past` that hold something, the last ones */
    const int32_t *first;      /* NULL in generation */
    hil_view factor;           /* (C, size), the latest position last */
    hil_view bias;             /* (C); no data: there is none */
    hil_view dy, dx;
    bool add;
    bool plain;     /* without SiLU */
    float *partial; /* (blocks, C size): the factors' gradients of each block; NULL: not wanted */
    float *dbias;   /* (blocks, C): likewise of the bias */
} job;

/* The numbers of the last SIZE positions that a thread has seen, the latest first. */
template <int SIZE> struct window {
    float x[SIZE][HIL_WIDE];
};

template <int SIZE> static __device__ inline void shift(window<SIZE> &w)
{
#pragma unroll
    for (int i = SIZE - 1; i > 0; --i)
#pragma unroll
        for (int c = 0; c < HIL_WIDE; ++c) w.x[i][c] = w.x[i - 1][c];
#pragma unroll
    for (int c = 0; c < HIL_WIDE; ++c) w.x[0][c] = 0;
}

/* What a thread works on: channels [channel, channel + count), positions [begin, end) of b. */
typedef struct place {
    int64_t b, begin, end, channel;
    int count;
} place;

static __device__ inline place find_place(const job &j)
{
    int64_t blocks = (j.length + BLOCK_ROWS - 1) / BLOCK_ROWS;
    place p = {.b = blockIdx.x / blocks};
    p.begin = blockIdx.x % blocks * BLOCK_ROWS + threadIdx.x / LANES * RUN;
    p.end = p.begin + RUN < j.length ? p.begin + RUN : j.length;
    p.channel = (int64_t)blockIdx.y * SPAN + threadIdx.x % LANES * HIL_WIDE;
    p.count = hil_wide_count(j.channels - p.channel);
    return p;
}

/* Factor i is that of the position i before; those from `size` on are 0. */
template <int SIZE>
static __device__ inline void load_factors(const job &j, const place &p, window<SIZE> &w)
{
#pragma unroll
    for (int i = 0; i < SIZE; ++i)
#pragma unroll
        for (int c = 0; c < HIL_WIDE; ++c) {
            float one[HIL_WIDE] = {};
            int64_t at = (p.channel + c) * j.size + j.size - 1 - i;
            if (i < j.size && c < p.count)
                hil_wide_read(hil_wide_load(j.factor, at, 1), j.factor.dtype, one);
            w.x[i][c] = one[0];
        }
}

/* The input at position t, which may be one before the call; zeros where there is none. */
static __device__ inline void load_input(const job &j, const place &p, int64_t t, float x[HIL_WIDE])
{
    bool before = t < 0, is_there = before ? -t <= j.known : t < j.length;
    const hil_view from = before ? j.past : j.x;
    int64_t row = before ? (p.b + 1) * (j.size - 1) + t : p.b * j.length + t;
    hil_wide raw = hil_wide_load(from, row * j.channels + p.channel, is_there ? p.count : 0);
    hil_wide_read(raw, from.dtype, x);
}

/* How many positions position t reads, itself included. */
static __device__ inline int count_read(const job &j, int64_t b, int64_t t)
{
    int64_t least = j.first ? j.first[b * j.length + t] : -j.known;
    return (int)(t - least + 1 < j.size ? t - least + 1 : j.size);
}

static __device__ inline void load_bias(const job &j, const place &p, float bias[HIL_WIDE])
{
#pragma unroll
    for (int c = 0; c < HIL_WIDE; ++c) bias[c] = 0;
    if (j.bias.data) hil_wide_read(hil_wide_load(j.bias, p.channel, p.count), j.bias.dtype, bias);
}

/* The sum before SiLU; the bias and then the earliest position come first. */
template <int SIZE>
static __device__ inline void convolve(const window<SIZE> &x, const window<SIZE> &factor,
                                       const float bias[HIL_WIDE], int count, float y[HIL_WIDE])
{
#pragma unroll
    for (int c = 0; c < HIL_WIDE; ++c) y[c] = bias[c];
#pragma unroll
    for (int i = SIZE - 1; i >= 0; --i) {
        if (i >= count) continue;
#pragma unroll
        for (int c = 0; c < HIL_WIDE; ++c) y[c] = fmaf(x.x[i][c], factor.x[i][c], y[c]);
    }
}

/* Holds the inputs before position `begin`; the next shift makes room for its own. */
template <int SIZE>
static __device__ inline void begin_window(const job &j, const place &p, window<SIZE> &x)
{
#pragma unroll
    for (int i = 0; i < SIZE - 1; ++i) load_input(j, p, p.begin - 1 - i, x.x[i]);
#pragma unroll
    for (int c = 0; c < HIL_WIDE; ++c) x.x[SIZE - 1][c] = 0;
}

template <int SIZE> static __global__ void __launch_bounds__(THREADS) convolve_rows(const job j)
{
    place p = find_place(j);
    if (p.begin >= p.end || p.count == 0) return;
    window<SIZE> x, factor;
    float bias[HIL_WIDE];
    load_factors(j, p, factor);
    load_bias(j, p, bias);
    begin_window(j, p, x);
    for (int64_t t = p.begin; t < p.end; ++t) {
        float y[HIL_WIDE];
        shift(x);
        load_input(j, p, t, x.x[0]);
        convolve(x, factor, bias, count_read(j, p.b, t), y);
#pragma unroll
        for (int c = 0; c < HIL_WIDE && !j.plain; ++c) y[c] = y[c] / (1 + expf(-y[c]));
        hil_wide_store(j.y, (p.b * j.length + t) * j.channels + p.channel, p.count, y);
    }
}

/* The sums of all warps, in their order, of the channel that has the thread's number. */
static __device__ inline float add_warps(const float mine[HIL_WIDE])
{
    __shared__ float shared[WARPS][SPAN];
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    float total = 0;
    __syncthreads();
#pragma unroll
    for (int c = 0; c < HIL_WIDE; ++c) shared[warp][lane * HIL_WIDE + c] = mine[c];
    __syncthreads();
    for (int w = 0; w < WARPS; ++w) total += shared[w][threadIdx.x];
    return total;
}

/* `sum` and `bias` are a thread's gradients of its factors and of its biases. */
template <int SIZE>
static __device__ inline void add_gradients(const job &j, const window<SIZE> &sum,
                                            const float bias[HIL_WIDE])
{
    int64_t channel = (int64_t)blockIdx.y * SPAN + threadIdx.x;
    int64_t at = blockIdx.x * j.channels + channel;
#pragma unroll
    for (int i = 0; i < SIZE; ++i) {
        if (i >= j.size || !j.partial) break;
        float total = add_warps(sum.x[i]);
        if (channel < j.channels) j.partial[at * j.size + j.size - 1 - i] = total;
    }
    if (!j.dbias) return;
    float total = add_warps(bias);
    if (channel < j.channels) j.dbias[at] = total;
}
static_assert(SPAN == THREADS, "a thread adds up one channel");

/* `dx` of the last SIZE positions is not complete before the position SIZE - 1 later was added. */
template <int SIZE> static __global__ void __launch_bounds__(THREADS) differentiate(const job j)
{
    place p = find_place(j);
    window<SIZE> x, factor, dx = {}, sum = {};
    float bias[HIL_WIDE], dbias[HIL_WIDE] = {};
    load_factors(j, p, factor);
    load_bias(j, p, bias);
    begin_window(j, p, x);
    int64_t last = j.dx.data && p.begin < p.end ? p.end + SIZE - 1 : p.end;
    for (int64_t t = p.begin; t < last; ++t) {
        int count = t < j.length ? count_read(j, p.b, t) : 0;
        float y[HIL_WIDE], dy[HIL_WIDE];
        shift(x);
        shift(dx);
        load_input(j, p, t, x.x[0]);
        hil_wide raw =
            hil_wide_load(j.dy, (p.b * j.length + t) * j.channels + p.channel, count ? p.count : 0);
        hil_wide_read(raw, j.dy.dtype, dy);
        convolve(x, factor, bias, count, y);
#pragma unroll
        for (int c = 0; c < HIL_WIDE && !j.plain; ++c) {
            float open = 1 / (1 + expf(-y[c]));
            dy[c] *= open * (1 + y[c] * (1 - open));
        }
#pragma unroll
        for (int c = 0; c < HIL_WIDE; ++c) dbias[c] += t < p.end ? dy[c] : 0;
#pragma unroll
        for (int i = 0; i < SIZE; ++i) {
            if (i >= count) continue;
#pragma unroll
            for (int c = 0; c < HIL_WIDE; ++c) {
                dx.x[i][c] = fmaf(dy[c], factor.x[i][c], dx.x[i][c]);
                if (t < p.end) sum.x[i][c] = fmaf(dy[c], x.x[i][c], sum.x[i][c]);
            }
        }
        int64_t done = t - SIZE + 1;
        if (j.dx.data && done >= p.begin)
            hil_wide_write(j.dx, (p.b * j.length + done) * j.channels + p.channel, p.count,
                           dx.x[SIZE - 1], j.add);
    }
    if (j.partial || j.dbias) add_gradients(j, sum, dbias);
}

static int64_t count_blocks(int64_t batch, int64_t length)
{
    return batch * ((length + BLOCK_ROWS - 1) / BLOCK_ROWS);
}

static job describe(const hil_op_call *call)
{
    const int64_t *x = call->in[0].shape.dim;
    return {.batch = x[0],
            .length = x[1],
            .channels = x[2],
            .size = ((const hil_conv_attr *)call->attr)->size,
            .x = hil_view_of(&call->in[0]),
            .y = hil_view_of(&call->out[0]),
            .plain = strstr(call->op->name, hil_op_causal_conv_plain.name) != NULL};
}

/* Scratch: a copy of the bias; in backward the gradients of each block of positions. */
static hil_status infer(hil_op_call *call)
{
    job j = describe(call);
    if (j.size > SIZE_MOST)
        return hil_fail(HIL_ERR_USAGE, "%s: a kernel of %lld positions, a GPU takes at most %d",
                        call->op->name, (long long)j.size, SIZE_MOST);
    int64_t blocks = count_blocks(j.batch, j.length), biases = call->params > 1 ? j.channels : 0;
    hil_scratch_add(&call->forward_scratch, biases, sizeof(float));
    call->backward_scratch = call->forward_scratch;
    hil_scratch_add(&call->backward_scratch, blocks * j.channels * j.size, sizeof(float));
    hil_scratch_add(&call->backward_scratch, blocks * biases, sizeof(float));
    return HIL_OK;
}

/* Copies the bias, because only one parameter can be acquired at a time, and acquires the factors
   while the kernel is queued. */
static hil_status run(const hil_op_call *call, job *j, bool back)
{
    const void *data;
    dim3 grid((unsigned)count_blocks(j->batch, j->length), hil_blocks(j->channels, SPAN));
    cudaStream_t stream = hil_cuda_stream(call->device, HIL_STREAM_COMPUTE);
    if (call->params > 1) {
        j->bias = {call->scratch, call->param[1].dtype};
        HIL_TRY(hil_op_cuda_matrix(call, 1, j->bias.data));
    }
    HIL_TRY(call->source->weight_begin(call->owner, 0, 0, &data));
    j->factor = {(void *)(uintptr_t)data, call->param[0].dtype};
    if (grid.x && grid.y) {
        bool few = j->size <= 4;
        if (back && few)
            differentiate<4><<<grid, THREADS, 0, stream>>>(*j);
        else if (back)
            differentiate<SIZE_MOST><<<grid, THREADS, 0, stream>>>(*j);
        else if (few)
            convolve_rows<4><<<grid, THREADS, 0, stream>>>(*j);
        else
            convolve_rows<SIZE_MOST><<<grid, THREADS, 0, stream>>>(*j);
    }
    hil_status status = hil_cuda_launched(call->device, call->op->name);
    call->source->weight_end(call->owner, 0, 0);
    return status;
}

static hil_status forward(hil_op_call *call)
{
    job j = describe(call);
    j.first = (const int32_t *)call->in[1].data;
    return run(call, &j, false);
}

static hil_status backward(hil_op_call *call)
{
    job j = describe(call);
    j.first = (const int32_t *)call->in[1].data;
    j.dy = hil_view_of(&call->dout[0]);
    j.dx = hil_view_of(&call->din[0]);
    j.add = call->din_add[0];
    int64_t blocks = count_blocks(j.batch, j.length), biases = call->params > 1 ? j.channels : 0;
    size_t bytes = 0;
    hil_scratch_add(&bytes, biases, sizeof(float));
    size_t factors = hil_scratch_add(&bytes, blocks * j.channels * j.size, sizeof(float));
    if (call->param[0].trainable) j.partial = (float *)hil_scratch_at(call, factors);
    if (biases && call->param[1].trainable) j.dbias = (float *)hil_scratch_at(call, bytes);
    HIL_TRY(run(call, &j, true));
    const float *partial[] = {j.partial, j.dbias};
    const int64_t width[] = {j.channels * j.size, j.channels};
    for (int i = 0; i < 2; ++i) {
        float *sum;
        bool add;
        if (!partial[i]) continue;
        HIL_TRY(call->source->gradient_begin(call->owner, i, 0, &sum, &add));
        hil_status status =
            hil_op_cuda_gather(call->device, {sum, partial[i], blocks, width[i], add});
        call->source->gradient_end(call->owner, i, 0);
        HIL_TRY(status);
    }
    return HIL_OK;
}

const hil_op_kernel hil_cuda_causal_conv = {
    .op = &hil_op_causal_conv, .infer = infer, .forward = forward, .backward = backward};
const hil_op_kernel hil_cuda_causal_conv_plain = {
    .op = &hil_op_causal_conv_plain, .infer = infer, .forward = forward, .backward = backward};

/* The last rows of `past` and x; those before the first position are never read. */
static __global__ void __launch_bounds__(THREADS) keep_rows(const job j)
{
    int64_t kept = j.size - 1, row = blockIdx.x, t = j.length - kept + row % kept;
    place p = {.b = row / kept,
               .channel = ((int64_t)blockIdx.y * THREADS + threadIdx.x) * HIL_WIDE};
    p.count = hil_wide_count(j.channels - p.channel);
    if (p.count == 0) return;
    float x[HIL_WIDE];
    load_input(j, p, t, x);
    hil_wide_store(j.next, row * j.channels + p.channel, p.count, x);
}

static hil_status forward_cached(hil_op_call *call)
{
    const hil_conv_attr *attr = (const hil_conv_attr *)call->attr;
    job j = describe(call);
    j.past = {(void *)(uintptr_t)attr->past, call->compute};
    j.next = {attr->next, call->compute};
    j.known = attr->length < j.size - 1 ? attr->length : j.size - 1;
    HIL_TRY(run(call, &j, false));
    dim3 grid((unsigned)(j.batch * (j.size - 1)), hil_blocks(j.channels, THREADS * HIL_WIDE));
    if (!grid.x || !grid.y) return HIL_OK;
    keep_rows<<<grid, THREADS, 0, hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(j);
    return hil_cuda_launched(call->device, call->op->name);
}

const hil_op_kernel hil_cuda_causal_conv_cached = {
    .op = &hil_op_causal_conv_cached, .infer = infer, .forward = forward_cached};
const hil_op_kernel hil_cuda_causal_conv_plain_cached = {
    .op = &hil_op_causal_conv_plain_cached, .infer = infer, .forward = forward_cached};
