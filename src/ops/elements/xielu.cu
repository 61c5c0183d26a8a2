/* xielu.cu - xIELU: a parabola for positive x, an exponential for others, with trained factors. */
#include "ops/cuda_elements.h"
#include "ops/elements/xielu.h"

#define THREADS 256
#define BLOCKS_MOST 1024

/* The copies of the parameters, in the operation's scratch memory. */
static __device__ inline hil_xielu read_all(const hil_view number[HIL_XIELU_NUMBERS])
{
    float all[HIL_XIELU_NUMBERS], one[HIL_WIDE];
    for (int i = 0; i < HIL_XIELU_NUMBERS; ++i) {
        hil_wide_read(hil_wide_load(number[i], 0, 1), number[i].dtype, one);
        all[i] = one[0];
    }
    return hil_xielu_of(all);
}

struct xielu_forward {
    hil_view number[HIL_XIELU_NUMBERS];
    __device__ void operator()(int64_t, const float x[1][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
        hil_xielu p = read_all(number);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = hil_xielu_value(&p, x[0][i]);
    }
};

typedef struct differentiation {
    hil_view number[HIL_XIELU_NUMBERS], x, dy, dx;
    int64_t count;
    bool add;
    float *sum[2]; /* of each block */
} differentiation;

/* A block's threads take HIL_WIDE numbers at a time; then a tree of sums. */
static __global__ void __launch_bounds__(THREADS) differentiate(const differentiation d)
{
    __shared__ float part[2][THREADS];
    hil_xielu p = read_all(d.number);
    float sum[2] = {}, x[HIL_WIDE], dy[HIL_WIDE];
    int64_t step = (int64_t)gridDim.x * THREADS * HIL_WIDE;
    for (int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * HIL_WIDE; at < d.count;
         at += step) {
        int n = hil_wide_count(d.count - at);
        hil_wide_read(hil_wide_load(d.x, at, n), d.x.dtype, x);
        hil_wide_read(hil_wide_load(d.dy, at, n), d.dy.dtype, dy);
        for (int i = 0; i < n; ++i) {
            float by, slope = hil_xielu_slope(&p, x[i], &by);
            sum[x[i] > 0 ? HIL_XIELU_POSITIVE : HIL_XIELU_NEGATIVE] += dy[i] * by;
            dy[i] *= slope;
        }
        if (d.dx.data) hil_wide_write(d.dx, at, n, dy, d.add);
    }
    for (int k = 0; k < 2; ++k) part[k][threadIdx.x] = sum[k];
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        for (int k = 0; k < 2 && threadIdx.x < half; ++k)
            part[k][threadIdx.x] += part[k][threadIdx.x + half];
    }
    for (int k = 0; k < 2 && threadIdx.x == 0; ++k) d.sum[k][blockIdx.x] = part[k][0];
}

static unsigned blocks_of(const hil_op_call *call)
{
    unsigned blocks = hil_blocks(hil_shape_count(&call->in[0].shape), THREADS * HIL_WIDE);
    return blocks < BLOCKS_MOST ? blocks : BLOCKS_MOST;
}

/* Scratch: copies of the parameters, and in backward the blocks' sums. */
static hil_status infer(hil_op_call *call)
{
    call->forward_scratch = call->backward_scratch = 0;
    for (int i = 0; i < HIL_XIELU_NUMBERS; ++i)
        hil_scratch_add(&call->forward_scratch, 1, sizeof(float));
    call->backward_scratch = call->forward_scratch;
    hil_scratch_add(&call->backward_scratch, 2 * (int64_t)blocks_of(call), sizeof(float));
    return HIL_OK;
}

/* Copies the parameters; *at: where the scratch memory after them begins. */
static hil_status read_numbers(const hil_op_call *call, hil_view number[HIL_XIELU_NUMBERS],
                               size_t *at)
{
    *at = 0;
    for (int i = 0; i < HIL_XIELU_NUMBERS; ++i) {
        void *copy = hil_scratch_at(call, hil_scratch_add(at, 1, sizeof(float)));
        HIL_TRY(hil_op_cuda_matrix(call, i, copy));
        number[i] = {copy, call->param[i].dtype};
    }
    return HIL_OK;
}

static hil_status forward(hil_op_call *call)
{
    size_t at;
    xielu_forward formula;
    HIL_TRY(read_numbers(call, formula.number, &at));
    return hil_elements_single_cuda(call, formula);
}

static hil_status backward(hil_op_call *call)
{
    size_t at;
    unsigned blocks = blocks_of(call);
    differentiation d = {};
    HIL_TRY(read_numbers(call, d.number, &at));
    d.x = hil_view_of(&call->in[0]), d.dy = hil_view_of(&call->dout[0]);
    d.dx = hil_view_of(&call->din[0]), d.add = call->din_add[0];
    d.count = hil_shape_count(&call->in[0].shape);
    for (int k = 0; k < 2; ++k) d.sum[k] = (float *)hil_scratch_at(call, at) + k * blocks;
    if (blocks)
        differentiate<<<blocks, THREADS, 0, hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(d);
    HIL_TRY(hil_cuda_launched(call->device, "xielu backward"));
    for (int k = 0; k < 2; ++k) {
        float *sum;
        bool add;
        if (!call->param[k].trainable) continue;
        HIL_TRY(call->source->gradient_begin(call->owner, k, 0, &sum, &add));
        hil_status status = hil_op_cuda_gather(call->device, {sum, d.sum[k], blocks, 1, add});
        call->source->gradient_end(call->owner, k, 0);
        HIL_TRY(status);
    }
    return HIL_OK;
}

const hil_op_kernel hil_cuda_xielu = {
    .op = &hil_op_xielu, .infer = infer, .forward = forward, .backward = backward};
