/* delta_products.cu - the gradients of the gated delta rule that sum over the columns of states:
   [Note: scans] in delta_cuda.h.

   [Note: gradients in a chunk] With M_ij = D_i / D_j (0 across documents), u the changes, du their
   gradients, S the state at the beginning of the chunk and G the gradient of the one at its end:
       E_ij = M_ij dy_i . u_j,  j <= i      F_ij = M_ij beta_i du_i . u_j,  j < i
       dq_i = D_i S dy_i + sum_j E_ij k_j
       dk_i = - D_i S (beta_i du_i) - sum_j F_ij k_j                           "by row"
            + M_end,i G u_i + sum_j E_ji q_j - sum_j F_ji k_j                  "by column"
   The gradient of a decay g_t is the sum of all terms that have it as a factor: with D_i from t on,
   with M_end,j before t, and with M_ij for j < t <= i. These are added up as they are, because what
   remains of differences of longer sums would be rounding errors. State spaces lack the terms of F,
   and u is v. */
#include "ops/recurrent/delta_cuda.h"

#define ROWS (HIL_DELTA_CHUNK / HIL_DELTA_TILES) /* positions of a block, and of a tile */
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

/* The factor of position j in what position i sees; 0 if it does not. */
static __device__ inline float factor_of(const hil_delta_job &d, const hil_delta_back &g,
                                         const part &p, int64_t i, int64_t j)
{
    if (i >= p.end || j > i || j < d.first[p.at.b * d.length + i]) return 0;
    const double *sums = g.sums + p.at.b * d.length * d.heads + p.at.head;
    return expf((float)(sums[i * d.heads] - sums[j * d.heads]));
}

/* D_i: of the state at the beginning of the chunk. */
static __device__ inline float factor_of_begin(const hil_delta_job &d, const hil_delta_back &g,
                                               const part &p, int64_t i)
{
    if (i >= p.end || d.first[p.at.b * d.length + i] > p.begin) return 0;
    return expf((float)g.sums[(p.at.b * d.length + i) * d.heads + p.at.head]);
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

template <int N> static __device__ inline void scale_row(float sum[N], float factor)
{
#pragma unroll
    for (int n = 0; n < N; ++n) sum[n] *= factor;
}

/* Row r of x times `sum`. */
template <int N> static __device__ inline float row_dot(const matrix &x, int r, const float sum[N])
{
    float dot = 0;
#pragma unroll
    for (int n = 0; n < N; ++n) dot = fmaf(number(x, r, threadIdx.x % 32 + 32 * n), sum[n], dot);
    return warp_sum(dot);
}

/* After find_pairs of rows from i and columns from j: the terms of these rows, and of columns
   before t, that position t of the columns' tile is a factor of. `before` has the terms of each row
   in earlier columns. */
template <int N>
static __device__ inline void add_across(const hil_delta_job &d, const hil_delta_back &g,
                                         const part &p, stage<N> &s, const int64_t tile[2],
                                         float before[EACH])
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float qk[EACH][1] = {}, kk[EACH][1] = {}, sum = 0;
    int64_t i = tile[0], t = tile[1] + lane;
    matrix keys = keys_of(d, p, tile[1], false);
    add_product<1>(qk, s, keys_of(d, p, i, true), keys);
    if (!d.space) add_product<1>(kk, s, keys_of(d, p, i, false), keys);
#pragma unroll
    for (int r = 0; r < EACH; ++r) {
        int row = warp * EACH + r;
        float term = s.e[row][lane] * qk[r][0] - s.f[row][lane] * kk[r][0], upto = term;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            float other = __shfl_sync(0xffffffffu, upto, (lane - step) & 31);
            if (lane >= step) upto += other;
        }
        float earlier = __shfl_sync(0xffffffffu, upto, (lane - 1) & 31);
        if (t <= i + row) sum += before[r] + (lane ? earlier : 0);
        before[r] += __shfl_sync(0xffffffffu, upto, 31);
    }
    s.across[warp][lane] = sum;
    __syncthreads();
    if (warp || t >= p.end) return;
    for (int w = 1; w < WARPS; ++w) sum += s.across[w][lane];
    int64_t row = (p.at.b * g.room + t - g.begin) * d.heads + p.at.head;
    g.across[row * HIL_DELTA_TILES + (i - p.begin) / ROWS] = sum;
}

/* Of q and k at the warp's rows. */
template <int N> struct gradients {
    float q[EACH][N], k[EACH][N];
};

/* Adds a head's gradients at ROWS positions. */
template <int N>
static __device__ inline void add_head(const hil_delta_job &d, const hil_delta_back &g,
                                       const part &p, int64_t at, stage<N> &s, gradients<N> &sum)
{
    float by_row[EACH][N] = {}, by_column[EACH][N] = {}, own[EACH][N] = {}, before[EACH] = {};
    int64_t sequence = p.at.b * d.heads + p.at.head;
    matrix state = state_of(d, d.saved, sequence * d.chunks + p.chunk);
    add_product<N>(own, s, dout_of(d, g, p, at), state);
    if (!d.space) add_product<N>(by_row, s, left_of(d, g, p, at, g.dchange), state);
    add_product<N>(by_column, s, left_of(d, g, p, at, changes_of(d, g)),
                   state_of(d, g.ends, sequence * g.chunks + p.chunk - g.chunk));
    matrix q = keys_of(d, p, at, true), k = keys_of(d, p, at, false);
    int first = threadIdx.x / 32 * EACH;
#pragma unroll
    for (int r = 0; r < EACH; ++r) {
        int64_t i = at + first + r;
        float from_begin = factor_of_begin(d, g, p, i);
        scale_row<N>(own[r], from_begin);
        scale_row<N>(by_row[r], -from_begin);
        scale_row<N>(by_column[r], i < p.end ? factor_of(d, g, p, p.end - 1, i) : 0);
        float begin = row_dot<N>(q, first + r, own[r]) + row_dot<N>(k, first + r, by_row[r]);
        float end = row_dot<N>(k, first + r, by_column[r]);
        if (threadIdx.x % 32 || i >= p.end) continue;
        int64_t row = (p.at.b * g.room + i - g.begin) * d.heads + p.at.head;
        g.from_begin[row] = begin;
        g.from_end[row] = end;
    }
    for (int64_t j = p.begin; j <= at; j += ROWS) {
        matrix keys = keys_of(d, p, j, false);
        const int64_t tile[] = {at, j};
        find_pairs(d, g, p, s, at, j);
        add_across(d, g, p, s, tile, before);
        add_weighted(own, s, s.e, false, keys, 1);
        if (!d.space) add_weighted(by_row, s, s.f, false, keys, -1);
    }
    for (int64_t i = at; i < p.end; i += ROWS) {
        find_pairs(d, g, p, s, i, at);
        add_weighted(by_column, s, s.e, true, keys_of(d, p, i, true), 1);
        if (!d.space) add_weighted(by_column, s, s.f, true, keys_of(d, p, i, false), -1);
    }
#pragma unroll
    for (int r = 0; r < EACH; ++r)
#pragma unroll
        for (int n = 0; n < N; ++n) {
            sum.q[r][n] += own[r][n];
            sum.k[r][n] += by_row[r][n] + by_column[r][n];
        }
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

/* A block has ROWS positions of a group of heads, which are added in their order. */
template <int N>
static __global__ void __launch_bounds__(THREADS, N > 4 ? 1 : 2)
    products(const hil_delta_job d, const hil_delta_back g)
{
    __shared__ stage<N> s;
    hil_grid_block block = hil_grid_block_of((g.end - g.begin + ROWS - 1) / ROWS);
    int64_t at = g.begin + block.block * ROWS, share = d.heads / d.key_heads;
    int64_t b = block.row / d.key_heads, group = block.row % d.key_heads;
    gradients<N> sum = {};
    part p = {};
    for (int64_t h = 0; h < share; ++h) {
        p = find_part(d, b * d.heads + group * share + h, at / HIL_DELTA_CHUNK);
        add_head(d, g, p, at, s, sum);
    }
    matrix q = keys_of(d, p, at, true), k = keys_of(d, p, at, false);
#pragma unroll
    for (int r = 0; r < EACH && g.dx.data; ++r) {
        int row = threadIdx.x / 32 * EACH + r;
        write_normalized<N>(d, g, q, row, sum.q[r], (float)d.key_dim);
        write_normalized<N>(d, g, k, row, sum.k[r], 1);
    }
}

typedef void kernel(hil_delta_job d, hil_delta_back g);

hil_status hil_delta_products(hil_device *device, const hil_delta_job &d, const hil_delta_back &g)
{
    kernel *run = d.key_dim <= 32    ? products<1>
                  : d.key_dim <= 64  ? products<2>
                  : d.key_dim <= 128 ? products<4>
                                     : products<8>;
    unsigned blocks = hil_blocks(g.end - g.begin, ROWS) * (unsigned)(d.batch * d.key_heads);
    run<<<blocks, THREADS, 0, hil_cuda_stream(device, HIL_STREAM_COMPUTE)>>>(d, g);
    return hil_cuda_launched(device, "delta_rule's products");
}

/* The sum over all threads of a block; every one of them gets it. */
static __device__ inline float block_sum(float x, float shared[WARPS])
{
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < WARPS; ++i) sum += shared[i];
    return sum;
}

/* ddecay[t]: the terms that the decay of position t is a factor of. `whole` has the factors of all
   positions. */
static __device__ inline void find_ddecay(const hil_delta_job &d, const hil_delta_back &g,
                                          const part &p, float whole, float ddecay[])
{
    __shared__ float from_begin[HIL_DELTA_CHUNK], from_end[HIL_DELTA_CHUNK];
    int count = (int)(p.end - p.begin), i = (int)threadIdx.x;
    int64_t row = (p.at.b * g.room + p.begin + i - g.begin) * d.heads + p.at.head;
    if (i < count) {
        float sum = 0;
        for (int tile = i / ROWS; tile * ROWS < count; ++tile)
            sum += g.across[row * HIL_DELTA_TILES + tile];
        ddecay[i] = sum;
        from_begin[i] = g.from_begin[row];
        from_end[i] = g.from_end[row];
    }
    __syncthreads();
    float begins = whole, ends = 0;
    for (int t = count - 1; i == 0 && t >= 0; --t) ddecay[t] += begins += from_begin[t];
    for (int t = 0; i == 0 && t < count; ++t) {
        ddecay[t] += ends;
        ends += from_end[t];
    }
    __syncthreads();
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

/* A block has a chunk of one head. */
static __global__ void __launch_bounds__(THREADS)
    gates(const hil_delta_job d, const hil_delta_back g)
{
    __shared__ float ddecay[HIL_DELTA_CHUNK], dbeta[HIL_DELTA_CHUNK], dskip[HIL_DELTA_CHUNK];
    __shared__ float shared[WARPS];
    hil_grid_block at_hand = hil_grid_block_of(g.chunks);
    int64_t size = d.key_dim * d.value_dim, sequence = at_hand.row;
    part p = find_part(d, sequence, g.chunk + at_hand.block);
    const float *state = d.saved + (sequence * d.chunks + p.chunk) * size;
    const float *end = g.ends + (sequence * g.chunks + at_hand.block) * size;
    float whole = 0, da = 0, drate = 0, direct = 0;
    for (int64_t n = threadIdx.x; n < size; n += THREADS) whole = fmaf(state[n], end[n], whole);
    whole = block_sum(whole, shared) * factor_of_begin(d, g, p, p.end - 1);
    find_dbeta(d, g, p, dbeta, dskip);
    find_ddecay(d, g, p, whole, ddecay);
    int64_t t = p.begin + threadIdx.x, at = (p.at.b * d.length + t) * d.heads + p.at.head;
    if (t < p.end) {
        float beta = d.beta[at], dx[HIL_WIDE] = {dbeta[threadIdx.x] * beta * (1 - beta)};
        da = ddecay[threadIdx.x] * d.slope[at];
        direct = dskip[threadIdx.x];
        if (d.space) {
            float rate = expf(hil_delta_number(d.rate, p.at.head));
            da = (dbeta[threadIdx.x] - rate * ddecay[threadIdx.x]) * d.slope[at];
        }
        drate = ddecay[threadIdx.x] * d.decay[at];
        if (g.db.data) hil_wide_write(g.db, at, 1, dx, g.add_db);
        dx[0] = da;
        if (g.da.data) hil_wide_write(g.da, at, 1, dx, g.add_da);
    }
    da = block_sum(da, shared);
    drate = block_sum(drate, shared);
    if (d.space) direct = block_sum(direct, shared);
    if (threadIdx.x) return;
    int64_t chunk = (p.at.b * d.chunks + p.chunk) * d.heads + p.at.head;
    g.drate[chunk] = drate;
    g.dbias[chunk] = da;
    if (d.space) g.dskip[chunk] = direct;
}
static_assert(HIL_DELTA_CHUNK <= THREADS, "a thread has one position of a chunk");

hil_status hil_delta_gates(hil_device *device, const hil_delta_job &d, const hil_delta_back &g)
{
    unsigned blocks = (unsigned)(g.chunks * d.batch * d.heads);
    gates<<<blocks, THREADS, 0, hil_cuda_stream(device, HIL_STREAM_COMPUTE)>>>(d, g);
    return hil_cuda_launched(device, "delta_rule's gates");
}
