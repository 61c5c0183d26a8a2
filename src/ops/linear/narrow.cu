/* narrow.cu - see narrow_cuda.h.

   [Note: narrow gradients] A warp has 64 columns of dy and of the weight, a block eight warps side
   by side; it walks down its rows, 16 at a time. A thread loads 16 bytes of two rows twice: as they
   are they are the first factor of dx += dy w, with the columns in another order, which that of the
   weight's fragments follows. Transposed within the warp they are the second factor of dw' += x'
   dy. Sums of a block's columns (dx) and rows (dw) are written as partial sums; their number
   depends on the shape only. */
#include "ops/linear/narrow_cuda.h"
#include "ops/linear/walk_cuda.h"

#define WARPS 8
#define THREADS (32 * WARPS)
#define ROWS (2 * HIL_WALK_ROWS) /* of a turn */
#define STAGES 3                 /* tiles on their way */
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
    return (n + WARPS * HIL_WALK_COLS - 1) / (WARPS * HIL_WALK_COLS);
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

/* The weight as second factor: column `2 t` of step s is column 32 (s / 2) + 8 t + 4 (s % 2) of the
   strip. */
static __device__ inline uint32_t weight_pair(const job &j, const hil_walk &p, int s, int r,
                                              int high)
{
    int64_t row = p.col + 32 * (s / 2) + 8 * p.t + 4 * (s % 2) + 2 * high;
    if (!hil_walk_is_on(p) || r >= j.k) return 0;
    return j.w[row * j.k + r] | (uint32_t)j.w[(row + 1) * j.k + r] << 16;
}

/* Numbers of x of the tile at `row`, whose transpose is the first factor. */
static __device__ inline void load_input(const job &j, const hil_walk &p, int64_t row,
                                         uint32_t out[4])
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int r = 8 * (i % 2) + 2 * p.t;
        out[i] = r < j.k ? *(const uint32_t *)(j.x + (row + 8 * (i / 2) + p.g) * j.k + r) : 0;
    }
}

/* Shared memory: a ring of tiles, and the sums of warps. */
struct back_space {
    uint4 ring[STAGES][HIL_WALK_RUNS][THREADS];
    float sums[2][WARPS][ROWS][WIDTH];
};

static __device__ inline void fetch(const job &j, const hil_walk &p, int64_t row, int64_t end,
                                    uint4 (*ring)[THREADS])
{
    if (row < end) hil_walk_fetch(p, row, j.dy, true, ring[0]);
    hil_walk_commit();
}

/* Both products of a tile. */
static __device__ inline void multiply(const uint32_t now[4][4], const uint32_t input[4],
                                       const uint32_t weight[4][2][2], float dx[2][4],
                                       float dw[8][4])
{
    uint32_t x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = hil_mma_transpose(input[i]);
#pragma unroll
    for (int i = 0; i < 8; ++i)
        hil_mma(dw[i], x, hil_mma_transpose(now[i / 4][i % 4]),
                hil_mma_transpose(now[2 + i / 4][i % 4]));
    hil_walk_multiply(now, weight, dx);
}

static __global__ void __launch_bounds__(THREADS, 2) narrow_back(const job j)
{
    extern __shared__ uint4 memory[];
    back_space &m = *(back_space *)memory;
    hil_walk p = hil_walk_of(WARPS, j.n);
    hil_walk_rows rows = hil_walk_rows_of(j.block_rows, j.rows);
    int warp = (int)threadIdx.x / 32, stage = 0, turn = 0;
#pragma unroll
    for (int s = 0; s < STAGES; ++s)
        fetch(j, p, rows.first + s * HIL_WALK_ROWS, rows.end, m.ring[s]);
    uint32_t weight[4][2][2], now[4][4], next[4];
    load_input(j, p, rows.first, next);
#pragma unroll
    for (int i = 0; i < 16; ++i)
        weight[i / 4][i / 2 % 2][i % 2] = weight_pair(j, p, i / 4, p.g + 8 * (i / 2 % 2), i % 2);
    float dw[8][4] = {};
    for (int64_t row = rows.first; row < rows.end; row += ROWS, turn ^= 1) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int64_t at = row + HIL_WALK_ROWS * half;
            uint32_t input[4] = {next[0], next[1], next[2], next[3]};
            float dx[2][4] = {};
            hil_walk_wait<STAGES - 1>();
            hil_walk_read(m.ring[stage][0], now);
            fetch(j, p, at + STAGES * HIL_WALK_ROWS, rows.end, m.ring[stage]);
            stage = stage + 1 < STAGES ? stage + 1 : 0;
            if (at + HIL_WALK_ROWS < rows.end) load_input(j, p, at + HIL_WALK_ROWS, next);
            multiply(now, input, weight, dx, dw);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float *to =
                    &m.sums[turn][warp][16 * half + p.g + 8 * (i / 2)][8 * (i % 2) + 2 * p.t];
                *(float2 *)to = make_float2(dx[i % 2][2 * (i / 2)], dx[i % 2][2 * (i / 2) + 1]);
            }
        }
        __syncthreads();
        const float *from = &m.sums[turn][0][0][0] + 2 * threadIdx.x;
        float2 sum = {};
#pragma unroll
        for (int i = 0; i < WARPS; ++i)
            sum.x += from[i * ROWS * WIDTH], sum.y += from[i * ROWS * WIDTH + 1];
        *(float2 *)(j.dx + (blockIdx.x * j.rows + row) * WIDTH + 2 * threadIdx.x) = sum;
    }
    if (!hil_walk_is_on(p)) return;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        int64_t col = p.col + 32 * (i / 4) + 8 * p.t + 2 * (i % 4);
        float *to = j.dw + (blockIdx.y * j.n + col) * WIDTH + p.g;
        to[0] = dw[i][0], to[WIDTH] = dw[i][1], to[8] = dw[i][2], to[WIDTH + 8] = dw[i][3];
    }
}

#define ADD_STAGES 4

/* y = base + x w'. */
typedef struct add_job {
    const uint16_t *base, *x, *w;
    uint16_t *y;
    int64_t rows, n, block_rows;
    int k;
} add_job;

struct add_space {
    uint4 ring[ADD_STAGES][HIL_WALK_RUNS][THREADS];
};

static __device__ inline void fetch_base(const add_job &j, const hil_walk &p, int64_t row,
                                         int64_t end, uint4 (*ring)[THREADS])
{
    if (row < end) hil_walk_fetch(p, row, j.base, true, ring[0]);
    hil_walk_commit();
}

static __global__ void __launch_bounds__(THREADS, 3) narrow_add(const add_job j)
{
    extern __shared__ uint4 memory[];
    add_space &m = *(add_space *)memory;
    hil_walk p = hil_walk_of(WARPS, j.n);
    hil_walk_rows rows = hil_walk_rows_of(j.block_rows, j.rows);
    int stage = 0;
    if (!hil_walk_is_on(p)) return;
#pragma unroll
    for (int s = 0; s < ADD_STAGES; ++s)
        fetch_base(j, p, rows.first + s * HIL_WALK_ROWS, rows.end, m.ring[s]);
    uint32_t weight[HIL_WALK_PRODUCTS][2], next[4];
    hil_walk_factor(j.x, j.k, p, rows.first, next);
#pragma unroll
    for (int i = 0; i < 2 * HIL_WALK_PRODUCTS; ++i)
        weight[i / 2][i % 2] = hil_walk_pair(j.w, j.k, p, i / 2, i % 2);
    for (int64_t row = rows.first; row < rows.end; row += HIL_WALK_ROWS) {
        uint32_t now[4][4], x[4] = {next[0], next[1], next[2], next[3]};
        hil_walk_wait<ADD_STAGES - 1>();
        hil_walk_read(m.ring[stage][0], now);
        fetch_base(j, p, row + ADD_STAGES * HIL_WALK_ROWS, rows.end, m.ring[stage]);
        stage = stage + 1 < ADD_STAGES ? stage + 1 : 0;
        if (row + HIL_WALK_ROWS < rows.end) hil_walk_factor(j.x, j.k, p, row + HIL_WALK_ROWS, next);
#pragma unroll
        for (int s = 0; s < HIL_WALK_PRODUCTS; ++s) {
            int run = s / 4, w = s % 4;
            float c[4];
            hil_walk_unpack(c, now[run][w], now[2 + run][w]);
            hil_mma(c, x, weight[s][0], weight[s][1]);
            now[run][w] = hil_walk_pack(c[0], c[1]);
            now[2 + run][w] = hil_walk_pack(c[2], c[3]);
        }
        hil_walk_store(p, row, j.y, now);
    }
}

static __global__ void __launch_bounds__(THREADS)
    narrow_sum(const hil_view out, const hil_cuda_parts p)
{
    int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, row = at / p.cols;
    if (row >= p.rows) return;
    const float *from = p.part + row * p.stride + at - row * p.cols;
    float sum = 0;
#pragma unroll 4
    for (int64_t i = 0; i < p.count; ++i) sum += from[i * p.size];
    sum *= p.factor;
    if (out.dtype == HIL_F32) {
        float *to = (float *)out.data + at;
        *to = p.add ? *to + sum : sum;
    } else {
        __nv_bfloat16 *to = (__nv_bfloat16 *)out.data + at;
        *to = __float2bfloat16_rn(p.add ? __bfloat162float(*to) + sum : sum);
    }
}

hil_status hil_cuda_parts_sum(hil_device *device, hil_view out, const hil_cuda_parts *p)
{
    narrow_sum<<<hil_blocks(p->rows * p->cols, THREADS), THREADS, 0,
                 hil_cuda_stream(device, HIL_STREAM_COMPUTE)>>>(out, *p);
    return hil_cuda_launched(device, "sum parts");
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
    if (dtype != HIL_BF16 || k < 2 || k > WIDTH || k % 2 || rows % ROWS || n % HIL_WALK_COLS ||
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

hil_status hil_cuda_narrow_add(hil_device *device, const hil_cuda_narrow *m, const void *base,
                               void *y)
{
    dim3 grid((unsigned)across(m->n), (unsigned)down(m->rows, m->n));
    add_job j = {(const uint16_t *)base,
                 (const uint16_t *)m->x,
                 (const uint16_t *)m->w,
                 (uint16_t *)y,
                 m->rows,
                 m->n,
                 block_rows(m->rows, m->n),
                 (int)m->k};
    cudaFuncSetAttribute(narrow_add, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         sizeof(add_space));
    narrow_add<<<grid, THREADS, sizeof(add_space), hil_cuda_stream(device, HIL_STREAM_COMPUTE)>>>(
        j);
    return hil_cuda_launched(device, "narrow product");
}

hil_status hil_cuda_narrow_run(hil_device *device, const hil_cuda_narrow *m)
{
    dim3 grid((unsigned)across(m->n), (unsigned)down(m->rows, m->n));
    cudaFuncSetAttribute(narrow_back, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         sizeof(back_space));
    narrow_back<<<grid, THREADS, sizeof(back_space), hil_cuda_stream(device, HIL_STREAM_COMPUTE)>>>(
        job_of(m));
    return hil_cuda_launched(device, "narrow gradients");
}

/* Of a matrix of `rows` rows, padded to WIDTH columns. */
static hil_cuda_parts parts_of(const float *part, int64_t count, int64_t rows, int64_t k, bool add)
{
    return {part, count, rows * WIDTH, rows, WIDTH, k, 1, add};
}

hil_status hil_cuda_narrow_input(hil_device *device, const hil_cuda_narrow *m, void *dx, bool add)
{
    hil_cuda_parts p = parts_of(job_of(m).dx, across(m->n), m->rows, m->k, add);
    return hil_cuda_parts_sum(device, {dx, HIL_BF16}, &p);
}

hil_status hil_cuda_narrow_weight(hil_device *device, const hil_cuda_narrow *m, float *sum,
                                  bool add)
{
    hil_cuda_parts p = parts_of(job_of(m).dw, down(m->rows, m->n), m->n, m->k, add);
    return hil_cuda_parts_sum(device, {sum, HIL_F32}, &p);
}
