/* attention_plain.cu - attention in fp32 without tensor cores: the fallback, and the oracle for the
   faster implementations.

   [Note: plain attention] A warp owns ROWS queries (or keys, for their gradients) and loops over
   tiles of 32 keys (or queries) that its block holds in shared memory. A lane computes one column
   of the tile's scores, and then sums every 32nd number of the head. Each result is summed by its
   owner in the order of the tiles. Heads of more than 256 numbers have tiles of 16: there two lanes
   share a column, and the second has no part in sums over columns. */
#include "ops/attention/attention_cuda.h"

#define ROWS 4  /* of a warp */
#define WARPS 8 /* of a block, at most */
#define THREADS (32 * WARPS)
/* Vectors of a tile, where heads have up to 32 dims numbers. */
#define TILE_OF(dims) ((dims) > 8 ? 16 : 32)

/* `rows` consecutive vectors of one head, from `row` of x, whose rows are `stride` numbers apart.
 */
typedef struct strip {
    hil_view x;
    int64_t row, rows, stride, head, dim;
} strip;

/* Number d of vector r; zero where there is none. */
static __device__ inline float strip_number(const strip &s, int r, int d)
{
    if (r >= s.rows || d >= s.dim) return 0;
    int64_t at = (s.row + r) * s.stride + s.head * s.dim + d;
    if (s.x.dtype == HIL_F32) return ((const float *)s.x.data)[at];
    if (s.x.dtype == HIL_BF16) return hil_bf16_load(((const uint16_t *)s.x.data)[at]);
    return __half2float(((const __half *)s.x.data)[at]);
}

/* A tile of vectors, (tile, D + 1) so that lanes access different banks. */
template <int DIMS> static __device__ inline void load_tile(float *tile, const strip &s)
{
    constexpr int WHOLE = 32 * DIMS;
    for (int i = threadIdx.x; i < TILE_OF(DIMS) * WHOLE; i += blockDim.x)
        tile[i / WHOLE * (WHOLE + 1) + i % WHOLE] = strip_number(s, i / WHOLE, i % WHOLE);
}

/* Loads a warp's own vectors times `factor`, (D, ROWS): one load gives a number of all rows. */
template <int DIMS> static __device__ inline void load_own(float *own, const strip &s, float factor)
{
    constexpr int WHOLE = 32 * DIMS;
    for (int i = threadIdx.x % 32; i < WHOLE * ROWS; i += 32)
        own[i % WHOLE * ROWS + i / WHOLE] = strip_number(s, i / WHOLE, i % WHOLE) * factor;
}

static __device__ inline void store_number(const hil_view x, int64_t at, float value, bool add)
{
    if (x.dtype == HIL_F32) {
        float *to = (float *)x.data + at;
        *to = add ? *to + value : value;
    } else if (x.dtype == HIL_BF16) {
        __nv_bfloat16 *to = (__nv_bfloat16 *)x.data + at;
        *to = __float2bfloat16_rn(add ? __bfloat162float(*to) + value : value);
    } else {
        __half *to = (__half *)x.data + at;
        *to = __float2half_rn(add ? __half2float(*to) + value : value);
    }
}

/* The first key that the query at position past + t sees. */
static __device__ inline int64_t first_key(const hil_cuda_attention &a, int64_t b, int64_t t)
{
    int64_t from = a.documents ? a.first[b * a.queries + t] : 0, at = a.past + t;
    if (a.chunk > 0) from += (at - from) / a.chunk * a.chunk;
    return a.window > 0 && at - a.window + 1 > from ? at - a.window + 1 : from;
}

/* out[r] = own[r] . tile[column of the lane] */
template <int DIMS>
static __device__ inline void multiply(float out[ROWS], const float *own, const float *tile)
{
    constexpr int TILE = TILE_OF(DIMS), EACH = DIMS * TILE; /* numbers that a lane multiplies */
    int lane = threadIdx.x % 32, first = lane / TILE * EACH;
    const float *mine = tile + lane % TILE * (32 * DIMS + 1);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) out[r] = 0;
#pragma unroll 8
    for (int d = first; d < first + EACH; ++d) {
        float4 rows = *(const float4 *)(own + d * ROWS);
        float x = mine[d];
        out[0] = fmaf(rows.x, x, out[0]);
        out[1] = fmaf(rows.y, x, out[1]);
        out[2] = fmaf(rows.z, x, out[2]);
        out[3] = fmaf(rows.w, x, out[3]);
    }
#pragma unroll
    for (int r = 0; r < ROWS && TILE < 32; ++r)
        out[r] += __shfl_xor_sync(0xffffffffu, out[r], TILE % 32);
}

/* sum[r][i] += sum over columns c of weight[r] of lane c times tile[c][lane + 32 i] */
template <int DIMS>
static __device__ inline void accumulate(float sum[ROWS][DIMS], const float weight[ROWS],
                                         const float *tile)
{
    int lane = threadIdx.x % 32;
    for (int c = 0; c < TILE_OF(DIMS); ++c) {
        const float *column = tile + c * (32 * DIMS + 1) + lane;
        float w[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) w[r] = __shfl_sync(0xffffffffu, weight[r], c);
#pragma unroll
        for (int i = 0; i < DIMS; ++i) {
            float x = column[32 * i];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) sum[r][i] = fmaf(w[r], x, sum[r][i]);
        }
    }
}

static __device__ inline float warp_sum(float x)
{
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

static __device__ inline float warp_max(float x)
{
    for (int step = 16; step; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

/* A block's work: queries (or keys) of one head (or group) of one sequence. */
typedef struct place {
    int64_t b, head, first, end, row, rows; /* row, rows: the warp's own */
} place;

static __device__ inline int block_rows(void)
{
    return (int)blockDim.x / 32 * ROWS;
}

static __device__ inline place find_place(int64_t heads, int64_t length)
{
    hil_grid_block at = hil_grid_block_of((length + block_rows() - 1) / block_rows());
    place p = {.b = at.row / heads, .head = at.row % heads};
    p.first = at.block * block_rows();
    p.end = p.first + block_rows();
    p.row = p.first + threadIdx.x / 32 * ROWS;
    p.rows = length - p.row < ROWS ? length - p.row : ROWS;
    if (p.rows < 0) p.rows = 0;
    return p;
}

template <int DIMS>
static __global__ void __launch_bounds__(THREADS) attend(const hil_cuda_attention a)
{
    constexpr int WHOLE = 32 * DIMS, PITCH = WHOLE + 1, TILE = TILE_OF(DIMS);
    extern __shared__ float4 shared4[];
    float *keys = (float *)shared4 + block_rows() * WHOLE, *values = keys + TILE * PITCH;
    float *own = (float *)shared4 + threadIdx.x / 32 * ROWS * WHOLE;
    int lane = threadIdx.x % 32;
    place p = find_place(a.heads, a.queries);
    int64_t group = p.head / (a.heads / a.groups);
    load_own<DIMS>(own, {a.q, p.b * a.queries + p.row, p.rows, a.q_stride, p.head, a.dim}, a.scale);
    float most[ROWS], sum[ROWS], out[ROWS][DIMS] = {};
    int64_t from[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        most[r] = a.sinks.data ? hil_attention_sink(a, p.head) : -INFINITY;
        sum[r] = a.sinks.data ? 1 : 0; /* the sink's weight */
        from[r] = r < p.rows ? first_key(a, p.b, p.row + r) : 0;
    }
    int64_t last = p.end < a.queries ? p.end : a.queries;
    int64_t key = first_key(a, p.b, p.first) / TILE * TILE, end = a.past + last;
    for (; key < end; key += TILE) {
        int64_t count = end - key < TILE ? end - key : TILE;
        __syncthreads();
        load_tile<DIMS>(keys, {a.k, p.b * a.capacity + key, count, a.kv_stride, group, a.dim});
        load_tile<DIMS>(values, {a.v, p.b * a.capacity + key, count, a.kv_stride, group, a.dim});
        __syncthreads();
        float score[ROWS];
        multiply<DIMS>(score, own, keys);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            int64_t t = p.row + r, k = key + lane;
            bool seen = r < p.rows && k >= from[r] && k <= a.past + t && lane < TILE;
            if (a.cap > 0) score[r] = a.cap * tanhf(score[r] / a.cap);
            float top = fmaxf(most[r], warp_max(seen ? score[r] : -INFINITY));
            float w = seen ? expf(score[r] - top) : 0;
            float before = top == -INFINITY ? 1 : expf(most[r] - top);
            sum[r] = sum[r] * before + warp_sum(w);
            most[r] = top;
#pragma unroll
            for (int i = 0; i < DIMS; ++i) out[r][i] *= before;
            if (a.drops && seen) {
                int64_t length = a.past + a.queries;
                w *= hil_mask_cuda_factor(a.mask, p.b, (p.head * a.queries + t) * length + k);
            }
            score[r] = w;
        }
        accumulate<DIMS>(out, score, values);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        if (r >= p.rows) break;
        int64_t t = p.row + r;
        int64_t at = ((p.b * a.queries + t) * a.heads + p.head) * a.dim;
#pragma unroll
        for (int i = 0; i < DIMS; ++i)
            if (lane + 32 * i < a.dim)
                store_number(a.out, at + lane + 32 * i, out[r][i] / sum[r], false);
        if (a.lse && lane == 0)
            a.lse[(p.b * a.heads + p.head) * a.queries + t] = most[r] + logf(sum[r]);
    }
}

/* delta[t] = dout . out; a warp has one query of one head. */
static __global__ void __launch_bounds__(THREADS) project(const hil_cuda_attention a)
{
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; /* (B, T, H) */
    if (row >= a.batch * a.queries * a.heads) return;
    float sum = 0;
    for (int64_t d = threadIdx.x % 32 * HIL_WIDE; d < a.dim; d += 32 * HIL_WIDE) {
        int n = hil_wide_count(a.dim - d);
        float x[HIL_WIDE], y[HIL_WIDE];
        hil_wide_read(hil_wide_load(a.out, row * a.dim + d, n), a.out.dtype, x);
        hil_wide_read(hil_wide_load(a.dout, row * a.dim + d, n), a.dout.dtype, y);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) sum = fmaf(x[i], y[i], sum);
    }
    sum = warp_sum(sum);
    int64_t head = row % a.heads, t = row / a.heads % a.queries, b = row / a.heads / a.queries;
    if (threadIdx.x % 32 == 0) a.delta[(b * a.heads + head) * a.queries + t] = sum;
}

/* A query of one head of one sequence, and a key. */
typedef struct pair {
    int64_t b, head, query, key;
} pair;

/* A probability and its score's gradient. With dropout, p then is the factor of the value. */
static __device__ inline void weigh(const hil_cuda_attention &a, const pair &i, float *p, float *ds)
{
    int64_t at = (i.b * a.heads + i.head) * a.queries + i.query;
    float bounded = a.cap > 0 ? tanhf(*p / a.cap) : 0;
    float factor = 1, probability = expf((a.cap > 0 ? a.cap * bounded : *p) - a.lse[at]);
    if (a.drops)
        factor =
            hil_mask_cuda_factor(a.mask, i.b, (i.head * a.queries + i.query) * a.queries + i.key);
    *ds = probability * (*ds * factor - a.delta[at]) * (1 - bounded * bounded);
    *p = probability * factor;
}

template <int DIMS>
static __global__ void __launch_bounds__(THREADS) back_queries(const hil_cuda_attention a)
{
    constexpr int WHOLE = 32 * DIMS, PITCH = WHOLE + 1, TILE = TILE_OF(DIMS);
    extern __shared__ float4 shared4[];
    float *keys = (float *)shared4 + 2 * block_rows() * WHOLE, *values = keys + TILE * PITCH;
    float *own_q = (float *)shared4 + threadIdx.x / 32 * 2 * ROWS * WHOLE;
    float *own_dout = own_q + ROWS * WHOLE;
    int lane = threadIdx.x % 32;
    place p = find_place(a.heads, a.queries);
    int64_t group = p.head / (a.heads / a.groups), row = p.b * a.queries + p.row;
    load_own<DIMS>(own_q, {a.q, row, p.rows, a.q_stride, p.head, a.dim}, a.scale);
    load_own<DIMS>(own_dout, {a.dout, row, p.rows, a.heads * a.dim, p.head, a.dim}, 1);
    float dq[ROWS][DIMS] = {};
    int64_t last = p.end < a.queries ? p.end : a.queries;
    for (int64_t key = first_key(a, p.b, p.first) / TILE * TILE; key < last; key += TILE) {
        int64_t count = last - key < TILE ? last - key : TILE;
        __syncthreads();
        load_tile<DIMS>(keys, {a.k, p.b * a.queries + key, count, a.kv_stride, group, a.dim});
        load_tile<DIMS>(values, {a.v, p.b * a.queries + key, count, a.kv_stride, group, a.dim});
        __syncthreads();
        float score[ROWS], ds[ROWS];
        multiply<DIMS>(score, own_q, keys);
        multiply<DIMS>(ds, own_dout, values);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            int64_t t = p.row + r, k = key + lane;
            if (r < p.rows && lane < TILE && k <= t && k >= first_key(a, p.b, t))
                weigh(a, {p.b, p.head, t, k}, &score[r], &ds[r]);
            else
                ds[r] = 0;
        }
        accumulate<DIMS>(dq, ds, keys);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        if (r >= p.rows) break;
        int64_t at = (row + r) * a.q_stride + p.head * a.dim;
#pragma unroll
        for (int i = 0; i < DIMS; ++i)
            if (lane + 32 * i < a.dim)
                store_number(a.dq, at + lane + 32 * i, dq[r][i] * a.scale, a.add_dq);
    }
}

/* The gradients of keys and values, over all heads of their group. */
template <int DIMS>
static __global__ void __launch_bounds__(THREADS) back_keys(const hil_cuda_attention a)
{
    constexpr int WHOLE = 32 * DIMS, PITCH = WHOLE + 1, TILE = TILE_OF(DIMS);
    extern __shared__ float4 shared4[];
    float *queries = (float *)shared4 + 2 * block_rows() * WHOLE, *douts = queries + TILE * PITCH;
    float *own_k = (float *)shared4 + threadIdx.x / 32 * 2 * ROWS * WHOLE;
    float *own_v = own_k + ROWS * WHOLE;
    int lane = threadIdx.x % 32;
    place p = find_place(a.groups, a.queries);
    int64_t share = a.heads / a.groups, row = p.b * a.queries + p.row;
    load_own<DIMS>(own_k, {a.k, row, p.rows, a.kv_stride, p.head, a.dim}, a.scale);
    load_own<DIMS>(own_v, {a.v, row, p.rows, a.kv_stride, p.head, a.dim}, 1);
    float dk[ROWS][DIMS] = {}, dv[ROWS][DIMS] = {};
    for (int64_t head = p.head * share; head < (p.head + 1) * share; ++head)
        for (int64_t query = p.first; query < a.queries; query += TILE) {
            if (first_key(a, p.b, query) >= p.end) break;
            int64_t count = a.queries - query < TILE ? a.queries - query : TILE;
            __syncthreads();
            load_tile<DIMS>(queries,
                            {a.q, p.b * a.queries + query, count, a.q_stride, head, a.dim});
            load_tile<DIMS>(douts,
                            {a.dout, p.b * a.queries + query, count, a.heads * a.dim, head, a.dim});
            __syncthreads();
            float score[ROWS], ds[ROWS];
            multiply<DIMS>(score, own_k, queries);
            multiply<DIMS>(ds, own_v, douts);
            int64_t t = query + lane;
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                int64_t k = p.row + r;
                if (r < p.rows && lane < count && k <= t && k >= first_key(a, p.b, t))
                    weigh(a, {p.b, head, t, k}, &score[r], &ds[r]);
                else
                    score[r] = ds[r] = 0;
            }
            accumulate<DIMS>(dv, score, douts);
            accumulate<DIMS>(dk, ds, queries);
        }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        if (r >= p.rows) break;
        int64_t at = (row + r) * a.kv_stride + p.head * a.dim;
#pragma unroll
        for (int i = 0; i < DIMS; ++i) {
            if (lane + 32 * i >= a.dim) continue;
            if (a.dk.data) store_number(a.dk, at + lane + 32 * i, dk[r][i] * a.scale, a.add_dk);
            if (a.dv.data) store_number(a.dv, at + lane + 32 * i, dv[r][i], a.add_dv);
        }
    }
}

typedef void kernel(hil_cuda_attention a);

/* Which of the kernels for heads of up to 64, 128, 256 and 512 numbers. */
static int size_of(int64_t dim)
{
    int size = 0;
    while (64 << size < dim) ++size;
    return size;
}
static_assert(HIL_PLAIN_DIM == 512, "the longest heads of the kernels");

/* A kernel over blocks of rows of all heads, with `own` vectors of each row and two tiles: in the
   shared memory that every GPU has, 99 KiB, long heads leave room for fewer rows. */
static hil_status launch(hil_device *device, kernel *const by_size[4], const hil_cuda_attention &a,
                         int64_t heads, int own)
{
    int size = size_of(a.dim), whole = 64 << size, warps = WARPS;
    while (own * whole * warps > 256 * WARPS) warps /= 2;
    int rows = ROWS * warps;
    size_t shared =
        (size_t)(own * rows * whole + 2 * TILE_OF(whole / 32) * (whole + 1)) * sizeof(float);
    kernel *run = by_size[size];
    HIL_TRY(hil_cuda_check(device,
                           cudaFuncSetAttribute((const void *)run,
                                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                (int)shared),
                           "reserve shared memory"));
    unsigned blocks = hil_blocks(a.queries, rows) * (unsigned)(a.batch * heads);
    run<<<blocks, rows / ROWS * 32, shared, hil_cuda_of(device)->stream>>>(a);
    return hil_cuda_launched(device, "attention");
}

static bool is_empty(const hil_cuda_attention *a)
{
    return a->batch * a->queries * a->heads == 0;
}

hil_status hil_attention_plain_forward(hil_device *device, const hil_cuda_attention *a)
{
    static kernel *const kernels[] = {attend<2>, attend<4>, attend<8>, attend<16>};
    return is_empty(a) ? HIL_OK : launch(device, kernels, *a, a->heads, 1);
}

hil_status hil_attention_delta(hil_device *device, const hil_cuda_attention *a)
{
    project<<<hil_blocks(a->batch * a->queries * a->heads, WARPS), THREADS, 0,
              hil_cuda_of(device)->stream>>>(*a);
    return hil_cuda_launched(device, "attention backward");
}

hil_status hil_attention_plain_backward(hil_device *device, const hil_cuda_attention *a)
{
    static kernel *const queries[] = {back_queries<2>, back_queries<4>, back_queries<8>,
                                      back_queries<16>};
    static kernel *const keys[] = {back_keys<2>, back_keys<4>, back_keys<8>, back_keys<16>};
    if (is_empty(a)) return HIL_OK;
    HIL_TRY(hil_attention_delta(device, a));
    if (a->dq.data) HIL_TRY(launch(device, queries, *a, a->heads, 2));
    if (a->dk.data || a->dv.data) HIL_TRY(launch(device, keys, *a, a->groups, 2));
    return HIL_OK;
}
