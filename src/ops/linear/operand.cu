/* operand.cu - rounds a factor of a product to 8 bits: one pass for the largest magnitude, one for
   the codes, which may be transposed. */
#include "ops/linear/operand_cuda.h"

#include "device/cuda_device.h"
#include "tensor/cuda_wide.h"

#include <cuda_fp8.h>

#define THREADS 256
#define BLOCKS_MOST 1024 /* that look for the largest magnitude */
#define LOADS 4          /* of a thread that looks for it, in flight */
#define SIDE 64          /* rows and columns of a thread block's tile */
static_assert(SIDE * SIDE % (THREADS * HIL_WIDE) == 0, "all threads have as many numbers");
static_assert(SIDE * SIDE == THREADS * 16, "a thread transposes 16 numbers");

/* The larger magnitude of the two bf16 numbers of a word. */
static __device__ inline unsigned larger_half(uint32_t word)
{
    return max(word & 0x7fffu, word >> 16 & 0x7fffu);
}

/* Magnitudes of bf16 numbers are in the order of their bits, and a maximum does not depend on the
   order of its terms. Several loads of a thread are in flight at once. */
static __global__ void __launch_bounds__(THREADS)
    find_scale(const uint16_t *from, int64_t count, hil_operand_scale *scale)
{
    const uint4 *wide = (const uint4 *)from;
    int64_t wides = ((uintptr_t)from & 15) == 0 ? count / HIL_WIDE : 0;
    int64_t thread = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t threads = (int64_t)gridDim.x * THREADS;
    unsigned most = 0;
    for (int64_t at = thread; at < wides; at += threads * LOADS) {
        uint4 four[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; ++i)
            four[i] = at + i * threads < wides ? wide[at + i * threads] : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < LOADS; ++i)
            most = max(max(most, max(larger_half(four[i].x), larger_half(four[i].y))),
                       max(larger_half(four[i].z), larger_half(four[i].w)));
    }
    for (int64_t at = wides * HIL_WIDE + thread; at < count; at += threads)
        most = max(most, larger_half(from[at]));
    most = __reduce_max_sync(0xffffffffu, most);
    if (threadIdx.x % 32 == 0) atomicMax(&scale->most, most);
}

/* Codes of numbers times a power of two. The GPU's own conversion rounds finite numbers as
   hil_fp8_round does; of what is not finite it knows other codes. */
template <hil_fp8 KIND>
static __device__ inline uint2 round_wide(const float value[HIL_WIDE], int shift, bool finite)
{
    constexpr __nv_fp8_interpretation_t FORM = KIND == HIL_FP8_E4M3 ? __NV_E4M3 : __NV_E5M2;
    float factor = hil_fp8_power(shift);
    uint32_t pair[HIL_WIDE / 2];
#pragma unroll
    for (int i = 0; i < HIL_WIDE / 2; ++i) {
        float2 two = make_float2(value[2 * i] * factor, value[2 * i + 1] * factor);
        pair[i] = finite ? __nv_cvt_float2_to_fp8x2(two, __NV_SATFINITE, FORM)
                         : hil_fp8_round(value[2 * i], shift, KIND) |
                               hil_fp8_round(value[2 * i + 1], shift, KIND) << 8;
    }
    return make_uint2(pair[0] | pair[1] << 16, pair[2] | pair[3] << 16);
}

/* Word j of the result has byte j of each word. */
static __device__ inline void turn_bytes(const uint32_t in[4], uint32_t out[4])
{
    uint32_t low[2] = {__byte_perm(in[0], in[1], 0x5140), __byte_perm(in[2], in[3], 0x5140)};
    uint32_t high[2] = {__byte_perm(in[0], in[1], 0x7362), __byte_perm(in[2], in[3], 0x7362)};
    out[0] = __byte_perm(low[0], low[1], 0x5410), out[1] = __byte_perm(low[0], low[1], 0x7632);
    out[2] = __byte_perm(high[0], high[1], 0x5410), out[3] = __byte_perm(high[0], high[1], 0x7632);
}

/* The first n of eight codes to `to`, which is aligned if n is HIL_WIDE and the matrix is. */
static __device__ inline void store_codes(unsigned char *to, uint2 code, int n)
{
    if (n == HIL_WIDE && ((uintptr_t)to & 7) == 0) {
        *(uint2 *)to = code;
        return;
    }
    for (int i = 0; i < n; ++i) to[i] = (unsigned char)((i < 4 ? code.x : code.y) >> 8 * (i % 4));
}

static __device__ inline void store_numbers(uint16_t *to, uint2 code, int n, int shift,
                                            hil_fp8 kind)
{
    for (int i = 0; i < n; ++i)
        to[i] = hil_fp8_expand((i < 4 ? code.x : code.y) >> 8 * (i % 4) & 0xff, shift, kind);
}

/* A tile's codes as words, four columns of a row each, and as four rows of a column each. Rows are
   longer than their words, so that the threads of a warp find them in different banks. */
#define WORDS (SIDE / 4)
typedef struct code_tile {
    uint32_t row[SIDE][WORDS + 1];
    alignas(16) uint32_t col[SIDE][WORDS + 4]; /* read as uint4 */
} code_tile;

/* Writes the transpose of a tile that lies at (top, left). */
static __device__ void write_transposed(code_tile *tile, const hil_cuda_operand &o, int64_t top,
                                        int64_t left)
{
    __syncthreads();
    int down = threadIdx.x % WORDS * 4, right = threadIdx.x / WORDS;
    uint32_t in[4], out[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) in[i] = tile->row[down + i][right];
    turn_bytes(in, out);
#pragma unroll
    for (int i = 0; i < 4; ++i) tile->col[4 * right + i][down / 4] = out[i];
    __syncthreads();
    int col = threadIdx.x / 4, first = threadIdx.x % 4 * 16;
    int64_t row = top + first, left_over = o.rows - row;
    if (left + col >= o.cols || left_over <= 0) return;
    uint4 all = *(const uint4 *)&tile->col[col][first / 4];
    unsigned char *to = o.transposed + (left + col) * o.rows + row;
    if (left_over >= 16 && ((uintptr_t)to & 15) == 0) {
        *(uint4 *)to = all;
        return;
    }
    store_codes(to, make_uint2(all.x, all.y), left_over < 8 ? (int)left_over : 8);
    if (left_over > 8)
        store_codes(to + 8, make_uint2(all.z, all.w), left_over < 16 ? (int)left_over - 8 : 8);
}

/* One tile of SIDE x SIDE numbers. Codes pass through shared memory where they are transposed. */
template <hil_fp8 KIND>
static __global__ void __launch_bounds__(THREADS) encode(const hil_cuda_operand o)
{
    __shared__ code_tile tile;
    constexpr int PARTS = SIDE * SIDE / (THREADS * HIL_WIDE);
    hil_view x = {(void *)o.from, HIL_BF16};
    int64_t top = (int64_t)blockIdx.y * SIDE, left = (int64_t)blockIdx.x * SIDE;
    int col = threadIdx.x * HIL_WIDE % SIDE, row[PARTS], count[PARTS];
    hil_wide wide[PARTS];
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
        row[i] = (i * THREADS + threadIdx.x) * HIL_WIDE / SIDE;
        count[i] = top + row[i] < o.rows ? hil_wide_count(o.cols - left - col) : 0;
        wide[i] = hil_wide_load(x, (top + row[i]) * o.cols + left + col, count[i]);
    }
    int shift = hil_fp8_shift(o.scale->most, KIND);
    bool finite = o.scale->most < 0x7f80u;
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
        float value[HIL_WIDE];
        hil_wide_read(wide[i], HIL_BF16, value);
        uint2 code = round_wide<KIND>(value, shift, finite);
        int64_t at = (top + row[i]) * o.cols + left + col;
        tile.row[row[i]][col / 4] = code.x, tile.row[row[i]][col / 4 + 1] = code.y;
        if (o.codes) store_codes(o.codes + at, code, count[i]);
        if (o.numbers) store_numbers(o.numbers + at, code, count[i], shift, KIND);
    }
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
        o.scale->multiplier = hil_fp8_power(-shift);
    if (o.transposed) write_transposed(&tile, o, top, left);
}

hil_status hil_cuda_operand_round(hil_device *device, const hil_cuda_operand *o)
{
    int64_t count = o->rows * o->cols;
    cudaStream_t stream = hil_cuda_stream(device, HIL_STREAM_COMPUTE);
    HIL_TRY(hil_cuda_check(device, cudaMemsetAsync(o->scale, 0, sizeof *o->scale, stream),
                           "zero a maximum"));
    if (count == 0) return HIL_OK;
    unsigned blocks = hil_blocks(count, THREADS * HIL_WIDE);
    if (blocks > BLOCKS_MOST) blocks = BLOCKS_MOST;
    find_scale<<<blocks, THREADS, 0, stream>>>((const uint16_t *)o->from, count, o->scale);
    HIL_TRY(hil_cuda_launched(device, "find a maximum"));
    dim3 grid(hil_blocks(o->cols, SIDE), hil_blocks(o->rows, SIDE));
    if (o->kind == HIL_FP8_E4M3)
        encode<HIL_FP8_E4M3><<<grid, THREADS, 0, stream>>>(*o);
    else
        encode<HIL_FP8_E5M2><<<grid, THREADS, 0, stream>>>(*o);
    return hil_cuda_launched(device, "round to 8 bits");
}
