/* narrow.cu - see narrow_cuda.h.

   [Note: narrow gradients] A warp has 64 columns of dy and of the weight, a block eight warps side
   by side; it walks down its rows, 16 at a time. A thread loads 16 bytes of two rows twice: as they
   are they are the first factor of dx += dy w, with the columns in another order, which that of the
   weight's fragments follows. Transposed within the warp they are the second factor of dw' += x'
   dy. Sums of a block's columns (dx) and rows (dw) are written as partial sums; their number
   depends on the shape only. */
#include "ops/linear/narrow_cuda.h"

#define WARPS 8
#define THREADS (32 * WARPS)
#define STRIP 64                 /* columns of a warp */
#define ROWS 32                  /* of a turn */
#define WIDTH 16                 /* of the weight, padded */
#define BLOCKS 264               /* of a grid, about */
#define LEAST ((int64_t)1 << 22) /* elements of dy that are worth it */

typedef struct job {
    const uint16_t *dy, *w, *x;
    float *dx, *dw; /* (blocks across, rows, WIDTH), (blocks down, n, WIDTH) */
    int64_t rows, n, block_rows;
    int k;
} job;

static int64_t across(int64_t n)
{
    return (n + WARPS * STRIP - 1) / (WARPS * STRIP);
}

/* Rows of a block: a multiple of ROWS. */
static int64_t block_rows(int64_t rows, int64_t n)
{
    int64_t down = BLOCKS / across(n) > 1 ? BLOCKS / across(n) : 1;
    return ((rows + down - 1) / down + ROWS - 1) / ROWS * ROWS;
}

static int64_t down(int64_t rows, int64_t n)
{
    return (rows + block_rows(rows, n) - 1) / block_rows(rows, n);
}

static __device__ inline void multiply(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/* Of a matrix of 8 x 8 numbers of 16 bits, of which a thread has two of a row. */
static __device__ inline uint32_t transpose(uint32_t x)
{
    uint32_t y = 0;
#if __CUDA_ARCH__ >= 800
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
#endif
    return y;
}

/* The place of a thread: row g and column 2 t of a fragment, and the warp's first column. */
typedef struct place {
    int g, t;
    int64_t col;
    bool on; /* the warp has columns */
} place;

/* Four runs of eight numbers: rows g and g + 8, columns 8 t and 32 + 8 t of the strip. */
static __device__ inline void load_rows(const job &j, const place &p, int64_t row,
                                        uint32_t out[4][4])
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int64_t at = (row + p.g + 8 * (i / 2)) * j.n + p.col + 32 * (i % 2) + 8 * p.t;
        uint4 run = p.on ? *(const uint4 *)(j.dy + at) : uint4{};
        out[i][0] = run.x, out[i][1] = run.y, out[i][2] = run.z, out[i][3] = run.w;
    }
}

/* The weight as second factor: column `2 t` of step s is column 32 (s / 2) + 8 t + 4 (s % 2) of the
   strip. */
static __device__ inline uint32_t weight_pair(const job &j, const place &p, int s, int r, int high)
{
    int64_t row = p.col + 32 * (s / 2) + 8 * p.t + 4 * (s % 2) + 2 * high;
    if (!p.on || r >= j.k) return 0;
    return j.w[row * j.k + r] | (uint32_t)j.w[(row + 1) * j.k + r] << 16;
}

/* Two numbers of x, transposed as first factor. */
static __device__ inline uint32_t input_pair(const job &j, const place &p, int64_t row, int r)
{
    r += 2 * p.t;
    return transpose(r < j.k ? *(const uint32_t *)(j.x + (row + p.g) * j.k + r) : 0);
}

static __global__ void __launch_bounds__(THREADS, 2) narrow_back(const job j)
{
    __shared__ float shared[2][WARPS][ROWS][WIDTH];
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    place p = {lane / 4, lane % 4, ((int64_t)blockIdx.x * WARPS + warp) * STRIP, false};
    p.on = p.col < j.n;
    int64_t first = blockIdx.y * j.block_rows, end = first + j.block_rows;
    if (end > j.rows) end = j.rows;
    uint32_t weight[4][2][2], now[4][4], next[4][4];
#pragma unroll
    for (int i = 0; i < 16; ++i)
        weight[i / 4][i / 2 % 2][i % 2] = weight_pair(j, p, i / 4, p.g + 8 * (i / 2 % 2), i % 2);
    float dw[8][4] = {};
    load_rows(j, p, first, now);
    for (int64_t row = first, turn = 0; row < end; row += ROWS, turn ^= 1) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int64_t at = row + 16 * half;
            load_rows(j, p, at + 16 < end ? at + 16 : at, next);
            uint32_t x[4] = {input_pair(j, p, at, 0), input_pair(j, p, at, 8),
                             input_pair(j, p, at + 8, 0), input_pair(j, p, at + 8, 8)};
            float dx[2][4] = {};
#pragma unroll
            for (int i = 0; i < 8; ++i)
                multiply(dw[i], x, transpose(now[i / 4][i % 4]), transpose(now[2 + i / 4][i % 4]));
#pragma unroll
            for (int s = 0; s < 4; ++s) {
                int run = s / 2, word = 2 * (s % 2);
                uint32_t a[4] = {now[run][word], now[2 + run][word], now[run][word + 1],
                                 now[2 + run][word + 1]};
                multiply(dx[0], a, weight[s][0][0], weight[s][0][1]);
                multiply(dx[1], a, weight[s][1][0], weight[s][1][1]);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float *to =
                    &shared[turn][warp][16 * half + p.g + 8 * (i / 2)][8 * (i % 2) + 2 * p.t];
                *(float2 *)to = make_float2(dx[i % 2][2 * (i / 2)], dx[i % 2][2 * (i / 2) + 1]);
            }
#pragma unroll
            for (int i = 0; i < 16; ++i) now[i / 4][i % 4] = next[i / 4][i % 4];
        }
        __syncthreads();
        const float *from = &shared[turn][0][0][0] + 2 * threadIdx.x;
        float2 sum = {};
#pragma unroll
        for (int i = 0; i < WARPS; ++i)
            sum.x += from[i * ROWS * WIDTH], sum.y += from[i * ROWS * WIDTH + 1];
        *(float2 *)(j.dx + (blockIdx.x * j.rows + row) * WIDTH + 2 * threadIdx.x) = sum;
    }
    if (!p.on) return;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        int64_t col = p.col + 32 * (i / 4) + 8 * p.t + 2 * (i % 4);
        float *to = j.dw + (blockIdx.y * j.n + col) * WIDTH + p.g;
        to[0] = dw[i][0], to[WIDTH] = dw[i][1], to[8] = dw[i][2], to[WIDTH + 8] = dw[i][3];
    }
}

/* out (rows x k) = the sum of `count` partial ones (rows x WIDTH), or added to it. */
typedef struct parts {
    const float *part;
    int64_t count, rows;
    int k;
    bool add;
} parts;

static __global__ void __launch_bounds__(THREADS) narrow_sum(const hil_view out, const parts p)
{
    int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, row = at / p.k;
    if (row >= p.rows) return;
    float sum = 0;
#pragma unroll 4
    for (int64_t i = 0; i < p.count; ++i)
        sum += p.part[(i * p.rows + row) * WIDTH + at - row * p.k];
    if (out.dtype == HIL_F32) {
        float *to = (float *)out.data + at;
        *to = p.add ? *to + sum : sum;
    } else {
        __nv_bfloat16 *to = (__nv_bfloat16 *)out.data + at;
        *to = __float2bfloat16_rn(p.add ? __bfloat162float(*to) + sum : sum);
    }
}

static size_t input_bytes(int64_t rows, int64_t n)
{
    return (size_t)(across(n) * rows) * WIDTH * sizeof(float);
}

size_t hil_cuda_narrow_bytes(int64_t rows, int64_t n)
{
    return input_bytes(rows, n) + (size_t)(down(rows, n) * n) * WIDTH * sizeof(float);
}

bool hil_cuda_narrow_suits(const hil_device *device, hil_dtype dtype, int64_t rows, int64_t n,
                           int64_t k)
{
    int major = 0;
    if (dtype != HIL_BF16 || k < 2 || k > WIDTH || k % 2 || rows % ROWS || n % STRIP ||
        rows * n < LEAST)
        return false;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, hil_cuda_of(device)->index);
    return major >= 8;
}

static job job_of(const hil_cuda_narrow *m)
{
    float *dx = (float *)m->scratch, *dw = dx + input_bytes(m->rows, m->n) / sizeof(float);
    return {(const uint16_t *)m->dy,
            (const uint16_t *)m->w,
            (const uint16_t *)m->x,
            dx,
            dw,
            m->rows,
            m->n,
            block_rows(m->rows, m->n),
            (int)m->k};
}

hil_status hil_cuda_narrow_run(hil_device *device, const hil_cuda_narrow *m)
{
    dim3 grid((unsigned)across(m->n), (unsigned)down(m->rows, m->n));
    narrow_back<<<grid, THREADS, 0, hil_cuda_stream(device, HIL_STREAM_COMPUTE)>>>(job_of(m));
    return hil_cuda_launched(device, "narrow gradients");
}

static hil_status finish(hil_device *device, hil_view out, const parts &p)
{
    narrow_sum<<<hil_blocks(p.rows * p.k, THREADS), THREADS, 0,
                 hil_cuda_stream(device, HIL_STREAM_COMPUTE)>>>(out, p);
    return hil_cuda_launched(device, "narrow gradients");
}

hil_status hil_cuda_narrow_input(hil_device *device, const hil_cuda_narrow *m, void *dx, bool add)
{
    return finish(device, {dx, HIL_BF16}, {job_of(m).dx, across(m->n), m->rows, (int)m->k, add});
}

hil_status hil_cuda_narrow_weight(hil_device *device, const hil_cuda_narrow *m, float *sum,
                                  bool add)
{
    return finish(device, {sum, HIL_F32},
                  {job_of(m).dw, down(m->rows, m->n), m->n, (int)m->k, add});
}
