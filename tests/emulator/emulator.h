/* emulator.h - CUDA's language for a C++ compiler: included before each translated .cu file. A
   kernel runs on the CPU, its threads as fibers that change at barriers. */
#ifndef HIL_EMULATOR_H
#define HIL_EMULATOR_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* What kernels are compiled for: a GPU of compute capability 8.9, which has FP8 and tensor cores,
   but not Hopper's instructions. CUDA's own headers above must not see it. */
#define HIL_EMULATED_ARCH 89
#define __CUDA_ARCH__ 890
#undef __shared__
#define __shared__ static thread_local
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __align__
#define __align__(n) __attribute__((aligned(n)))

namespace emulator
{

#define EMULATED_WARP 32

struct dimensions {
    unsigned x, y, z;
};

/* The place of the running GPU thread. */
struct place {
    dimensions threadIdx, blockIdx, blockDim, gridDim;
};
extern thread_local place *now __attribute__((tls_model("initial-exec")));

void block_barrier(void);
void warp_barrier(void);
/* Gives `value` (up to 8 bytes) to the other lanes of the warp, and returns that of `lane`. */
uint64_t exchange(uint64_t value, int lane);
/* The same of the lane whose number differs by the bits of `mask`. */
uint64_t exchange_across(uint64_t value, int mask);
void *dynamic_shared(void);
/* Shared memory has addresses of 32 bits in PTX. */
uint32_t shared_address(const void *pointer);
void *shared_pointer(uint32_t address);
/* Copies that PTX begins are done when it waits for them. */
void begin_copy(void *to, const void *from, size_t bytes, size_t zeros);
void commit_copies(void);
void wait_copies(int left);

struct config {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    template <typename GRID, typename BLOCK>
    config(GRID g, BLOCK b, size_t s, cudaStream_t on) : grid(g), block(b), shared(s), stream(on)
    {
    }
};

/* Does something in a stream's turn, on the host. */
void queue_call(cudaStream_t stream, const std::function<void(void)> &what);
void queue_kernel(const config &how, const void *kernel, const std::function<void(void)> &body);

/* Types of the same name in several files are not one type: nothing here is shared by files. */
namespace
{

template <typename... TYPES> struct launcher {
    config how;
    void (*kernel)(TYPES...);
    void operator()(TYPES... argument) const
    {
        void (*run)(TYPES...) = kernel;
        queue_kernel(how, (const void *)run, [run, ... all = argument] { run(all...); });
    }
};

template <typename... TYPES> launcher<TYPES...> launch(const config &how, void (*kernel)(TYPES...))
{
    return {how, kernel};
}

} // namespace

template <typename TYPE> TYPE shuffle(TYPE x, int lane, uint64_t (*way)(uint64_t, int))
{
    static_assert(sizeof x <= 8, "what a warp exchanges");
    uint64_t word = 0;
    memcpy(&word, &x, sizeof x);
    word = way(word, lane);
    memcpy(&x, &word, sizeof x);
    return x;
}

} // namespace emulator

static inline void __syncthreads(void)
{
    emulator::block_barrier();
}

static inline void __syncwarp(void)
{
    emulator::warp_barrier();
}

template <typename TYPE> static inline TYPE __shfl_sync(unsigned, TYPE x, int lane)
{
    return emulator::shuffle(x, lane, emulator::exchange);
}

template <typename TYPE> static inline TYPE __shfl_xor_sync(unsigned, TYPE x, int mask)
{
    return emulator::shuffle(x, mask, emulator::exchange_across);
}

static inline unsigned __reduce_max_sync(unsigned, unsigned x)
{
    for (int step = EMULATED_WARP / 2; step; step /= 2) {
        unsigned other = __shfl_xor_sync(~0u, x, step);
        x = x > other ? x : other;
    }
    return x;
}

/* Bytes of y:x, chosen by the low three bits of each digit. */
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned choice)
{
    uint64_t from = (uint64_t)y << 32 | x;
    unsigned out = 0;
    for (int i = 0; i < 4; ++i)
        out |= (unsigned)(from >> 8 * (choice >> 4 * i & 7) & 0xff) << 8 * i;
    return out;
}

/* One GPU thread runs at a time. */
template <typename TYPE> static inline TYPE atomicCAS(TYPE *at, TYPE expected, TYPE value)
{
    TYPE old = *at;
    if (old == expected) *at = value;
    return old;
}

template <typename TYPE> static inline TYPE atomicAdd(TYPE *at, TYPE value)
{
    TYPE old = *at;
    *at = old + value;
    return old;
}

template <typename TYPE> static inline TYPE atomicMax(TYPE *at, TYPE value)
{
    TYPE old = *at;
    if (value > old) *at = value;
    return old;
}

using std::max;
using std::min;

static inline float __uint_as_float(unsigned x)
{
    float y;
    memcpy(&y, &x, sizeof y);
    return y;
}

static inline unsigned __float_as_uint(float x)
{
    unsigned y;
    memcpy(&y, &x, sizeof y);
    return y;
}

static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}

static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}

static inline float __fdividef(float a, float b)
{
    return a / b;
}

/* Functions of the C library have these names. */
#define __expf expf
#define __sinf sinf
#define __cosf cosf

static inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}

static inline size_t __cvta_generic_to_shared(const void *pointer)
{
    return emulator::shared_address(pointer);
}

static inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes,
                                           size_t zeros = 0)
{
    emulator::begin_copy(to, from, bytes - zeros, zeros);
}

static inline void __pipeline_commit(void)
{
    emulator::commit_copies();
}

static inline void __pipeline_wait_prior(int left)
{
    emulator::wait_copies(left);
}

/* PTX, by the names of instructions: results first, then operands. */
namespace emulator
{

static inline void ptx_ex2_approx_ftz_f32(float &y, float x)
{
    y = exp2f(x);
}

static inline void ptx_rcp_approx_ftz_f32(float &y, float x)
{
    y = 1 / x;
}

static inline void ptx_cp_async_cg_shared_global(uint32_t to, const void *from, int bytes)
{
    begin_copy(shared_pointer(to), from, (size_t)bytes, (size_t)(16 - bytes));
}

static inline void ptx_cp_async_commit_group(void)
{
    commit_copies();
}

static inline void ptx_cp_async_wait_group(int left)
{
    wait_copies(left);
}

/* Four matrices of 8 x 8 from shared memory: four registers, and an address. */
void load_registers(void *const all[5], bool transposed);
uint32_t transpose_matrix(uint32_t x);
/* c (16 x 8) += a (16 x 16) b (16 x 8) of a warp: registers of c, then of a, then of b. */
void multiply_registers(void *const all[10], bool bf16);

/* Instructions with many registers take them as a list of addresses. */
template <typename... REGISTERS>
static inline void ptx_ldmatrix_sync_aligned_m8n8_x4_shared_b16(REGISTERS &&...each)
{
    void *all[] = {(void *)&each...};
    load_registers(all, false);
}

template <typename... REGISTERS>
static inline void ptx_ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(REGISTERS &&...each)
{
    void *all[] = {(void *)&each...};
    load_registers(all, true);
}

static inline void ptx_movmatrix_sync_aligned_m8n8_trans_b16(uint32_t &y, uint32_t x)
{
    y = transpose_matrix(x);
}

template <typename... REGISTERS>
static inline void ptx_mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(REGISTERS &&...each)
{
    void *all[] = {(void *)&each...};
    multiply_registers(all, true);
}

template <typename... REGISTERS>
static inline void ptx_mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(REGISTERS &&...each)
{
    void *all[] = {(void *)&each...};
    multiply_registers(all, false);
}

} // namespace emulator

#endif
