/* rule.cu - the update rules on a GPU: the formulas of rule_element.h, the same bits. */
#include "device/cuda_device.h"
#include "kernels/cuda.h"
#include "kernels/cuda_gradient.h"
#include "optim/cuda.h"
extern "C" {
#include "optim/rule_element.h"
#include "optim/update.h"
}

#define THREADS 256
#define WARPS (THREADS / 32)

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
        w[i] = hil_bf16_join((uint16_t)(high.word[i / 2] >> 16 * (i % 2)),
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
        high[i] = hil_bf16_high(w[i]);
        low[i] = hil_bf16_low(w[i]);
    }
    store_halves(b.weight, at, n, high);
    store_halves(b.rest, at, n, low);
}

/* What one launch updates: blocks of elements, each by some thread blocks. */
typedef struct batch {
    hil_block block[HIL_UPDATE_BLOCKS];
    hil_rule_step step[HIL_UPDATE_BLOCKS];
    unsigned end[HIL_UPDATE_BLOCKS]; /* thread blocks of this one and all before it */
    int blocks;
} batch;
static_assert(sizeof(batch) <= 4096, "a kernel's arguments");

/* Which of the batch this thread block updates, and the number of its thread block within it. */
static __device__ inline int find_block(const batch &all, unsigned *number, unsigned *numbers)
{
    int i = 0;
    while (blockIdx.x >= all.end[i]) ++i;
    unsigned begin = i ? all.end[i - 1] : 0;
    *number = blockIdx.x - begin;
    *numbers = all.end[i] - begin;
    return i;
}

/* Nesterov's momentum takes the place of the first gradient. */
static __device__ inline void update_momentum(const hil_block &b, const hil_rule_step &step,
                                              int64_t at, int n)
{
    float g[HIL_WIDE], m[HIL_WIDE];
    hil_wide_read(hil_wide_load({b.moment[0], HIL_F32}, at, n), HIL_F32, m);
    hil_block_wide_gradient(b, at, n, g);
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) g[i] = hil_muon_momentum(&step, &m[i], g[i]);
    hil_wide_store({(void *)(uintptr_t)b.gradient[0], b.dtype}, at, n, g);
    hil_wide_store({b.moment[0], HIL_F32}, at, n, m);
}

static __device__ inline void subtract(const hil_block &b, const hil_rule_step &step, int64_t at,
                                       int n)
{
    float u[HIL_WIDE], w[HIL_WIDE];
    hil_wide_read(hil_wide_load({(void *)(uintptr_t)b.gradient[0], b.dtype}, at, n), b.dtype, u);
    load_masters(b, at, n, w);
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) w[i] = hil_muon_element(&step, w[i], u[i]);
    store_masters(b, at, n, w);
}

static __global__ void __launch_bounds__(THREADS)
    update_plain(const __grid_constant__ batch all, const bool lion)
{
    unsigned number, numbers;
    int one = find_block(all, &number, &numbers);
    const hil_block &b = all.block[one];
    const hil_rule_step step = all.step[one];
    int64_t at = ((int64_t)number * THREADS + threadIdx.x) * HIL_WIDE;
    int n = hil_wide_count(b.count - at);
    if (n == 0) return;
    if (b.scope == HIL_SCOPE_MOMENTUM) return update_momentum(b, step, at, n);
    if (b.scope == HIL_SCOPE_MATRIX) return subtract(b, step, at, n);
    float g[HIL_WIDE], w[HIL_WIDE], m[HIL_WIDE], v[HIL_WIDE] = {};
    hil_wide raw_m = hil_wide_load({b.moment[0], HIL_F32}, at, n), raw_v = {};
    if (!lion) raw_v = hil_wide_load({b.moment[1], HIL_F32}, at, n);
    hil_block_wide_gradient(b, at, n, g);
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

/* A lane's eight bytes of a group, after the group's scale. */
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

/* Each warp updates one group of HIL_Q8_GROUP elements at a time. */
static __global__ void __launch_bounds__(THREADS) update_8bit(const __grid_constant__ batch all)
{
    __shared__ float values[2][256];
    unsigned number, numbers;
    int one = find_block(all, &number, &numbers);
    const hil_block &b = all.block[one];
    const hil_rule_step step = all.step[one];
    int64_t groups = (b.count + HIL_Q8_GROUP - 1) / HIL_Q8_GROUP;
    for (int i = threadIdx.x; i < 256; i += THREADS) {
        int rank = i < 128 ? i : 256 - i;
        float value = i == 0 || i == 128 ? 0 : hil_q8_value(rank, 1);
        values[0][i] = i < 128 ? value : -value;
        values[1][i] = i == 0 || i == 255 ? 0 : hil_q8_value(i, 2);
    }
    __syncthreads();
    int64_t group = (int64_t)number * WARPS + threadIdx.x / 32;
    for (; group < groups; group += (int64_t)numbers * WARPS) {
        int64_t at = group * HIL_Q8_GROUP + threadIdx.x % 32 * HIL_WIDE;
        int n = hil_wide_count(b.count - at);
        unsigned char *m8 = (unsigned char *)b.moment[0] + group * HIL_Q8_GROUP_BYTES;
        unsigned char *v8 = (unsigned char *)b.moment[1] + group * HIL_Q8_GROUP_BYTES;
        float g[HIL_WIDE], w[HIL_WIDE], m[HIL_WIDE], v[HIL_WIDE];
        decode(m8, values[0], m);
        decode(v8, values[1], v);
        hil_block_wide_gradient(b, at, n, g);
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

static hil_status launch(hil_device *device, hil_stream stream, const hil_rule *rule, batch *all)
{
    if (all->blocks == 0) return HIL_OK;
    cudaStream_t on = hil_cuda_stream(device, stream);
    unsigned blocks = all->end[all->blocks - 1];
    all->blocks = 0;
    if (rule->kind == HIL_ADAMW8BIT)
        update_8bit<<<blocks, THREADS, 0, on>>>(*all);
    else
        update_plain<<<blocks, THREADS, 0, on>>>(*all, rule->kind == HIL_LION);
    return hil_cuda_launched(device, rule->name);
}

/* Thread blocks for a block of elements. */
static unsigned blocks_of(const hil_rule *rule, int64_t count)
{
    if (rule->kind != HIL_ADAMW8BIT) return hil_blocks(count, THREADS * HIL_WIDE);
    unsigned blocks = hil_blocks((count + HIL_Q8_GROUP - 1) / HIL_Q8_GROUP, WARPS);
    return blocks < GROUP_BLOCKS ? blocks : GROUP_BLOCKS;
}

static hil_status update(hil_device *device, hil_stream stream, const void *rule,
                         const hil_block *block, int blocks)
{
    const hil_update_rule *sweep = (const hil_update_rule *)rule;
    batch all = {};
    for (int i = 0; i < blocks; ++i) {
        if (block[i].count == 0 || block[i].gradients == 0) continue;
        if (all.blocks == HIL_UPDATE_BLOCKS) HIL_TRY(launch(device, stream, sweep->rule, &all));
        int at = all.blocks++;
        all.block[at] = block[i];
        all.step[at] = sweep->step[block[i].numbers];
        all.end[at] = (at ? all.end[at - 1] : 0) + blocks_of(sweep->rule, block[i].count);
    }
    return launch(device, stream, sweep->rule, &all);
}

const hil_device_math hil_cuda_math = {.round = hil_kernels_cuda_round,
                                       .square = hil_kernels_cuda_square,
                                       .squared = hil_kernels_cuda_squared,
                                       .update = update,
                                       .reduce = hil_kernels_cuda_reduce,
                                       .expand = hil_kernels_cuda_expand,
                                       .draw = hil_kernels_cuda_draw,
                                       .add = hil_kernels_cuda_add};
