/* rule.cu - the update rules on a GPU: the formulas of rule_element.h, the same bits. */
#include "ops/cuda_kernel.h"
#include "optim/cuda.h"
extern "C" {
#include "optim/rule_element.h"
#include "tensor/q8.h"
}

#define THREADS 256
#define WARPS (THREADS / 32)

/* A thread has HIL_WIDE elements from `at`; n of them exist. */
static __device__ inline void sum_gradients(const hil_block &b, int64_t at, int n,
                                            float g[HIL_WIDE])
{
    hil_wide raw[HIL_USES];
#pragma unroll
    for (int u = 0; u < HIL_USES; ++u)
        if (u < b.gradients)
            raw[u] = hil_wide_load({(void *)(uintptr_t)b.gradient[u], b.dtype}, at, n);
    hil_wide_read(raw[0], b.dtype, g);
#pragma unroll
    for (int u = 1; u < HIL_USES; ++u) {
        if (u >= b.gradients) break;
        float more[HIL_WIDE];
        hil_wide_read(raw[u], b.dtype, more);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) g[i] += more[i];
    }
}

static __device__ inline void load_masters(const hil_block &b, int64_t at, int n, float w[HIL_WIDE])
{
    if (b.dtype != HIL_BF16) {
        hil_wide_read(hil_wide_load({b.dtype == HIL_F32 ? b.weight : b.rest, HIL_F32}, at, n),
                      HIL_F32, w);
        return;
    }
    hil_wide high = hil_wide_load({b.weight, HIL_BF16}, at, n);
    hil_wide low = hil_wide_load({b.rest, HIL_BF16}, at, n);
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i)
        w[i] = hil_weight_join((uint16_t)(high.word[i / 2] >> 16 * (i % 2)),
                               (uint16_t)(low.word[i / 2] >> 16 * (i % 2)));
}

static __device__ inline void store_halves(void *to, int64_t at, int n, const uint16_t bits[])
{
    uint16_t *place = (uint16_t *)to + at;
    if (n == HIL_WIDE && ((uintptr_t)place & 15) == 0) {
        *(uint4 *)place =
            make_uint4(bits[0] | (uint32_t)bits[1] << 16, //
                       bits[2] | (uint32_t)bits[3] << 16, bits[4] | (uint32_t)bits[5] << 16,
                       bits[6] | (uint32_t)bits[7] << 16);
        return;
    }
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i)
        if (i < n) place[i] = bits[i];
}

static __device__ inline void store_masters(const hil_block &b, int64_t at, int n,
                                            const float w[HIL_WIDE])
{
    hil_wide_store({b.weight, b.dtype == HIL_BF16 ? HIL_F32 : b.dtype}, at,
                   b.dtype == HIL_BF16 ? 0 : n, w);
    if (b.dtype == HIL_F16) hil_wide_store({b.rest, HIL_F32}, at, n, w);
    if (b.dtype != HIL_BF16) return;
    uint16_t high[HIL_WIDE], low[HIL_WIDE];
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) {
        high[i] = hil_weight_high(w[i]);
        low[i] = hil_weight_low(w[i]);
    }
    store_halves(b.weight, at, n, high);
    store_halves(b.rest, at, n, low);
}

static __global__ void __launch_bounds__(THREADS)
    update_plain(const hil_block b, const hil_rule_step step, const bool lion)
{
    int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * HIL_WIDE;
    int n = hil_wide_count(b.count - at);
    if (n == 0) return;
    float g[HIL_WIDE], w[HIL_WIDE], m[HIL_WIDE], v[HIL_WIDE] = {};
    hil_wide raw_m = hil_wide_load({b.moment[0], HIL_F32}, at, n), raw_v = {};
    if (!lion) raw_v = hil_wide_load({b.moment[1], HIL_F32}, at, n);
    sum_gradients(b, at, n, g);
    load_masters(b, at, n, w);
    hil_wide_read(raw_m, HIL_F32, m);
    hil_wide_read(raw_v, HIL_F32, v);
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i)
        w[i] = lion ? hil_lion_element(&step, w[i], &m[i], g[i])
                    : hil_adamw_element(&step, w[i], &m[i], &v[i], g[i]);
    store_masters(b, at, n, w);
    hil_wide_store({b.moment[0], HIL_F32}, at, n, m);
    if (!lion) hil_wide_store({b.moment[1], HIL_F32}, at, n, v);
}

/* A lane's eight bytes of a group, which begin after its scale. */
static __device__ inline void decode(const unsigned char *group, const float *values,
                                     float out[HIL_WIDE])
{
    float scale = *(const float *)group;
    const uint32_t *from = (const uint32_t *)(group + 4) + threadIdx.x % 32 * 2;
    uint32_t word[2] = {from[0], from[1]};
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) out[i] = values[word[i / 4] >> 8 * (i % 4) & 255] * scale;
}

static __device__ inline void encode(unsigned char *group, const float in[HIL_WIDE],
                                     hil_q8_kind kind)
{
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) most = max(most, hil_bits(in[i]) & 0x7fffffffu);
    most = __reduce_max_sync(0xffffffffu, most);
    float scale = hil_float(most) < HIL_Q8_LEAST ? 0 : hil_float(most);
    float inverse = scale > 0 ? 1 / scale : 0;
    uint32_t word[2] = {};
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i)
        word[i / 4] |= (uint32_t)hil_q8_code(in[i], scale, inverse, kind) << 8 * (i % 4);
    uint32_t *to = (uint32_t *)(group + 4) + threadIdx.x % 32 * 2;
    to[0] = word[0], to[1] = word[1];
    if (threadIdx.x % 32 == 0) *(float *)group = scale;
}

/* A warp has a group of HIL_Q8_GROUP elements at a time. */
static __global__ void __launch_bounds__(THREADS)
    update_8bit(const hil_block b, const hil_rule_step step, const int64_t groups)
{
    __shared__ float values[2][256];
    for (int i = threadIdx.x; i < 256; i += THREADS) {
        int rank = i < 128 ? i : 256 - i;
        float value = i == 0 || i == 128 ? 0 : hil_q8_value(rank, 1);
        values[0][i] = i < 128 ? value : -value;
        values[1][i] = i == 0 || i == 255 ? 0 : hil_q8_value(i, 2);
    }
    __syncthreads();
    int64_t group = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    for (; group < groups; group += (int64_t)gridDim.x * WARPS) {
        int64_t at = group * HIL_Q8_GROUP + threadIdx.x % 32 * HIL_WIDE;
        int n = hil_wide_count(b.count - at);
        unsigned char *m8 = (unsigned char *)b.moment[0] + group * HIL_Q8_GROUP_BYTES;
        unsigned char *v8 = (unsigned char *)b.moment[1] + group * HIL_Q8_GROUP_BYTES;
        float g[HIL_WIDE], w[HIL_WIDE], m[HIL_WIDE], v[HIL_WIDE];
        decode(m8, values[0], m);
        decode(v8, values[1], v);
        sum_gradients(b, at, n, g);
        load_masters(b, at, n, w);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i)
            if (i < n) w[i] = hil_adamw_element(&step, w[i], &m[i], &v[i], g[i]);
        store_masters(b, at, n, w);
        encode(m8, m, HIL_Q8_SIGNED);
        encode(v8, v, HIL_Q8_UNSIGNED);
    }
}

#define GROUP_BLOCKS 1056 /* eight for each multiprocessor of the largest GPUs */

hil_status hil_cuda_update(hil_device *device, hil_stream stream, const hil_rule *rule,
                           const hil_rule_step *step, const hil_block *block)
{
    if (block->count == 0 || block->gradients == 0) return HIL_OK;
    cudaStream_t on = hil_cuda_stream(device, stream);
    if (rule->kind == HIL_ADAMW8BIT) {
        int64_t groups = (block->count + HIL_Q8_GROUP - 1) / HIL_Q8_GROUP;
        unsigned blocks = hil_blocks(groups, WARPS);
        if (blocks > GROUP_BLOCKS) blocks = GROUP_BLOCKS;
        update_8bit<<<blocks, THREADS, 0, on>>>(*block, *step, groups);
    } else {
        unsigned blocks = hil_blocks(block->count, THREADS * HIL_WIDE);
        update_plain<<<blocks, THREADS, 0, on>>>(*block, *step, rule->kind == HIL_LION);
    }
    return hil_cuda_launched(device, rule->name);
}

#define RUN (HIL_SQUARES * HIL_WIDE) /* elements that the threads of a block load at once */

/* A thread adds its lane of one block in order, as the CPU does. It loads HIL_WIDE neighbours,
   which go to their lanes through shared memory. Blocks are those of the member, of which `b` has
   the elements from `first` on. */
static __global__ void __launch_bounds__(THREADS)
    square(const hil_block b, const int64_t first, double *lanes, const int64_t blocks)
{
    __shared__ float4 shared[THREADS / HIL_SQUARES][RUN / 4];
    float *run = (float *)shared[threadIdx.x / HIL_SQUARES];
    int64_t block = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / HIL_SQUARES;
    int mine = threadIdx.x % HIL_SQUARES;
    bool exists = block < blocks;
    int64_t number = first / HIL_BLOCK + block;
    int64_t at = number * HIL_BLOCK - first, end = exists ? at + HIL_BLOCK : 0;
    if (at < 0) at = 0;
    if (end > b.count) end = b.count;
    at += mine * HIL_WIDE;
    double *lane = &lanes[number * HIL_SQUARES + mine], sum = exists ? *lane : 0;
    for (int turn = 0; turn < HIL_BLOCK / RUN; ++turn, at += RUN) {
        float g[HIL_WIDE];
        sum_gradients(b, at, hil_wide_count(end - at), g); /* zeros beyond the end */
        __syncwarp();
        ((float4 *)run)[2 * mine] = make_float4(g[0], g[1], g[2], g[3]);
        ((float4 *)run)[2 * mine + 1] = make_float4(g[4], g[5], g[6], g[7]);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            double x = run[i * HIL_SQUARES + mine];
            sum += x * x;
        }
    }
    if (exists) *lane = sum;
}

#define STAGE 512     /* elements of each of the two blocks that threads of a GPU's block have */
#define AHEAD 4       /* stages on their way */
#define PRODUCERS 128 /* a thread for HIL_WIDE elements of a stage */
#define SQUARERS (32 + PRODUCERS)

/* The squares of a thread's numbers, to the lanes that add them; neighbours begin at different
   banks. */
static __device__ inline void store_squares(double *to, const hil_wide &raw, int thread)
{
#pragma unroll
    for (int i = 0; i < HIL_WIDE / 2; ++i) {
        int at = (i + thread / 2) % 4;
        uint32_t word = at == 0   ? raw.word[0]
                        : at == 1 ? raw.word[1]
                        : at == 2 ? raw.word[2]
                                  : raw.word[3];
        double x = __uint_as_float(word << 16), y = __uint_as_float(word & 0xffff0000u);
        ((double2 *)to)[at] = make_double2(x * x, y * y);
    }
}

/* [Note: squares of bf16] Sums in order are chains of additions, and a warp waits where its chain
   does. So the first warp does nothing but add, for two blocks, and the others make the squares
   that it adds next. */
static __global__ void __launch_bounds__(SQUARERS)
    square_bf16(const uint16_t *g, const int64_t count, const int64_t first, double *lanes)
{
    __shared__ double2 shared[2][2][STAGE / 2]; /* (stages, blocks, elements) */
    bool adds = threadIdx.x < 32;
    int thread = (int)threadIdx.x - 32; /* of those that make squares */
    int half = adds ? (int)threadIdx.x / HIL_SQUARES : thread / (PRODUCERS / 2);
    int mine = adds ? (int)threadIdx.x % HIL_SQUARES : thread % (PRODUCERS / 2) * HIL_WIDE;
    int64_t block = first / HIL_BLOCK + blockIdx.x * 2, last = (first + count - 1) / HIL_BLOCK;
    int64_t begin = (block + half) * HIL_BLOCK - first, end = begin + HIL_BLOCK;
    int64_t most = block < last ? HIL_BLOCK : count; /* of both blocks; zeros follow the end */
    if (begin < 0) begin = 0;
    if (end > count) end = count;
    if (most > HIL_BLOCK) most = HIL_BLOCK;
    int stages = (int)((most + STAGE - 1) / STAGE);
    auto load = [&](int stage) {
        int64_t from = begin + (int64_t)stage * STAGE + mine;
        return hil_wide_load({(void *)(uintptr_t)g, HIL_BF16}, from, hil_wide_count(end - from));
    };
    bool exists = begin < end;
    double *lane = &lanes[(block + half) * HIL_SQUARES + mine], sum = adds && exists ? *lane : 0;
    hil_wide raw[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD && !adds; ++i) raw[i] = load(i);
    for (int now = 0; now <= stages; now += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            int stage = now + i;
            if (!adds && stage < stages) {
                double *to = (double *)shared[stage % 2][half] + mine;
                store_squares(to, raw[i], thread);
                raw[i] = load(stage + AHEAD);
            }
            if (adds && stage > 0 && stage <= stages) {
                const double *from = (const double *)shared[(stage - 1) % 2][half] + mine;
#pragma unroll
                for (int k = 0; k < STAGE / HIL_SQUARES; ++k) sum += from[k * HIL_SQUARES];
            }
            __syncthreads();
        }
    }
    if (adds && exists) *lane = sum;
}

hil_status hil_cuda_square(hil_device *device, hil_stream stream, const hil_block *block,
                           int64_t first, double *lanes)
{
    if (block->count == 0 || block->gradients == 0) return HIL_OK;
    cudaStream_t on = hil_cuda_stream(device, stream);
    int64_t blocks = (first + block->count - 1) / HIL_BLOCK - first / HIL_BLOCK + 1;
    if (block->dtype == HIL_BF16 && block->gradients == 1)
        square_bf16<<<hil_blocks(blocks, 2), SQUARERS, 0, on>>>(
            (const uint16_t *)block->gradient[0], block->count, first, lanes);
    else
        square<<<hil_blocks(blocks * HIL_SQUARES, THREADS), THREADS, 0, on>>>(*block, first, lanes,
                                                                              blocks);
    return hil_cuda_launched(device, "square gradients");
}
