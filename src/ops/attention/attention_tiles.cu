/* attention_tiles.cu - attention in 16 bits on tensor cores, tile by tile. Tiles that are masked
   for all queries (other documents, keys outside the window) are skipped.

   [Note: tiles of attention] A warp owns 16 rows: queries, or in the second half of backward keys.
   Its block loops over tiles of 64 keys (or queries) in shared memory and prefetches the next one.
   Rows in shared memory are swizzled in runs of 16 bytes, so that eight rows use all banks. Each
   result has one owner, which adds tiles in order: no atomics, no memory that grows with T * T. */
#include "ops/attention/attention_cuda.h"

#define WARPS 4
#define THREADS (32 * WARPS)
#define TILE 64 /* rows of a block, and of a tile */
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f

static_assert(TILE == 16 * WARPS, "a warp owns 16 rows");

/* Rows [row, row + TILE) of one head of x, `stride` numbers apart; those from `end` on are zeros,
   and so are numbers between dim and D, the size of heads in a kernel. */
typedef struct strip {
    const void *x;
    int64_t row, end, stride, head, dim;
} strip;

template <int D> static __device__ inline uint32_t swizzled(int row, int run)
{
    return (uint32_t)(row * D * 2 + ((run ^ (row & 7)) << 4));
}

template <int D> static __device__ inline void load_tile(uint32_t tile, const strip &s)
{
#pragma unroll
    for (int i = 0; i < TILE * D / 8 / THREADS; ++i) {
        int at = i * THREADS + (int)threadIdx.x, row = at / (D / 8), run = at % (D / 8);
        int bytes = s.row + row < s.end && run * 8 < s.dim ? 16 : 0;
        int64_t from = bytes ? (s.row + row) * s.stride + s.head * s.dim + run * 8 : 0;
        asm volatile(
            "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(tile + swizzled<D>(row, run)),
            "l"((const uint16_t *)s.x + from), "r"(bytes));
    }
}

static __device__ inline void commit_tiles(void)
{
    asm volatile("cp.async.commit_group;");
}

/* Waits until all but the `N` newest groups have arrived. */
template <int N> static __device__ inline void wait_tiles(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N));
}

static __device__ inline void load_matrix(uint32_t out[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(at));
}

static __device__ inline void load_transposed(uint32_t out[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(at));
}

/* c (16 x 8) += a (16 x 16) * b (16 x 8) */
template <bool BF16>
static __device__ inline void multiply_add(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    if (BF16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <bool BF16> static __device__ inline uint32_t pack(float low, float high)
{
    if (BF16) {
        __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
        return *(uint32_t *)&two;
    }
    __half2 two = __floats2half2_rn(low, high);
    return *(uint32_t *)&two;
}

static __device__ inline float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The warp's 16 rows of step k, as the first operand. */
template <int D> static __device__ inline void own_rows(uint32_t a[4], uint32_t own, int k)
{
    int lane = threadIdx.x % 32, row = (int)threadIdx.x / 32 * 16 + lane % 16;
    load_matrix(a, own + swizzled<D>(row, 2 * k + lane / 16));
}

/* c (16 x 8 COLUMNS) = own rows * transposed tile rows [first, first + 8 COLUMNS). */
template <int D, bool BF16, int COLUMNS>
static __device__ inline void score(float c[COLUMNS][4], uint32_t own, uint32_t tile, int first)
{
    int lane = threadIdx.x % 32, row = first + lane % 8 + lane / 16 * 8, half = lane / 8 % 2;
#pragma unroll
    for (int n = 0; n < COLUMNS; ++n) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
        uint32_t a[4], b[4];
        own_rows<D>(a, own, k);
#pragma unroll
        for (int n = 0; n < COLUMNS; n += 2) {
            load_matrix(b, tile + swizzled<D>(row + 8 * n, 2 * k + half));
            multiply_add<BF16>(c[n], a, b);
            multiply_add<BF16>(c[n + 1], a, b + 2);
        }
    }
}

/* sum (16 x D) += weights (16 x 8 COLUMNS) * tile rows [first, first + 8 COLUMNS). */
template <int D, bool BF16, int COLUMNS>
static __device__ inline void add_rows(float sum[D / 8][4], const float weight[COLUMNS][4],
                                       uint32_t tile, int first)
{
    int lane = threadIdx.x % 32, row = first + lane % 16, half = lane / 16;
#pragma unroll
    for (int k = 0; k < COLUMNS; k += 2) {
        uint32_t a[4] = {pack<BF16>(weight[k][0], weight[k][1]),
                         pack<BF16>(weight[k][2], weight[k][3]),
                         pack<BF16>(weight[k + 1][0], weight[k + 1][1]),
                         pack<BF16>(weight[k + 1][2], weight[k + 1][3])};
#pragma unroll
        for (int n = 0; n < D / 8; n += 2) {
            uint32_t b[4];
            load_transposed(b, tile + swizzled<D>(row + 8 * k, n + half));
            multiply_add<BF16>(sum[n], a, b);
            multiply_add<BF16>(sum[n + 1], a, b + 2);
        }
    }
}

/* The first key that query t sees. */
static __device__ inline int64_t first_key(const hil_cuda_attention &a, int64_t b, int64_t t)
{
    int64_t from = a.documents ? a.first[b * a.queries + t] : 0;
    if (a.chunk > 0) from += (t - from) / a.chunk * a.chunk;
    return a.window > 0 && t - a.window + 1 > from ? t - a.window + 1 : from;
}

/* Two neighbouring results of one row. */
template <bool BF16>
static __device__ inline void store_pair(const hil_view x, int64_t at, float low, float high,
                                         bool add)
{
    uint32_t *to = (uint32_t *)((uint16_t *)x.data + at);
    if (add) {
        hil_wide held = {*to};
        float old[HIL_WIDE];
        hil_wide_read(held, BF16 ? HIL_BF16 : HIL_F16, old);
        low += old[0], high += old[1];
    }
    *to = pack<BF16>(low, high);
}

static __device__ inline float quad_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

static __device__ inline float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

#define COLUMNS (TILE / 8)

/* Later blocks have more keys in their mask, so they are started first. */
template <int D, bool BF16>
static __global__ void __launch_bounds__(THREADS) attend(const hil_cuda_attention a)
{
    extern __shared__ uint4 shared[];
    constexpr uint32_t BYTES = TILE * D * 2;
    uint32_t own = (uint32_t)__cvta_generic_to_shared(shared), tiles = own + BYTES;
    int64_t T = a.queries;
    hil_grid_block at = hil_grid_block_of((T + TILE - 1) / TILE);
    int64_t b = at.row / a.heads, head = at.row % a.heads, group = head / (a.heads / a.groups);
    int64_t start = (at.blocks - 1 - at.block) * TILE;
    int64_t last = start + TILE < T ? start + TILE : T;
    int64_t key = first_key(a, b, start) / TILE * TILE;
    load_tile<D>(own, {a.q.data, b * T + start, b * T + T, a.q_stride, head, a.dim});
    load_tile<D>(tiles, {a.k.data, b * T + key, b * T + T, a.kv_stride, group, a.dim});
    load_tile<D>(tiles + BYTES, {a.v.data, b * T + key, b * T + T, a.kv_stride, group, a.dim});
    commit_tiles();
    int lane = threadIdx.x % 32;
    int64_t row[2] = {start + threadIdx.x / 32 * 16 + lane / 4, 0}, from[2];
    row[1] = row[0] + 8;
    for (int i = 0; i < 2; ++i) from[i] = row[i] < T ? first_key(a, b, row[i]) : 0;
    float out[D / 8][4] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    float factor = a.scale * LOG2E;
    for (int turn = 0; key < last; key += TILE, turn ^= 1) {
        uint32_t k = tiles + turn * 2 * BYTES, v = k + BYTES;
        if (key + TILE < last) {
            uint32_t next = tiles + (turn ^ 1) * 2 * BYTES;
            load_tile<D>(next,
                         {a.k.data, b * T + key + TILE, b * T + T, a.kv_stride, group, a.dim});
            load_tile<D>(next + BYTES,
                         {a.v.data, b * T + key + TILE, b * T + T, a.kv_stride, group, a.dim});
        }
        commit_tiles();
        wait_tiles<1>();
        __syncthreads();
        float s[COLUMNS][4];
        score<D, BF16, COLUMNS>(s, own, k, 0);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float top = most[i];
#pragma unroll
            for (int n = 0; n < COLUMNS; ++n)
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    int64_t at = key + 8 * n + lane % 4 * 2 + j;
                    float x = s[n][2 * i + j] * factor;
                    if (at > row[i] || at < from[i]) x = -INFINITY;
                    s[n][2 * i + j] = x;
                    top = fmaxf(top, x);
                }
            top = quad_max(top);
            float base = top == -INFINITY ? 0 : top, before = exp2_fast(most[i] - base), add = 0;
            most[i] = top;
#pragma unroll
            for (int n = 0; n < COLUMNS; ++n)
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    float p = exp2_fast(s[n][2 * i + j] - base);
                    s[n][2 * i + j] = p;
                    add += p;
                }
            sum[i] = sum[i] * before + add;
#pragma unroll
            for (int n = 0; n < D / 8; ++n) out[n][2 * i] *= before, out[n][2 * i + 1] *= before;
        }
        add_rows<D, BF16, COLUMNS>(out, s, v, 0);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        float total = quad_sum(sum[i]), inverse = 1 / total;
        if (row[i] >= T) continue;
        int64_t at = ((b * T + row[i]) * a.heads + head) * a.dim + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < D / 8; ++n)
            if (8 * n < a.dim)
                store_pair<BF16>(a.out, at + 8 * n, out[n][2 * i] * inverse,
                                 out[n][2 * i + 1] * inverse, false);
        if (a.lse && lane % 4 == 0)
            a.lse[(b * a.heads + head) * T + row[i]] = most[i] * LN2 + logf(total);
    }
}

#define PART 4 /* eights of columns that backward has at once */

/* Per query: its log-sum, its delta and the first key that it sees. */
typedef struct query {
    float lse, delta;
    int from;
} query;

static __device__ inline query load_query(const hil_cuda_attention &a, int64_t b, int64_t head,
                                          int64_t t)
{
    if (t >= a.queries) return {INFINITY, 0, 0};
    int64_t at = (b * a.heads + head) * a.queries + t;
    return {a.lse[at] * LOG2E, a.delta[at], (int)first_key(a, b, t)};
}

/* The progress of a block of backward: own rows from `start`; tile `turn` of `turns`, over all
   heads of a group where it owns keys. */
typedef struct walk {
    int64_t b, head, group, start, first;
    int tiles, turns;
} walk;

template <bool KEYS> static __device__ inline walk begin_walk(const hil_cuda_attention &a)
{
    int64_t heads = KEYS ? a.groups : a.heads, share = a.heads / a.groups, T = a.queries;
    hil_grid_block at = hil_grid_block_of((T + TILE - 1) / TILE);
    walk w = {.b = at.row / heads, .head = at.row % heads};
    w.group = KEYS ? w.head : w.head / share;
    w.start = (KEYS ? at.block : at.blocks - 1 - at.block) * TILE;
    int64_t last = w.start + TILE < T ? w.start + TILE : T;
    if (!KEYS) {
        w.first = first_key(a, w.b, w.start) / TILE * TILE;
        w.tiles = w.turns = (int)((last - w.first + TILE - 1) / TILE);
        return w;
    }
    w.first = w.start;
    for (int64_t t = w.start; t < T && first_key(a, w.b, t) < last; t += TILE) ++w.tiles;
    w.turns = (int)(share * w.tiles);
    w.head *= share;
    return w;
}

/* The tiles of a turn: queries and their dout, or keys and values. */
template <int D, bool KEYS>
static __device__ inline void load_turn(uint32_t tile, const hil_cuda_attention &a, const walk &w,
                                        int turn)
{
    int64_t T = a.queries, row = w.b * T + w.first + turn % w.tiles * TILE, end = w.b * T + T;
    int64_t head = KEYS ? w.head + turn / w.tiles : w.group;
    int64_t x = KEYS ? a.q_stride : a.kv_stride, y = KEYS ? a.heads * a.dim : a.kv_stride;
    load_tile<D>(tile, {KEYS ? a.q.data : a.k.data, row, end, x, head, a.dim});
    load_tile<D>(tile + TILE * D * 2, {KEYS ? a.dout.data : a.v.data, row, end, y, head, a.dim});
}

/* Gradients of queries, or of keys and values: with x = q (or k), y = dout (or v) the own rows and
   X, Y those of the tile, p = exp(x X^T - lse), ds = p (y Y^T - delta); then the sum of ds X is the
   gradient of x, and that of p Y the gradient of v. */
template <int D, bool BF16, bool KEYS>
static __global__ void __launch_bounds__(THREADS) differentiate(const hil_cuda_attention a)
{
    extern __shared__ uint4 shared[];
    __shared__ query columns[TILE];
    constexpr uint32_t BYTES = TILE * D * 2;
    static_assert(6 * BYTES + sizeof columns <= 99 << 10, "what a block of sm_86 has");
    uint32_t own = (uint32_t)__cvta_generic_to_shared(shared), tiles = own + 2 * BYTES;
    walk w = begin_walk<KEYS>(a);
    int64_t T = a.queries, head = KEYS ? w.group : w.head, place = w.b * T + w.start;
    int64_t stride = KEYS ? a.kv_stride : a.q_stride, other = KEYS ? stride : a.heads * a.dim;
    load_tile<D>(own, {KEYS ? a.k.data : a.q.data, place, w.b * T + T, stride, head, a.dim});
    load_tile<D>(own + BYTES,
                 {KEYS ? a.v.data : a.dout.data, place, w.b * T + T, other, head, a.dim});
    load_turn<D, KEYS>(tiles, a, w, 0);
    commit_tiles();
    int lane = threadIdx.x % 32;
    int64_t row[2] = {w.start + threadIdx.x / 32 * 16 + lane / 4, 0};
    row[1] = row[0] + 8;
    query mine[2] = {};
    for (int i = 0; !KEYS && i < 2; ++i) mine[i] = load_query(a, w.b, w.head, row[i]);
    float dx[D / 8][4] = {}, dv[KEYS ? D / 8 : 1][4] = {}, factor = a.scale * LOG2E;
    for (int turn = 0; turn < w.turns; ++turn) {
        uint32_t x = tiles + turn % 2 * 2 * BYTES, y = x + BYTES;
        int64_t first = w.first + turn % w.tiles * TILE;
        if (turn + 1 < w.turns)
            load_turn<D, KEYS>(tiles + (turn + 1) % 2 * 2 * BYTES, a, w, turn + 1);
        commit_tiles();
        if (KEYS && threadIdx.x < TILE)
            columns[threadIdx.x] = load_query(a, w.b, w.head + turn / w.tiles, first + threadIdx.x);
        wait_tiles<1>();
        __syncthreads();
        for (int part = 0; part < TILE; part += 8 * PART) {
            float p[PART][4], ds[PART][4];
            score<D, BF16, PART>(p, own, x, part);
            score<D, BF16, PART>(ds, own + BYTES, y, part);
#pragma unroll
            for (int n = 0; n < PART; ++n)
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    int column = part + 8 * n + lane % 4 * 2 + j % 2;
                    query q = KEYS ? columns[column] : mine[j / 2];
                    int64_t k = KEYS ? row[j / 2] : first + column;
                    int64_t t = KEYS ? first + column : row[j / 2];
                    bool seen = k <= t && k >= q.from;
                    p[n][j] = seen ? exp2_fast(p[n][j] * factor - q.lse) : 0;
                    ds[n][j] = p[n][j] * (ds[n][j] - q.delta);
                }
            if constexpr (KEYS) add_rows<D, BF16, PART>(dv, p, y, part);
            add_rows<D, BF16, PART>(dx, ds, x, part);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        if (row[i] >= T) continue;
        int64_t at = (w.b * T + row[i]) * stride + head * a.dim + lane % 4 * 2;
        const hil_view to = KEYS ? a.dk : a.dq;
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
            if (8 * n >= a.dim) break;
            if (to.data)
                store_pair<BF16>(to, at + 8 * n, dx[n][2 * i] * a.scale, dx[n][2 * i + 1] * a.scale,
                                 KEYS ? a.add_dk : a.add_dq);
            if constexpr (KEYS)
                if (a.dv.data)
                    store_pair<BF16>(a.dv, at + 8 * n, dv[n][2 * i], dv[n][2 * i + 1], a.add_dv);
        }
    }
}

typedef void kernel(hil_cuda_attention a);

static hil_status launch(hil_device *device, kernel *run, const hil_cuda_attention *a,
                         int64_t heads, size_t shared)
{
    HIL_TRY(hil_cuda_check(device,
                           cudaFuncSetAttribute((const void *)run,
                                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                (int)shared),
                           "reserve shared memory"));
    unsigned blocks = hil_blocks(a->queries, TILE) * (unsigned)(a->batch * heads);
    run<<<blocks, THREADS, shared, hil_cuda_of(device)->stream>>>(*a);
    return hil_cuda_launched(device, "attention");
}

bool hil_attention_tiles_can(const hil_cuda_attention *a)
{
    return a->q.dtype != HIL_F32 && !a->drops && a->dim % 8 == 0 && a->dim <= 128 &&
           a->batch * a->queries * a->heads > 0;
}

/* Own rows and two pairs of tiles: q, or q with dout, or k with v. */
template <int D, bool BF16>
static hil_status run_forward(hil_device *device, const hil_cuda_attention *a)
{
    return launch(device, attend<D, BF16>, a, a->heads, 5 * TILE * D * 2);
}

template <int D, bool BF16>
static hil_status run_backward(hil_device *device, const hil_cuda_attention *a)
{
    size_t shared = 6 * TILE * D * 2;
    if (a->dq.data) HIL_TRY(launch(device, differentiate<D, BF16, false>, a, a->heads, shared));
    if (a->dk.data || a->dv.data)
        HIL_TRY(launch(device, differentiate<D, BF16, true>, a, a->groups, shared));
    return HIL_OK;
}

hil_status hil_attention_tiles_forward(hil_device *device, const hil_cuda_attention *a)
{
    bool bf16 = a->q.dtype == HIL_BF16;
    if (a->dim <= 64)
        return bf16 ? run_forward<64, true>(device, a) : run_forward<64, false>(device, a);
    return bf16 ? run_forward<128, true>(device, a) : run_forward<128, false>(device, a);
}

hil_status hil_attention_tiles_backward(hil_device *device, const hil_cuda_attention *a)
{
    bool bf16 = a->q.dtype == HIL_BF16;
    HIL_TRY(hil_attention_delta(device, a));
    if (a->dim <= 64)
        return bf16 ? run_backward<64, true>(device, a) : run_backward<64, false>(device, a);
    return bf16 ? run_backward<128, true>(device, a) : run_backward<128, false>(device, a);
}
