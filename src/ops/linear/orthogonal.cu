/* orthogonal.cu - the nearest orthogonal matrix, by Newton-Schulz steps: the products of Muon. */
#include "ops/linear/matmul_cuda.h"
extern "C" {
#include "ops/linear/orthogonal.h"
}

#define THREADS 256

static hil_status infer(hil_op_call *call)
{
    call->forward_scratch = hil_orthogonal_of(call).bytes;
    return HIL_OK;
}

/* The sum over all threads of the block, in a fixed order; of thread 0. */
static __device__ inline double add_up(double mine)
{
    __shared__ double part[THREADS];
    part[threadIdx.x] = mine;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    return part[0];
}

/* A block for each row. */
static __global__ void __launch_bounds__(THREADS)
    square_rows(const hil_view x, const int64_t cols, double *square)
{
    int64_t first = (int64_t)blockIdx.x * cols;
    double sum = 0;
    for (int64_t i = (int64_t)threadIdx.x * HIL_WIDE; i < cols; i += THREADS * HIL_WIDE) {
        float v[HIL_WIDE];
        hil_wide_read(hil_wide_load(x, first + i, hil_wide_count(cols - i)), x.dtype, v);
#pragma unroll
        for (int k = 0; k < HIL_WIDE; ++k) sum += (double)v[k] * (double)v[k];
    }
    sum = add_up(sum);
    if (threadIdx.x == 0) square[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(THREADS) add_squares(double *square, const int64_t rows)
{
    double sum = 0;
    for (int64_t r = threadIdx.x; r < rows; r += THREADS) sum += square[r];
    sum = add_up(sum);
    if (threadIdx.x == 0) square[rows] = sum;
}

/* y = x / the root of *square, or x * factor if there is none. */
static __global__ void __launch_bounds__(THREADS)
    scale_all(const hil_view y, const hil_view x, const int64_t count, const double *square,
              float factor)
{
    int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * HIL_WIDE;
    int n = hil_wide_count(count - at);
    if (n == 0) return;
    if (square) factor = (float)(1 / fmax(sqrt(*square), HIL_ORTHOGONAL_EPS));
    float v[HIL_WIDE];
    hil_wide_read(hil_wide_load(x, at, n), x.dtype, v);
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) v[i] *= factor;
    hil_wide_store(y, at, n, v);
}

/* to = diagonal on the diagonal + factor * from; side x side. */
static __global__ void __launch_bounds__(THREADS)
    shift(uint16_t *to, const uint16_t *from, const int64_t side, const float factor,
          const float diagonal)
{
    int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= side * side) return;
    bool on = at / side == at % side;
    to[at] = hil_bf16_round(fmaf(factor, hil_bf16_load(from[at]), on ? diagonal : 0));
}

typedef struct product {
    int64_t m, n, k;
    hil_cuda_matrix a, b;
    uint16_t *c;
} product;

static hil_status multiply(hil_device *device, const product &p)
{
    hil_cuda_matmul job = {.m = p.m,
                           .n = p.n,
                           .k = p.k,
                           .dtype = HIL_BF16,
                           .a = p.a,
                           .b = p.b,
                           .c = p.c,
                           .c_dtype = HIL_BF16,
                           .c_stride = p.n};
    return hil_cuda_matmul_run(device, &job);
}

/* o.x[1] = the polynomial of o.x[0]. */
static hil_status step(hil_device *device, const hil_orthogonal &o)
{
    cudaStream_t on = hil_cuda_stream(device, HIL_STREAM_COMPUTE);
    int64_t n = o.side, longer = o.rows + o.cols - n;
    unsigned blocks = hil_blocks(n * n, THREADS);
    bool wide = o.rows == n;
    hil_cuda_matrix x = {o.x[0], o.cols, false}, transposed = {o.x[0], o.cols, true};
    hil_cuda_matrix gram = {o.gram, n, false}, inner = {o.inner, n, false};
    hil_cuda_matrix outer = {o.outer, n, false};
    HIL_TRY(multiply(device, {n, n, longer, wide ? x : transposed, wide ? transposed : x, o.gram}));
    shift<<<blocks, THREADS, 0, on>>>(o.inner, o.gram, n, HIL_ORTHOGONAL_C, HIL_ORTHOGONAL_B);
    HIL_TRY(multiply(device, {n, n, n, inner, gram, o.outer}));
    shift<<<blocks, THREADS, 0, on>>>(o.outer, o.outer, n, 1, HIL_ORTHOGONAL_A);
    return multiply(device, {o.rows, o.cols, n, wide ? outer : x, wide ? x : outer, o.x[1]});
}

static hil_status forward(hil_op_call *call)
{
    hil_orthogonal o = hil_orthogonal_of(call);
    cudaStream_t on = hil_cuda_stream(call->device, HIL_STREAM_COMPUTE);
    int64_t count = o.rows * o.cols;
    if (count == 0) return HIL_OK;
    unsigned blocks = hil_blocks(count, THREADS * HIL_WIDE);
    hil_view in = hil_view_of(&call->in[0]);
    square_rows<<<(unsigned)o.rows, THREADS, 0, on>>>(in, o.cols, o.square);
    add_squares<<<1, THREADS, 0, on>>>(o.square, o.rows);
    scale_all<<<blocks, THREADS, 0, on>>>({o.x[0], HIL_BF16}, in, count, o.square + o.rows, 0);
    for (int i = 0; i < HIL_ORTHOGONAL_STEPS; ++i) {
        HIL_TRY(step(call->device, o));
        uint16_t *next = o.x[1];
        o.x[1] = o.x[0];
        o.x[0] = next;
    }
    scale_all<<<blocks, THREADS, 0, on>>>(hil_view_of(&call->out[0]), {o.x[0], HIL_BF16}, count,
                                          NULL, o.scale);
    return hil_cuda_launched(call->device, "orthogonal");
}

const hil_op_kernel hil_cuda_orthogonal = {
    .op = &hil_op_orthogonal, .infer = infer, .forward = forward};
