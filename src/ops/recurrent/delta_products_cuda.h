/* delta_products_cuda.h - matrix products of chunks, for the gradients of the delta rule that sum
   over the columns of states: [Note: gradients in a chunk] in delta_products.cu. */
#ifndef HIL_OPS_RECURRENT_DELTA_PRODUCTS_CUDA_H
#define HIL_OPS_RECURRENT_DELTA_PRODUCTS_CUDA_H

#include "ops/recurrent/delta_cuda.h"

#define ROWS HIL_DELTA_ROWS /* positions of a block, and of a tile */
#define WARPS 8
#define EACH (ROWS / WARPS) /* rows of a warp */
#define THREADS (32 * WARPS)
#define PITCH (ROWS + 4)
#define RUNS (32 / HIL_WIDE)

static_assert(ROWS == 32, "a lane has one column of a tile");
static_assert(EACH == 4, "a warp reads its rows as a float4");

static __device__ inline float warp_sum(float x)
{
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

/* Rows of numbers; row r is multiplied by factor[r * step] if there are factors. */
typedef struct matrix {
    hil_view x;
    int64_t at, stride, rows, cols;
    const float *factor;
    int64_t step;
} matrix;

static __device__ inline float number(const matrix &m, int64_t row, int64_t col)
{
    if (row >= m.rows || col >= m.cols) return 0;
    float x = hil_delta_number(m.x, m.at + row * m.stride + col);
    return m.factor ? x * m.factor[row * m.step] : x;
}

/* HIL_WIDE numbers of a row. */
static __device__ inline void load_run(const matrix &m, int64_t row, int64_t col,
                                       float out[HIL_WIDE])
{
    int n = row < m.rows ? hil_wide_count(m.cols - col) : 0;
    hil_wide_read(hil_wide_load(m.x, m.at + row * m.stride + col, n), m.x.dtype, out);
    float factor = n && m.factor ? m.factor[row * m.step] : 1;
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) out[i] *= factor;
}

/* Shared memory; keys have up to 32 N numbers. */
template <int N> struct stage {
    alignas(16) float left[32][PITCH]; /* (inner, rows) */
    float right[32][32 * N + 1];       /* (inner, columns) */
    float e[ROWS][ROWS + 1], f[ROWS][ROWS + 1];
    float across[WARPS][32]; /* see add_across */
};

/* sum (rows of the warp, columns lane + 32 n) += sign * left * right, over the staged 32. */
template <int N, int M>
static __device__ inline void multiply_stage(float sum[EACH][N], const stage<M> &s, float sign)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll 8
    for (int i = 0; i < 32; ++i) {
        float4 left = *(const float4 *)&s.left[i][warp * EACH];
        float rows[EACH] = {sign * left.x, sign * left.y, sign * left.z, sign * left.w};
#pragma unroll
        for (int n = 0; n < N; ++n) {
            float x = s.right[i][lane + 32 * n];
#pragma unroll
            for (int r = 0; r < EACH; ++r) sum[r][n] = fmaf(rows[r], x, sum[r][n]);
        }
    }
}

/* to (32, rows) = 32 columns of x, turned. */
template <int WIDTH>
static __device__ inline void stage_turned(float to[][WIDTH], int rows, const matrix &x,
                                           int64_t from)
{
    for (int i = threadIdx.x; i < rows * RUNS; i += THREADS) {
        float run[HIL_WIDE];
        int row = i / RUNS, col = i % RUNS * HIL_WIDE;
        load_run(x, row, from + col, run);
#pragma unroll
        for (int c = 0; c < HIL_WIDE; ++c) to[col + c][row] = run[c];
    }
}

/* sum += x y', where x has ROWS rows and y up to 32 N. */
template <int N, int M>
static __device__ inline void add_product(float sum[EACH][N], stage<M> &s, const matrix &x,
                                          const matrix &y)
{
    for (int64_t from = 0; from < x.cols; from += 32) {
        __syncthreads();
        stage_turned(s.left, ROWS, x, from);
        stage_turned(s.right, 32 * N, y, from);
        __syncthreads();
        multiply_stage(sum, s, 1);
    }
}

/* sum += sign * w y, or w' y if `turned`, where w is (ROWS, 32) in shared memory. */
template <int N>
static __device__ inline void add_weighted(float sum[EACH][N], stage<N> &s,
                                           const float w[ROWS][ROWS + 1], bool turned,
                                           const matrix &y, float sign)
{
    __syncthreads();
    for (int i = threadIdx.x; i < 32 * ROWS; i += THREADS)
        s.left[i / 32][i % 32] = turned ? w[i / 32][i % 32] : w[i % 32][i / 32];
    for (int i = threadIdx.x; i < 32 * RUNS * N; i += THREADS) {
        float run[HIL_WIDE];
        int row = i / (RUNS * N), col = i % (RUNS * N) * HIL_WIDE;
        load_run(y, row, col, run);
#pragma unroll
        for (int c = 0; c < HIL_WIDE; ++c) s.right[row][col + c] = run[c];
    }
    __syncthreads();
    multiply_stage(sum, s, sign);
}

/* A head in one sequence, and the chunk at hand: positions [begin, end). */
typedef struct part {
    hil_delta_head at;
    int64_t chunk, begin, end;
} part;

static __device__ inline part find_part(const hil_delta_job &d, int64_t sequence, int64_t chunk)
{
    part p = {.at = hil_delta_head_of(d, sequence), .chunk = chunk};
    p.begin = chunk * HIL_DELTA_CHUNK;
    p.end = p.begin + HIL_DELTA_CHUNK < d.length ? p.begin + HIL_DELTA_CHUNK : d.length;
    return p;
}

/* ROWS positions from `at` of q or k. */
static __device__ inline matrix keys_of(const hil_delta_job &d, const part &p, int64_t at,
                                        bool of_q)
{
    int64_t row = p.at.b * d.length + at;
    return {d.x,        row * d.width + (of_q ? p.at.q : p.at.k),
            d.width,    p.end - at < ROWS ? p.end - at : ROWS,
            d.key_dim,  (of_q ? d.q_scale : d.k_scale) + row * d.key_heads + p.at.group,
            d.key_heads};
}

/* Likewise of (B, T, H, V): the gradient of y. */
static __device__ inline matrix dout_of(const hil_delta_job &d, const hil_delta_back &g,
                                        const part &p, int64_t at)
{
    int64_t row = p.at.b * d.length + at;
    return {g.dout,
            (row * d.heads + p.at.head) * d.value_dim,
            d.heads * d.value_dim,
            p.end - at < ROWS ? p.end - at : ROWS,
            d.value_dim,
            NULL,
            0};
}

/* Likewise of what the scans left, times beta; without `from` of v. */
static __device__ inline matrix left_of(const hil_delta_job &d, const hil_delta_back &g,
                                        const part &p, int64_t at, float *from)
{
    int64_t row = p.at.b * g.room + at - g.begin;
    if (!from)
        return {d.x,         (p.at.b * d.length + at) * d.width + p.at.v,
                d.width,     p.end - at < ROWS ? p.end - at : ROWS,
                d.value_dim, d.beta + (p.at.b * d.length + at) * d.heads + p.at.head,
                d.heads};
    return {{from, HIL_F32},
            (row * d.heads + p.at.head) * d.value_dim,
            d.heads * d.value_dim,
            p.end - at < ROWS ? p.end - at : ROWS,
            d.value_dim,
            d.beta + (p.at.b * d.length + at) * d.heads + p.at.head,
            d.heads};
}

/* Where the changes are: `from` of left_of. */
static __device__ inline float *changes_of(const hil_delta_job &d, const hil_delta_back &g)
{
    return d.space ? NULL : g.wrong;
}

static __device__ inline matrix state_of(const hil_delta_job &d, float *states, int64_t number)
{
    return {{states, HIL_F32},
            number * d.key_dim * d.value_dim,
            d.value_dim,
            d.key_dim,
            d.value_dim,
            NULL,
            0};
}

/* The factor of position j in what position i sees; 0 if it does not. By channel it is not one
   number: 1. */
static __device__ inline float factor_of(const hil_delta_job &d, const hil_delta_back &g,
                                         const part &p, int64_t i, int64_t j)
{
    if (i >= p.end || j > i || j < d.first[p.at.b * d.length + i]) return 0;
    if (d.by_channel) return 1;
    const double *sums = g.sums + p.at.b * d.length * d.heads + p.at.head;
    return expf((float)(sums[i * d.heads] - sums[j * d.heads]));
}

/* E and F of rows from i and columns from j, which are tiles of one chunk. */
template <int N>
static __device__ inline void find_pairs(const hil_delta_job &d, const hil_delta_back &g,
                                         const part &p, stage<N> &s, int64_t i, int64_t j)
{
    float e[EACH][1] = {}, f[EACH][1] = {};
    matrix change = left_of(d, g, p, j, changes_of(d, g));
    add_product<1>(e, s, dout_of(d, g, p, i), change);
    if (!d.space) add_product<1>(f, s, left_of(d, g, p, i, g.dchange), change);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < EACH; ++r) {
        int64_t row = i + warp * EACH + r, col = j + lane;
        float factor = factor_of(d, g, p, row, col);
        s.e[warp * EACH + r][lane] = e[r][0] * factor;
        s.f[warp * EACH + r][lane] = col < row ? f[r][0] * factor : 0;
    }
}

/* Row r of x times `sum`. */
template <int N> static __device__ inline float row_dot(const matrix &x, int r, const float sum[N])
{
    float dot = 0;
#pragma unroll
    for (int n = 0; n < N; ++n) dot = fmaf(number(x, r, threadIdx.x % 32 + 32 * n), sum[n], dot);
    return warp_sum(dot);
}

/* From the gradient of a normalised row to that of the row, as write_normalized in
   delta_backward.c. */
template <int N>
static __device__ inline void write_normalized(const hil_delta_job &d, const hil_delta_back &g,
                                               const matrix &x, int row, const float dx[N],
                                               float square)
{
    float along = d.space ? 0 : row_dot<N>(x, row, dx) * square;
    if (row >= x.rows) return;
    float factor = x.factor[row * x.step];
#pragma unroll
    for (int n = 0; n < N; ++n) {
        int64_t col = threadIdx.x % 32 + 32 * n;
        float y[HIL_WIDE] = {factor * (dx[n] - along * number(x, row, col))};
        if (col < x.cols) hil_wide_write(g.dx, x.at + row * x.stride + col, 1, y, g.add_dx);
    }
}

/* The sum over all threads of a block; every one of them gets it. */
static __device__ inline float block_sum(float x, float shared[WARPS])
{
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    float sum = 0;
    for (unsigned i = 0; i < blockDim.x / 32; ++i) sum += shared[i];
    return sum;
}

/* dbeta[t] = dchange . wrong, a warp for each position; of a state space also dskip[t] = dy . v. */
static __device__ inline void find_dbeta(const hil_delta_job &d, const hil_delta_back &g,
                                         const part &p, float dbeta[], float dskip[])
{
    for (int64_t t = p.begin + threadIdx.x / 32; t < p.end; t += WARPS) {
        int64_t at = ((p.at.b * g.room + t - g.begin) * d.heads + p.at.head) * d.value_dim;
        int64_t row = p.at.b * d.length + t, y = (row * d.heads + p.at.head) * d.value_dim;
        float dot = 0, past = 0;
        for (int64_t v = threadIdx.x % 32; v < d.value_dim; v += 32) {
            float x = d.space ? hil_delta_number(d.x, row * d.width + p.at.v + v) : g.wrong[at + v];
            dot = fmaf(g.dchange[at + v], x, dot);
            if (d.space) past = fmaf(hil_delta_number(g.dout, y + v), x, past);
        }
        dot = warp_sum(dot);
        past = warp_sum(past);
        if (threadIdx.x % 32) continue;
        dbeta[t - p.begin] = dot;
        dskip[t - p.begin] = past;
    }
}

#endif
