/* rope.cu - rotary position embedding: pairs of numbers of each head turn together. */
#include "ops/cuda_kernel.h"

#define THREADS 256
#define HALF_MOST 256
#define SMALL_PARTS (2 << 20) /* fewer parts of heads are spread over more blocks */
#define ITEMS 4               /* parts of heads that a thread has in flight */

/* A launch. The frequencies are passed by value, because they are in host memory. */
typedef struct rotation {
    int64_t rows;         /* B * T */
    int heads, half, dim; /* half: of the numbers that turn; dim: of the head */
    int skipped;          /* numbers of a head before those that turn */
    int runs;             /* of HIL_WIDE pairs in a head */
    int group;            /* rows of a block */
    hil_view from, to;
    const int32_t *position;
    float sign, factor, growth;
    int growth_from, growth_shift;
    bool add;
    float frequency[HALF_MOST];
} rotation;

/* A thread's part of a head: HIL_WIDE numbers of each half, being loaded. */
typedef struct pairs {
    hil_wide low, high;
} pairs;

/* The address of part i of a block: numbers [k, k + n) of a head of the block's row. */
typedef struct place {
    int row, k, n;
    int64_t at;
} place;

static __device__ inline place find_place(const rotation &r, int64_t first, int i)
{
    int head = i / r.runs, k = i % r.runs * HIL_WIDE;
    return {head / r.heads, k, hil_wide_count(r.half - k),
            (first * r.heads + head) * r.dim + r.skipped + k};
}

static __device__ inline void rotate_pairs(const rotation &r, hil_view to, hil_dtype dtype,
                                           const place &at, const pairs &p, const float *angle)
{
    float a[HIL_WIDE], b[HIL_WIDE], low[HIL_WIDE], high[HIL_WIDE];
    hil_wide_read(p.low, dtype, a);
    hil_wide_read(p.high, dtype, b);
    const float *cosine = angle + 2 * at.row * r.half + at.k, *sine = cosine + r.half;
#pragma unroll
    for (int j = 0; j < HIL_WIDE; ++j) {
        float c = j < at.n ? cosine[j] : 0, s = j < at.n ? sine[j] : 0;
        low[j] = a[j] * c - b[j] * s;
        high[j] = b[j] * c + a[j] * s;
    }
    hil_wide_write(to, at.at, at.n, low, r.add);
    hil_wide_write(to, at.at + r.half, at.n, high, r.add);
}

/* Sine and cosine with an error below 2^-20, far below the rounding to 16 bits, in a fifth of the
   time. */
static __device__ inline void turn(float angle, float *sine, float *cosine)
{
    float turns = rintf(angle * 0.15915494f);
    float rest = __fmaf_rn(turns, 1.7484556e-7f, __fmaf_rn(turns, -6.2831855f, angle));
    *sine = __sinf(rest);
    *cosine = __cosf(rest);
}

/* Of sine and cosine. */
static __device__ inline float factor_at(const rotation &r, int position)
{
    if (r.growth == 0) return r.factor;
    return r.factor * (1 + r.growth * log1pf((float)((position + r.growth_shift) / r.growth_from)));
}

/* Loads the first numbers while it computes the angles. HALF: they are known to be bf16. */
template <bool HALF>
static __global__ void __launch_bounds__(THREADS) rotate(const __grid_constant__ rotation r)
{
    extern __shared__ float angle[]; /* (group, 2, half) */
    const hil_view from = {r.from.data, HALF ? HIL_BF16 : r.from.dtype};
    const hil_view to = {r.to.data, HALF ? HIL_BF16 : r.to.dtype};
    int64_t first = (int64_t)blockIdx.x * r.group;
    int rows = r.rows - first < r.group ? (int)(r.rows - first) : r.group;
    int count = rows * r.heads * r.runs;
    pairs p[ITEMS];
    auto load = [&](int begin) {
#pragma unroll
        for (int k = 0; k < ITEMS; ++k)
            if (begin + k * THREADS < count) {
                place at = find_place(r, first, begin + k * THREADS);
                p[k].low = hil_wide_load(from, at.at, at.n);
                p[k].high = hil_wide_load(from, at.at + r.half, at.n);
            }
    };
    load(threadIdx.x);
    for (int at = threadIdx.x; at < rows * r.half; at += THREADS) {
        int row = at / r.half, k = at % r.half;
        float sine, cosine, factor = factor_at(r, r.position[first + row]);
        float a = (float)r.position[first + row] * r.frequency[k];
        if (HALF)
            turn(a, &sine, &cosine);
        else
            sincosf(a, &sine, &cosine);
        angle[2 * row * r.half + k] = cosine * factor;
        angle[(2 * row + 1) * r.half + k] = sine * r.sign * factor;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += ITEMS * THREADS) {
        if (i >= ITEMS * THREADS) load(i);
#pragma unroll
        for (int k = 0; k < ITEMS; ++k)
            if (i + k * THREADS < count)
                rotate_pairs(r, to, from.dtype, find_place(r, first, i + k * THREADS), p[k], angle);
    }
}

/* Pairs 2i and 2i + 1, or numbers that do not turn: one thread per pair of numbers. */
static __global__ void __launch_bounds__(THREADS)
    rotate_each(const __grid_constant__ rotation r, const bool interleaved)
{
    int64_t pairs = r.rows * r.heads * (r.dim / 2);
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= pairs) return;
    int64_t head = i / (r.dim / 2), k = i % (r.dim / 2), at = head * r.dim + 2 * k;
    float x[HIL_WIDE];
    hil_wide_read(hil_wide_load(r.from, at, 2), r.from.dtype, x);
    int64_t turning = k - r.skipped / 2;
    bool turns = turning >= 0 && turning < r.half;
    if (interleaved && turns) {
        int position = r.position[head / r.heads];
        float sine, cosine, low = x[0], high = x[1], factor = factor_at(r, position);
        sincosf((float)position * r.frequency[turning], &sine, &cosine);
        cosine *= factor, sine *= r.sign * factor;
        x[0] = low * cosine - high * sine;
        x[1] = high * cosine + low * sine;
    }
    if (interleaved || !turns) hil_wide_write(r.to, at, 2, x, r.add);
}

static hil_status run(const hil_op_call *call, const hil_tensor *from, const hil_tensor *to,
                      float sign)
{
    const int64_t *dim = call->in[0].shape.dim;
    const hil_rope_attr *attr = (const hil_rope_attr *)call->attr;
    rotation r = {.rows = dim[0] * dim[1],
                  .heads = (int)dim[2],
                  .half = (int)((attr->dims ? attr->dims : dim[3] - attr->first) / 2),
                  .dim = (int)dim[3],
                  .skipped = (int)attr->first,
                  .from = hil_view_of(from),
                  .to = hil_view_of(to),
                  .position = (const int32_t *)call->in[1].data,
                  .sign = sign,
                  .factor = attr->factor > 0 ? (float)attr->factor : 1,
                  .growth = (float)attr->growth,
                  .growth_from = (int)attr->growth_from,
                  .growth_shift = (int)attr->growth_shift,
                  .add = sign < 0 && call->din_add[0]};
    if (r.rows * r.heads * r.dim == 0) return HIL_OK;
    for (int i = 0; i < r.half; ++i) r.frequency[i] = attr->frequency[i];
    cudaStream_t stream = hil_cuda_of(call->device)->stream;
    if (attr->interleaved || 2 * r.half < r.dim) {
        unsigned blocks = hil_blocks(r.rows * r.heads * (r.dim / 2), THREADS);
        rotate_each<<<blocks, THREADS, 0, stream>>>(r, attr->interleaved);
        HIL_TRY(hil_cuda_launched(call->device, "rope"));
        if (attr->interleaved || r.half == 0) return HIL_OK;
    }
    r.runs = (r.half + HIL_WIDE - 1) / HIL_WIDE;
    bool small = r.rows * r.heads * r.runs < SMALL_PARTS;
    r.group = (small ? 2 : ITEMS) * THREADS / (r.heads * r.runs);
    if (r.group < 1) r.group = 1;
    size_t shared = (size_t)(r.group * 2 * r.half) * sizeof(float);
    void (*kernel)(rotation) =
        from->dtype == HIL_BF16 && to->dtype == HIL_BF16 ? rotate<true> : rotate<false>;
    kernel<<<hil_blocks(r.rows, r.group), THREADS, shared, stream>>>(r);
    return hil_cuda_launched(call->device, "rope");
}

static hil_status infer(hil_op_call *call)
{
    const hil_rope_attr *attr = (const hil_rope_attr *)call->attr;
    int64_t dim = call->in[0].shape.dim[3], dims = attr->dims ? attr->dims : dim - attr->first;
    if (dims > 2 * HALF_MOST || dim % 2 || attr->first % 2)
        return hil_fail(HIL_ERR_USAGE,
                        "rope: heads of %lld numbers, a GPU takes an even number, of which at most "
                        "%d turn",
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
