/* operand.cu - rounds a factor of a product to 8 bits: one pass for the largest magnitude, one for
   the codes, which may be transposed. */
#include "ops/linear/operand_cuda.h"

#include "device/cuda_device.h"
#include "tensor/cuda_wide.h"

#define THREADS 256
#define BLOCKS_MOST 1024 /* that look for the largest magnitude */
#define SIDE 64          /* rows and columns of a thread block's tile */
static_assert(SIDE * SIDE % (THREADS * HIL_WIDE) == 0, "all threads have as many numbers");

/* Magnitudes of bf16 numbers are in the order of their bits, and a maximum does not depend on the
   order of its terms. */
static __global__ void __launch_bounds__(THREADS)
    find_most(const uint16_t *from, int64_t count, hil_operand_scale *scale)
{
    hil_view x = {(void *)from, HIL_BF16};
    unsigned low = 0, high = 0;
    int64_t step = (int64_t)gridDim.x * THREADS * HIL_WIDE;
    for (int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * HIL_WIDE; at < count;
         at += step) {
        hil_wide wide = hil_wide_load(x, at, hil_wide_count(count - at));
#pragma unroll
        for (int i = 0; i < HIL_WIDE / 2; ++i) {
            low = max(low, wide.word[i] & 0x7fffu);
            high = max(high, wide.word[i] >> 16 & 0x7fffu);
        }
    }
    unsigned most = __reduce_max_sync(0xffffffffu, max(low, high));
    if (threadIdx.x % 32 == 0) atomicMax(&scale->most, most);
}

/* One tile of SIDE x SIDE numbers. Codes pass through shared memory where they are transposed. */
static __global__ void __launch_bounds__(THREADS) encode(const hil_cuda_operand o)
{
    __shared__ unsigned char tile[SIDE][SIDE + 4];
    hil_view x = {(void *)o.from, HIL_BF16};
    int64_t top = (int64_t)blockIdx.y * SIDE, left = (int64_t)blockIdx.x * SIDE;
    int shift = hil_fp8_shift(o.scale->most, o.kind);
    for (int i = threadIdx.x * HIL_WIDE; i < SIDE * SIDE; i += THREADS * HIL_WIDE) {
        int64_t row = top + i / SIDE, col = left + i % SIDE;
        int n = row < o.rows ? hil_wide_count(o.cols - col) : 0;
        if (n == 0) continue;
        float value[HIL_WIDE];
        unsigned char code[HIL_WIDE];
        hil_wide_read(hil_wide_load(x, row * o.cols + col, n), HIL_BF16, value);
#pragma unroll
        for (int k = 0; k < HIL_WIDE; ++k) {
            code[k] = (unsigned char)hil_fp8_round(value[k], shift, o.kind);
            tile[i / SIDE][i % SIDE + k] = code[k];
        }
        for (int k = 0; k < n && o.codes; ++k) o.codes[row * o.cols + col + k] = code[k];
        for (int k = 0; k < n && o.numbers; ++k)
            o.numbers[row * o.cols + col + k] = hil_fp8_expand(code[k], shift, o.kind);
    }
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
        o.scale->multiplier = hil_fp8_power(-shift);
    if (!o.transposed) return;
    __syncthreads();
    for (int i = threadIdx.x; i < SIDE * SIDE; i += THREADS) {
        int64_t row = top + i % SIDE, col = left + i / SIDE;
        if (row < o.rows && col < o.cols)
            o.transposed[col * o.rows + row] = tile[i % SIDE][i / SIDE];
    }
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
    find_most<<<blocks, THREADS, 0, stream>>>((const uint16_t *)o->from, count, o->scale);
    HIL_TRY(hil_cuda_launched(device, "find a maximum"));
    dim3 grid(hil_blocks(o->cols, SIDE), hil_blocks(o->rows, SIDE));
    encode<<<grid, THREADS, 0, stream>>>(*o);
    return hil_cuda_launched(device, "round to 8 bits");
}
