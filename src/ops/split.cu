/* split.cu - equal parts of the last dimension. */
#include "ops/cuda_kernel.h"

#define THREADS 256

/* whole: (rows, parts * cols); part[i]: (rows, cols). A thread copies a run of one part's row. */
typedef struct split {
    int64_t rows, cols, runs; /* runs of HIL_WIDE in a part's row */
    int parts;
    hil_view whole, part[HIL_OP_TENSORS];
    bool back, add;
} split;

static __global__ void __launch_bounds__(THREADS) copy_runs(const split s)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= s.rows * s.parts * s.runs) return;
    int64_t col = i % s.runs * HIL_WIDE, row = i / s.runs / s.parts;
    int p = (int)(i / s.runs % s.parts), n = hil_wide_count(s.cols - col);
    int64_t outer = (row * s.parts + p) * s.cols + col, inner = row * s.cols + col;
    float x[HIL_WIDE] = {};
    if (!s.back) {
        hil_wide_read(hil_wide_load(s.whole, outer, n), s.whole.dtype, x);
        hil_wide_store(s.part[p], inner, n, x);
        return;
    }
    if (s.part[p].data)
        hil_wide_read(hil_wide_load(s.part[p], inner, n), s.part[p].dtype, x);
    else if (s.add)
        return;
    hil_wide_write(s.whole, outer, n, x, s.add);
}

static hil_status run(const hil_op_call *call, const hil_tensor *whole, const hil_tensor *part,
                      bool back)
{
    split s = {.rows = hil_shape_rows(&call->in[0].shape),
               .cols = hil_shape_cols(&call->out[0].shape),
               .parts = call->outs,
               .whole = hil_view_of(whole),
               .back = back,
               .add = back && call->din_add[0]};
    s.runs = (s.cols + HIL_WIDE - 1) / HIL_WIDE;
    for (int i = 0; i < call->outs; ++i) s.part[i] = hil_view_of(&part[i]);
    int64_t threads = s.rows * s.parts * s.runs;
    if (threads == 0) return HIL_OK;
    copy_runs<<<hil_blocks(threads, THREADS), THREADS, 0, hil_cuda_of(call->device)->stream>>>(s);
    return hil_cuda_launched(call->device, "split");
}

static hil_status forward(hil_op_call *call)
{
    return run(call, &call->in[0], call->out, false);
}

static hil_status backward(hil_op_call *call)
{
    return call->din[0].data ? run(call, &call->din[0], call->dout, true) : HIL_OK;
}

const hil_op_kernel hil_cuda_split = {
    .op = &hil_op_split, .forward = forward, .backward = backward};
