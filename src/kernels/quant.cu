/* quant.cu - quantized weights on a GPU: expansion, and numbers drawn straight into nf4. */
#include "base/normal_formula.h"
#include "device/cuda_device.h"
#include "device/cuda_philox.h"
#include "kernels/cuda.h"
#include "tensor/cuda_wide.h"

#define THREADS 256
#define RUN 16 /* elements of a thread: two stores of HIL_WIDE */
#define GRID 2048
#define PARTS 4

/* The tables of nf4 of a tile, in shared memory. Sixteen values lie in sixteen banks. */
typedef struct tables {
    float value[16], nested[HIL_QUANT_NEST_TABLE], offset;
} tables;

static __device__ inline void load_tables(const hil_quant_tile &tile, const char *bytes, tables *t)
{
    const float *nested = (const float *)(bytes + tile.nested_table);
    if (threadIdx.x < 16) t->value[threadIdx.x] = ((const float *)bytes)[threadIdx.x];
    if (tile.quant == HIL_QUANT_NF4) {
        for (int i = threadIdx.x; i < HIL_QUANT_NEST_TABLE; i += THREADS) t->nested[i] = nested[i];
        if (threadIdx.x == 0) t->offset = nested[HIL_QUANT_NEST_TABLE];
    }
    __syncthreads();
}

static __device__ inline float block_scale(const hil_quant_tile &tile, const char *bytes,
                                           const tables *t, int64_t block)
{
    if (tile.quant == HIL_QUANT_NF4_PLAIN) return ((const float *)(bytes + tile.scales))[block];
    unsigned code = ((const unsigned char *)bytes)[tile.scales + block];
    int64_t nested = (hil_quant_phase(&tile) + block) / HIL_QUANT_NESTED;
    return t->nested[code] * ((const float *)(bytes + tile.nested))[nested] + t->offset;
}

/* Two halves of RUN numbers, of which n are elements. */
static __device__ inline void store_run(hil_view out, int64_t at, int64_t n, const float value[RUN])
{
    hil_wide_store(out, at, hil_wide_count(n), value);
    if (n > HIL_WIDE)
        hil_wide_store(out, at + HIL_WIDE, hil_wide_count(n - HIL_WIDE), value + HIL_WIDE);
}

/* A thread has PARTS runs of HIL_WIDE elements, neighbouring threads have neighbouring runs: wide
   stores, and several loads in flight. */
static __global__ void __launch_bounds__(THREADS)
    expand_nf4(const hil_quant_tile tile, const char *bytes, const hil_view out)
{
    __shared__ tables shared;
    load_tables(tile, bytes, &shared);
    int64_t count = tile.rows * tile.cols;
    int64_t at = ((int64_t)blockIdx.x * PARTS * THREADS + threadIdx.x) * HIL_WIDE;
    unsigned codes[PARTS];
    float scale[PARTS];
#pragma unroll
    for (int p = 0; p < PARTS; ++p) { /* the codes are padded to 8 bytes */
        int64_t here = at + (int64_t)p * THREADS * HIL_WIDE;
        if (here >= count) break;
        codes[p] = *(const unsigned *)(bytes + tile.codes + here / 2);
        scale[p] = block_scale(tile, bytes, &shared, here / HIL_QUANT_BLOCK);
    }
#pragma unroll
    for (int p = 0; p < PARTS; ++p) {
        int64_t here = at + (int64_t)p * THREADS * HIL_WIDE;
        if (here >= count) break;
        float value[HIL_WIDE];
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) /* the high half of a byte is first */
            value[i] = shared.value[codes[p] >> (i / 2 * 8 + (i % 2 ? 0 : 4)) & 15] * scale[p];
        hil_wide_store(out, here, hil_wide_count(count - here), value);
    }
}

/* One number of a row, of int8, fp8 or bf16. */
static __device__ inline float expand_one(const hil_quant_tile &tile, const char *bytes, int64_t at,
                                          int64_t row, int64_t col)
{
    const unsigned char *codes = (const unsigned char *)bytes + tile.codes;
    const float *scale = (const float *)(bytes + tile.scales);
    if (tile.quant == HIL_QUANT_BF16) return hil_bf16_load(((const uint16_t *)codes)[at]);
    if (tile.quant == HIL_QUANT_INT8)
        return hil_quant_int8_load((signed char)codes[at], scale[row]);
    int64_t across = (tile.cols + HIL_QUANT_SQUARE - 1) / HIL_QUANT_SQUARE;
    return hil_quant_e4m3_load(codes[at]) *
           scale[row / HIL_QUANT_SQUARE * across + col / HIL_QUANT_SQUARE];
}

/* The same for a run inside a row, whose scale and codes are loaded once. */
static __device__ inline void expand_whole(const hil_quant_tile &tile, const char *bytes,
                                           int64_t at, int64_t row, int64_t col, float value[RUN])
{
    uint4 words = *(const uint4 *)(bytes + tile.codes + at);
    const unsigned *word = &words.x;
    int64_t across = (tile.cols + HIL_QUANT_SQUARE - 1) / HIL_QUANT_SQUARE;
    bool int8 = tile.quant == HIL_QUANT_INT8;
    if (!int8) row = row / HIL_QUANT_SQUARE * across + col / HIL_QUANT_SQUARE;
    float scale = ((const float *)(bytes + tile.scales))[row];
#pragma unroll
    for (int i = 0; i < RUN; ++i) {
        unsigned code = word[i / 4] >> i % 4 * 8 & 255;
        value[i] = int8 ? hil_quant_int8_load((signed char)code, scale)
                        : hil_quant_e4m3_load(code) * scale;
    }
}

static __global__ void __launch_bounds__(THREADS)
    expand_rows(const hil_quant_tile tile, const char *bytes, const hil_view out)
{
    int64_t count = tile.rows * tile.cols, step = (int64_t)gridDim.x * THREADS * RUN;
    int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * RUN;
    bool aligned = tile.cols % RUN == 0 && tile.quant != HIL_QUANT_BF16;
    for (; at < count; at += step) {
        int64_t row = at / tile.cols, col = at - row * tile.cols;
        float value[RUN];
        if (aligned) {
            expand_whole(tile, bytes, at, row, col, value);
        } else {
#pragma unroll
            for (int i = 0; i < RUN; ++i) {
                value[i] = at + i < count ? expand_one(tile, bytes, at + i, row, col) : 0;
                if (++col == tile.cols) col = 0, ++row;
            }
        }
        store_run(out, at, count - at, value);
    }
}

hil_status hil_kernels_cuda_expand(hil_device *device, hil_stream stream,
                                   const hil_quant_tile *tile, const void *bytes,
                                   const hil_tensor *out)
{
    int64_t count = tile->rows * tile->cols;
    if (count == 0) return HIL_OK;
    bool nf4 = tile->quant == HIL_QUANT_NF4 || tile->quant == HIL_QUANT_NF4_PLAIN;
    unsigned blocks = hil_blocks(count, THREADS * RUN), grid = blocks < GRID ? blocks : GRID;
    cudaStream_t queue = hil_cuda_stream(device, stream);
    if (nf4)
        expand_nf4<<<hil_blocks(count, THREADS * PARTS * HIL_WIDE), THREADS, 0, queue>>>(
            *tile, (const char *)bytes, hil_view_of(out));
    else
        expand_rows<<<grid, THREADS, 0, queue>>>(*tile, (const char *)bytes, hil_view_of(out));
    return hil_cuda_launched(device, "expand weights");
}

#define SHARERS (HIL_QUANT_BLOCK / RUN) /* threads of a block of nf4 */

/* Numbers [at, at + RUN) of the stream; those from `count` on are 0. */
static __device__ inline float draw_run(const hil_quant_draw &draw, int64_t at, float value[RUN])
{
    float most = 0;
#pragma unroll
    for (int g = 0; g < RUN / 4; ++g) {
        uint32_t word[4];
        float *four = value + 4 * g;
        hil_cuda_philox(draw.key, (uint64_t)(draw.first + at) / 4 + g, draw.high, word);
        hil_normal_turn(word[1], hil_normal_radius(word[0]), &four[0], &four[1]);
        hil_normal_turn(word[3], hil_normal_radius(word[2]), &four[2], &four[3]);
    }
#pragma unroll
    for (int i = 0; i < RUN; ++i) {
        value[i] = at + i < draw.count ? draw.scale * value[i] : 0;
        most = fmaxf(most, fabsf(value[i]));
    }
    return most;
}

static __global__ void __launch_bounds__(THREADS) draw_nf4(const hil_quant_draw draw)
{
    int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * RUN;
    int64_t block = at / HIL_QUANT_BLOCK, left = draw.count - block * HIL_QUANT_BLOCK;
    float value[RUN], most = draw_run(draw, at, value);
    for (int lane = 1; lane < SHARERS; lane *= 2)
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lane));
    if (at >= draw.count) return;
    bool whole = left >= HIL_QUANT_BLOCK;
    float bounded = hil_quant_nf4_bound(most);
    unsigned codes[RUN / 8];
#pragma unroll
    for (int w = 0; w < RUN / 8; ++w) {
        codes[w] = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i)
            codes[w] |= hil_quant_nf4_scaled(value[8 * w + i], bounded, whole)
                        << (i / 2 * 8 + (i % 2 ? 0 : 4));
    }
    if (threadIdx.x % SHARERS == 0) draw.scales[block] = whole ? most : bounded;
    int64_t bytes = (draw.count - at + 1) / 2;
    if (bytes >= RUN / 2) {
        *(uint2 *)(draw.codes + at / 2) = make_uint2(codes[0], codes[1]);
        return;
    }
    for (int64_t i = 0; i < bytes; ++i)
        draw.codes[at / 2 + i] = (unsigned char)(codes[i / 4] >> i % 4 * 8);
}

hil_status hil_kernels_cuda_draw(hil_device *device, hil_stream stream, const hil_quant_draw *draw)
{
    if (draw->count == 0) return HIL_OK;
    draw_nf4<<<hil_blocks(draw->count, THREADS * RUN), THREADS, 0,
               hil_cuda_stream(device, stream)>>>(*draw);
    return hil_cuda_launched(device, "draw weights");
}
