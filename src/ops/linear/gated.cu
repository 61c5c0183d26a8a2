/* gated.cu - SwiGLU of two products with adapters, and the first product of the next adapter.

   [Note: gated] Products with B and A are thin: on their own they would read and write the gate's
   and up's numbers again. Here a warp has 64 columns, and walks down the rows, 16 at a time. A
   thread loads runs of eight numbers of rows g and g + 8; in the products with B, whose columns are
   permuted for that, its results are the same numbers, so that they are added in registers.
   Rounded, the results are the first factor of the product with A, as in [Note: narrow gradients].
   Backward computes gate and up again. Partial sums, whose number depends on the shape only, are
   added in order. */
extern "C" {
#include "ops/linear/gated.h"
}
#include "ops/elements/swiglu_cuda.h"
#include "ops/linear/narrow_cuda.h"
#include "ops/linear/walk_cuda.h"

#define WARPS 4    /* of a block */
#define STAGES 2   /* tiles on their way */
#define WIDTH 16   /* of the factors, padded */
#define BLOCKS 396 /* of a grid, about */
#define BACK_BLOCKS 264

typedef struct job {
    int64_t rows, n, block_rows;
    const uint16_t *base[2], *factor[2]; /* gate and up; p and q */
    const uint16_t *b[2], *a;
    int rank[3];
    uint16_t *y;
    const uint16_t *dy, *dz;
    float scale; /* of dz */
    uint16_t *dbase[2];
    float *part; /* of z (blocks across, rows, WIDTH), or of A's gradient (blocks down, WIDTH, n) */
} job;

/* A grid of about so many blocks. */
typedef struct grid {
    int64_t across, rows, down; /* blocks, rows of a block, blocks */
} grid;

static grid grid_of(const hil_gated &g, int64_t blocks)
{
    grid out = {};
    out.across = (g.n + WARPS * HIL_WALK_COLS - 1) / (WARPS * HIL_WALK_COLS);
    int64_t down = blocks / out.across > 1 ? blocks / out.across : 1;
    out.rows = ((g.rows + down - 1) / down + HIL_WALK_ROWS - 1) / HIL_WALK_ROWS * HIL_WALK_ROWS;
    out.down = (g.rows + out.rows - 1) / out.rows;
    return out;
}

/* Like hil_walk_pair, of A (rank x n). */
static __device__ inline uint32_t a_pair(const job &j, const hil_walk &p, int s, int high)
{
    int r = 2 * p.t + 8 * high;
    if (!hil_walk_is_on(p) || r >= j.rank[2]) return 0;
    const uint16_t *from = j.a + r * j.n + hil_walk_column(p, s);
    return from[0] | (uint32_t)from[j.n] << 16;
}

/* Of A' as second factor: columns in the order of the words, 16 of them in step s, for number r. */
static __device__ inline uint32_t a_columns(const job &j, const hil_walk &p, int s, int r, int high)
{
    int64_t col = p.col + 32 * (s / 2) + 8 * p.t + 4 * (s % 2) + 2 * high;
    if (!hil_walk_is_on(p) || r >= j.rank[2]) return 0;
    return *(const uint32_t *)(j.a + r * j.n + col);
}

/* Off by a few units of fp32, which bf16 does not show, at a third of the instructions. */
static __device__ inline float logistic(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(-1.44269504f * x));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + y));
    return y;
}

/* Adds a block's sums over the columns of its warps, and writes them. */
static __device__ inline void write_sums(const job &j, const hil_walk &p, int64_t row,
                                         float (*shared)[HIL_WALK_ROWS][WIDTH], const float z[2][4])
{
    float(*own)[WIDTH] = shared[threadIdx.x / 32];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        *(float2 *)&own[p.g + 8 * (i / 2)][8 * (i % 2) + 2 * p.t] =
            make_float2(z[i % 2][2 * (i / 2)], z[i % 2][2 * (i / 2) + 1]);
    __syncthreads();
    const float *from = &shared[0][0][0] + 2 * threadIdx.x;
    float2 sum = {};
#pragma unroll
    for (int i = 0; i < WARPS; ++i)
        sum.x += from[i * HIL_WALK_ROWS * WIDTH], sum.y += from[i * HIL_WALK_ROWS * WIDTH + 1];
    *(float2 *)(j.part + (blockIdx.x * j.rows + row) * WIDTH + 2 * threadIdx.x) = sum;
}

/* Shared memory: the second factors of B (and of A), and a ring of tiles. */
template <int TENSORS> struct space {
    uint4 b[WARPS][HIL_WALK_PRODUCTS][32];
    uint4 ring[STAGES][TENSORS][HIL_WALK_RUNS][32 * WARPS];
};

static __device__ inline void load_factors(const job &j, const hil_walk &p, int64_t row,
                                           uint32_t out[2][4])
{
    hil_walk_factor(j.factor[0], j.rank[0], p, row, out[0]);
    hil_walk_factor(j.factor[1], j.rank[1], p, row, out[1]);
}

static __device__ inline uint4 b_pairs(const job &j, const hil_walk &p, int s)
{
    return make_uint4(
        hil_walk_pair(j.b[0], j.rank[0], p, s, 0), hil_walk_pair(j.b[0], j.rank[0], p, s, 1),
        hil_walk_pair(j.b[1], j.rank[1], p, s, 0), hil_walk_pair(j.b[1], j.rank[1], p, s, 1));
}

struct forward_space {
    space<2> tiles;
    float sums[2][WARPS][HIL_WALK_ROWS][WIDTH];
};

static __device__ inline void fetch_bases(const job &j, const hil_walk &p, int64_t row, int64_t end,
                                          uint4 (*ring)[HIL_WALK_RUNS][32 * WARPS])
{
    if (row < end)
#pragma unroll
        for (int i = 0; i < 2; ++i) hil_walk_fetch(p, row, j.base[i], true, ring[i][0]);
    hil_walk_commit();
}

static __global__ void __launch_bounds__(32 * WARPS, 3) gated_forward(const job j)
{
    extern __shared__ uint4 memory[];
    forward_space &m = *(forward_space *)memory;
    hil_walk p = hil_walk_of(WARPS, j.n);
    uint4(*own)[32] = m.tiles.b[threadIdx.x / 32];
    int lane = (int)threadIdx.x % 32, turn = 0, stage = 0;
    hil_walk_rows rows = hil_walk_rows_of(j.block_rows, j.rows);
#pragma unroll
    for (int s = 0; s < STAGES; ++s)
        fetch_bases(j, p, rows.first + s * HIL_WALK_ROWS, rows.end, m.tiles.ring[s]);
    uint32_t columns[4][2][2], next[2][4];
    load_factors(j, p, rows.first, next);
#pragma unroll
    for (int s = 0; s < HIL_WALK_PRODUCTS; ++s) own[s][lane] = b_pairs(j, p, s);
#pragma unroll
    for (int i = 0; i < 16; ++i)
        columns[i / 4][i / 2 % 2][i % 2] = a_columns(j, p, i / 4, p.g + 8 * (i / 2 % 2), i % 2);
    for (int64_t row = rows.first; row < rows.end; row += HIL_WALK_ROWS, turn ^= 1) {
        uint32_t gate[4][4], up[4][4], factor[2][4];
        hil_walk_wait<STAGES - 1>();
        hil_walk_read(m.tiles.ring[stage][0][0], gate);
        hil_walk_read(m.tiles.ring[stage][1][0], up);
        fetch_bases(j, p, row + STAGES * HIL_WALK_ROWS, rows.end, m.tiles.ring[stage]);
        stage = stage + 1 < STAGES ? stage + 1 : 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) factor[i / 4][i % 4] = next[i / 4][i % 4];
        if (row + HIL_WALK_ROWS < rows.end) load_factors(j, p, row + HIL_WALK_ROWS, next);
#pragma unroll
        for (int s = 0; s < HIL_WALK_PRODUCTS; ++s) {
            int run = s / 4, w = s % 4;
            float g[4], u[4];
            uint4 b = own[s][lane];
            hil_walk_unpack(g, gate[run][w], gate[2 + run][w]);
            hil_walk_unpack(u, up[run][w], up[2 + run][w]);
            hil_mma(g, factor[0], b.x, b.y);
            hil_mma(u, factor[1], b.z, b.w);
#pragma unroll
            for (int i = 0; i < 4; ++i) g[i] = hil_swiglu_forward(g[i], logistic(g[i]), u[i]);
            gate[run][w] = hil_walk_pack(g[0], g[1]), gate[2 + run][w] = hil_walk_pack(g[2], g[3]);
        }
        hil_walk_store(p, row, j.y, gate);
        float z[2][4] = {};
        hil_walk_multiply(gate, columns, z);
        write_sums(j, p, row, m.sums[turn], z);
    }
}

struct backward_space {
    space<3> tiles;
    uint2 a[WARPS][HIL_WALK_PRODUCTS][32];
};

static __device__ inline void fetch_gradients(const job &j, const hil_walk &p, int64_t row,
                                              int64_t end, uint4 (*ring)[HIL_WALK_RUNS][32 * WARPS])
{
    if (row < end) {
        hil_walk_fetch(p, row, j.base[0], true, ring[0][0]);
        hil_walk_fetch(p, row, j.base[1], true, ring[1][0]);
        hil_walk_fetch(p, row, j.dy ? j.dy : j.base[0], j.dy, ring[2][0]);
    }
    hil_walk_commit();
}

/* dz times its scale, rounded, as first factor and, turned, as that of A's gradient. */
static __device__ inline void scale_factor(float scale, uint32_t dz[4], uint32_t turned[4])
{
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        float c[4];
        hil_walk_unpack(c, dz[i], dz[i + 1]);
        dz[i] = hil_walk_pack(scale * c[0], scale * c[1]);
        dz[i + 1] = hil_walk_pack(scale * c[2], scale * c[3]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) turned[i] = hil_mma_transpose(dz[2 * (i % 2) + i / 2]);
}

static __global__ void __launch_bounds__(32 * WARPS, 2) gated_backward(const job j)
{
    extern __shared__ uint4 memory[];
    backward_space &m = *(backward_space *)memory;
    hil_walk p = hil_walk_of(WARPS, j.n);
    uint4(*own)[32] = m.tiles.b[threadIdx.x / 32];
    uint2(*own_a)[32] = m.a[threadIdx.x / 32];
    int lane = (int)threadIdx.x % 32, stage = 0;
    if (!hil_walk_is_on(p)) return;
    hil_walk_rows rows = hil_walk_rows_of(j.block_rows, j.rows);
#pragma unroll
    for (int s = 0; s < STAGES; ++s)
        fetch_gradients(j, p, rows.first + s * HIL_WALK_ROWS, rows.end, m.tiles.ring[s]);
#pragma unroll
    for (int s = 0; s < HIL_WALK_PRODUCTS; ++s) {
        own[s][lane] = b_pairs(j, p, s);
        own_a[s][lane] = make_uint2(a_pair(j, p, s, 0), a_pair(j, p, s, 1));
    }
    float da[HIL_WALK_PRODUCTS][4] = {};
    for (int64_t row = rows.first; row < rows.end; row += HIL_WALK_ROWS) {
        uint32_t gate[4][4], up[4][4], dy[4][4], factor[2][4], dz[4], turned[4];
        load_factors(j, p, row, factor);
        hil_walk_factor(j.dz, j.rank[2], p, row, dz);
        hil_walk_wait<STAGES - 1>();
        hil_walk_read(m.tiles.ring[stage][0][0], gate);
        hil_walk_read(m.tiles.ring[stage][1][0], up);
        hil_walk_read(m.tiles.ring[stage][2][0], dy);
        fetch_gradients(j, p, row + STAGES * HIL_WALK_ROWS, rows.end, m.tiles.ring[stage]);
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        scale_factor(j.scale, dz, turned);
#pragma unroll
        for (int s = 0; s < HIL_WALK_PRODUCTS; ++s) {
            int run = s / 4, w = s % 4;
            float g[4], u[4], d[4], y[4];
            uint4 b = own[s][lane];
            uint2 a = own_a[s][lane];
            hil_walk_unpack(g, gate[run][w], gate[2 + run][w]);
            hil_walk_unpack(u, up[run][w], up[2 + run][w]);
            hil_walk_unpack(d, dy[run][w], dy[2 + run][w]);
            hil_mma(g, factor[0], b.x, b.y);
            hil_mma(u, factor[1], b.z, b.w);
            hil_mma(d, dz, a.x, a.y);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float l = logistic(g[i]);
                y[i] = hil_swiglu_forward(g[i], l, u[i]);
                hil_swiglu_backward(g[i], l, u[i], d[i], &g[i], &u[i]);
            }
            hil_mma(da[s], turned, hil_mma_transpose(hil_walk_pack(y[0], y[1])),
                    hil_mma_transpose(hil_walk_pack(y[2], y[3])));
            gate[run][w] = hil_walk_pack(g[0], g[1]), gate[2 + run][w] = hil_walk_pack(g[2], g[3]);
            up[run][w] = hil_walk_pack(u[0], u[1]), up[2 + run][w] = hil_walk_pack(u[2], u[3]);
        }
        hil_walk_store(p, row, j.dbase[0], gate);
        hil_walk_store(p, row, j.dbase[1], up);
    }
#pragma unroll
    for (int s = 0; s < HIL_WALK_PRODUCTS; ++s) {
        int64_t col = p.col + 32 * (s / 4) + 8 * p.t + 2 * (s % 4);
        float *to = j.part + (blockIdx.y * WIDTH + p.g) * j.n + col;
        *(float2 *)to = make_float2(da[s][0], da[s][1]);
        *(float2 *)(to + 8 * j.n) = make_float2(da[s][2], da[s][3]);
    }
}

/* Scratch after the matrices. */
typedef struct scratch {
    float *part;
    void *narrow; /* backward: of hil_cuda_narrow */
    size_t bytes;
} scratch;

static scratch scratch_of(const hil_op_call *call, const hil_gated &g, bool backward)
{
    scratch s = {NULL, NULL, g.bytes};
    char *begin = (char *)call->scratch;
    int64_t numbers = grid_of(g, BLOCKS).across * g.rows;
    if (backward) numbers = grid_of(g, BACK_BLOCKS).down * g.n;
    s.part = (float *)(begin + hil_scratch_add(&s.bytes, numbers * WIDTH, sizeof(float)));
    s.narrow = begin + s.bytes;
    if (backward) s.bytes += hil_cuda_narrow_bytes(g.rows, g.n);
    return s;
}

static hil_status infer(hil_op_call *call)
{
    call->scratch = NULL;
    hil_gated forward = hil_gated_of(call, false), backward = hil_gated_of(call, true);
    if (!hil_gated_suits(call->compute, forward.rows, forward.n, forward.rank) ||
        !hil_cuda_narrow_suits(call->device, call->compute, forward.rows, forward.n,
                               forward.rank[0]))
        return hil_fail(HIL_ERR_USAGE, "gated: %s of %s does not suit this GPU",
                        hil_infer_shape_text(&call->in[0].shape).text,
                        hil_dtype_name(call->compute));
    call->forward_scratch = scratch_of(call, forward, false).bytes;
    call->backward_scratch = scratch_of(call, backward, true).bytes;
    return HIL_OK;
}

static job job_of(const hil_op_call *call, const hil_gated &g)
{
    job j = {};
    j.rows = g.rows, j.n = g.n;
    for (int i = 0; i < 2; ++i) {
        j.base[i] = (const uint16_t *)call->in[i].data;
        j.factor[i] = (const uint16_t *)call->in[2 + i].data;
        j.b[i] = (const uint16_t *)g.matrix[i];
    }
    j.a = (const uint16_t *)g.matrix[2];
    for (int i = 0; i < 3; ++i) j.rank[i] = (int)g.rank[i];
    j.scale = (float)((const hil_gated_attr *)call->attr)->scale;
    return j;
}

static hil_status copy_matrices(const hil_op_call *call, const hil_gated &g)
{
    for (int i = 0; i < 3; ++i) HIL_TRY(hil_op_cuda_matrix(call, i, g.matrix[i]));
    return HIL_OK;
}

static hil_status launch(hil_device *device, const grid &blocks, void (*kernel)(const job),
                         size_t shared, const job &j)
{
    dim3 all((unsigned)blocks.across, (unsigned)blocks.down);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    kernel<<<all, 32 * WARPS, shared, hil_cuda_stream(device, HIL_STREAM_COMPUTE)>>>(j);
    return hil_cuda_launched(device, "gated product");
}

static hil_status forward(hil_op_call *call)
{
    hil_gated g = hil_gated_of(call, false);
    scratch s = scratch_of(call, g, false);
    grid blocks = grid_of(g, BLOCKS);
    HIL_TRY(copy_matrices(call, g));
    job j = job_of(call, g);
    j.block_rows = blocks.rows;
    j.y = (uint16_t *)call->out[0].data;
    j.part = s.part;
    HIL_TRY(launch(call->device, blocks, gated_forward, sizeof(forward_space), j));
    hil_cuda_parts z = {s.part, blocks.across, g.rows * WIDTH, g.rows,
                        WIDTH,  g.rank[2],     j.scale,        false};
    return hil_cuda_parts_sum(call->device, hil_view_of(&call->out[1]), &z);
}

/* Of the gate or of up: the gradients of its factor and of its B. */
static hil_status back_adapter(const hil_op_call *call, const hil_gated &g, const scratch &s, int i)
{
    hil_cuda_narrow product = {
        g.rows, g.n, g.rank[i], call->din[i].data, g.matrix[i], call->in[2 + i].data, s.narrow};
    HIL_TRY(hil_cuda_narrow_run(call->device, &product));
    if (call->din[2 + i].data)
        HIL_TRY(hil_cuda_narrow_input(call->device, &product, call->din[2 + i].data,
                                      call->din_add[2 + i]));
    return hil_cuda_narrow_weight(call->device, &product, g.sum[i], false);
}

static hil_status backward(hil_op_call *call)
{
    hil_gated g = hil_gated_of(call, true);
    scratch s = scratch_of(call, g, true);
    grid blocks = grid_of(g, BACK_BLOCKS);
    if (!call->din[0].data || !call->din[1].data || call->din_add[0] || call->din_add[1])
        return hil_fail(HIL_ERR_USAGE, "gated: something else reads the gate or up");
    HIL_TRY(copy_matrices(call, g));
    job j = job_of(call, g);
    j.block_rows = blocks.rows;
    j.dy = (const uint16_t *)call->dout[0].data;
    j.dz = (const uint16_t *)call->dout[1].data;
    for (int i = 0; i < 2; ++i) j.dbase[i] = (uint16_t *)call->din[i].data;
    j.part = s.part;
    HIL_TRY(launch(call->device, blocks, gated_backward, sizeof(backward_space), j));
    hil_cuda_parts a = {s.part, blocks.down, WIDTH * g.n, g.rank[2], g.n, g.n, 1, false};
    HIL_TRY(hil_cuda_parts_sum(call->device, {g.sum[2], HIL_F32}, &a));
    for (int i = 0; i < 2; ++i) HIL_TRY(back_adapter(call, g, s, i));
    for (int i = 0; i < 3; ++i) HIL_TRY(hil_op_cuda_give_matrix(call, i, g.sum[i]));
    return HIL_OK;
}

const hil_op_kernel hil_cuda_gated = {
    .op = &hil_op_gated, .infer = infer, .forward = forward, .backward = backward};
