/* delta_scan.cu - scans of the gated delta rule over positions: [Note: scans] in delta_cuda.h. */
#include "ops/recurrent/delta_cuda.h"

#define LANES 4    /* threads of a column */
#define COLUMNS 32 /* of a block */
#define THREADS (LANES * COLUMNS)
#define TILE 16 /* positions in shared memory */

static_assert(HIL_DELTA_CHUNK % TILE == 0, "a tile is in one chunk");
static_assert(TILE * COLUMNS / HIL_WIDE <= THREADS, "a thread has one run of values");

/* Positions of a tile: keys of up to 16 N numbers, the numbers of the block's columns. A lane of a
   column has every LANES-th of `q`, of `k` and, if decays are BY_CHANNEL, of `decay`; `keep` is 1
   then. */
template <int N, bool BY_CHANNEL> struct tile {
    float4 q[TILE][LANES * N], k[TILE][LANES * N];
    float4 decay[BY_CHANNEL ? TILE : 1][LANES * N];
    float value[TILE][COLUMNS]; /* v, or dout */
    float result[TILE][COLUMNS];
    float beta[TILE], keep[TILE], match[TILE];
};

/* The same as in memory: a thread prefetches its part of the next tile. */
template <int N, bool BY_CHANNEL> struct fetched {
    static constexpr int RUNS = N > 4 ? N / 4 : 1;
    hil_wide q[RUNS], k[RUNS], decay[BY_CHANNEL ? RUNS : 1], value;
    float q_scale[RUNS], k_scale[RUNS], beta, keep, match;
};

/* The block's columns of a head, and where their values come from. */
typedef struct place {
    hil_delta_head at;
    int64_t sequence; /* of all heads of all sequences */
    int64_t column;   /* of the block, the first */
    hil_view from;    /* v or dout */
    int64_t offset,
        stride;     /* of the block's columns at position 0, from one position to the next */
    int lane, mine; /* of a thread: its lane, and its column in the block */
    bool space;
    float skip; /* D of the head */
} place;

static __device__ inline place find_place(const hil_delta_job &d)
{
    hil_grid_block block = hil_grid_block_of((d.value_dim + COLUMNS - 1) / COLUMNS);
    place p = {.at = hil_delta_head_of(d, block.row),
               .sequence = block.row,
               .column = block.block * COLUMNS};
    p.from = d.x;
    p.offset = p.at.b * d.length * d.width + p.at.v + p.column;
    p.stride = d.width;
    p.lane = threadIdx.x % LANES;
    p.mine = threadIdx.x / LANES;
    p.space = d.space;
    p.skip = d.space ? hil_delta_number(d.skip, p.at.head) : 0;
    return p;
}

/* The numbers of the block's columns at a run of threads: row i, columns [column, column + n). */
typedef struct piece {
    int i, column, n;
} piece;

static __device__ inline piece find_piece(const hil_delta_job &d, const place &p, int count)
{
    piece r = {.i = (int)threadIdx.x / (COLUMNS / HIL_WIDE),
               .column = (int)threadIdx.x % (COLUMNS / HIL_WIDE) * HIL_WIDE};
    r.n = r.i < count ? hil_wide_count(d.value_dim - p.column - r.column) : 0;
    return r;
}

/* Positions [at, at + count). */
template <int N, bool BY_CHANNEL>
static __device__ inline void fetch(const hil_delta_job &d, const place &p, int64_t at, int count,
                                    fetched<N, BY_CHANNEL> &f)
{
    int64_t row = p.at.b * d.length + at;
#pragma unroll
    for (int r = 0; r < fetched<N, BY_CHANNEL>::RUNS; ++r) {
        int run = r * THREADS + (int)threadIdx.x, i = run / (2 * N), col = run % (2 * N) * HIL_WIDE;
        int n = i < count ? hil_wide_count(d.key_dim - col) : 0;
        f.q[r] = hil_wide_load(d.x, (row + i) * d.width + p.at.q + col, n);
        f.k[r] = hil_wide_load(d.x, (row + i) * d.width + p.at.k + col, n);
        if (BY_CHANNEL)
            f.decay[r] = hil_wide_load({d.keep, HIL_F32},
                                       ((row + i) * d.heads + p.at.head) * d.key_dim + col, n);
        f.q_scale[r] = i < count ? d.q_scale[(row + i) * d.key_heads + p.at.group] : 0;
        f.k_scale[r] = i < count ? d.k_scale[(row + i) * d.key_heads + p.at.group] : 0;
    }
    piece r = find_piece(d, p, count);
    f.value = hil_wide_load(p.from, p.offset + (at + r.i) * p.stride + r.column, r.n);
    if (threadIdx.x < count) {
        f.beta = d.beta[(row + threadIdx.x) * d.heads + p.at.head];
        f.keep = BY_CHANNEL ? 1 : d.keep[(row + threadIdx.x) * d.heads + p.at.head];
        f.match = d.match[(row + threadIdx.x) * d.key_heads + p.at.group];
    }
}

static __device__ inline void put(float4 to[2], const hil_wide &raw, hil_dtype dtype, float scale)
{
    float x[HIL_WIDE];
    hil_wide_read(raw, dtype, x);
    to[0] = make_float4(x[0] * scale, x[1] * scale, x[2] * scale, x[3] * scale);
    to[1] = make_float4(x[4] * scale, x[5] * scale, x[6] * scale, x[7] * scale);
}

template <int N, bool BY_CHANNEL>
static __device__ inline void fill(const hil_delta_job &d, const place &p,
                                   const fetched<N, BY_CHANNEL> &f, tile<N, BY_CHANNEL> &s)
{
#pragma unroll
    for (int r = 0; r < fetched<N, BY_CHANNEL>::RUNS; ++r) {
        int run = r * THREADS + (int)threadIdx.x, i = run / (2 * N), at = run % (2 * N) * 2;
        if (i >= TILE) break;
        put(&s.q[i][at], f.q[r], d.x.dtype, f.q_scale[r]);
        put(&s.k[i][at], f.k[r], d.x.dtype, f.k_scale[r]);
        if (BY_CHANNEL) put(&s.decay[i][at], f.decay[r], HIL_F32, 1);
    }
    piece r = find_piece(d, p, TILE);
    float x[HIL_WIDE];
    hil_wide_read(f.value, p.from.dtype, x);
#pragma unroll
    for (int c = 0; c < HIL_WIDE; ++c)
        if (r.i < TILE) s.value[r.i][r.column + c] = x[c];
    if (threadIdx.x < TILE) {
        s.beta[threadIdx.x] = f.beta;
        s.keep[threadIdx.x] = f.keep;
        s.match[threadIdx.x] = f.match;
    }
}

/* A thread's numbers of a state: every LANES-th four of its column. */
template <int N> struct column {
    float x[N][4];
};

/* Where number i of four n is in a state, (D, V); -1: nowhere. */
static __device__ inline int64_t place_of(const hil_delta_job &d, const place &p, int n, int i)
{
    int64_t k = (n * LANES + p.lane) * 4 + i, v = p.column + p.mine;
    return k < d.key_dim && v < d.value_dim ? k * d.value_dim + v : -1;
}

/* From a state; zeros if that is NULL. */
template <int N>
static __device__ inline void load_column(const hil_delta_job &d, const place &p,
                                          const float *state, column<N> &s)
{
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int64_t at = place_of(d, p, n, i);
            s.x[n][i] = state && at >= 0 ? state[at] : 0;
        }
}

/* To a state; zeros if `is_zero`. */
template <int N>
static __device__ inline void store_column(const hil_delta_job &d, const place &p, float *state,
                                           const column<N> &s, bool is_zero)
{
#pragma unroll
    for (int i = 0; i < 4 * N; ++i) {
        int64_t at = place_of(d, p, i / 4, i % 4);
        if (at >= 0) state[at] = is_zero ? 0 : s.x[i / 4][i % 4];
    }
}

/* The product of a column and `x`, of which a thread has its part. */
template <int N> static __device__ inline float dot(const column<N> &s, const float4 *x, int lane)
{
    float sum[4] = {};
#pragma unroll
    for (int n = 0; n < N; ++n) {
        float4 four = x[n * LANES + lane];
        sum[0] = fmaf(s.x[n][0], four.x, sum[0]);
        sum[1] = fmaf(s.x[n][1], four.y, sum[1]);
        sum[2] = fmaf(s.x[n][2], four.z, sum[2]);
        sum[3] = fmaf(s.x[n][3], four.w, sum[3]);
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static __device__ inline float lane_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* s = keep * s + factor * x */
template <int N>
static __device__ inline void update(column<N> &s, float keep, float factor, const float4 *x,
                                     int lane)
{
#pragma unroll
    for (int n = 0; n < N; ++n) {
        float4 four = x[n * LANES + lane];
        s.x[n][0] = fmaf(factor, four.x, keep * s.x[n][0]);
        s.x[n][1] = fmaf(factor, four.y, keep * s.x[n][1]);
        s.x[n][2] = fmaf(factor, four.z, keep * s.x[n][2]);
        s.x[n][3] = fmaf(factor, four.w, keep * s.x[n][3]);
    }
}

/* s *= x, row by row */
template <int N> static __device__ inline void decay_rows(column<N> &s, const float4 *x, int lane)
{
#pragma unroll
    for (int n = 0; n < N; ++n) {
        float4 four = x[n * LANES + lane];
        s.x[n][0] *= four.x;
        s.x[n][1] *= four.y;
        s.x[n][2] *= four.z;
        s.x[n][3] *= four.w;
    }
}

/* A position; the result is y or, if AGAIN, v - S'k. y = S'q of the state after it, which is the
   state before it times `keep`, plus k change'. */
template <int N, bool BY_CHANNEL, bool AGAIN>
static __device__ inline void step(const tile<N, BY_CHANNEL> &s, const place &p, int i,
                                   column<N> &state, float *result)
{
    float v = s.value[i][p.mine], keep = s.keep[i];
    if (BY_CHANNEL) decay_rows(state, s.decay[i], p.lane);
    float by_k = p.space ? 0 : dot(state, s.k[i], p.lane);
    float by_q = AGAIN ? 0 : dot(state, s.q[i], p.lane);
    if (!p.space) by_k = lane_sum(by_k);
    if (!AGAIN) by_q = lane_sum(by_q);
    float wrong = v - keep * by_k, change = s.beta[i] * wrong;
    update(state, keep, change, s.k[i], p.lane);
    *result = AGAIN ? wrong : fmaf(change, s.match[i], keep * by_q);
    if (p.space) *result = fmaf(p.skip, v, *result);
}

/* A position in reverse order: `after` is the gradient of the state after it without its own part,
   and becomes that of the state before it. The result is the gradient of beta (v - S'k). */
template <int N, bool BY_CHANNEL>
static __device__ inline void step_back(const tile<N, BY_CHANNEL> &s, const place &p, int i,
                                        column<N> &after, float *result)
{
    float dy = s.value[i][p.mine], keep = s.keep[i];
    float dchange = fmaf(s.match[i], dy, lane_sum(dot(after, s.k[i], p.lane)));
    update(after, 1, dy, s.q[i], p.lane);
    if (!p.space) update(after, 1, -s.beta[i] * dchange, s.k[i], p.lane);
    if (BY_CHANNEL) {
        decay_rows(after, s.decay[i], p.lane);
    } else {
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int c = 0; c < 4; ++c) after.x[n][c] *= keep;
    }
    *result = dchange;
}

/* Where the results of the block's columns go: `offset` is that of a tile's first position. */
typedef struct target {
    hil_view to;
    int64_t offset, stride;
    bool add;
} target;

/* The tile's results, times `factor` of each position unless that is NULL; in a state space then
   also the gradient of y that passes by the state. */
template <class T>
static __device__ inline void write_results(const hil_delta_job &d, const place &p, const T &s,
                                            const float *factor, int count, const target &t)
{
    piece r = find_piece(d, p, count);
    float x[HIL_WIDE];
    if (r.n == 0) return;
#pragma unroll
    for (int c = 0; c < HIL_WIDE; ++c)
        x[c] = s.result[r.i][r.column + c] * (factor ? factor[r.i] : 1);
    if (factor && p.space)
#pragma unroll
        for (int c = 0; c < HIL_WIDE; ++c) x[c] = fmaf(p.skip, s.value[r.i][r.column + c], x[c]);
    hil_wide_write(t.to, t.offset + r.i * t.stride + r.column, r.n, x, t.add);
}

/* Positions [begin, end) of one sequence, whose results are numbers of `to`. */
typedef struct range {
    int64_t begin, end;
    hil_view to;
    int64_t offset; /* of position `begin` */
    float *saved;   /* the states before `begin` and every `each` positions after it; NULL: none */
    int64_t each;
} range;

template <int N, bool BY_CHANNEL, bool AGAIN>
static __device__ inline void scan_range(const hil_delta_job &d, const place &p, const range &r,
                                         column<N> &state)
{
    __shared__ tile<N, BY_CHANNEL> s;
    fetched<N, BY_CHANNEL> f = {};
    int64_t stride = d.heads * d.value_dim;
    fetch(d, p, r.begin, (int)(r.end - r.begin < TILE ? r.end - r.begin : TILE), f);
    for (int64_t at = r.begin; at < r.end; at += TILE) {
        int count = (int)(r.end - at < TILE ? r.end - at : TILE);
        int64_t left = r.end - at - TILE;
        __syncthreads();
        fill(d, p, f, s);
        if (left > 0) fetch(d, p, at + TILE, (int)(left < TILE ? left : TILE), f);
        __syncthreads();
        if (r.saved && (at - r.begin) % r.each == 0)
            store_column(d, p, r.saved + (at - r.begin) / r.each * d.key_dim * d.value_dim, state,
                         hil_delta_is_begin(d, p.at.b, at));
        for (int i = 0; i < count; ++i) {
            float result;
            step<N, BY_CHANNEL, AGAIN>(s, p, i, state, &result);
            if (p.lane == 0) s.result[i][p.mine] = result;
        }
        __syncthreads();
        write_results(d, p, s, NULL, count,
                      {r.to, r.offset + (at - r.begin) * stride, stride, false});
    }
}

template <int N, bool BY_CHANNEL>
static __global__ void __launch_bounds__(THREADS) scan(const hil_delta_job d, const hil_delta_back)
{
    place p = find_place(d);
    int64_t size = d.key_dim * d.value_dim;
    column<N> state;
    load_column(d, p, d.state ? d.state + p.sequence * size : NULL, state);
    int64_t offset = (p.at.b * d.length * d.heads + p.at.head) * d.value_dim + p.column;
    float *saved = d.saved ? d.saved + p.sequence * d.chunks * size : NULL;
    scan_range<N, BY_CHANNEL, false>(d, p, {0, d.length, d.out, offset, saved, HIL_DELTA_CHUNK},
                                     state);
    if (d.next) store_column(d, p, d.next + p.sequence * size, state, false);
}

/* The positions between states that backward keeps. */
template <bool BY_CHANNEL> static __device__ constexpr int kept_each()
{
    return BY_CHANNEL ? HIL_DELTA_ROWS : HIL_DELTA_CHUNK;
}

/* Of chunk number blockIdx.y of those at hand. */
template <int N, bool BY_CHANNEL>
static __global__ void __launch_bounds__(THREADS)
    scan_again(const hil_delta_job d, const hil_delta_back g)
{
    place p = find_place(d);
    int64_t size = d.key_dim * d.value_dim, chunk = g.chunk + blockIdx.y;
    range r = {.begin = chunk * HIL_DELTA_CHUNK, .to = {g.wrong, HIL_F32}};
    r.end = r.begin + HIL_DELTA_CHUNK < d.length ? r.begin + HIL_DELTA_CHUNK : d.length;
    r.offset =
        ((p.at.b * g.room + r.begin - g.begin) * d.heads + p.at.head) * d.value_dim + p.column;
    column<N> state;
    load_column(d, p, d.saved + (p.sequence * d.chunks + chunk) * size, state);
    r.each = kept_each<BY_CHANNEL>();
    if (BY_CHANNEL)
        r.saved = g.begins + (p.sequence * g.chunks + blockIdx.y) * HIL_DELTA_TILES * size;
    scan_range<N, BY_CHANNEL, true>(d, p, r, state);
}

template <int N, bool BY_CHANNEL>
static __global__ void __launch_bounds__(THREADS)
    scan_back(const hil_delta_job d, const hil_delta_back g)
{
    __shared__ tile<N, BY_CHANNEL> s;
    constexpr int each = kept_each<BY_CHANNEL>();
    place p = find_place(d);
    int64_t size = d.key_dim * d.value_dim, stride = d.heads * d.value_dim;
    float *ends = g.ends + p.sequence * g.chunks * (HIL_DELTA_CHUNK / each) * size;
    p.from = g.dout;
    p.offset = (p.at.b * d.length * d.heads + p.at.head) * d.value_dim + p.column;
    p.stride = stride;
    int64_t values = p.at.b * d.length * d.width + p.at.v + p.column;
    int64_t room = (p.at.b * g.room * d.heads + p.at.head) * d.value_dim + p.column;
    column<N> after;
    fetched<N, BY_CHANNEL> f = {};
    load_column(d, p, g.last ? NULL : g.carry + p.sequence * size, after);
    int64_t at = (g.end - 1) / TILE * TILE;
    fetch(d, p, at, (int)(g.end - at), f);
    for (; at >= g.begin; at -= TILE) {
        int count = (int)(g.end - at < TILE ? g.end - at : TILE);
        __syncthreads();
        fill(d, p, f, s);
        if (at > g.begin) fetch(d, p, at - TILE, TILE, f);
        __syncthreads();
        if (at + TILE >= g.end || (at + TILE) % each == 0)
            store_column(d, p, ends + (at - g.begin) / each * size, after, false);
        for (int i = count - 1; i >= 0; --i) {
            float result;
            step_back(s, p, i, after, &result);
            if (p.lane == 0) s.result[i][p.mine] = result;
        }
        __syncthreads();
        write_results(d, p, s, NULL, count,
                      {{g.dchange, HIL_F32}, room + (at - g.begin) * stride, stride, false});
        if (g.dx.data)
            write_results(d, p, s, s.beta, count, {g.dx, values + at * d.width, d.width, g.add_dx});
    }
    store_column(d, p, g.carry + p.sequence * size, after, false);
}

typedef void kernel(hil_delta_job d, hil_delta_back g);

/* Of the kernels for keys of up to 32, 64, 128 and 256 numbers. */
static hil_status launch(hil_device *device, kernel *const by_size[4], const hil_delta_job &d,
                         const hil_delta_back &g, int64_t chunks)
{
    int size = 0;
    while (32 << size < d.key_dim) ++size;
    kernel *run = by_size[size];
    dim3 grid(hil_blocks(d.value_dim, COLUMNS) * (unsigned)(d.batch * d.heads), (unsigned)chunks);
    run<<<grid, THREADS, 0, hil_cuda_stream(device, HIL_STREAM_COMPUTE)>>>(d, g);
    return hil_cuda_launched(device, "delta_rule");
}
static_assert(HIL_DELTA_DIM == 256, "the longest keys of the kernels");
static_assert(HIL_DELTA_CHANNELS == 128, "and of those with a decay per channel");

hil_status hil_delta_scan(hil_device *device, const hil_delta_job &d)
{
    static kernel *const kernels[][4] = {
        {scan<2, false>, scan<4, false>, scan<8, false>, scan<16, false>},
        {scan<2, true>, scan<4, true>, scan<8, true>}};
    return launch(device, kernels[d.by_channel], d, {}, 1);
}

hil_status hil_delta_scan_again(hil_device *device, const hil_delta_job &d, const hil_delta_back &g)
{
    static kernel *const kernels[][4] = {
        {scan_again<2, false>, scan_again<4, false>, scan_again<8, false>, scan_again<16, false>},
        {scan_again<2, true>, scan_again<4, true>, scan_again<8, true>}};
    return launch(device, kernels[d.by_channel], d, g, g.chunks);
}

hil_status hil_delta_scan_back(hil_device *device, const hil_delta_job &d, const hil_delta_back &g)
{
    static kernel *const kernels[][4] = {
        {scan_back<2, false>, scan_back<4, false>, scan_back<8, false>, scan_back<16, false>},
        {scan_back<2, true>, scan_back<4, true>, scan_back<8, true>}};
    return launch(device, kernels[d.by_channel], d, g, 1);
}
