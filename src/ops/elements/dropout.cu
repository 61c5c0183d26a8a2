/* dropout.cu - zeroes a random fraction of the elements; backward recomputes the mask. */
#include "ops/cuda_elements.h"
#include "ops/cuda_mask.h"

/* Elements are numbered within their sequence of `length`. */
struct mask_formula {
    hil_mask mask;
    int64_t length;
    __device__ void operator()(int64_t at, const float x[1][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
        int64_t row = at / length, element = at % length;
        if (element % 4 || element + HIL_WIDE > length) {
#pragma unroll
            for (int i = 0; i < HIL_WIDE; ++i) {
                y[0][i] = x[0][i] * hil_mask_cuda_factor(mask, row, element);
                if (++element == length) ++row, element = 0;
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < HIL_WIDE; i += 4) {
            uint32_t word[4];
            hil_cuda_philox(mask.key, (uint64_t)(element + i) / 4, (uint64_t)(mask.sequence + row),
                            word);
#pragma unroll
            for (int k = 0; k < 4; ++k)
                y[0][i + k] = x[0][i + k] * hil_mask_cuda_keep(mask, word[k]);
        }
    }
};

static hil_status apply(hil_op_call *call, const hil_tensor *in, const hil_tensor *out, bool add)
{
    const hil_dropout_attr *attr = (const hil_dropout_attr *)call->attr;
    int64_t count = hil_shape_count(&call->in[0].shape);
    if (count == 0) return HIL_OK;
    mask_formula formula = {hil_mask_create(&call->random, attr->rate),
                            count / call->in[0].shape.dim[0]};
    hil_cuda_elements<1, 1> job = {
        .count = count, .in = {hil_view_of(in)}, .out = {hil_view_of(out)}, .add = {add}};
    return hil_elements_run_cuda(call->device, "dropout", job, formula);
}

static hil_status forward(hil_op_call *call)
{
    return apply(call, &call->in[0], &call->out[0], false);
}

static hil_status backward(hil_op_call *call)
{
    if (!call->din[0].data) return HIL_OK;
    return apply(call, &call->dout[0], &call->din[0], call->din_add[0]);
}

const hil_op_kernel hil_cuda_dropout = {
    .op = &hil_op_dropout, .forward = forward, .backward = backward};
