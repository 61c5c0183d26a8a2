/* grouped_hopper.cu - grouped products in bf16 for GPUs of compute capability 9.0.

   [Note: grouped products] As many blocks of threads as there are multiprocessors take the parts of
   all results, HIGH x WIDE each, one after the other. One warp loads operands (TMA), up to STAGES
   steps ahead; two teams of 128 threads compute half of the rows each (WGMMA), write their sums to
   shared memory and leave copying them, or adding them to fp32 sums, to the copy engine while they
   compute the next part. Every part is computed by one block, in the order of its sums, so results
   do not depend on which block takes it. */
#include "ops/attention/hopper_products.h"
#include "ops/mixture/grouped_cuda.h"

#define HIGH 128
#define WIDE 256
#define DEPTH 64 /* of a step: one tile of 128 bytes */
#define STAGES 3
#define TEAM 128
#define TEAMS 2
#define TEAM_ROWS (HIGH / TEAMS)
#define THREADS (TEAM * TEAMS + 32)
#define BOX (DEPTH * TILE_PITCH) /* bytes of 64 rows of a tile */
#define A_BYTES (HIGH * TILE_PITCH)
#define B_BYTES (WIDE * TILE_PITCH)
#define STAGE_BYTES (A_BYTES + B_BYTES)
/* Rows of results: 256 numbers of 16 bits, or 128 of 32, apart so that threads use all banks. */
#define ROW_BYTES 512
#define ROW_PITCH(size) (ROW_BYTES + 8 * (size))
#define RESULTS (STAGES * STAGE_BYTES)
#define BARRIERS (RESULTS + HIGH * ROW_PITCH(4))
#define STAGE_BARRIERS 16                         /* bytes: loaded, free */
#define HELD (BARRIERS + STAGES * STAGE_BARRIERS) /* of each team: what out holds was loaded */
#define PARTS (HELD + TEAMS * 8) /* of each stage: the number of its part, or NONE */
#define SHARED (PARTS + STAGES * 4)
#define NONE (-1)
/* Barriers in hardware: both teams; one team. */
#define TEAMS_BARRIER 1
#define TEAM_BARRIER 2
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

/* The tile of the last part, and the number of parts of all tiles before it. */
typedef struct walk {
    int tile, before;
} walk;

static __device__ inline int split(int count, int each)
{
    return (count + each - 1) / each;
}

/* Part `number`, not lower than the last one; false: there are fewer. */
template <hil_grouped_kind KIND>
static __device__ inline bool find_part(const job &j, int number, walk *w, part *out)
{
    const hil_cuda_grouped &g = j.g;
    for (; w->tile < g.tiles; ++w->tile) {
        const hil_grouped_tile &t = g.tile[w->tile];
        int first = g.begin[t.expert], rows = g.begin[t.expert + 1] - first;
        int m = KIND == HIL_GROUPED_WEIGHT ? t.count : rows;
        int n = KIND == HIL_GROUPED_FORWARD ? t.count : (int)g.k;
        int across = split(n, WIDE), parts = split(m, HIGH) * across, at = number - w->before;
        if (at < parts) {
            int k = KIND == HIL_GROUPED_FORWARD ? (int)g.k
                    : KIND == HIL_GROUPED_INPUT ? t.count
                                                : rows;
            *out = {w->tile, at / across * HIGH, at % across * WIDE, first, rows, split(k, DEPTH)};
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

static __device__ inline void tell_part(uint32_t base, const stage &s, int number)
{
    store_word(base + PARTS + s.at * 4, (uint32_t)number);
}

/* Takes parts and loads their steps; of a part without steps it passes on the number alone, with an
   empty stage. */
template <hil_grouped_kind KIND> static __device__ void load_all(const job &j, uint32_t base)
{
    walk w = {0, 0};
    stage s = {0, 0};
    part p;
    int number = (int)blockIdx.x;
    while (find_part<KIND>(j, number, &w, &p)) {
        int next = (int)gridDim.x + atomicAdd(j.g.taken, 1), step = 0;
        do {
            uint32_t barrier = base + BARRIERS + s.at * STAGE_BARRIERS;
            barrier_wait(barrier + 8, s.round ^ 1);
            tell_part(base, s, number);
            if (step < p.steps)
                load_step<KIND>(j, p, step, base + s.at * STAGE_BYTES, barrier);
            else
                arrive(barrier);
            advance(&s);
        } while (++step < p.steps);
        number = next;
    }
    uint32_t barrier = base + BARRIERS + s.at * STAGE_BARRIERS;
    barrier_wait(barrier + 8, s.round ^ 1);
    tell_part(base, s, NONE);
    arrive(barrier);
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

/* Where the rows of a part go. */
typedef struct target {
    char *corner;   /* of the team's rows */
    int64_t stride; /* bytes */
    int rows, cols; /* of the team; of the part */
    int size;       /* bytes of a number */
    bool add;
} target;

template <hil_grouped_kind KIND>
static __device__ inline target find_target(const job &j, const part &p, int team)
{
    const hil_grouped_tile &t = j.g.tile[p.tile];
    constexpr bool weight = KIND == HIL_GROUPED_WEIGHT, forward = KIND == HIL_GROUPED_FORWARD;
    int size = weight || j.g.out.dtype == HIL_F32 ? 4 : 2, row = p.row + team * TEAM_ROWS;
    int64_t columns = forward ? j.g.n : j.g.k, at = row * columns + p.col;
    if (!weight) at += p.first * columns;
    if (forward) at += t.column;
    char *out = (char *)(weight ? t.data : j.g.out.data);
    int rows = (weight ? t.count : p.rows) - row;
    int cols = (forward ? t.count : (int)j.g.k) - p.col;
    return {out + at * size,           columns * size, rows,
            cols < WIDE ? cols : WIDE, size,           weight ? t.add : j.g.add};
}

/* Each of the first TEAM_ROWS threads of a team copies a row of its results. */
static __device__ inline bool copies_row(const target &t)
{
    int thread = threadIdx.x % TEAM;
    return thread < TEAM_ROWS && thread < t.rows;
}

static __device__ inline uint32_t results_row(uint32_t base, int team, int row, int size)
{
    return base + RESULTS + (uint32_t)((team * TEAM_ROWS + row) * ROW_PITCH(size));
}

/* Waits until the thread's last copy has read its row. */
static __device__ inline void wait_copied()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/* Starts loading what the result is added to, in 16 bits. */
static __device__ inline void load_held(const target &t, uint32_t base, int team)
{
    int thread = threadIdx.x % TEAM;
    if (thread >= TEAM_ROWS) return;
    uint32_t barrier = base + HELD + team * 8, bytes = (uint32_t)(t.cols * t.size);
    wait_copied();
    if (!copies_row(t)) {
        arrive(barrier);
        return;
    }
    barrier_expect(barrier, bytes);
    load_bytes(results_row(base, team, thread, t.size), t.corner + thread * t.stride, bytes,
               barrier);
}

/* Starts copying columns from `first` on from shared memory, or adding them to fp32 sums. */
static __device__ inline void copy_rows(const target &t, uint32_t base, int team, int first)
{
    int thread = threadIdx.x % TEAM, most = ROW_BYTES / t.size;
    int cols = t.cols - first < most ? t.cols - first : most;
    if (!copies_row(t) || cols <= 0) return;
    uint32_t from = results_row(base, team, thread, t.size);
    char *to = t.corner + thread * t.stride + first * t.size;
    if (t.add && t.size == 4)
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
                     "cp.async.bulk.commit_group;" ::"l"(to),
                     "r"(from), "r"(cols * 4)
                     : "memory");
    else
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                     "cp.async.bulk.commit_group;" ::"l"(to),
                     "r"(from), "r"(cols * t.size)
                     : "memory");
}

static __device__ inline void team_wait(int team)
{
    asm volatile("bar.sync %0, %1;" ::"r"(TEAM_BARRIER + team), "n"(TEAM) : "memory");
}

/* After a team's threads have written results: hands them to the copy engine. */
static __device__ inline void hand_over(const target &t, uint32_t base, int team, int first)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    team_wait(team);
    copy_rows(t, base, team, first);
}

/* Results of 16 bits, added to what was loaded. */
static __device__ inline void store_short(const float (&sum)[WIDE / 2], const target &t,
                                          uint32_t base, int team)
{
    int thread = threadIdx.x % TEAM, row = thread / 32 * 16 + thread % 32 / 4;
    if (!t.add) {
        wait_copied();
        team_wait(team);
    }
#pragma unroll
    for (int low = 0; low < 2; ++low) {
        uint32_t to = results_row(base, team, row + 8 * low, 2) + thread % 4 * 4;
#pragma unroll
        for (int i = 0; i < WIDE / 8; ++i) {
            float x = sum[4 * i + 2 * low], y = sum[4 * i + 2 * low + 1];
            if (t.add) {
                uint32_t held = __float_as_uint(load_one(to + i * 16));
                x += __uint_as_float(held << 16);
                y += __uint_as_float(held & 0xffff0000u);
            }
            store_word(to + i * 16, pack(x, y));
        }
    }
    hand_over(t, base, team, 0);
}

/* Results of 32 bits, half of the columns at a time. */
static __device__ inline void store_long(const float (&sum)[WIDE / 2], const target &t,
                                         uint32_t base, int team)
{
    int thread = threadIdx.x % TEAM, row = thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        wait_copied();
        team_wait(team);
#pragma unroll
        for (int low = 0; low < 2; ++low) {
            uint32_t to = results_row(base, team, row + 8 * low, 4) + thread % 4 * 8;
#pragma unroll
            for (int i = 0; i < WIDE / 16; ++i) {
                int at = 4 * (i + half * (WIDE / 16)) + 2 * low;
                asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + i * 32), "f"(sum[at]),
                             "f"(sum[at + 1])
                             : "memory");
            }
        }
        hand_over(t, base, team, half * (WIDE / 2));
    }
}

/* The sums of a part, from its first stage on; *s becomes the one after its last. */
template <hil_grouped_kind KIND>
static __device__ inline void sum_part(float (&sum)[WIDE / 2], const part &p, uint32_t base,
                                       int team, stage *s)
{
    bool signals = threadIdx.x % 32 == 0;
#pragma unroll
    for (int i = 0; i < WIDE / 2; ++i) sum[i] = 0;
    uint32_t last = base + BARRIERS + s->at * STAGE_BARRIERS + 8;
    for (int step = 0; step < p.steps; ++step, advance(s)) {
        uint32_t barrier = base + BARRIERS + s->at * STAGE_BARRIERS;
        uint32_t at = base + s->at * STAGE_BYTES;
        barrier_wait(barrier, s->round);
        int left = p.rows - step * DEPTH;
        if (KIND == HIL_GROUPED_WEIGHT && left < DEPTH) clear_rows(at, left);
        multiply_step<KIND>(sum, at, team);
        products_wait<1>();
        if (step && signals) arrive(last);
        last = barrier + 8;
    }
    products_wait<0>();
#pragma unroll
    for (int i = 0; i < WIDE / 2; ++i) asm volatile("" : "+f"(sum[i])::"memory"); /* not before */
    if (signals) arrive(last);
    if (p.steps == 0) advance(s);
}

template <hil_grouped_kind KIND> static __device__ void compute_all(const job &j, uint32_t base)
{
    int team = __shfl_sync(0xffffffffu, (int)threadIdx.x / TEAM, 0); /* uniform in a warp */
    walk w = {0, 0};
    stage s = {0, 0};
    part p;
    uint32_t round = 0; /* of the team's barrier */
    float sum[WIDE / 2];
    for (;;) {
        barrier_wait(base + BARRIERS + s.at * STAGE_BARRIERS, s.round);
        int number = (int)__float_as_uint(load_one(base + PARTS + s.at * 4));
        if (number == NONE || !find_part<KIND>(j, number, &w, &p)) break;
        const target t = find_target<KIND>(j, p, team);
        bool holds = t.add && t.size == 2;
        if (holds) load_held(t, base, team);
        sum_part<KIND>(sum, p, base, team, &s);
        if (holds) {
            barrier_wait(base + HELD + team * 8, round);
            round ^= 1;
        }
        if (p.steps == 0 && t.add) continue;
        if (KIND == HIL_GROUPED_WEIGHT || t.size == 4)
            store_long(sum, t, base, team);
        else
            store_short(sum, t, base, team);
    }
    wait_copied();
}

static __device__ inline void barrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

template <hil_grouped_kind KIND>
static __global__ void __launch_bounds__(THREADS, 1) compute(const __grid_constant__ job j)
{
    extern __shared__ __align__(GROUP_BYTES) unsigned char memory[];
    const uint32_t base = shared_address(memory);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            barrier_init(base + BARRIERS + i * STAGE_BARRIERS, 1);
            barrier_init(base + BARRIERS + i * STAGE_BARRIERS + 8, TEAM * TEAMS / 32);
        }
        for (int i = 0; i < TEAMS; ++i) barrier_init(base + HELD + i * 8, TEAM_ROWS);
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
