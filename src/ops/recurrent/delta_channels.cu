/* delta_channels.cu - the gradients of the delta rule with a decay per channel that sum over the
   columns of states.

   [Note: gradients by channel] As [Note: gradients in a chunk], of tiles of HIL_DELTA_ROWS
   positions instead of chunks, where S and G are those of the tile and D_i and M_ij are vectors:
       E_ij = dy_i . u_j,  j <= i      F_ij = beta_i du_i . u_j,  j < i
       dq_i = D_i own_i + sum_j M_ij E_ij k_j                    own_i = S dy_i
       row_i = - D_i by_row_i - sum_j M_ij F_ij k_j              by_row_i = S (beta_i du_i)
       column_j = M_end,j by_column_j                            by_column_j = G u_j
                  + sum_i M_ij (E_ij q_i - F_ij k_i)
       dk_i = row_i + column_i
   With the sums over j up to t, the gradient of the decay of position t is the sum over i >= t of
   q_i dq_i + k_i row_i, plus k_j M_end,j by_column_j of each j < t, plus D_end times the product of
   G and S. */
#include "ops/recurrent/delta_products_cuda.h"

#define LANES HIL_DELTA_CHANNELS /* threads of a block that has a channel each */

/* Tile number `tile` of those at hand of a head in one sequence. */
static __device__ inline part find_tile(const hil_delta_job &d, const hil_delta_back &g,
                                        int64_t sequence, int64_t tile)
{
    part p = {.at = hil_delta_head_of(d, sequence), .chunk = tile};
    p.begin = g.begin + tile * ROWS;
    p.end = p.begin + ROWS < g.end ? p.begin + ROWS : g.end;
    return p;
}

/* Where number 0 of a head's channels is in `own` and its neighbours, at a position. */
static __device__ inline int64_t numbers_at(const hil_delta_job &d, const hil_delta_back &g,
                                            const part &p, int64_t at)
{
    return ((p.at.b * g.room + at - g.begin) * d.heads + p.at.head) * d.key_dim;
}

/* to (rows, D) = x state', the rows of a tile. */
template <int N>
static __device__ inline void write_product(const hil_delta_job &d, stage<N> &s, const matrix &x,
                                            const matrix &state, float *to)
{
    float sum[EACH][N] = {};
    add_product<N>(sum, s, x, state);
#pragma unroll
    for (int r = 0; r < EACH; ++r)
#pragma unroll
        for (int n = 0; n < N; ++n) {
            int row = threadIdx.x / 32 * EACH + r, col = threadIdx.x % 32 + 32 * n;
            if (row < x.rows && col < d.key_dim) to[row * d.heads * d.key_dim + col] = sum[r][n];
        }
}

/* The gradients of b at the tile's positions. */
static __device__ inline void write_writes(const hil_delta_job &d, const hil_delta_back &g,
                                           const part &p)
{
    __shared__ float dbeta[ROWS], unused[ROWS];
    find_dbeta(d, g, p, dbeta, unused);
    __syncthreads();
    int64_t t = p.begin + threadIdx.x, at = (p.at.b * d.length + t) * d.heads + p.at.head;
    if (!g.db.data || t >= p.end) return;
    float beta = d.beta[at], dx[HIL_WIDE] = {dbeta[threadIdx.x] * beta * (1 - beta)};
    hil_wide_write(g.db, at, 1, dx, g.add_db);
}

/* A block has a tile of one head: products with its states, and of pairs of its positions. */
template <int N>
static __global__ void __launch_bounds__(THREADS, 2)
    products(const hil_delta_job d, const hil_delta_back g)
{
    __shared__ stage<N> s;
    hil_grid_block block = hil_grid_block_of((g.end - g.begin + ROWS - 1) / ROWS);
    int64_t tiles = g.chunks * HIL_DELTA_TILES, index = block.row * tiles + block.block;
    part p = find_tile(d, g, block.row, block.block);
    matrix begin = state_of(d, g.begins, index), end = state_of(d, g.ends, index);
    int64_t to = numbers_at(d, g, p, p.begin);
    write_product(d, s, dout_of(d, g, p, p.begin), begin, g.own + to);
    write_product(d, s, left_of(d, g, p, p.begin, g.dchange), begin, g.by_row + to);
    write_product(d, s, left_of(d, g, p, p.begin, g.wrong), end, g.by_column + to);
    find_pairs(d, g, p, s, p.begin, p.begin);
    __syncthreads();
    float *pairs = g.pairs + index * 2 * ROWS * ROWS;
    for (int i = threadIdx.x; i < ROWS * ROWS; i += THREADS) {
        pairs[i] = s.e[i / ROWS][i % ROWS];
        pairs[ROWS * ROWS + i] = s.f[i / ROWS][i % ROWS];
    }
    for (int64_t c = threadIdx.x / 32; c < d.key_dim; c += WARPS) {
        float sum = 0;
        for (int64_t v = threadIdx.x % 32; v < d.value_dim; v += 32)
            sum = fmaf(number(begin, c, v), number(end, c, v), sum);
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) g.whole[index * d.key_dim + c] = sum;
    }
    write_writes(d, g, p);
}

/* Of one channel at the positions of a tile. */
typedef struct channel {
    float q[ROWS], k[ROWS], dq[ROWS], row[ROWS];
    const float *pairs; /* E and F */
    float ends;         /* see [Note: gradients by channel]: of positions before, and of G and S */
} channel;

static __device__ inline float keep_of(const hil_delta_job &d, const part &p, int i, int64_t c)
{
    int64_t row = p.at.b * d.length + p.begin + i;
    return d.keep[(row * d.heads + p.at.head) * d.key_dim + c];
}

static __device__ inline void begin_channel(const hil_delta_job &d, const hil_delta_back &g,
                                            const part &p, int64_t c, channel &x)
{
    matrix q = keys_of(d, p, p.begin, true), k = keys_of(d, p, p.begin, false);
    int64_t at = numbers_at(d, g, p, p.begin) + c, step = d.heads * d.key_dim;
    int64_t tiles = g.chunks * HIL_DELTA_TILES;
    int64_t index = (p.at.b * d.heads + p.at.head) * tiles + p.chunk;
    float whole = 1;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        bool here = p.begin + i < p.end;
        if (here) whole *= keep_of(d, p, i, c);
        x.q[i] = number(q, i, c);
        x.k[i] = number(k, i, c);
        x.dq[i] = here ? whole * g.own[at + i * step] : 0;
        x.row[i] = here ? -whole * g.by_row[at + i * step] : 0;
    }
    x.ends = whole * g.whole[index * d.key_dim + c];
}

/* Position j, after those before it: its gradients of q and k take the place of own_j and by_row_j;
   returns that of its decay. */
static __device__ inline float take_column(const hil_delta_job &d, const hil_delta_back &g,
                                           const part &p, int j, channel &x)
{
    int64_t c = threadIdx.x;
    int64_t at = numbers_at(d, g, p, p.begin + j) + c;
    float k = number(keys_of(d, p, p.begin, false), j, c), factor = 1, decay = 0, column = 0;
    float dq = 0, row = 0;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        if (i < j || p.begin + i >= p.end) continue;
        if (i > j) factor *= keep_of(d, p, i, c);
        float e = factor * x.pairs[i * ROWS + j], f = factor * x.pairs[(ROWS + i) * ROWS + j];
        decay = fmaf(x.q[i], x.dq[i], fmaf(x.k[i], x.row[i], decay));
        column = fmaf(e, x.q[i], fmaf(-f, x.k[i], column));
        x.dq[i] = fmaf(e, k, x.dq[i]);
        x.row[i] = fmaf(-f, k, x.row[i]);
        if (i == j) dq = x.dq[i], row = x.row[i];
    }
    float past = factor * g.by_column[at];
    decay += x.ends;
    x.ends = fmaf(k, past, x.ends);
    g.own[at] = dq;
    g.by_row[at] = row + (column + past);
    return decay;
}

/* The rows of x, which are q or k, from the gradients `from` of what they become. */
static __device__ inline void write_keys(const hil_delta_job &d, const hil_delta_back &g,
                                         const part &p, const matrix &x, const float *from,
                                         float square)
{
    for (int row = threadIdx.x / 32; row < x.rows; row += LANES / 32) {
        float dx[LANES / 32];
#pragma unroll
        for (int n = 0; n < LANES / 32; ++n) {
            int64_t col = threadIdx.x % 32 + 32 * n;
            dx[n] = col < d.key_dim ? from[numbers_at(d, g, p, p.begin + row) + col] : 0;
        }
        write_normalized<LANES / 32>(d, g, x, row, dx, square);
    }
}

/* A block has a tile of one head, a thread one of its channels. */
static __global__ void __launch_bounds__(LANES)
    channels(const hil_delta_job d, const hil_delta_back g)
{
    __shared__ float pairs[2 * ROWS * ROWS], shared[WARPS];
    hil_grid_block block = hil_grid_block_of((g.end - g.begin + ROWS - 1) / ROWS);
    int64_t tiles = g.chunks * HIL_DELTA_TILES, c = threadIdx.x;
    part p = find_tile(d, g, block.row, block.block);
    const float *from = g.pairs + (block.row * tiles + block.block) * 2 * ROWS * ROWS;
    for (int i = threadIdx.x; i < 2 * ROWS * ROWS; i += LANES) pairs[i] = from[i];
    __syncthreads();
    int64_t all = (d.length + ROWS - 1) / ROWS;
    int64_t partial = (p.at.b * all + p.begin / ROWS) * d.heads + p.at.head;
    float drate = 0, dbias = 0;
    if (c < d.key_dim) {
        channel x = {.pairs = pairs};
        begin_channel(d, g, p, c, x);
        for (int j = 0; j < p.end - p.begin; ++j) {
            int64_t row = p.at.b * d.length + p.begin + j;
            float decay = take_column(d, g, p, j, x);
            hil_delta_channel gate = hil_delta_channel_of(d, row, p.at.head, c);
            float da[HIL_WIDE] = {decay * gate.slope};
            drate = fmaf(decay, gate.by_rate, drate);
            dbias += da[0];
            if (g.da.data)
                hil_wide_write(g.da, (row * d.heads + p.at.head) * d.key_dim + c, 1, da, g.add_da);
        }
        g.dbias[partial * d.key_dim + c] = dbias;
    }
    drate = block_sum(drate, shared);
    if (threadIdx.x == 0) g.drate[partial] = drate;
    if (!g.dx.data) return;
    write_keys(d, g, p, keys_of(d, p, p.begin, true), g.own, (float)d.key_dim);
    write_keys(d, g, p, keys_of(d, p, p.begin, false), g.by_row, 1);
}

typedef void kernel(hil_delta_job d, hil_delta_back g);

hil_status hil_delta_channels(hil_device *device, const hil_delta_job &d, const hil_delta_back &g)
{
    kernel *run = d.key_dim <= 32 ? products<1> : d.key_dim <= 64 ? products<2> : products<4>;
    unsigned blocks = hil_blocks(g.end - g.begin, ROWS) * (unsigned)(d.batch * d.heads);
    cudaStream_t stream = hil_cuda_stream(device, HIL_STREAM_COMPUTE);
    run<<<blocks, THREADS, 0, stream>>>(d, g);
    HIL_TRY(hil_cuda_launched(device, "channel_delta's products"));
    channels<<<blocks, LANES, 0, stream>>>(d, g);
    return hil_cuda_launched(device, "channel_delta's gradients");
}
