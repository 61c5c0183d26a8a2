/* route.cu - chooses the experts of each token and sorts the choices by expert. */
#include "ops/cuda_columns.h"

#define THREADS 256
#define WARPS (THREADS / 32)
#define PIECE 2048 /* choices in shared memory at a time */
#define FULL 0xffffffffu

/* Rows are tokens, in blocks whose choices are counted together. */
typedef struct sizes {
    int64_t rows, experts, chosen;
    hil_columns blocks;
} sizes;

static sizes measure(const hil_op_call *call)
{
    const hil_route_attr *attr = (const hil_route_attr *)call->attr;
    int64_t rows = hil_shape_rows(&call->in[0].shape);
    int64_t experts = hil_shape_cols(&call->in[0].shape);
    return {rows, experts, attr->chosen, hil_columns_of(rows, experts)};
}

/* Scratch: of each block of rows the sums of probabilities, and the choices of each expert. */
static hil_status infer(hil_op_call *call)
{
    sizes s = measure(call);
    hil_scratch_add(&call->forward_scratch, s.blocks.blocks * s.experts, sizeof(float));
    hil_scratch_add(&call->forward_scratch, s.blocks.blocks * s.experts, sizeof(int32_t));
    return HIL_OK;
}

static __device__ inline float warp_max(float x)
{
    for (int step = 16; step; step /= 2) x = fmaxf(x, __shfl_xor_sync(FULL, x, step));
    return x;
}

static __device__ inline float warp_sum(float x)
{
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(FULL, x, step);
    return x;
}

static __device__ inline uint64_t warp_most(uint64_t x)
{
    for (int step = 16; step; step /= 2) {
        uint64_t other = __shfl_xor_sync(FULL, x, step);
        x = other > x ? other : x;
    }
    return x;
}

/* p = softmax of a row's logits. A warp's work; each lane has runs of HIL_WIDE experts. */
static __device__ inline void find_probabilities(const hil_view logits, float *p, int64_t row,
                                                 int64_t experts)
{
    hil_view to = {p, HIL_F32};
    int first = (int)(threadIdx.x % 32) * HIL_WIDE;
    float most = -INFINITY, sum = 0, x[HIL_WIDE];
    for (int64_t e = first; e < experts; e += 32 * HIL_WIDE) {
        int n = hil_wide_count(experts - e);
        hil_wide_read(hil_wide_load(logits, row * experts + e, n), logits.dtype, x);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) most = fmaxf(most, i < n ? x[i] : -INFINITY);
    }
    most = warp_max(most);
    for (int64_t e = first; e < experts; e += 32 * HIL_WIDE) {
        int n = hil_wide_count(experts - e);
        hil_wide_read(hil_wide_load(logits, row * experts + e, n), logits.dtype, x);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) sum += x[i] = i < n ? expf(x[i] - most) : 0;
        hil_wide_store(to, e, n, x);
    }
    float scale = 1 / warp_sum(sum);
    for (int64_t e = first; e < experts; e += 32 * HIL_WIDE) {
        int n = hil_wide_count(experts - e);
        hil_wide_read(hil_wide_load(to, e, n), HIL_F32, x);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) x[i] *= scale;
        hil_wide_store(to, e, n, x);
    }
}

/* The same with the sigmoids of logits. */
static __device__ inline void find_sigmoids(const hil_view logits, float *p, int64_t row,
                                            int64_t experts)
{
    hil_view to = {p, HIL_F32};
    for (int64_t e = (threadIdx.x % 32) * HIL_WIDE; e < experts; e += 32 * HIL_WIDE) {
        int n = hil_wide_count(experts - e);
        float x[HIL_WIDE];
        hil_wide_read(hil_wide_load(logits, row * experts + e, n), logits.dtype, x);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) x[i] = 1 / (1 + expf(-x[i]));
        hil_wide_store(to, e, n, x);
    }
}

/* The numbers by which the experts of a row are compared. */
typedef struct comparing {
    const float *p;
    hil_view logits; /* in place of p, from `at` on; without data: they are not */
    int64_t at;
    hil_view bias; /* without data: none */
    int64_t size;  /* of a group of experts */
    uint64_t kept; /* a bit for each group */
} comparing;

static __device__ inline float compared(const comparing &c, int64_t e)
{
    float x[HIL_WIDE], by = c.p[e];
    if (c.logits.data) {
        hil_wide_read(hil_wide_load(c.logits, c.at + e, 1), c.logits.dtype, x);
        by = x[0];
    }
    if (!c.bias.data) return by;
    hil_wide_read(hil_wide_load(c.bias, e, 1), c.bias.dtype, x);
    return by + x[0];
}

/* Larger for larger numbers, of equal ones for those in front; 0 for what is no number (NaN). */
static __device__ inline uint64_t key_of(float x, int64_t index)
{
    uint32_t bits = __float_as_uint(x);
    uint32_t high = isnan(x) ? 0 : bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)high << 32 | (0xffffffffu - (uint32_t)index);
}

/* The best of the experts [begin, end) in the groups that are kept after the last one chosen, as
   its key. `last` is 0 before the first. */
static __device__ inline uint64_t next_best(const comparing &c, int64_t begin, int64_t end,
                                            uint64_t last)
{
    uint64_t best = 0;
    int first = (int)(threadIdx.x % 32) * HIL_WIDE;
    for (int64_t e = begin + first; e < end; e += 32 * HIL_WIDE)
        for (int i = 0; i < HIL_WIDE && e + i < end; ++i) {
            if (!(c.kept >> (e + i) / c.size & 1)) continue;
            uint64_t key = key_of(compared(c, e + i), e + i);
            if ((last == 0 || key < last) && key > best) best = key;
        }
    return warp_most(best);
}

static __device__ inline uint32_t expert_of(uint64_t key)
{
    return 0xffffffffu - (uint32_t)key;
}

typedef struct choosing {
    sizes s;
    hil_view logits;
    float *p, *weight;
    hil_view bias; /* without data: none */
    int32_t *chosen;
    hil_route_attr attr;
} choosing;

/* The best groups of experts, as bits; `key` has room for those of all. All lanes get the same. */
static __device__ inline uint64_t find_groups(const choosing &c, comparing all, uint64_t *key)
{
    for (int64_t g = 0; g < c.attr.groups; ++g) {
        int64_t begin = g * all.size, end = begin + all.size;
        uint64_t best = next_best(all, begin, end, 0);
        float score = compared(all, expert_of(best));
        if (c.attr.pairs) score += compared(all, expert_of(next_best(all, begin, end, best)));
        if (threadIdx.x % 32 == 0) key[g] = key_of(score, g);
    }
    __syncwarp();
    uint64_t kept = 0, last = 0;
    for (int64_t j = 0; j < c.attr.groups_chosen; ++j) {
        uint64_t best = 0;
        for (int64_t g = 0; g < c.attr.groups; ++g)
            if ((last == 0 || key[g] < last) && key[g] > best) best = key[g];
        last = best;
        kept |= (uint64_t)1 << expert_of(best);
    }
    return kept;
}

/* What the chosen probabilities are divided by. */
static __device__ inline float divisor(const hil_route_attr &attr, float sum)
{
    return attr.sigmoid ? sum + (attr.eps > 0 ? (float)attr.eps : 1e-20f) : sum;
}

static __device__ inline float factor_of(const hil_route_attr &attr)
{
    return attr.scale > 0 ? (float)attr.scale : 1;
}

/* A warp per row. */
static __global__ void __launch_bounds__(THREADS) choose(const choosing c)
{
    __shared__ uint64_t group_keys[WARPS][HIL_ROUTE_GROUPS];
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= c.s.rows) return;
    int lane = threadIdx.x % 32;
    float *p = c.p + row * c.s.experts, *weight = c.weight + row * c.s.chosen, sum = 0;
    if (c.attr.sigmoid)
        find_sigmoids(c.logits, p, row, c.s.experts);
    else
        find_probabilities(c.logits, p, row, c.s.experts);
    __syncwarp();
    comparing by = {p, {}, row * c.s.experts, c.bias, c.s.experts, ~(uint64_t)0};
    if (c.attr.by_logits) by.logits = c.logits;
    if (c.attr.groups) {
        by.size = c.s.experts / c.attr.groups;
        by.kept = find_groups(c, by, group_keys[threadIdx.x / 32]);
    }
    uint64_t last = 0;
    for (int64_t j = 0; j < c.s.chosen; ++j) {
        last = next_best(by, 0, c.s.experts, last);
        uint32_t e = expert_of(last);
        sum += p[e];
        if (lane) continue;
        weight[j] = p[e];
        c.chosen[row * c.s.chosen + j] = (int32_t)e;
    }
    __syncwarp();
    for (int64_t j = lane; j < c.s.chosen; j += 32) {
        float each = c.attr.normalized ? weight[j] / divisor(c.attr, sum) : weight[j];
        weight[j] = each * factor_of(c.attr);
    }
}

typedef struct sorting {
    sizes s;
    const int32_t *chosen;
    int32_t *count; /* of blocks and experts; then where the choices of each begin */
    int32_t *place, *begin;
    const float *before; /* use of the layers before, or NULL */
    float *use;
} sorting;

/* A block of rows: each thread looks for the choices of its experts, in the order of tokens. */
template <bool PLACE> static __global__ void __launch_bounds__(THREADS) sort(const sorting j)
{
    __shared__ int32_t piece[PIECE];
    int64_t first = blockIdx.x * j.s.blocks.block_rows * j.s.chosen, all = j.s.rows * j.s.chosen;
    int64_t end = first + j.s.blocks.block_rows * j.s.chosen;
    if (end > all) end = all;
    int64_t expert = (int64_t)blockIdx.y * THREADS + threadIdx.x;
    int32_t *count = j.count + blockIdx.x * j.s.experts + expert;
    int32_t at = PLACE && expert < j.s.experts ? *count + j.begin[expert] : 0;
    for (int64_t from = first; from < end; from += PIECE) {
        int n = (int)(end - from < PIECE ? end - from : PIECE);
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += THREADS) piece[i] = j.chosen[from + i];
        __syncthreads();
        for (int i = 0; i < n; ++i)
            if (piece[i] == expert) {
                if (PLACE) j.place[from + i] = at;
                ++at;
            }
    }
    if (!PLACE && expert < j.s.experts) *count = at;
}

/* Turns the counts of blocks into where each block's choices of an expert begin among all of them,
   and finds where those of each expert begin. One block of threads. */
static __global__ void __launch_bounds__(THREADS) find_begins(const sorting j)
{
    for (int64_t e = threadIdx.x; e < j.s.experts; e += THREADS) {
        int32_t all = 0;
#pragma unroll 8
        for (int64_t b = 0; b < j.s.blocks.blocks; ++b) {
            int32_t *at = j.count + b * j.s.experts + e, own = *at;
            *at = all;
            all += own;
        }
        j.begin[e + 1] = all;
        j.use[e] = (float)all + (j.before ? j.before[e] : 0);
        j.use[j.s.experts + e] = j.before ? j.before[j.s.experts + e] : 0;
    }
    __syncthreads();
    if (threadIdx.x) return;
    int32_t sum = 0;
    j.begin[0] = 0;
    for (int64_t e = 1; e <= j.s.experts; ++e) j.begin[e] = sum += j.begin[e];
}

static hil_status sort_choices(const hil_op_call *call, const sizes &s, int32_t *count)
{
    cudaStream_t on = hil_cuda_stream(call->device, HIL_STREAM_COMPUTE);
    sorting j = {s,
                 (const int32_t *)call->saved[1].data,
                 count,
                 (int32_t *)call->out[1].data,
                 (int32_t *)call->out[2].data,
                 call->ins == 2 ? (const float *)call->in[1].data : NULL,
                 (float *)call->out[3].data};
    dim3 grid((unsigned)s.blocks.blocks, hil_blocks(s.experts, THREADS));
    if (s.rows) sort<false><<<grid, THREADS, 0, on>>>(j);
    find_begins<<<1, THREADS, 0, on>>>(j);
    if (s.rows) sort<true><<<grid, THREADS, 0, on>>>(j);
    return hil_cuda_launched(call->device, "sort choices");
}

static hil_status choose_all(const hil_op_call *call, const sizes &s)
{
    choosing c = {s,
                  hil_view_of(&call->in[0]),
                  (float *)call->saved[0].data,
                  (float *)call->out[0].data,
                  {},
                  (int32_t *)call->saved[1].data,
                  *(const hil_route_attr *)call->attr};
    const void *bias = NULL;
    if (call->params) HIL_TRY(call->source->weight_begin(call->owner, 0, 0, &bias));
    c.bias = {(void *)(uintptr_t)bias, call->param[0].dtype};
    if (s.rows)
        choose<<<hil_blocks(s.rows, WARPS), THREADS, 0,
                 hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(c);
    hil_status status = hil_cuda_launched(call->device, "route");
    if (call->params) call->source->weight_end(call->owner, 0, 0);
    return status;
}

static hil_status forward(hil_op_call *call)
{
    sizes s = measure(call);
    HIL_TRY(choose_all(call, s));
    size_t at = 0;
    float *partial = (float *)call->scratch;
    hil_scratch_add(&at, s.blocks.blocks * s.experts, sizeof(float));
    HIL_TRY(sort_choices(call, s, (int32_t *)hil_scratch_at(call, at)));
    HIL_TRY(hil_columns_run<false>(
        call->device, partial, {"sums of probabilities", hil_view_of(&call->saved[0])}, s.blocks));
    return hil_op_cuda_gather(call->device, {(float *)call->out[3].data + s.experts, partial,
                                             s.blocks.blocks, s.experts, true});
}

typedef struct going_back {
    sizes s;
    const float *p, *each; /* each: gradients of the sums of probabilities, or NULL */
    const int32_t *chosen;
    hil_view dweight, dlogits;
    hil_route_attr attr;
    bool add;
} going_back;

/* The gradients of the chosen probabilities that come from the weights, in shared memory. All lanes
   compute the same. Returns the sum of p times them. */
static __device__ inline float find_own(const going_back &g, const float *p, int64_t row,
                                        const int32_t *chosen, float *own)
{
    float sum = 0, along = 0, total = 0;
    int lane = threadIdx.x % 32;
    for (int64_t j = lane; j < g.s.chosen; j += 32) {
        float x[HIL_WIDE] = {};
        if (g.dweight.data)
            hil_wide_read(hil_wide_load(g.dweight, row * g.s.chosen + j, 1), g.dweight.dtype, x);
        own[j] = x[0] * factor_of(g.attr);
    }
    __syncwarp();
    for (int64_t j = 0; j < g.s.chosen; ++j) {
        sum += p[chosen[j]];
        along += own[j] * p[chosen[j]];
    }
    sum = divisor(g.attr, sum);
    __syncwarp();
    for (int64_t j = lane; j < g.s.chosen && g.attr.normalized; j += 32)
        own[j] = (own[j] - along / sum) / sum;
    __syncwarp();
    for (int64_t j = 0; j < g.s.chosen; ++j) total += p[chosen[j]] * own[j];
    return total;
}

/* With q the gradients of the probabilities, that of logit e is p[e] * (q[e] - sum of p * q), or
   p[e] * (1 - p[e]) * q[e] with sigmoids. A warp per row. */
static __global__ void __launch_bounds__(THREADS) back_rows(const going_back g)
{
    __shared__ float all_own[WARPS][HIL_ROUTE_CHOSEN];
    __shared__ int32_t all_chosen[WARPS][HIL_ROUTE_CHOSEN];
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= g.s.rows) return;
    float *own = all_own[threadIdx.x / 32];
    int32_t *chosen = all_chosen[threadIdx.x / 32];
    int lane = threadIdx.x % 32;
    const float *p = g.p + row * g.s.experts;
    for (int64_t j = lane; j < g.s.chosen; j += 32) chosen[j] = g.chosen[row * g.s.chosen + j];
    __syncwarp();
    float total = find_own(g, p, row, chosen, own), rest = 0;
    for (int64_t e = lane; e < g.s.experts && g.each; e += 32) rest += p[e] * g.each[e];
    if (g.each) total += warp_sum(rest);
    for (int64_t e = lane * HIL_WIDE; e < g.s.experts; e += 32 * HIL_WIDE) {
        int n = hil_wide_count(g.s.experts - e);
        float dx[HIL_WIDE];
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            if (i >= n) continue;
            float q = g.each ? g.each[e + i] : 0;
            for (int64_t j = 0; j < g.s.chosen; ++j)
                if (chosen[j] == e + i) q += own[j];
            dx[i] = p[e + i] * (g.attr.sigmoid ? (1 - p[e + i]) * q : q - total);
        }
        hil_wide_write(g.dlogits, row * g.s.experts + e, n, dx, g.add);
    }
}

/* The use of the layers before gets the gradient of this one's. */
static hil_status pass_use(const hil_op_call *call)
{
    if (call->dout[3].data)
        return hil_op_cuda_convert(call->device, &call->din[1], &call->dout[3], call->din_add[1]);
    if (call->din_add[1]) return HIL_OK;
    return hil_cuda_check(call->device,
                          cudaMemsetAsync(call->din[1].data, 0, hil_tensor_bytes(&call->din[1]),
                                          hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)),
                          "clear a gradient");
}

static hil_status backward(hil_op_call *call)
{
    sizes s = measure(call);
    const float *use = (const float *)call->dout[3].data;
    going_back g = {s,
                    (const float *)call->saved[0].data,
                    use ? use + s.experts : NULL,
                    (const int32_t *)call->saved[1].data,
                    hil_view_of(&call->dout[0]),
                    hil_view_of(&call->din[0]),
                    *(const hil_route_attr *)call->attr,
                    call->din_add[0]};
    if (call->din[0].data && s.rows)
        back_rows<<<hil_blocks(s.rows, WARPS), THREADS, 0,
                    hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(g);
    HIL_TRY(hil_cuda_launched(call->device, "route backward"));
    return call->ins == 2 && call->din[1].data ? pass_use(call) : HIL_OK;
}

const hil_op_kernel hil_cuda_route = {
    .op = &hil_op_route, .infer = infer, .forward = forward, .backward = backward};
