/* low_rank.cu - x times the transposes of a few small matrices, scaled. */
extern "C" {
#include "ops/linear/low_rank.h"
}
#include "ops/linear/matmul_cuda.h"

#define THREADS 256

static hil_status infer(hil_op_call *call)
{
    call->scratch = NULL;
    call->forward_scratch = hil_low_rank_of(call, false).bytes;
    call->backward_scratch = hil_low_rank_of(call, true).bytes;
    return HIL_OK;
}

static hil_status join_matrices(const hil_op_call *call, const hil_low_rank &l)
{
    size_t row = (size_t)l.k * hil_dtype_size(call->param[0].dtype);
    for (int i = 0; i < call->params; ++i)
        HIL_TRY(hil_op_cuda_matrix(call, i, l.joined + (size_t)l.first[i] * row));
    return HIL_OK;
}

/* Rows of the joined product and of its parts. */
typedef struct scaling {
    int64_t rows;
    int parts, width, runs;       /* of HIL_WIDE columns at most, of all parts */
    int first[HIL_OP_PARAMS + 1]; /* columns */
    float factor[HIL_OP_PARAMS];
    hil_view joined, part[HIL_OP_PARAMS];
} scaling;

static __host__ __device__ inline int runs_of(int columns)
{
    return (columns + HIL_WIDE - 1) / HIL_WIDE;
}

/* Parts = joined columns times their factors, or the other way round; a part without data is zeros.
 */
template <bool SPLIT> static __global__ void __launch_bounds__(THREADS) scale_rows(const scaling s)
{
    int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, row = at / s.runs;
    int run = (int)(at - row * s.runs), i = 0;
    if (row >= s.rows) return;
    while (run >= runs_of(s.first[i + 1] - s.first[i]))
        run -= runs_of(s.first[i + 1] - s.first[i++]);
    int width = s.first[i + 1] - s.first[i], n = hil_wide_count(width - run * HIL_WIDE);
    int64_t in_joined = row * s.width + s.first[i] + run * HIL_WIDE;
    int64_t in_part = row * width + run * HIL_WIDE;
    hil_view from = SPLIT ? s.joined : s.part[i], to = SPLIT ? s.part[i] : s.joined;
    float value[HIL_WIDE] = {};
    if (from.data)
        hil_wide_read(hil_wide_load(from, SPLIT ? in_joined : in_part, n), from.dtype, value);
#pragma unroll
    for (int k = 0; k < HIL_WIDE; ++k) value[k] *= s.factor[i];
    hil_wide_store(to, SPLIT ? in_part : in_joined, n, value);
}

template <bool SPLIT>
static hil_status scale(const hil_op_call *call, const hil_low_rank &l, hil_view joined,
                        const hil_tensor *part)
{
    scaling s = {};
    s.rows = l.rows, s.parts = call->params, s.width = (int)l.width, s.joined = joined;
    for (int i = 0; i < call->params; ++i) {
        s.factor[i] = (float)((const hil_low_rank_attr *)call->attr)->scale[i];
        s.part[i] = hil_view_of(&part[i]);
        s.first[i] = (int)l.first[i];
        s.runs += runs_of((int)call->param[i].rows);
    }
    s.first[call->params] = s.width;
    if (s.rows * s.runs == 0) return HIL_OK;
    scale_rows<SPLIT><<<hil_blocks(s.rows * s.runs, THREADS), THREADS, 0,
                        hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(s);
    return hil_cuda_launched(call->device, "scale products");
}

static hil_status forward(hil_op_call *call)
{
    hil_low_rank l = hil_low_rank_of(call, false);
    HIL_TRY(join_matrices(call, l));
    hil_cuda_matmul product = {.m = l.rows,
                               .n = l.width,
                               .k = l.k,
                               .dtype = call->in[0].dtype,
                               .a = {call->in[0].data, l.k, false},
                               .b = {l.joined, l.k, true},
                               .c = l.product,
                               .c_dtype = HIL_F32,
                               .c_stride = l.width};
    HIL_TRY(hil_cuda_matmul_run(call->device, &product));
    return scale<true>(call, l, {l.product, HIL_F32}, call->out);
}

static hil_status back_matrices(const hil_op_call *call, const hil_low_rank &l)
{
    hil_cuda_matmul product = {.m = l.width,
                               .n = l.k,
                               .k = l.rows,
                               .dtype = call->in[0].dtype,
                               .a = {l.scaled, l.width, true},
                               .b = {call->in[0].data, l.k, false},
                               .c = l.product,
                               .c_dtype = HIL_F32,
                               .c_stride = l.k};
    HIL_TRY(hil_cuda_matmul_run(call->device, &product));
    for (int i = 0; i < call->params; ++i)
        HIL_TRY(hil_op_cuda_give_matrix(call, i, l.product + l.first[i] * l.k));
    return HIL_OK;
}

static hil_status backward(hil_op_call *call)
{
    hil_low_rank l = hil_low_rank_of(call, true);
    HIL_TRY(scale<false>(call, l, {l.scaled, call->in[0].dtype}, call->dout));
    if (call->din[0].data) {
        HIL_TRY(join_matrices(call, l));
        hil_cuda_matmul product = {.m = l.rows,
                                   .n = l.k,
                                   .k = l.width,
                                   .dtype = call->in[0].dtype,
                                   .a = {l.scaled, l.width, false},
                                   .b = {l.joined, l.k, false},
                                   .c = call->din[0].data,
                                   .c_dtype = call->din[0].dtype,
                                   .c_stride = l.k,
                                   .add = call->din_add[0]};
        HIL_TRY(hil_cuda_matmul_run(call->device, &product));
    }
    return hil_low_rank_trains(call) ? back_matrices(call, l) : HIL_OK;
}

const hil_op_kernel hil_cuda_low_rank = {
    .op = &hil_op_low_rank, .infer = infer, .forward = forward, .backward = backward};
