/* attention_hopper_kernel.h - the kernel of attention_hopper.cu. Scores and their gradients are
   computed transposed (keys by queries): from registers they are the first operand of the products
   that follow. */
#ifndef HIL_OPS_ATTENTION_ATTENTION_HOPPER_KERNEL_H
#define HIL_OPS_ATTENTION_ATTENTION_HOPPER_KERNEL_H

#include "ops/attention/attention_cuda.h"
#include "ops/attention/hopper_products.h"

#include <math.h>

#define KEYS 128
#define THREADS 256
#define TEAM 128 /* threads that issue products together; 64 keys each */
#define STAGES 3
#define LOG2E 1.4426950408889634f
#define WORTH 29 /* bits of a sum */
#define KEY_BITS 14
#define ROW_NUMBERS 3 /* of a query: what is subtracted from scores, delta, the sum's factor */
/* Barriers in hardware: all threads; scores were read, by team; the threads of a team. */
#define ALL_BARRIER 1
#define READ_BARRIER 2
#define TEAM_BARRIER 4
#define PART_BYTES (TEAM * 32 * 4u) /* of the queries' gradients, of a team */

template <int D> struct sizes {
    static constexpr int QUERIES = D == 64 ? 128 : 64;
    static constexpr int TILES = D / TILE_COLS; /* side by side */
    static constexpr uint32_t KEY_TILE = KEYS * TILE_PITCH, QUERY_TILE = QUERIES * TILE_PITCH;
    static constexpr uint32_t KEY_BYTES = TILES * KEY_TILE, QUERY_BYTES = TILES * QUERY_TILE;
    static constexpr uint32_t SCORE_BYTES = KEYS * QUERIES * 2;
    static constexpr uint32_t ROW_BYTES = ROW_NUMBERS * QUERIES * sizeof(float);
    static constexpr uint32_t K = 0, V = KEY_BYTES, Q = 2 * KEY_BYTES,
                              DOUT = Q + STAGES * QUERY_BYTES;
    static constexpr uint32_t SCORES = DOUT + STAGES * QUERY_BYTES;
    static constexpr uint32_t PARTS = SCORES + SCORE_BYTES;
    static constexpr uint32_t ROWS = PARTS + 2 * PART_BYTES, FACTORS = ROWS + STAGES * ROW_BYTES;
    static constexpr uint32_t BARRIERS = FACTORS + D * sizeof(float);
    static constexpr uint32_t ALL = BARRIERS + (STAGES + 1) * 8;
};

/* A call. most: (B, G, 1 + D), the largest |v|^2 and |k_d| as the bits of fp32, which order like
   the numbers. rows: (B, H, tiles, ROW_NUMBERS, QUERIES). sums: (B, H, tiles, QUERIES * D). */
typedef struct job {
    int batch, tokens, heads, groups;
    int q_tiles, k_tiles, chunks;
    int64_t q_stride, kv_stride;
    float scale;
    const __nv_bfloat16 *k, *v, *out, *dout;
    const float *lse;
    __nv_bfloat16 *dq, *dk, *dv;
    int *sums;
    unsigned *most;
    float *rows;
} job;

typedef struct maps {
    CUtensorMap q, dout, k, v;
} maps;

/* A thread's part of a product of 64 rows: rows `row` and row + 8, and of every 8 columns the two
   from `col`. */
typedef struct spot {
    int team, row, col;
} spot;

static __device__ inline spot find_spot()
{
    int thread = threadIdx.x % TEAM;
    int team = __shfl_sync(0xffffffffu, (int)threadIdx.x / TEAM, 0); /* uniform in a warp */
    return {team, thread / 32 * 16 + thread % 32 / 4, thread % 4 * 2};
}

/* A block's work: its keys, and its number of steps over heads and tiles of queries. */
typedef struct task {
    int b, group, key; /* of the first key */
    int first;         /* tile of queries of each head */
    int steps;
} task;

/* A step: its head, its tile of queries, the stage in shared memory, how often that was in use. */
typedef struct place {
    int head, tile;
    uint32_t stage, round;
} place;

/* The first keys have the most queries, so their blocks are started first, within one chunk of
   (sequence, group) pairs, whose inputs and sums stay in the cache. */
template <int D> static __device__ inline task find_task(const job &j)
{
    int pairs = j.batch * j.groups, slot = (int)blockIdx.x / j.k_tiles;
    int chunk = (int)(((int64_t)(slot + 1) * j.chunks - 1) / pairs);
    int begin = (int)((int64_t)chunk * pairs / j.chunks);
    int width = (int)((int64_t)(chunk + 1) * pairs / j.chunks) - begin;
    int rest = (int)blockIdx.x - begin * j.k_tiles, tile = rest / width,
        pair = begin + rest % width;
    task t = {pair / j.groups, pair % j.groups, tile * KEYS};
    t.first = t.key / sizes<D>::QUERIES;
    t.steps = (j.q_tiles - t.first) * (j.heads / j.groups);
    return t;
}

static __device__ inline place first_place(const job &j, const task &t)
{
    return {t.group * (j.heads / j.groups), t.first, 0, 0};
}

static __device__ inline place later(place p, const job &j, const task &t)
{
    if (++p.tile == j.q_tiles) {
        p.tile = t.first;
        ++p.head;
    }
    if (++p.stage == STAGES) {
        p.stage = 0;
        p.round ^= 1;
    }
    return p;
}

template <int D>
static __device__ inline void load_step(const job &j, const maps &m, const task &t, uint32_t base,
                                        const place &p)
{
    typedef sizes<D> S;
    uint32_t stage = p.stage, barrier = base + S::BARRIERS + stage * 8;
    const corner at = {p.head, p.tile * S::QUERIES, t.b};
    const float *rows = j.rows + (((int64_t)t.b * j.heads + p.head) * j.q_tiles + p.tile) *
                                     ROW_NUMBERS * S::QUERIES;
    barrier_expect(barrier, 2 * S::QUERY_BYTES + S::ROW_BYTES);
    load_tiles<S::TILES>(base + S::Q + stage * S::QUERY_BYTES, S::QUERY_TILE, &m.q, barrier, at);
    load_tiles<S::TILES>(base + S::DOUT + stage * S::QUERY_BYTES, S::QUERY_TILE, &m.dout, barrier,
                         at);
    load_bytes(base + S::ROWS + stage * S::ROW_BYTES, rows, S::ROW_BYTES, barrier);
}

template <int D>
static __device__ inline void load_keys(const maps &m, const task &t, uint32_t base)
{
    typedef sizes<D> S;
    uint32_t barrier = base + S::BARRIERS + STAGES * 8;
    const corner at = {t.group, t.key, t.b};
    barrier_expect(barrier, 2 * S::KEY_BYTES);
    load_tiles<S::TILES>(base + S::K, S::KEY_TILE, &m.k, barrier, at);
    load_tiles<S::TILES>(base + S::V, S::KEY_TILE, &m.v, barrier, at);
}

/* out (64 keys x QUERIES) = keys or values times the transposed queries or their gradients. */
template <int D>
static __device__ inline void issue_scores(float (&out)[sizes<D>::QUERIES / 2], uint32_t keys,
                                           uint32_t queries, int team)
{
    typedef sizes<D> S;
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
        uint32_t tile = k / 4, in = k % 4 * 32;
        uint64_t a = operand(keys + tile * S::KEY_TILE + team * 64 * TILE_PITCH + in, 16);
        uint64_t b = operand(queries + tile * S::QUERY_TILE + in, 16);
        if (k == 0)
            multiply<false>(out, a, b);
        else
            multiply_add<false>(out, a, b);
    }
    products_commit();
}

/* out (64 keys x D) += held (64 keys x QUERIES) * queries or their gradients. */
template <int D>
static __device__ inline void issue_registers(float (&out)[D / 2],
                                              const uint32_t (&held)[sizes<D>::QUERIES / 4],
                                              uint32_t queries)
{
    typedef sizes<D> S;
#pragma unroll
    for (int k = 0; k < S::QUERIES / 16; ++k)
        multiply_registers(out, held + 4 * k,
                           operand(queries + k * 16 * TILE_PITCH, S::QUERY_TILE));
    products_commit();
}

/* The gradient of 64 queries (D 64: the team's; otherwise all, and 64 of the columns). */
template <int D>
static __device__ inline void issue_queries(float (&out)[32], uint32_t scores, uint32_t keys,
                                            int team)
{
    uint32_t tile = team * sizes<D>::KEY_TILE;
#pragma unroll
    for (int k = 0; k < KEYS / 16; ++k) {
        uint32_t at = k * 16 * TILE_PITCH;
        uint64_t a = operand(scores + (D == 64 ? tile : 0) + at, 16);
        uint64_t b = operand(keys + (D == 64 ? 0 : tile) + at, 16);
        if (k == 0)
            multiply<true>(out, a, b);
        else
            multiply_add<true>(out, a, b);
    }
    products_commit();
}

/* Parameters that turn a thread's scores into weights: the key of its first row, the query of its
   first column. */
typedef struct weighing {
    float factor;
    uint32_t rows;
    int key, query;
} weighing;

/* p = exp2(s * factor - row). MASKED: keys outside a query's mask get no weight. */
template <bool MASKED, int N>
static __device__ inline void weigh(const float (&s)[N], float (&p)[N], uint32_t (&held)[N / 2],
                                    const weighing &w)
{
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        float2 row = load_two(w.rows + i * 2 * sizeof(float));
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            float x = __fmaf_rn(s[i + e], w.factor, -(e % 2 ? row.y : row.x));
            if (MASKED && w.key + e / 2 * 8 > w.query + i * 2 + e % 2) x = -INFINITY;
            asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(p[i + e]) : "f"(x));
        }
        held[i / 2] = pack(p[i], p[i + 1]);
        held[i / 2 + 1] = pack(p[i + 2], p[i + 3]);
    }
}

/* held = the gradients of the scores: weight * (dp - delta). */
template <int N>
static __device__ inline void differentiate(const float (&s)[N], const float (&dp)[N],
                                            uint32_t (&held)[N / 2], uint32_t deltas)
{
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        float2 delta = load_two(deltas + i * 2 * sizeof(float));
        held[i / 2] = pack(s[i] * (dp[i] - delta.x), s[i + 1] * (dp[i + 1] - delta.y));
        held[i / 2 + 1] = pack(s[i + 2] * (dp[i + 2] - delta.x), s[i + 3] * (dp[i + 3] - delta.y));
    }
}

/* Stores to shared memory, keys by queries, where both teams read it. */
template <int N>
static __device__ inline void store_scores(const uint32_t (&held)[N], uint32_t scores,
                                           const spot &s)
{
    int row = s.team * 64 + s.row;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        int chunk = i / 2, low = (row + i % 2 * 8) * TILE_PITCH;
        uint32_t at =
            chunk / 8 * (KEYS * TILE_PITCH) + low + ((chunk % 8 ^ row % 8) << 4) + s.col * 2;
        store_word(scores + at, held[i]);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Factors of a thread's part of the queries' gradients: those of its two rows, and of half of its
   columns. */
typedef struct factors {
    float high, low;
    float2 col[4];
} factors;

static __device__ inline void load_columns(factors &f, uint32_t cols, int part)
{
#pragma unroll
    for (int i = 0; i < 4; ++i) f.col[i] = load_two(cols + (part * 32 + i * 8) * sizeof(float));
}

/* Adds a team's numbers to the sums, through shared memory, where numbers i to i + 3 of thread t
   are at i * TEAM + 4 * t. */
static __device__ inline void add_queries(const float (&dq)[32], factors &f, uint32_t cols,
                                          int *sums, uint32_t part, const spot &s)
{
    uint32_t to = part + threadIdx.x % TEAM * 16;
#pragma unroll
    for (int i = 0; i < 32; i += 4) {
        float2 col = f.col[i / 4 % 4];
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to + i * TEAM * 4),
                     "r"(__float2int_rn(dq[i] * f.high * col.x)),
                     "r"(__float2int_rn(dq[i + 1] * f.high * col.y)),
                     "r"(__float2int_rn(dq[i + 2] * f.low * col.x)),
                     "r"(__float2int_rn(dq[i + 3] * f.low * col.y))
                     : "memory");
        if (i == 12) load_columns(f, cols, 1);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync %0, 128;" ::"r"(TEAM_BARRIER + s.team) : "memory");
    if (threadIdx.x % TEAM == 0)
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], %2;\n"
                     "cp.async.bulk.commit_group;" ::"l"(sums + s.team * 32 * TEAM),
                     "r"(part), "n"(PART_BYTES)
                     : "memory");
}

/* Waits until the last part was read from shared memory. */
static __device__ inline void wait_added()
{
    if (threadIdx.x % TEAM == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/* Stores the gradients of 64 keys or values. */
template <int D>
static __device__ inline void store_keys(const float (&x)[D / 2], __nv_bfloat16 *to, const job &j,
                                         const task &t, const spot &s, float scale)
{
    int token = t.key + s.team * 64 + s.row;
#pragma unroll
    for (int low = 0; low < 2; ++low) {
        if (token + 8 * low >= j.tokens) continue;
        __nv_bfloat16 *row =
            to + ((int64_t)t.b * j.tokens + token + 8 * low) * j.kv_stride + t.group * D + s.col;
#pragma unroll
        for (int i = 0; i < D / 2; i += 4)
            *(uint32_t *)(row + i * 2) = pack(x[i + 2 * low] * scale, x[i + 2 * low + 1] * scale);
    }
}

static __device__ inline float power(int exponent)
{
    return __uint_as_float((unsigned)(exponent + 127) << 23);
}

/* The exponent of the power of two above x, clamped so that all factors are finite. */
static __device__ inline int exponent_above(float x, int least, int most)
{
    int e = (int)(__float_as_uint(x) >> 23) - 126;
    return e < least ? least : e > most ? most : e;
}

/* Dimension d's part of the unit of a sum is 2^key_bits. */
static __device__ inline int key_bits(unsigned most)
{
    return exponent_above(__uint_as_float(most), -60, 60) - KEY_BITS;
}

/* Starts the first loads, and computes the factors of the columns. */
template <int D>
static __device__ inline void begin(const job &j, const maps &m, const task &t, uint32_t base,
                                    const place &first)
{
    typedef sizes<D> S;
    if (threadIdx.x == 0) {
        for (int i = 0; i <= STAGES; ++i)
            asm volatile(
                "mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(base + S::BARRIERS + i * 8));
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        load_keys<D>(m, t, base);
        load_step<D>(j, m, t, base, first);
        if (t.steps > 1) load_step<D>(j, m, t, base, later(first, j, t));
    }
    if (threadIdx.x < D) {
        unsigned most = j.most[((int64_t)t.b * j.groups + t.group) * (1 + D) + 1 + threadIdx.x];
        store_word(base + S::FACTORS + threadIdx.x * 4, __float_as_uint(power(-key_bits(most))));
    }
    __syncthreads();
}

/* A step: weights from scores, then the gradients of values, scores, queries and keys, while the
   next step's scores are computed. Both teams need the gradients of all scores; barriers keep one
   team from overwriting what the other still reads. */
template <int D>
static __global__ void __launch_bounds__(THREADS, 1)
    go_back(const __grid_constant__ maps m, const __grid_constant__ job j)
{
    typedef sizes<D> S;
    extern __shared__ __align__(GROUP_BYTES) unsigned char memory[];
    const uint32_t base = shared_address(memory);
    const task t = find_task<D>(j);
    const spot at = find_spot();
    const uint32_t barriers = base + S::BARRIERS;
    place now = first_place(j, t);
    begin<D>(j, m, t, base, now);
    float dk[D / 2], dv[D / 2], s[S::QUERIES / 2], dp[S::QUERIES / 2], dq[32];
#pragma unroll
    for (int i = 0; i < D / 2; ++i)
        asm volatile("mov.f32 %0, 0f00000000;\nmov.f32 %1, 0f00000000;" : "=f"(dk[i]), "=f"(dv[i]));
    const float factor = j.scale * LOG2E;
    barrier_wait(barriers + STAGES * 8, 0);
    barrier_wait(barriers, 0);
    products_begin();
    issue_scores<D>(s, base + S::K, base + S::Q, at.team);
    products_wait<0>();
    int step = 0;
    do {
        uint32_t team = at.team;
        asm volatile("" : "+r"(team)); /* else operands' addresses take registers in all steps */
        const uint32_t q = base + S::Q + now.stage * S::QUERY_BYTES;
        const uint32_t dout = base + S::DOUT + now.stage * S::QUERY_BYTES;
        const uint32_t rows = base + S::ROWS + now.stage * S::ROW_BYTES, scores = base + S::SCORES;
        const int query = now.tile * S::QUERIES;
        uint32_t held[S::QUERIES / 4], slopes[S::QUERIES / 4];
        products_begin();
        issue_scores<D>(dp, base + S::V, dout, team);
        const uint32_t mine = rows + at.col * (uint32_t)sizeof(float);
        const weighing w = {factor, mine, (int)(t.key + team * 64 + at.row), query + at.col};
        float p[S::QUERIES / 2];
        if (t.key + KEYS > query)
            weigh<true>(s, p, held, w);
        else
            weigh<false>(s, p, held, w);
        products_wait<0>();
        products_begin();
        issue_registers<D>(dv, held, dout);
        differentiate(p, dp, slopes, mine + S::QUERIES * (uint32_t)sizeof(float));
        if (step > 0) asm volatile("bar.sync %0, 256;" ::"r"(READ_BARRIER + 1 - team) : "memory");
        store_scores(slopes, scores, at);
        wait_added();
        asm volatile("bar.sync %0, 256;" ::"n"(ALL_BARRIER) : "memory");
        if (threadIdx.x == 0 && step + 2 < t.steps)
            load_step<D>(j, m, t, base, later(later(now, j, t), j, t));
        int *sums = j.sums +
                    (((int64_t)t.b * j.heads + now.head) * j.q_tiles + now.tile) * (S::QUERIES * D);
        now = later(now, j, t);
        if (step + 1 < t.steps) barrier_wait(barriers + now.stage * 8, now.round);
        products_begin();
        issue_queries<D>(dq, scores, base + S::K, team);
        issue_registers<D>(dk, slopes, q);
        issue_scores<D>(s, base + S::K, base + S::Q + now.stage * S::QUERY_BYTES, team);
        const uint32_t cols = base + S::FACTORS + (at.col + (D == 64 ? 0 : team * 64)) * 4;
        const uint32_t high = rows + (2 * S::QUERIES + at.row + (D == 64 ? team * 64 : 0)) * 4;
        factors f = {load_one(high), load_one(high + 8 * 4)};
        load_columns(f, cols, 0);
        products_wait<2>();
        if (step + 1 < t.steps)
            asm volatile("bar.arrive %0, 256;" ::"r"(READ_BARRIER + team) : "memory");
        add_queries(dq, f, cols, sums, base + S::PARTS + team * PART_BYTES, at);
        products_wait<0>();
    } while (++step < t.steps);
    store_keys<D>(dk, j.dk, j, t, at, j.scale);
    store_keys<D>(dv, j.dv, j, t, at, 1);
    wait_added();
}

#endif
