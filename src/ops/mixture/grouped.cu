/* grouped.cu - a linear layer for each expert, on the rows of x that chose it. */
#include "ops/mixture/grouped_cuda.h"

#define SIDE 64 /* of the part of a result that a block of threads computes */
#define DEPTH 16
#define THREADS 256
#define EACH 4 /* rows, and columns, of a thread */
#define ROW_BLOCKS 64
#define CLEAR_BLOCKS 1024

typedef struct sizes {
    int64_t experts, tiles; /* tiles of each expert */
    int64_t rows, n, k;
} sizes;

static sizes measure(const hil_op_call *call)
{
    int64_t experts = ((const hil_grouped_attr *)call->attr)->experts;
    const hil_op_param &w = call->param[0];
    return {experts, hil_op_tiles(&w), call->in[0].shape.dim[0], w.rows, w.cols};
}

/* Scratch: a number for each launch, of which there are no more than tiles; backward also: the
   gradient of x (rows, K), when tiles must be summed. */
static hil_status infer(hil_op_call *call)
{
    sizes s = measure(call);
    if (call->in[0].dtype != call->param[0].dtype || call->compute != call->param[0].dtype)
        return hil_fail(HIL_ERR_USAGE,
                        "grouped_linear: input is %s, weight is %s; a GPU wants both alike",
                        hil_dtype_name(call->in[0].dtype), hil_dtype_name(call->param[0].dtype));
    if (call->param[0].fp8)
        return hil_fail(HIL_ERR_USAGE, "grouped_linear: products of experts are not computed in "
                                       "fp8 on a GPU: use --dtype bf16");
    hil_scratch_add(&call->forward_scratch, s.tiles * s.experts, sizeof(int32_t));
    hil_scratch_add(&call->backward_scratch, s.tiles * s.experts, sizeof(int32_t));
    if (s.tiles > 1) hil_scratch_add(&call->backward_scratch, s.rows * s.k, sizeof(float));
    return HIL_OK;
}

/* c (m x n) = a (m x k) * b (k x n), each with the distances of its rows and of its columns. */
typedef struct product {
    int64_t m, n, k;
    hil_view a, b, c;
    int64_t a_at, a_row, a_col, b_at, b_row, b_col, c_at, c_row;
    bool add;
} product;

static __device__ inline product product_of(const hil_cuda_grouped &g, int tile)
{
    const hil_grouped_tile t = g.tile[tile];
    int64_t first = g.begin[t.expert], rows = g.begin[t.expert + 1] - first;
    hil_view w = {t.data, g.dtype}, sum = {t.data, HIL_F32};
    if (g.kind == HIL_GROUPED_FORWARD)
        return {rows,
                t.count,
                g.k,
                g.in,
                w,
                g.out,
                first * g.k,
                g.k,
                1,
                0,
                1,
                g.k,
                first * g.n + t.column,
                g.n,
                g.add};
    int64_t part = first * g.n + t.column;
    if (g.kind == HIL_GROUPED_INPUT)
        return {rows, g.k, t.count, g.in, w,           g.out, part, g.n,
                1,    0,   g.k,     1,    first * g.k, g.k,   g.add};
    return {t.count, g.k,         rows, g.in, g.other, sum, part, 1,
            g.n,     first * g.k, g.k,  1,    0,       g.k, t.add};
}

static __device__ inline float read(hil_view x, int64_t at)
{
    float out[HIL_WIDE];
    hil_wide_read(hil_wide_load(x, at, 1), x.dtype, out);
    return out[0];
}

/* The part of c from row `top` and column `left`, in fp32, for any dtype. */
static __device__ inline void compute_part(const product &p, int64_t top, int64_t left)
{
    __shared__ float a[DEPTH][SIDE + 1], b[DEPTH][SIDE + 1];
    int row = threadIdx.x / (SIDE / EACH) * EACH, col = threadIdx.x % (SIDE / EACH) * EACH;
    float sum[EACH][EACH] = {};
    for (int64_t from = 0; from < p.k; from += DEPTH) {
        __syncthreads();
        for (int i = threadIdx.x; i < DEPTH * SIDE; i += THREADS) {
            int64_t at = from + i / SIDE, m = top + i % SIDE, n = left + i % SIDE;
            bool there = at < p.k;
            a[i / SIDE][i % SIDE] =
                there && m < p.m ? read(p.a, p.a_at + m * p.a_row + at * p.a_col) : 0;
            b[i / SIDE][i % SIDE] =
                there && n < p.n ? read(p.b, p.b_at + at * p.b_row + n * p.b_col) : 0;
        }
        __syncthreads();
        for (int k = 0; k < DEPTH; ++k)
#pragma unroll
            for (int i = 0; i < EACH; ++i)
#pragma unroll
                for (int j = 0; j < EACH; ++j)
                    sum[i][j] = fmaf(a[k][row + i], b[k][col + j], sum[i][j]);
    }
    for (int i = 0; i < EACH && top + row + i < p.m; ++i)
        for (int j = 0; j < EACH && left + col + j < p.n; ++j) {
            float one[HIL_WIDE] = {sum[i][j]};
            hil_wide_write(p.c, p.c_at + (top + row + i) * p.c_row + left + col + j, 1, one, p.add);
        }
}

static __global__ void __launch_bounds__(THREADS)
    multiply(const __grid_constant__ hil_cuda_grouped g)
{
    const product p = product_of(g, blockIdx.z);
    for (int64_t top = blockIdx.y * SIDE; top < p.m; top += (int64_t)gridDim.y * SIDE)
        compute_part(p, top, (int64_t)blockIdx.x * SIDE);
}

static hil_status run(hil_device *device, const hil_cuda_grouped *g)
{
    if (g->tiles == 0 || g->n == 0 || g->k == 0) return HIL_OK;
    if (g->rows && hil_grouped_hopper_can(device, g->dtype, g->n, g->k))
        return hil_grouped_hopper_run(device, g);
    int64_t cols = g->kind == HIL_GROUPED_FORWARD ? g->n : g->k;
    int64_t high = g->kind == HIL_GROUPED_WEIGHT ? g->n : g->rows;
    unsigned blocks = hil_blocks(high, SIDE);
    if (blocks == 0) return HIL_OK;
    dim3 grid(hil_blocks(cols, SIDE), blocks < ROW_BLOCKS ? blocks : ROW_BLOCKS,
              (unsigned)g->tiles);
    multiply<<<grid, THREADS, 0, hil_cuda_stream(device, HIL_STREAM_COMPUTE)>>>(*g);
    return hil_cuda_launched(device, "grouped products");
}

/* Acquires a tile into the group, which has room for it. */
static hil_status begin_tile(const hil_op_call *call, hil_cuda_grouped *g, int64_t tile)
{
    const hil_op_param *w = &call->param[0];
    int64_t tiles = hil_op_tiles(w), column = tile % tiles * w->tile_rows;
    int64_t count = w->rows - column < w->tile_rows ? w->rows - column : w->tile_rows;
    hil_grouped_tile t = {NULL, false, (int32_t)(tile / tiles), (int32_t)column, (int32_t)count};
    const void *data = NULL;
    float *sum = NULL;
    if (g->kind == HIL_GROUPED_WEIGHT)
        HIL_TRY(call->source->gradient_begin(call->owner, 0, tile, &sum, &t.add));
    else
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &data));
    t.data = sum ? sum : (void *)(uintptr_t)data;
    g->tile[g->tiles++] = t;
    return HIL_OK;
}

/* Releases the group's tiles, the last of which is tile `last` - 1. */
static void end_tiles(const hil_op_call *call, hil_cuda_grouped *g, int64_t last)
{
    for (int64_t tile = last - g->tiles; tile < last; ++tile)
        if (g->kind == HIL_GROUPED_WEIGHT)
            call->source->gradient_end(call->owner, 0, tile);
        else
            call->source->weight_end(call->owner, 0, tile);
    g->tiles = 0;
}

/* How many tiles may be held at once. The tiles of one expert add to the same gradient of x. */
static int64_t most_tiles(const hil_op_call *call, const sizes *s, hil_grouped_kind kind)
{
    if (kind == HIL_GROUPED_INPUT && s->tiles > 1) return 1;
    const hil_op_param *w = &call->param[0];
    size_t size = kind == HIL_GROUPED_WEIGHT ? sizeof(float) : hil_dtype_size(w->dtype);
    int64_t most = (int64_t)(call->hold / ((size_t)(w->tile_rows * w->cols) * size + 1));
    return most < 1 ? 1 : most < HIL_GROUPED_TILES ? most : HIL_GROUPED_TILES;
}

/* Runs the products of all tiles of all experts, as many at a time as may be held. */
static hil_status run_all(hil_op_call *call, const sizes *s, hil_cuda_grouped *g)
{
    int64_t all = s->tiles * s->experts, most = most_tiles(call, s, g->kind);
    HIL_TRY(hil_cuda_check(call->device,
                           cudaMemsetAsync(call->scratch, 0, (size_t)all * sizeof *g->taken,
                                           hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)),
                           "clear counters"));
    for (int64_t tile = 0; tile < all;) {
        hil_status status = HIL_OK;
        while (status == HIL_OK && tile < all && g->tiles < most) {
            status = begin_tile(call, g, tile);
            if (status == HIL_OK) ++tile;
        }
        if (status == HIL_OK && g->kind == HIL_GROUPED_INPUT && s->tiles > 1)
            g->add = g->tile[0].column > 0;
        if (status == HIL_OK) status = run(call->device, g);
        ++g->taken;
        end_tiles(call, g, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

/* Rows of experts without weights become zeros. */
static __global__ void __launch_bounds__(THREADS)
    clear_rows(const int32_t *begin, int64_t rows, int64_t cols, const hil_view x)
{
    int64_t first = *begin * cols, last = rows * cols;
    int64_t run = first / HIL_WIDE + (int64_t)blockIdx.x * THREADS + threadIdx.x;
    float zero[HIL_WIDE] = {};
    for (; run * HIL_WIDE < last; run += (int64_t)gridDim.x * THREADS) {
        int64_t at = max(run * HIL_WIDE, first);
        hil_wide_store(x, at, (int)(min((run + 1) * HIL_WIDE, last) - at), zero);
    }
}

static hil_status clear_rest(const hil_op_call *call, const sizes *s, const hil_tensor *x)
{
    if (call->in[1].shape.dim[0] == s->experts + 1) return HIL_OK;
    clear_rows<<<CLEAR_BLOCKS, THREADS, 0, hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(
        (const int32_t *)call->in[1].data + s->experts, s->rows, hil_shape_cols(&x->shape),
        hil_view_of(x));
    return hil_cuda_launched(call->device, "rows of experts without weights");
}

static hil_cuda_grouped group_of(const hil_op_call *call, const sizes *s, hil_grouped_kind kind)
{
    hil_cuda_grouped g = {};
    g.kind = kind;
    g.rows = s->rows, g.n = s->n, g.k = s->k;
    g.begin = (const int32_t *)call->in[1].data;
    g.dtype = call->param[0].dtype;
    g.taken = (int32_t *)call->scratch;
    return g;
}

static hil_status forward(hil_op_call *call)
{
    sizes s = measure(call);
    hil_cuda_grouped g = group_of(call, &s, HIL_GROUPED_FORWARD);
    g.in = hil_view_of(&call->in[0]);
    g.out = hil_view_of(&call->out[0]);
    HIL_TRY(clear_rest(call, &s, &call->out[0]));
    return run_all(call, &s, &g);
}

static hil_status back_input(hil_op_call *call, const sizes *s)
{
    hil_cuda_grouped g = group_of(call, s, HIL_GROUPED_INPUT);
    size_t at = 0;
    hil_scratch_add(&at, s->tiles * s->experts, sizeof(int32_t));
    hil_tensor whole = {HIL_F32, call->din[0].shape, hil_scratch_at(call, at)};
    g.in = hil_view_of(&call->dout[0]);
    g.out = hil_view_of(s->tiles > 1 ? &whole : &call->din[0]);
    g.add = call->din_add[0];
    if (s->tiles > 1) HIL_TRY(clear_rest(call, s, &whole));
    if (s->tiles == 1 && !g.add) HIL_TRY(clear_rest(call, s, &call->din[0]));
    HIL_TRY(run_all(call, s, &g));
    if (s->tiles == 1) return HIL_OK;
    return hil_op_cuda_convert(call->device, &call->din[0], &whole, call->din_add[0]);
}

static hil_status backward(hil_op_call *call)
{
    sizes s = measure(call);
    if (call->din[0].data) HIL_TRY(back_input(call, &s));
    if (!call->param[0].trainable) return HIL_OK;
    hil_cuda_grouped g = group_of(call, &s, HIL_GROUPED_WEIGHT);
    g.in = hil_view_of(&call->dout[0]);
    g.other = hil_view_of(&call->in[0]);
    return run_all(call, &s, &g);
}

const hil_op_kernel hil_cuda_grouped_linear = {
    .op = &hil_op_grouped_linear, .infer = infer, .forward = forward, .backward = backward};
