/* magnitude.cu - z times magnitude / norm of each column, plus bias and residual. */
#include "ops/cuda_columns.h"
#include "ops/cuda_elements.h"

/* Scratch: norm, magnitude and bias as fp32. Backward: the gradients of each block of rows, too. */
typedef struct vectors {
    int64_t cols;
    const float *norm, *magnitude, *bias; /* bias may be NULL */
} vectors;

struct magnitude_formula {
    vectors v;
    bool forward; /* bias and residual (the last input) are added */
    template <int INS>
    __device__ void operator()(int64_t at, const float (&x)[INS][HIL_WIDE],
                               float y[1][HIL_WIDE]) const
    {
        int64_t col = at % v.cols;
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            float value = x[0][i] * (v.magnitude[col] / v.norm[col]);
            if (forward && v.bias) value += v.bias[col];
            if (forward && INS == 2) value += x[INS - 1][i];
            y[0][i] = value;
            if (++col == v.cols) col = 0;
        }
    }
};

static hil_status infer(hil_op_call *call)
{
    int64_t cols = hil_shape_cols(&call->in[0].shape);
    hil_columns columns = hil_columns_of(hil_shape_rows(&call->in[0].shape), cols);
    size_t bytes = 0;
    for (int i = 0; i <= call->params; ++i) hil_scratch_add(&bytes, cols, sizeof(float));
    call->forward_scratch = bytes;
    for (int i = 0; i < call->params; ++i)
        hil_scratch_add(&bytes, columns.blocks * cols, sizeof(float));
    call->backward_scratch = bytes;
    return HIL_OK;
}

/* Copies a vector into the scratch, as fp32. */
static hil_status copy_vector(const hil_op_call *call, const hil_tensor *from, size_t *at,
                              const float **out)
{
    int64_t count = hil_shape_count(&from->shape);
    hil_tensor to = {
        HIL_F32, {1, {count}}, hil_scratch_at(call, hil_scratch_add(at, count, sizeof(float)))};
    *out = (const float *)to.data;
    return hil_op_cuda_convert(call->device, &to, from, false);
}

static hil_status copy_vectors(const hil_op_call *call, vectors *v, size_t *at)
{
    v->cols = hil_shape_cols(&call->in[0].shape);
    HIL_TRY(copy_vector(call, &call->in[1], at, &v->norm));
    for (int i = 0; i < call->params; ++i) {
        const void *data;
        HIL_TRY(call->source->weight_begin(call->owner, i, 0, &data));
        hil_tensor from = {call->param[i].dtype, {1, {v->cols}}, (void *)(uintptr_t)data};
        hil_status status = copy_vector(call, &from, at, i ? &v->bias : &v->magnitude);
        call->source->weight_end(call->owner, i, 0);
        HIL_TRY(status);
    }
    return HIL_OK;
}

static hil_status forward(hil_op_call *call)
{
    magnitude_formula formula = {{}, true};
    size_t at = 0;
    HIL_TRY(copy_vectors(call, &formula.v, &at));
    int64_t count = hil_shape_count(&call->in[0].shape);
    if (call->ins == 3) {
        hil_cuda_elements<2, 1> job = {.count = count,
                                       .in = {hil_view_of(&call->in[0]), hil_view_of(&call->in[2])},
                                       .out = {hil_view_of(&call->out[0])},
                                       .add = {false}};
        return hil_elements_run_cuda(call->device, "magnitude", job, formula);
    }
    hil_cuda_elements<1, 1> job = {.count = count,
                                   .in = {hil_view_of(&call->in[0])},
                                   .out = {hil_view_of(&call->out[0])},
                                   .add = {false}};
    return hil_elements_run_cuda(call->device, "magnitude", job, formula);
}

static hil_status back_input(const hil_op_call *call, const vectors &v)
{
    hil_cuda_elements<1, 1> job = {.count = hil_shape_count(&call->in[0].shape),
                                   .in = {hil_view_of(&call->dout[0])},
                                   .out = {hil_view_of(&call->din[0])},
                                   .add = {call->din_add[0]}};
    return hil_elements_run_cuda(call->device, "magnitude backward", job,
                                 magnitude_formula{v, false});
}

static hil_status backward(hil_op_call *call)
{
    vectors v = {};
    size_t at = 0;
    HIL_TRY(copy_vectors(call, &v, &at));
    hil_columns columns = hil_columns_of(hil_shape_rows(&call->in[0].shape), v.cols);
    hil_view z = hil_view_of(&call->in[0]), dy = hil_view_of(&call->dout[0]);
    float *partial[2];
    for (int i = 0; i < call->params; ++i)
        partial[i] = (float *)hil_scratch_at(
            call, hil_scratch_add(&at, columns.blocks * v.cols, sizeof(float)));
    bool bias = call->params == 2 && call->param[1].trainable;
    if (call->param[0].trainable)
        HIL_TRY(hil_columns_run<true>(call->device, partial[0],
                                      {"magnitude gradient", z, dy, v.norm}, columns));
    if (bias)
        HIL_TRY(hil_columns_run<false>(call->device, partial[1], {"magnitude bias", dy}, columns));
    if (call->din[0].data) HIL_TRY(back_input(call, v));
    if (call->param[0].trainable) HIL_TRY(hil_columns_give(call, 0, partial[0], columns));
    return bias ? hil_columns_give(call, 1, partial[1], columns) : HIL_OK;
}

const hil_op_kernel hil_cuda_magnitude = {
    .op = &hil_op_magnitude, .infer = infer, .forward = forward, .backward = backward};
