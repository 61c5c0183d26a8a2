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
#include "ops/recurrent/delta_products_cuda.h"

/* D_i: of the state at the beginning of the chunk. */
static __device__ inline float factor_of_begin(const hil_delta_job &d, const hil_delta_back &g,
                                               const part &p, int64_t i)
{
    if (i >= p.end || d.first[p.at.b * d.length + i] > p.begin) return 0;
    return expf((float)g.sums[(p.at.b * d.length + i) * d.heads + p.at.head]);
}

template <int N> static __device__ inline void scale_row(float sum[N], float factor)
{
#pragma unroll
    for (int n = 0; n < N; ++n) sum[n] *= factor;
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
        float beta = d.beta[at], slope = beta * (1 - beta / d.write);
        float dx[HIL_WIDE] = {dbeta[threadIdx.x] * slope};
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
