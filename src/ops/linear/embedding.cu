/* embedding.cu - rows of a table by id.

   [Note: sums by id] Backward first sorts positions by id, and positions of the same id by
   position: the rank of each is the number of positions that come before it. Several blocks count
   for the same position; their counts are integers, so the order in which they are added does not
   matter. Then the rows of one id are added in that order. Scratch: the ranks of positions, the
   sorted positions, and their ids (3, B * T). */
#include "ops/cuda_kernel.h"

#define THREADS 256
#define COUNTERS 8 /* blocks that count for the same positions */

/* One tile of the table: rows [first, last). */
typedef struct gather {
    const int32_t *ids;
    int64_t count, cols, runs; /* runs of HIL_WIDE in a row */
    int64_t first, last, rows;
    int64_t pad;   /* the row that gets no gradient */
    int64_t shift; /* added to ids */
    hil_view table, out;
    hil_cuda_fault *fault;
} gather;

static __global__ void __launch_bounds__(THREADS) copy_rows(const gather g)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= g.count * g.runs) return;
    int64_t r = i / g.runs, col = i % g.runs * HIL_WIDE, id = g.ids[r] + g.shift;
    if (id < g.first || id >= g.last) {
        if (id < 0 || id >= g.rows) hil_fault_report(g.fault, id - g.shift, g.rows - g.shift);
        return;
    }
    float x[HIL_WIDE];
    int n = hil_wide_count(g.cols - col);
    hil_wide_read(hil_wide_load(g.table, (id - g.first) * g.cols + col, n), g.table.dtype, x);
    hil_wide_store(g.out, r * g.cols + col, n, x);
}

static hil_status infer(hil_op_call *call)
{
    hil_scratch_add(&call->backward_scratch, 3 * hil_shape_count(&call->in[0].shape),
                    sizeof(int32_t));
    return HIL_OK;
}

static gather describe(const hil_op_call *call)
{
    const hil_op_param *p = &call->param[0];
    const hil_embedding_attr *attr = (const hil_embedding_attr *)call->attr;
    return {.ids = (const int32_t *)call->in[0].data,
            .count = hil_shape_count(&call->in[0].shape),
            .cols = p->cols,
            .runs = (p->cols + HIL_WIDE - 1) / HIL_WIDE,
            .rows = p->rows,
            .pad = attr ? attr->pad : -1,
            .shift = attr ? attr->shift : 0,
            .fault = hil_cuda_of(call->device)->fault};
}

static void choose_tile(gather *g, const hil_op_param *p, int64_t tile)
{
    g->first = tile * p->tile_rows;
    g->last = g->first + p->tile_rows < p->rows ? g->first + p->tile_rows : p->rows;
}

static hil_status forward(hil_op_call *call)
{
    gather g = describe(call);
    g.out = hil_view_of(&call->out[0]);
    for (int64_t tile = 0; tile < hil_op_tiles(&call->param[0]); ++tile) {
        const void *data;
        choose_tile(&g, &call->param[0], tile);
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &data));
        g.table = {(void *)(uintptr_t)data, call->param[0].dtype};
        if (g.count * g.runs > 0)
            copy_rows<<<hil_blocks(g.count * g.runs, THREADS), THREADS, 0,
                        hil_cuda_of(call->device)->stream>>>(g);
        call->source->weight_end(call->owner, 0, tile);
        HIL_TRY(hil_cuda_launched(call->device, "embedding"));
    }
    return HIL_OK;
}

/* Counts the ids of a tile that come before `id`: smaller ones, and with `equal` equal ones. */
static __device__ inline int32_t count_before(const int4 *ids, int32_t id, bool equal)
{
    int32_t limit = equal ? id : id - 1, before = 0;
#pragma unroll 16
    for (int i = 0; i < THREADS / 4; ++i) {
        int4 four = ids[i];
        before += (four.x <= limit) + (four.y <= limit) + (four.z <= limit) + (four.w <= limit);
    }
    return before;
}

/* place[r] += the number of positions before r in every COUNTERS-th tile. */
static __global__ void __launch_bounds__(THREADS)
    count_positions(int32_t *place, const int32_t *ids, int64_t count)
{
    __shared__ int4 tile[THREADS / 4];
    int32_t *other = (int32_t *)tile;
    int64_t own = blockIdx.x; /* the tile in which equal ids are ordered by position */
    int64_t r = own * THREADS + threadIdx.x;
    int32_t id = r < count ? ids[r] : 0, before = 0;
    for (int64_t t = blockIdx.y; t * THREADS < count; t += COUNTERS) {
        int64_t at = t * THREADS + threadIdx.x;
        __syncthreads();
        other[threadIdx.x] = at < count ? ids[at] : INT32_MAX;
        __syncthreads();
        before += count_before(tile, id, t < own);
        for (int i = 0; t == own && i < (int)threadIdx.x; ++i) before += other[i] == id;
    }
    if (r < count) atomicAdd(&place[r], before);
}

/* Positions by place; `sorted` are their ids. */
typedef struct ordering {
    int32_t *place, *order, *sorted;
} ordering;

static __global__ void __launch_bounds__(THREADS)
    order_positions(const ordering o, const int32_t *ids, int64_t count)
{
    int64_t r = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (r >= count) return;
    o.order[o.place[r]] = (int32_t)r;
    o.sorted[o.place[r]] = ids[r];
}

/* The first place after `place` that has another id: ids ascend. Most have few places. */
static __device__ inline int64_t find_end(const int32_t *sorted, int64_t place, int64_t count)
{
    int64_t end = place + 1, after = place + 1, step = 1;
    int32_t id = sorted[place];
    while (after < count && sorted[after] == id) {
        end = after + 1;
        after += step;
        step *= 2;
    }
    if (after > count) after = count;
    while (end < after) {
        int64_t middle = (end + after) / 2;
        if (sorted[middle] == id)
            end = middle + 1;
        else
            after = middle;
    }
    return end;
}

/* A block adds the rows of the id whose first place in the order is the block's. */
static __global__ void __launch_bounds__(THREADS)
    add_rows(float *sum, const ordering o, const hil_view dy, const gather g)
{
    int64_t place = blockIdx.x;
    int64_t id = o.sorted[place] + g.shift;
    if (id < g.first || id >= g.last || id == g.pad) return;
    if (place > 0 && o.sorted[place - 1] == o.sorted[place]) return;
    int64_t end = find_end(o.sorted, place, g.count);
    for (int64_t col = threadIdx.x * HIL_WIDE; col < g.cols; col += THREADS * HIL_WIDE) {
        int n = hil_wide_count(g.cols - col);
        hil_view to = {sum, HIL_F32};
        int64_t at = (id - g.first) * g.cols + col;
        float total[HIL_WIDE];
        hil_wide_read(hil_wide_load(to, at, n), HIL_F32, total);
#pragma unroll 8
        for (int64_t i = place; i < end; ++i) {
            float x[HIL_WIDE];
            hil_wide_read(hil_wide_load(dy, o.order[i] * g.cols + col, n), dy.dtype, x);
#pragma unroll
            for (int k = 0; k < HIL_WIDE; ++k) total[k] += x[k];
        }
        hil_wide_store(to, at, n, total);
    }
}

static hil_status backward(hil_op_call *call)
{
    if (!call->param[0].trainable) return HIL_OK;
    gather g = describe(call);
    int32_t *place = (int32_t *)call->scratch;
    ordering o = {place, place + g.count, place + 2 * g.count};
    cudaStream_t stream = hil_cuda_of(call->device)->stream;
    if (g.count) {
        unsigned tiles = hil_blocks(g.count, THREADS);
        HIL_TRY(hil_cuda_check(call->device,
                               cudaMemsetAsync(place, 0, (size_t)g.count * sizeof *place, stream),
                               "clear counts"));
        count_positions<<<dim3(tiles, COUNTERS), THREADS, 0, stream>>>(place, g.ids, g.count);
        order_positions<<<tiles, THREADS, 0, stream>>>(o, g.ids, g.count);
        HIL_TRY(hil_cuda_launched(call->device, "embedding backward"));
    }
    for (int64_t tile = 0; tile < hil_op_tiles(&call->param[0]); ++tile) {
        float *sum;
        bool add;
        choose_tile(&g, &call->param[0], tile);
        HIL_TRY(call->source->gradient_begin(call->owner, 0, tile, &sum, &add));
        size_t bytes = add ? 0 : (size_t)((g.last - g.first) * g.cols) * sizeof *sum;
        hil_status status = hil_cuda_check(call->device, cudaMemsetAsync(sum, 0, bytes, stream),
                                           "clear a gradient");
        if (g.count && status == HIL_OK)
            add_rows<<<(unsigned)g.count, THREADS, 0, stream>>>(sum, o, hil_view_of(&call->dout[0]),
                                                                g);
        call->source->gradient_end(call->owner, 0, tile);
        HIL_TRY(status);
        HIL_TRY(hil_cuda_launched(call->device, "embedding backward"));
    }
    return HIL_OK;
}

const hil_op_kernel hil_cuda_embedding = {
    .op = &hil_op_embedding, .infer = infer, .forward = forward, .backward = backward};
