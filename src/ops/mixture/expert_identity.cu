/* expert_identity.cu - the experts without weights, which give what they get. */
#include "ops/mixture/choices_cuda.h"

typedef struct job {
    hil_choices_rows c;
    const int32_t *begin; /* where the choices of the first such expert lie */
    hil_view x, weight, dout, dweight;
    bool add_weight;
} job;

static job job_of(const hil_op_call *call)
{
    const hil_identity_attr *attr = (const hil_identity_attr *)call->attr;
    job j = {};
    j.c =
        hil_choices_rows_of(hil_shape_rows(&call->in[1].shape), hil_shape_cols(&call->in[1].shape),
                            hil_shape_cols(&call->in[0].shape), &call->in[2]);
    j.begin = (const int32_t *)call->in[3].data + attr->first;
    j.x = hil_view_of(&call->in[0]);
    j.weight = hil_view_of(&call->in[1]);
    return j;
}

static __device__ inline float sum_weights(const job &j, int64_t row)
{
    float sum = 0;
    for (int64_t i = row * j.c.chosen; i < (row + 1) * j.c.chosen; ++i)
        if (j.c.place[i] >= *j.begin) sum += hil_choices_read(j.weight, i);
    return sum;
}

/* out = x times the sum of the row's weights. */
static __global__ void __launch_bounds__(HIL_CHOICES_THREADS)
    scale_rows(const job j, const hil_view x, const hil_view out, bool add)
{
    int64_t row, col;
    if (!hil_choices_find(j.c, &row, &col)) return;
    int n = hil_wide_count(j.c.cols - col);
    float values[HIL_WIDE], sum = sum_weights(j, row);
    hil_wide_read(hil_wide_load(x, row * j.c.cols + col, n), x.dtype, values);
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) values[i] *= sum;
    hil_wide_write(out, row * j.c.cols + col, n, values, add);
}

/* A warp per token: the gradient of a weight of such an expert is x . dout. */
static __global__ void __launch_bounds__(HIL_CHOICES_THREADS) back_weights(const job j)
{
    int64_t row = (int64_t)blockIdx.x * (HIL_CHOICES_THREADS / 32) + threadIdx.x / 32;
    if (row >= j.c.rows) return;
    float dot = 0;
    for (int64_t col = threadIdx.x % 32 * HIL_WIDE; col < j.c.cols; col += 32 * HIL_WIDE) {
        int n = hil_wide_count(j.c.cols - col);
        float x[HIL_WIDE], dy[HIL_WIDE];
        hil_wide_read(hil_wide_load(j.x, row * j.c.cols + col, n), j.x.dtype, x);
        hil_wide_read(hil_wide_load(j.dout, row * j.c.cols + col, n), j.dout.dtype, dy);
#pragma unroll
        for (int k = 0; k < HIL_WIDE; ++k) dot += x[k] * dy[k];
    }
    for (int step = 16; step; step /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, step);
    for (int64_t i = row * j.c.chosen + threadIdx.x % 32; i < (row + 1) * j.c.chosen; i += 32) {
        float all[HIL_WIDE] = {j.c.place[i] >= *j.begin ? dot : 0};
        hil_wide_write(j.dweight, i, 1, all, j.add_weight);
    }
}

static hil_status run(hil_op_call *call, const hil_tensor *x, const hil_tensor *out, bool add)
{
    job j = job_of(call);
    if (j.c.rows * j.c.runs == 0) return HIL_OK;
    scale_rows<<<hil_choices_blocks(j.c), HIL_CHOICES_THREADS, 0,
                 hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(j, hil_view_of(x),
                                                                      hil_view_of(out), add);
    return hil_cuda_launched(call->device, "expert_identity");
}

static hil_status forward(hil_op_call *call)
{
    return run(call, &call->in[0], &call->out[0], false);
}

static hil_status backward(hil_op_call *call)
{
    job j = job_of(call);
    if (call->din[0].data) HIL_TRY(run(call, &call->dout[0], &call->din[0], call->din_add[0]));
    if (!call->din[1].data || j.c.rows == 0) return HIL_OK;
    j.dout = hil_view_of(&call->dout[0]);
    j.dweight = hil_view_of(&call->din[1]);
    j.add_weight = call->din_add[1];
    back_weights<<<hil_blocks(j.c.rows, HIL_CHOICES_THREADS / 32), HIL_CHOICES_THREADS, 0,
                   hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(j);
    return hil_cuda_launched(call->device, "expert_identity backward");
}

const hil_op_kernel hil_cuda_expert_identity = {
    .op = &hil_op_expert_identity, .forward = forward, .backward = backward};
