/* cuda_elements.h - element-wise operations on a GPU: the kernel around their formula. */
#ifndef HIL_OPS_CUDA_ELEMENTS_H
#define HIL_OPS_CUDA_ELEMENTS_H

#include "ops/cuda_kernel.h"

#define HIL_ELEMENT_THREADS 256

/* Tensors of `count` elements each. An output without data is not stored; an output may be an
   input's memory if the dtypes are equal. */
template <int INS, int OUTS> struct hil_cuda_elements {
    int64_t count;
    hil_view in[INS], out[OUTS];
    bool add[OUTS];
};

/* formula(at, x, y) computes y[output][HIL_WIDE] from x[input][HIL_WIDE], elements at, at + 1, ...
 */
template <int INS, int OUTS, typename FORMULA>
__global__ void __launch_bounds__(HIL_ELEMENT_THREADS)
    hil_elements_kernel(const hil_cuda_elements<INS, OUTS> job, const FORMULA formula)
{
    int64_t at = ((int64_t)blockIdx.x * HIL_ELEMENT_THREADS + threadIdx.x) * HIL_WIDE;
    int n = hil_wide_count(job.count - at);
    if (n == 0) return;
    hil_wide raw[INS];
    float x[INS][HIL_WIDE], y[OUTS][HIL_WIDE];
#pragma unroll
    for (int i = 0; i < INS; ++i) raw[i] = hil_wide_load(job.in[i], at, n);
#pragma unroll
    for (int i = 0; i < INS; ++i) hil_wide_read(raw[i], job.in[i].dtype, x[i]);
    formula(at, x, y);
#pragma unroll
    for (int i = 0; i < OUTS; ++i)
        if (job.out[i].data) hil_wide_write(job.out[i], at, n, y[i], job.add[i]);
}

template <int INS, int OUTS, typename FORMULA>
hil_status hil_elements_run_cuda(const hil_device *device, const char *name,
                                 const hil_cuda_elements<INS, OUTS> &job, const FORMULA &formula)
{
    if (job.count == 0) return HIL_OK;
    unsigned blocks = hil_blocks(job.count, HIL_ELEMENT_THREADS * HIL_WIDE);
    hil_elements_kernel<INS, OUTS, FORMULA>
        <<<blocks, HIL_ELEMENT_THREADS, 0, hil_cuda_stream(device, HIL_STREAM_COMPUTE)>>>(job,
                                                                                          formula);
    return hil_cuda_launched(device, name);
}

/* Operations with one input and one output; `formula` of backward gets x and dy. */
template <typename FORMULA>
hil_status hil_elements_single_cuda(const hil_op_call *call, const FORMULA &formula)
{
    hil_cuda_elements<1, 1> job = {.count = hil_shape_count(&call->in[0].shape),
                                   .in = {hil_view_of(&call->in[0])},
                                   .out = {hil_view_of(&call->out[0])},
                                   .add = {false}};
    return hil_elements_run_cuda(call->device, call->op->name, job, formula);
}

template <typename FORMULA>
hil_status hil_elements_single_back_cuda(const hil_op_call *call, const FORMULA &formula)
{
    if (!call->din[0].data) return HIL_OK;
    hil_cuda_elements<2, 1> job = {.count = hil_shape_count(&call->in[0].shape),
                                   .in = {hil_view_of(&call->in[0]), hil_view_of(&call->dout[0])},
                                   .out = {hil_view_of(&call->din[0])},
                                   .add = {call->din_add[0]}};
    return hil_elements_run_cuda(call->device, call->op->name, job, formula);
}

/* Operations with two inputs and one output; `formula` of backward gets x, y and the gradient. */
template <typename FORMULA>
hil_status hil_elements_pair_cuda(const hil_op_call *call, const FORMULA &formula)
{
    hil_cuda_elements<2, 1> job = {.count = hil_shape_count(&call->in[0].shape),
                                   .in = {hil_view_of(&call->in[0]), hil_view_of(&call->in[1])},
                                   .out = {hil_view_of(&call->out[0])},
                                   .add = {false}};
    return hil_elements_run_cuda(call->device, call->op->name, job, formula);
}

template <typename FORMULA>
hil_status hil_elements_pair_back_cuda(const hil_op_call *call, const FORMULA &formula)
{
    if (!call->din[0].data && !call->din[1].data) return HIL_OK;
    hil_cuda_elements<3, 2> job = {
        .count = hil_shape_count(&call->in[0].shape),
        .in = {hil_view_of(&call->in[0]), hil_view_of(&call->in[1]), hil_view_of(&call->dout[0])},
        .out = {hil_view_of(&call->din[0]), hil_view_of(&call->din[1])},
        .add = {call->din_add[0], call->din_add[1]}};
    return hil_elements_run_cuda(call->device, call->op->name, job, formula);
}

#endif
