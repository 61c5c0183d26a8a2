/* attention_hopper.cu - attention's backward for GPUs of compute capability 9.0 in one pass.

   [Note: sums in any order] A block of threads owns KEYS keys and loops over the queries that have
   them in their mask. It sums the gradients of its keys and values in registers. Several blocks add
   to the gradient of the same query in device memory; these sums are integers, so their order does
   not matter. |dq_id| is at most 2 |dout_i| max_j |v_j| max_j |k_jd|, because the weights of a
   query add up to one: this bound, rounded up to a power of two for each query i and dimension d,
   is represented by 2^29. Rounding to integers loses far less than the 16 bits of a score's
   gradient. */
#include "ops/attention/attention_hopper.h"
#include "ops/attention/attention_hopper_kernel.h"

#define CHUNK_BLOCKS 264 /* about twice what a GPU runs */
#define QUERIES_LEAST 512
#define BLOCKS_LEAST 128

/* Finds the largest |v|^2 and |k_d| of a sequence and a group. One thread per run of HIL_WIDE
   numbers of a head processes a token. */
template <int D> static __global__ void __launch_bounds__(THREADS) find_most(const job j)
{
    constexpr int WIDTH = D / HIL_WIDE, TOKENS = THREADS / WIDTH;
    __shared__ unsigned most[1 + D];
    for (int i = threadIdx.x; i <= D; i += THREADS) most[i] = 0;
    __syncthreads();
    hil_grid_block block = hil_grid_block_of(j.k_tiles);
    int64_t b = block.row / j.groups, group = block.row % j.groups;
    int lane = threadIdx.x % WIDTH;
    unsigned k_most[HIL_WIDE] = {}, v_most = 0;
#pragma unroll 4
    for (int i = 0; i < KEYS / TOKENS; ++i) {
        int64_t at = block.block * KEYS + i * TOKENS + threadIdx.x / WIDTH;
        int n = at < j.tokens ? HIL_WIDE : 0;
        int64_t place = (b * j.tokens + at) * j.kv_stride + group * D + lane * HIL_WIDE;
        float k[HIL_WIDE], v[HIL_WIDE], sum = 0;
        hil_wide_read(hil_wide_load({(void *)j.k, HIL_BF16}, place, n), HIL_BF16, k);
        hil_wide_read(hil_wide_load({(void *)j.v, HIL_BF16}, place, n), HIL_BF16, v);
#pragma unroll
        for (int e = 0; e < HIL_WIDE; ++e) {
            k_most[e] = max(k_most[e], __float_as_uint(k[e]) & 0x7fffffffu);
            sum += v[e] * v[e];
        }
        for (int step = WIDTH / 2; step; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        v_most = max(v_most, __float_as_uint(sum) & 0x7fffffffu);
    }
    atomicMax(&most[0], v_most);
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) atomicMax(&most[1 + lane * HIL_WIDE + i], k_most[i]);
    __syncthreads();
    for (int i = threadIdx.x; i <= D; i += THREADS)
        atomicMax(&j.most[block.row * (1 + D) + i], most[i]);
}

/* Computes the numbers of each query of a tile: see ROW_NUMBERS. After the last token weights
   become 0. */
template <int D> static __global__ void __launch_bounds__(THREADS) make_rows(const job j)
{
    typedef sizes<D> S;
    constexpr int WIDTH = D / HIL_WIDE, TOKENS = THREADS / WIDTH, PASSES = S::QUERIES / TOKENS;
    __shared__ float made[ROW_NUMBERS][S::QUERIES];
    int64_t place = blockIdx.x, b = place / j.q_tiles / j.heads;
    int head = (int)(place / j.q_tiles % j.heads), group = head / (j.heads / j.groups);
    int lane = threadIdx.x % WIDTH, first = (int)(place % j.q_tiles) * S::QUERIES;
    float v_most = sqrtf(__uint_as_float(j.most[(b * j.groups + group) * (1 + D)]));
    hil_wide x[PASSES], dx[PASSES];
#pragma unroll
    for (int i = 0; i < PASSES; ++i) {
        int64_t token = first + i * TOKENS + threadIdx.x / WIDTH;
        int n = token < j.tokens ? HIL_WIDE : 0;
        int64_t at = ((b * j.tokens + token) * j.heads + head) * D + lane * HIL_WIDE;
        x[i] = hil_wide_load({(void *)j.out, HIL_BF16}, at, n);
        dx[i] = hil_wide_load({(void *)j.dout, HIL_BF16}, at, n);
    }
#pragma unroll
    for (int i = 0; i < PASSES; ++i) {
        float y[HIL_WIDE], dy[HIL_WIDE], delta = 0, square = 0;
        int row = i * TOKENS + (int)threadIdx.x / WIDTH;
        hil_wide_read(x[i], HIL_BF16, y);
        hil_wide_read(dx[i], HIL_BF16, dy);
#pragma unroll
        for (int e = 0; e < HIL_WIDE; ++e) {
            delta += dy[e] * y[e];
            square += dy[e] * dy[e];
        }
        for (int step = WIDTH / 2; step; step /= 2) {
            delta += __shfl_xor_sync(0xffffffffu, delta, step);
            square += __shfl_xor_sync(0xffffffffu, square, step);
        }
        if (lane) continue;
        float bound = 2 * sqrtf(square) * v_most;
        bool there = first + row < j.tokens, finite = bound < INFINITY;
        int64_t at = (b * j.heads + head) * j.tokens + first + row;
        made[0][row] = there ? j.lse[at] * LOG2E : INFINITY;
        made[1][row] = delta;
        made[2][row] = finite ? power(WORTH - KEY_BITS - exponent_above(bound, -100, 100)) : NAN;
    }
    __syncthreads();
    float *to = j.rows + place * ROW_NUMBERS * S::QUERIES;
    for (int i = threadIdx.x; i < ROW_NUMBERS * S::QUERIES; i += THREADS) to[i] = made[0][i];
}

/* dq = the sums as bf16. */
template <int D> static __global__ void __launch_bounds__(THREADS) finish_queries(const job j)
{
    typedef sizes<D> S;
    int64_t place = blockIdx.x;
    int tile = (int)(place % j.q_tiles), head = (int)(place / j.q_tiles % j.heads);
    int64_t b = place / j.q_tiles / j.heads;
    const spot s = find_spot();
    int row = s.row + (D == 64 ? s.team * 64 : 0), col = s.col + (D == 64 ? 0 : s.team * 64);
    const int4 *sums =
        (const int4 *)(j.sums + place * (S::QUERIES * D)) + s.team * 8 * TEAM + threadIdx.x % TEAM;
    const float *rows = j.rows + (place * ROW_NUMBERS + 2) * S::QUERIES;
    int group = head / (j.heads / j.groups);
    const unsigned *most = j.most + (b * j.groups + group) * (1 + D) + 1;
    int4 sum[8];
    float2 units[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        sum[i] = sums[i * TEAM];
        units[i] = {power(key_bits(most[col + i * 8])), power(key_bits(most[col + i * 8 + 1]))};
    }
#pragma unroll
    for (int low = 0; low < 2; ++low) {
        int64_t token = (int64_t)tile * S::QUERIES + row + 8 * low;
        if (token >= j.tokens) continue;
        float unit = j.scale / rows[row + 8 * low];
        __nv_bfloat16 *to = j.dq + (b * j.tokens + token) * j.q_stride + head * D + col;
#pragma unroll
        for (int i = 0; i < 32; i += 4) {
            int4 four = sum[i / 4];
            float x = (float)(low ? four.z : four.x) * unit,
                  y = (float)(low ? four.w : four.y) * unit;
            *(uint32_t *)(to + i * 2) = pack(x * units[i / 4].x, y * units[i / 4].y);
        }
    }
}

/* Refuses sequences with too few blocks of threads, which would leave multiprocessors idle, and
   short ones, in which each block has little to do. */
bool hil_attention_hopper_can(const hil_device *device, const hil_cuda_attention *a)
{
    int major = 0, minor = 0, index = hil_cuda_of(device)->index;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
    int64_t blocks = a->batch * a->groups * ((a->queries + KEYS - 1) / KEYS);
    bool windowed = a->window > 0 && a->window < a->queries;
    return major == 9 && minor == 0 && a->q.dtype == HIL_BF16 && !a->drops && !a->past &&
           !a->documents && !windowed && (a->dim == 64 || a->dim == 128) &&
           a->q_stride % HIL_WIDE == 0 && a->kv_stride % HIL_WIDE == 0 &&
           a->queries >= QUERIES_LEAST && blocks >= BLOCKS_LEAST && blocks <= INT32_MAX;
}

/* Scratch: sums and largest numbers, which begin as zeros, then rows. */
typedef struct areas {
    size_t zeros, most, rows, all;
} areas;

static areas areas_of(const hil_cuda_attention *a)
{
    int64_t each = a->dim == 64 ? sizes<64>::QUERIES : sizes<128>::QUERIES;
    size_t padded = (size_t)((a->queries + each - 1) / each * each);
    size_t heads = (size_t)(a->batch * a->heads), numbers = heads * padded;
    areas s;
    s.most = numbers * (size_t)a->dim * sizeof(int);
    s.zeros = s.most + (size_t)(a->batch * a->groups * (1 + a->dim)) * sizeof(unsigned);
    s.rows = (s.zeros + 255) & ~(size_t)255;
    s.all = s.rows + numbers * ROW_NUMBERS * sizeof(float);
    return s;
}

size_t hil_attention_hopper_scratch(const hil_cuda_attention *a)
{
    return areas_of(a).all;
}

hil_status hil_op_cuda_find_encode(const hil_device *device, encode_map *out)
{
    void *found = NULL;
    cudaDriverEntryPointQueryResult result;
    HIL_TRY(hil_cuda_check(device,
                           cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                                            cudaEnableDefault, &result),
                           "find the driver's tensor maps"));
    *out = (encode_map)found;
    if (found) return HIL_OK;
    return hil_fail(HIL_ERR_IO, "the driver has no tensor maps: install driver 525 or newer");
}

/* x: (B, T, heads, D) with `stride` numbers from one T to the next, in tiles of `rows`. */
typedef struct layout {
    const void *x;
    int64_t heads, stride;
    int rows;
} layout;

static bool describe(encode_map make, CUtensorMap *map, const hil_cuda_attention *a,
                     const layout &l)
{
    cuuint64_t dim[4] = {(cuuint64_t)a->dim, (cuuint64_t)l.heads, (cuuint64_t)a->queries,
                         (cuuint64_t)a->batch};
    cuuint64_t strides[3] = {(cuuint64_t)a->dim * 2, (cuuint64_t)l.stride * 2,
                             (cuuint64_t)(a->queries * l.stride) * 2};
    cuuint32_t box[4] = {TILE_COLS, 1, (cuuint32_t)l.rows, 1}, steps[4] = {1, 1, 1, 1};
    return make(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, (void *)l.x, dim, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

static hil_status make_maps(hil_device *device, const hil_cuda_attention *a, int rows, maps *out)
{
    encode_map make;
    HIL_TRY(hil_op_cuda_find_encode(device, &make));
    const layout q = {a->q.data, a->heads, a->q_stride, rows};
    const layout dout = {a->dout.data, a->heads, a->heads * a->dim, rows};
    const layout k = {a->k.data, a->groups, a->kv_stride, KEYS};
    const layout v = {a->v.data, a->groups, a->kv_stride, KEYS};
    if (describe(make, &out->q, a, q) && describe(make, &out->dout, a, dout) &&
        describe(make, &out->k, a, k) && describe(make, &out->v, a, v))
        return HIL_OK;
    return hil_fail(HIL_ERR_IO, "attention: the driver cannot describe tensors for the GPU");
}

template <int D>
static hil_status run(hil_device *device, const hil_cuda_attention *a, void *scratch)
{
    typedef sizes<D> S;
    areas area = areas_of(a);
    int tiles = (int)((a->queries + S::QUERIES - 1) / S::QUERIES);
    int k_tiles = (int)((a->queries + KEYS - 1) / KEYS);
    int64_t chunks = a->batch * a->groups * k_tiles / CHUNK_BLOCKS;
    job j = {.batch = (int)a->batch,
             .tokens = (int)a->queries,
             .heads = (int)a->heads,
             .groups = (int)a->groups,
             .q_tiles = tiles,
             .k_tiles = k_tiles,
             .chunks = chunks > 1 ? (int)chunks : 1,
             .q_stride = a->q_stride,
             .kv_stride = a->kv_stride,
             .scale = a->scale,
             .k = (const __nv_bfloat16 *)a->k.data,
             .v = (const __nv_bfloat16 *)a->v.data,
             .out = (const __nv_bfloat16 *)a->out.data,
             .dout = (const __nv_bfloat16 *)a->dout.data,
             .lse = a->lse,
             .dq = (__nv_bfloat16 *)a->dq.data,
             .dk = (__nv_bfloat16 *)a->dk.data,
             .dv = (__nv_bfloat16 *)a->dv.data,
             .sums = (int *)scratch,
             .most = (unsigned *)((char *)scratch + area.most),
             .rows = (float *)((char *)scratch + area.rows)};
    maps m;
    HIL_TRY(make_maps(device, a, S::QUERIES, &m));
    cudaStream_t on = hil_cuda_of(device)->stream;
    HIL_TRY(hil_cuda_check(device, cudaMemsetAsync(scratch, 0, area.zeros, on), "clear sums"));
    unsigned pairs = (unsigned)(a->batch * a->groups);
    unsigned all_tiles = (unsigned)(a->batch * a->heads * tiles);
    find_most<D><<<pairs *(unsigned)k_tiles, THREADS, 0, on>>>(j);
    make_rows<D><<<all_tiles, THREADS, 0, on>>>(j);
    cudaFuncSetAttribute(go_back<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::ALL);
    go_back<D><<<pairs *(unsigned)k_tiles, THREADS, S::ALL, on>>>(m, j);
    finish_queries<D><<<all_tiles, THREADS, 0, on>>>(j);
    return hil_cuda_launched(device, "attention backward");
}

hil_status hil_attention_hopper_backward(hil_device *device, const hil_cuda_attention *a,
                                         void *scratch)
{
    return a->dim == 64 ? run<64>(device, a, scratch) : run<128>(device, a, scratch);
}
