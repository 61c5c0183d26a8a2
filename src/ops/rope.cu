/* rope.cu - rotary position embedding: dimensions i and i + D/2 of each head turn together. */
#include "ops/cuda_kernel.h"

#define THREADS 256
#define HALF_MOST 128

/* Numbers of a whole block of positions, with the frequencies by value: they lie on the host. */
typedef struct rotation {
    int64_t rows; /* B * T */
    int heads, half;
    int runs;  /* of HIL_WIDE pairs in a head */
    int group; /* rows of a block */
    hil_view from, to;
    const int32_t *position;
    float sign;
    bool add;
    float frequency[HALF_MOST];
} rotation;

static __global__ void __launch_bounds__(THREADS) rotate(const __grid_constant__ rotation r)
{
    extern __shared__ float angle[]; /* (group, 2, half) */
    int64_t first = (int64_t)blockIdx.x * r.group;
    int rows = r.rows - first < r.group ? (int)(r.rows - first) : r.group;
    for (int i = threadIdx.x; i < rows * r.half; i += THREADS) {
        int row = i / r.half, k = i % r.half;
        float sine, cosine;
        sincosf((float)r.position[first + row] * r.frequency[k], &sine, &cosine);
        angle[(2 * row) * r.half + k] = cosine;
        angle[(2 * row + 1) * r.half + k] = sine * r.sign;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < rows * r.heads * r.runs; i += THREADS) {
        int k = i % r.runs * HIL_WIDE, head = i / r.runs, row = head / r.heads;
        int n = hil_wide_count(r.half - k);
        int64_t low_at = (first * r.heads + head) * 2 * r.half + k, high_at = low_at + r.half;
        hil_wide raw_low = hil_wide_load(r.from, low_at, n);
        hil_wide raw_high = hil_wide_load(r.from, high_at, n);
        float a[HIL_WIDE], b[HIL_WIDE], low[HIL_WIDE], high[HIL_WIDE];
        hil_wide_read(raw_low, r.from.dtype, a);
        hil_wide_read(raw_high, r.from.dtype, b);
        const float *cosine = angle + 2 * row * r.half + k, *sine = cosine + r.half;
#pragma unroll
        for (int j = 0; j < HIL_WIDE; ++j) {
            float c = j < n ? cosine[j] : 0, s = j < n ? sine[j] : 0;
            low[j] = a[j] * c - b[j] * s;
            high[j] = b[j] * c + a[j] * s;
        }
        hil_wide_write(r.to, low_at, n, low, r.add);
        hil_wide_write(r.to, high_at, n, high, r.add);
    }
}

static hil_status run(const hil_op_call *call, const hil_tensor *from, const hil_tensor *to,
                      float sign)
{
    const int64_t *dim = call->in[0].shape.dim;
    const hil_rope_attr *attr = (const hil_rope_attr *)call->attr;
    rotation r = {.rows = dim[0] * dim[1],
                  .heads = (int)dim[2],
                  .half = (int)(dim[3] / 2),
                  .from = hil_view_of(from),
                  .to = hil_view_of(to),
                  .position = (const int32_t *)call->in[1].data,
                  .sign = sign,
                  .add = sign < 0 && call->din_add[0]};
    if (r.rows * r.heads * r.half == 0) return HIL_OK;
    r.runs = (r.half + HIL_WIDE - 1) / HIL_WIDE;
    r.group = THREADS / (r.heads * r.runs);
    if (r.group < 1) r.group = 1;
    for (int i = 0; i < r.half; ++i) r.frequency[i] = attr->frequency[i];
    size_t shared = (size_t)(r.group * 2 * r.half) * sizeof(float);
    rotate<<<hil_blocks(r.rows, r.group), THREADS, shared, call->device->stream>>>(r);
    return hil_cuda_launched(call->device, "rope");
}

static hil_status infer(hil_op_call *call)
{
    int64_t dim = call->in[0].shape.dim[3];
    if (dim > 2 * HALF_MOST)
        return hil_fail(HIL_ERR_USAGE, "rope: heads of %lld numbers, a GPU takes at most %d",
                        (long long)dim, 2 * HALF_MOST);
    return HIL_OK;
}

static hil_status forward(hil_op_call *call)
{
    return run(call, &call->in[0], &call->out[0], 1);
}

static hil_status backward(hil_op_call *call)
{
    return call->din[0].data ? run(call, &call->dout[0], &call->din[0], -1) : HIL_OK;
}

const hil_op_kernel hil_cuda_rope = {
    .op = &hil_op_rope, .infer = infer, .forward = forward, .backward = backward};
