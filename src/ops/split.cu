/* split.cu - equal parts of the last dimension. */
#include "ops/cuda_kernel.h"

#define THREADS 256

#define ITEMS 4 /* runs that a thread has on their way at once */

/* whole: (rows, parts * cols); part[i]: (rows, cols). A thread copies runs of parts' rows. */
typedef struct split {
    int64_t rows, cols;
    int runs; /* of HIL_WIDE in a part's row */
    int parts;
    int group; /* rows of a block */
    hil_view whole, part[HIL_OP_TENSORS];
    bool back, add;
} split;

/* Where run i of a block lies. */
typedef struct place {
    int part, n;
    int64_t outer, inner;
} place;

static __device__ inline place find_place(const split &s, int64_t first, int i)
{
    int line = i / s.runs, row = line / s.parts, p = line - row * s.parts;
    int64_t col = (int64_t)(i - line * s.runs) * HIL_WIDE;
    return {p, hil_wide_count(s.cols - col), ((first + row) * s.parts + p) * s.cols + col,
            (first + row) * s.cols + col};
}

/* HALF: all are known to be bf16. */
template <bool HALF>
static __global__ void __launch_bounds__(THREADS) copy_runs(const __grid_constant__ split s)
{
    const hil_view whole = {s.whole.data, HALF ? HIL_BF16 : s.whole.dtype};
    const hil_dtype dtype = HALF ? HIL_BF16 : s.part[0].dtype;
    int64_t first = (int64_t)blockIdx.x * s.group;
    int rows = s.rows - first < s.group ? (int)(s.rows - first) : s.group;
    int count = rows * s.parts * s.runs;
    for (int begin = threadIdx.x; begin < count; begin += ITEMS * THREADS) {
        hil_wide raw[ITEMS] = {};
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            if (begin + k * THREADS >= count) continue;
            place at = find_place(s, first, begin + k * THREADS);
            hil_view part = {s.part[at.part].data, dtype};
            if (!s.back)
                raw[k] = hil_wide_load(whole, at.outer, at.n);
            else if (part.data)
                raw[k] = hil_wide_load(part, at.inner, at.n);
        }
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            if (begin + k * THREADS >= count) continue;
            place at = find_place(s, first, begin + k * THREADS);
            hil_view part = {s.part[at.part].data, dtype};
            float x[HIL_WIDE];
            hil_wide_read(raw[k], s.back ? dtype : whole.dtype, x);
            if (!s.back)
                hil_wide_store(part, at.inner, at.n, x);
            else if (part.data || !s.add)
                hil_wide_write(whole, at.outer, at.n, x, s.add);
        }
    }
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
    s.runs = (int)((s.cols + HIL_WIDE - 1) / HIL_WIDE);
    bool bf16 = whole->dtype == HIL_BF16;
    for (int i = 0; i < call->outs; ++i) {
        s.part[i] = hil_view_of(&part[i]);
        bf16 = bf16 && part[i].dtype == HIL_BF16;
    }
    if (s.rows * s.parts * s.runs == 0) return HIL_OK;
    s.group = ITEMS * THREADS / (s.parts * s.runs);
    if (s.group < 1) s.group = 1;
    void (*kernel)(split) = bf16 ? copy_runs<true> : copy_runs<false>;
    kernel<<<hil_blocks(s.rows, s.group), THREADS, 0, hil_cuda_of(call->device)->stream>>>(s);
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
