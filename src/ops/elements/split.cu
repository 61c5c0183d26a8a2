/* split.cu - cuts the last dimension into parts: one copy per part. */
#include "ops/cuda_kernel.h"

#define THREADS 256

/* A part of a row: columns [first, first + size) of rows of `cols` numbers. */
typedef struct part_copy {
    int64_t rows, cols, first, size;
    hil_view whole, part;
    bool back; /* from the part to the whole */
    bool add;
} part_copy;

/* A thread takes HIL_WIDE numbers of one row. Without data of the part, backward writes zeros. */
static __global__ void __launch_bounds__(THREADS) copy_part(const part_copy p)
{
    int64_t runs = (p.size + HIL_WIDE - 1) / HIL_WIDE;
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.rows * runs) return;
    int64_t row = i / runs, col = i % runs * HIL_WIDE;
    int n = hil_wide_count(p.size - col);
    int64_t at = row * p.cols + p.first + col, part = row * p.size + col;
    float x[HIL_WIDE] = {};
    if (!p.back) {
        hil_wide_read(hil_wide_load(p.whole, at, n), p.whole.dtype, x);
        hil_wide_store(p.part, part, n, x);
        return;
    }
    if (p.part.data) hil_wide_read(hil_wide_load(p.part, part, n), p.part.dtype, x);
    hil_wide_write(p.whole, at, n, x, p.add);
}

static hil_status run(const hil_op_call *call, const hil_tensor *whole, const hil_tensor *parts,
                      bool back)
{
    const hil_split_attr *attr = (const hil_split_attr *)call->attr;
    part_copy p = {.rows = hil_shape_rows(&call->in[0].shape),
                   .cols = hil_shape_cols(&call->in[0].shape),
                   .whole = hil_view_of(whole),
                   .back = back,
                   .add = back && call->din_add[0]};
    for (int i = 0; i < attr->parts; p.first += attr->size[i++]) {
        p.size = attr->size[i];
        p.part = hil_view_of(&parts[i]);
        int64_t count = p.rows * ((p.size + HIL_WIDE - 1) / HIL_WIDE);
        if (count == 0 || (p.add && !p.part.data)) continue;
        copy_part<<<hil_blocks(count, THREADS), THREADS, 0, hil_cuda_of(call->device)->stream>>>(p);
        HIL_TRY(hil_cuda_launched(call->device, "split"));
    }
    return HIL_OK;
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
