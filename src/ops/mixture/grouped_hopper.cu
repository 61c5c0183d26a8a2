/* grouped_hopper.cu - grouped products in bf16 for GPUs of compute capability 9.0.

   [Note: grouped products] As many blocks of threads as there are multiprocessors go through the
   parts of all results, HIGH x WIDE each. One warp loads operands (TMA), STAGES steps ahead; two
   teams of 128 threads compute half of the rows each (WGMMA). Every part is computed by one block,
   in the order of its sums, so results do not depend on how many blocks there are. */
#include "ops/attention/hopper_products.h"
#include "ops/mixture/grouped_cuda.h"

#define HIGH 128
#define WIDE 256
#define DEPTH 64 /* of a step: one tile of 128 bytes */
#define STAGES 4
#define TEAM 128
#define TEAMS 2
#define THREADS (TEAM * TEAMS + 32)
#define BOX (DEPTH * TILE_PITCH) /* bytes of 64 rows of a tile */
#define A_BYTES (HIGH * TILE_PITCH)
#define B_BYTES (WIDE * TILE_PITCH)
#define STAGE_BYTES (A_BYTES + B_BYTES)
#define BARRIERS (STAGES * STAGE_BYTES) /* loaded and free, of each stage */
#define SHARED (BARRIERS + STAGES * 16)
#define TEAMS_BARRIER 1
#define LEAST 64 /* columns of a weight: with fewer, little of a part is used */

typedef struct job {
    CUtensorMap in;                     /* rows of a */
    CUtensorMap map[HIL_GROUPED_TILES]; /* b: of each tile, or of all rows */
    hil_cuda_grouped g;
} job;

/* A part of a result: its tile, first row and column; the rows of its expert; its steps. */
typedef struct part {
    int tile, row, col, first, rows, steps;
} part;

/* How far a block of threads got. */
typedef struct walk {
    int next, tile, before; /* the next part; its tile at least; the parts of all tiles before */
} walk;

static __device__ inline int split(int count, int each)
{
    return (count + each - 1) / each;
}

template <hil_grouped_kind KIND> static __device__ bool find_part(const job &j, walk *w, part *out)
{
    const hil_cuda_grouped &g = j.g;
    for (; w->tile < g.tiles; ++w->tile) {
        const hil_grouped_tile &t = g.tile[w->tile];
        int first = g.begin[t.expert], rows = g.begin[t.expert + 1] - first;
        int m = KIND == HIL_GROUPED_WEIGHT ? t.count : rows;
        int n = KIND == HIL_GROUPED_FORWARD ? t.count : (int)g.k;
        int across = split(n, WIDE), parts = split(m, HIGH) * across, at = w->next - w->before;
        if (at < parts) {
            int k = KIND == HIL_GROUPED_FORWARD ? (int)g.k
                    : KIND == HIL_GROUPED_INPUT ? t.count
                                                : rows;
            *out = {w->tile, at / across * HIGH, at % across * WIDE, first, rows, split(k, DEPTH)};
            w->next += (int)gridDim.x;
            return true;
        }
        w->before += parts;
    }
    return false;
}

static __device__ inline void load_box(uint32_t to, const CUtensorMap *map, uint32_t barrier,
                                       int col, int row)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(col), "r"(row)
                 : "memory");
}

/* Loads one step of both operands. Where sums run along rows of memory, one box holds all rows of
   the operand; otherwise boxes of 64 columns lie side by side. */
template <hil_grouped_kind KIND>
static __device__ inline void load_step(const job &j, const part &p, int step, uint32_t to,
                                        uint32_t barrier)
{
    const hil_grouped_tile &t = j.g.tile[p.tile];
    int k = step * DEPTH;
    barrier_expect(barrier, STAGE_BYTES);
    if (KIND == HIL_GROUPED_FORWARD) load_box(to, &j.in, barrier, k, p.first + p.row);
    if (KIND == HIL_GROUPED_INPUT) load_box(to, &j.in, barrier, t.column + k, p.first + p.row);
    for (int i = 0; i < HIGH / TILE_COLS && KIND == HIL_GROUPED_WEIGHT; ++i)
        load_box(to + i * BOX, &j.in, barrier, t.column + p.row + i * TILE_COLS, p.first + k);
    const CUtensorMap *b = &j.map[KIND == HIL_GROUPED_WEIGHT ? 0 : p.tile];
    if (KIND == HIL_GROUPED_FORWARD) {
        load_box(to + A_BYTES, b, barrier, k, p.col);
        return;
    }
    int row = KIND == HIL_GROUPED_WEIGHT ? p.first + k : k;
    for (int i = 0; i < WIDE / TILE_COLS; ++i)
        load_box(to + A_BYTES + i * BOX, b, barrier, p.col + i * TILE_COLS, row);
}

typedef struct stage {
    uint32_t at, round;
} stage;

static __device__ inline void advance(stage *s)
{
    if (++s->at < STAGES) return;
    s->at = 0;
    s->round ^= 1;
}

static __device__ inline void arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

template <hil_grouped_kind KIND> static __device__ void load_all(const job &j, uint32_t base)
{
    walk w = {(int)blockIdx.x, 0, 0};
    stage s = {0, 0};
    part p;
    while (find_part<KIND>(j, &w, &p))
        for (int step = 0; step < p.steps; ++step, advance(&s)) {
            uint32_t barrier = base + BARRIERS + s.at * 16;
            barrier_wait(barrier + 8, s.round ^ 1);
            load_step<KIND>(j, p, step, base + s.at * STAGE_BYTES, barrier);
        }
}

/* Zeroes the rows of a step from `left` on, which belong to the next expert. */
static __device__ inline void clear_rows(uint32_t at, int left)
{
    int each = (DEPTH - left) * 8; /* words of 16 bytes of a box */
    for (int i = threadIdx.x; i < each * (STAGE_BYTES / BOX); i += TEAM * TEAMS)
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(
                         at + i / each * BOX + left * TILE_PITCH + i % each * 16),
                     "r"(0)
                     : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync %0, %1;" ::"n"(TEAMS_BARRIER), "n"(TEAM * TEAMS) : "memory");
}

/* sums += a * b of one step, of a team. */
template <hil_grouped_kind KIND>
static __device__ inline void multiply_step(float (&sum)[WIDE / 2], uint32_t at, int team)
{
    constexpr bool A = KIND == HIL_GROUPED_WEIGHT, B = KIND != HIL_GROUPED_FORWARD;
    products_begin();
#pragma unroll
    for (int k = 0; k < DEPTH / 16; ++k) {
        uint32_t a = at + team * BOX + (A ? k * 16 * TILE_PITCH : k * 32);
        uint32_t b = at + A_BYTES + (B ? k * 16 * TILE_PITCH : k * 32);
        multiply_wide<A, B>(sum, operand(a, A ? BOX : 16), operand(b, B ? BOX : 16));
    }
    products_commit();
}

/* The numbers of a result at two neighbouring columns. */
static __device__ inline void store_pair(const hil_view &out, int64_t at, float x, float y,
                                         bool add)
{
    if (out.dtype == HIL_F32) {
        float2 *to = (float2 *)((float *)out.data + at), held = add ? *to : make_float2(0, 0);
        *to = make_float2(x + held.x, y + held.y);
        return;
    }
    uint32_t *to = (uint32_t *)((__nv_bfloat16 *)out.data + at), held = add ? *to : 0;
    *to = pack(x + __uint_as_float(held << 16), y + __uint_as_float(held & 0xffff0000u));
}

template <hil_grouped_kind KIND>
static __device__ inline void store_part(const job &j, const part &p, const float (&sum)[WIDE / 2],
                                         int team)
{
    const hil_grouped_tile &t = j.g.tile[p.tile];
    constexpr bool weight = KIND == HIL_GROUPED_WEIGHT;
    int thread = threadIdx.x % TEAM, row = p.row + team * 64 + thread / 32 * 16 + thread % 32 / 4;
    int rows = weight ? t.count : p.rows, cols = KIND == HIL_GROUPED_FORWARD ? t.count : (int)j.g.k;
    int64_t stride = KIND == HIL_GROUPED_FORWARD ? j.g.n : j.g.k;
    int64_t corner_at = weight ? 0 : p.first * stride;
    if (KIND == HIL_GROUPED_FORWARD) corner_at += t.column;
    const hil_view out = weight ? hil_view{t.data, HIL_F32} : j.g.out;
    const bool add = weight ? t.add : j.g.add;
#pragma unroll
    for (int low = 0; low < 2; ++low, row += 8) {
        if (row >= rows) continue;
        int64_t at = corner_at + row * stride;
#pragma unroll
        for (int i = 0; i < WIDE / 8; ++i) {
            int col = p.col + i * 8 + thread % 4 * 2;
            if (col < cols)
                store_pair(out, at + col, sum[4 * i + 2 * low], sum[4 * i + 2 * low + 1], add);
        }
    }
}

template <hil_grouped_kind KIND> static __device__ void compute_all(const job &j, uint32_t base)
{
    int team = __shfl_sync(0xffffffffu, (int)threadIdx.x / TEAM, 0); /* uniform in a warp */
    bool signals = threadIdx.x % 32 == 0;
    walk w = {(int)blockIdx.x, 0, 0};
    stage s = {0, 0};
    part p;
    float sum[WIDE / 2];
    while (find_part<KIND>(j, &w, &p)) {
#pragma unroll
        for (int i = 0; i < WIDE / 2; ++i) sum[i] = 0;
        uint32_t last = 0;
        for (int step = 0; step < p.steps; ++step, advance(&s)) {
            uint32_t barrier = base + BARRIERS + s.at * 16, at = base + s.at * STAGE_BYTES;
            barrier_wait(barrier, s.round);
            int left = p.rows - step * DEPTH;
            if (KIND == HIL_GROUPED_WEIGHT && left < DEPTH) clear_rows(at, left);
            multiply_step<KIND>(sum, at, team);
            products_wait<1>();
            if (step && signals) arrive(last);
            last = barrier + 8;
        }
        products_wait<0>();
#pragma unroll
        for (int i = 0; i < WIDE / 2; ++i)
            asm volatile("" : "+f"(sum[i])::"memory"); /* not before */
        if (p.steps && signals) arrive(last);
        store_part<KIND>(j, p, sum, team);
    }
}

template <hil_grouped_kind KIND>
static __global__ void __launch_bounds__(THREADS, 1) compute(const __grid_constant__ job j)
{
    extern __shared__ __align__(GROUP_BYTES) unsigned char memory[];
    const uint32_t base = shared_address(memory);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(base + BARRIERS + i * 16));
            asm volatile(
                "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(base + BARRIERS + i * 16 + 8),
                "n"(TEAM * TEAMS / 32));
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x < TEAM * TEAMS)
        compute_all<KIND>(j, base);
    else if (threadIdx.x == TEAM * TEAMS)
        load_all<KIND>(j, base);
}

bool hil_grouped_hopper_can(const hil_device *device, hil_dtype dtype, int64_t n, int64_t k)
{
    int major = 0, minor = 0, index = hil_cuda_of(device)->index;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
    return major == 9 && minor == 0 && dtype == HIL_BF16 && n % HIL_WIDE == 0 &&
           k % HIL_WIDE == 0 && n >= LEAST && k >= LEAST;
}

/* A matrix in boxes of 64 columns. */
static hil_status describe(encode_map make, CUtensorMap *map, const void *data, int64_t rows,
                           int64_t cols, int box_rows)
{
    cuuint64_t dim[2] = {(cuuint64_t)cols, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)cols * 2};
    cuuint32_t box[2] = {TILE_COLS, (cuuint32_t)box_rows}, steps[2] = {1, 1};
    if (make(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)data, dim, stride, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS)
        return HIL_OK;
    return hil_fail(HIL_ERR_IO, "grouped_linear: the driver cannot describe a matrix for the GPU");
}

template <hil_grouped_kind KIND>
static hil_status run(hil_device *device, const hil_cuda_grouped *g)
{
    job j;
    encode_map make;
    HIL_TRY(hil_op_cuda_find_encode(device, &make));
    j.g = *g;
    int64_t in = KIND == HIL_GROUPED_FORWARD ? g->k : g->n;
    HIL_TRY(
        describe(make, &j.in, g->in.data, g->rows, in, KIND == HIL_GROUPED_WEIGHT ? DEPTH : HIGH));
    if (KIND == HIL_GROUPED_WEIGHT)
        HIL_TRY(describe(make, &j.map[0], g->other.data, g->rows, g->k, DEPTH));
    for (int i = 0; i < g->tiles && KIND != HIL_GROUPED_WEIGHT; ++i)
        HIL_TRY(describe(make, &j.map[i], g->tile[i].data, g->tile[i].count, g->k,
                         KIND == HIL_GROUPED_FORWARD ? WIDE : DEPTH));
    int blocks = 0;
    HIL_TRY(hil_cuda_check(
        device,
        cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, hil_cuda_of(device)->index),
        "count multiprocessors"));
    cudaFuncSetAttribute(compute<KIND>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    compute<KIND><<<(unsigned)blocks, THREADS, SHARED, hil_cuda_of(device)->stream>>>(j);
    return hil_cuda_launched(device, "grouped products");
}

hil_status hil_grouped_hopper_run(hil_device *device, const hil_cuda_grouped *g)
{
    switch (g->kind) {
    case HIL_GROUPED_FORWARD:
        return run<HIL_GROUPED_FORWARD>(device, g);
    case HIL_GROUPED_INPUT:
        return run<HIL_GROUPED_INPUT>(device, g);
    default:
        return run<HIL_GROUPED_WEIGHT>(device, g);
    }
}
