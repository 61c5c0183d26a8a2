/* norm.cu - LayerNorm, RMSNorm and norms of heads: a row stays in registers between its sums and
   its use.

   [Note: rows of a norm] A row is processed by as many threads as it has runs of HIL_WIDE numbers:
   up to 32 threads of a warp (rows of heads), otherwise all threads of a block. In rows beyond 8192
   numbers a thread has up to RUNS runs. In forward one warp processes a row of up to 4096 bf16
   numbers: many loads in flight and no barriers. Backward has no registers left for that, because
   it keeps the weight's gradients there; it prefetches the next rows instead, and where heads have
   weights of their own a block has rows of one head. The order of sums depends on the row's length,
   dtype and heads only. */
#include "ops/norm/norm_cuda.h"

#include <string.h>

#define RUNS 4
/* Blocks of backward: as many as the multiprocessors of a large GPU run at once, HIL_NORM_MOST
   threads on each; more if rows are short. They bound the memory of partial sums. */
#define MULTIPROCESSORS 132
#define SHORT_BLOCKS 2048

/* Elements of its row that a thread holds: run k begins at column (k * threads + lane) * HIL_WIDE.
 */
template <int KEPT> struct piece {
    hil_wide raw[KEPT];
};

template <int KEPT>
static __device__ inline void load_piece(piece<KEPT> &p, hil_view x, int64_t row, int64_t cols,
                                         int lane, int threads)
{
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        int64_t col = ((int64_t)k * threads + lane) * HIL_WIDE;
        p.raw[k] = hil_wide_load(x, row * cols + col, hil_wide_count(cols - col));
    }
}

template <int KEPT, bool CENTERED, int MOST>
static __global__ void __launch_bounds__(MOST)
    normalize(const hil_norm_job j, const hil_norm_team t)
{
    __shared__ float shared[2][32];
    int lane = (int)threadIdx.x % t.threads;
    int64_t row = (int64_t)blockIdx.x * t.rows + threadIdx.x / t.threads;
    bool mine = row < j.rows;
    if (!mine) row = j.rows - 1; /* takes part in the warp's sums; nothing is stored */
    piece<KEPT> p;
    load_piece(p, j.x, row, j.cols, lane, t.threads);
    float x[KEPT][HIL_WIDE], sum = 0, mean = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        hil_wide_read(p.raw[k], j.x.dtype, x[k]);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) sum += x[k][i];
    }
    if (CENTERED) mean = hil_norm_row_sum(sum, t.threads, shared[0]) / (float)j.cols;
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        int n = hil_wide_count(j.cols - ((int64_t)k * t.threads + lane) * HIL_WIDE);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            x[k][i] -= mean;
            if (i < n) squares = fmaf(x[k][i], x[k][i], squares);
        }
    }
    squares = hil_norm_row_sum(squares, t.threads, shared[1]);
    if (!mine) return;
    float scale = 1.0f / sqrtf(squares / (float)j.cols + j.eps);
    int64_t own = j.heads > 1 ? row % j.heads * j.cols : 0;
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        int64_t col = ((int64_t)k * t.threads + lane) * HIL_WIDE;
        int n = hil_wide_count(j.cols - col);
        if (n == 0) continue;
        float w[HIL_WIDE], b[HIL_WIDE] = {};
        hil_wide_read(hil_wide_load(j.weight, own + col, n), j.weight.dtype, w);
        if (CENTERED) hil_wide_read(hil_wide_load(j.bias, col, n), j.bias.dtype, b);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) x[k][i] = x[k][i] * scale * w[i] + b[i];
        hil_wide_store(j.y, row * j.cols + col, n, x[k]);
    }
    if (lane) return;
    if (CENTERED) j.saved[2 * row] = mean;
    j.saved[CENTERED ? 2 * row + 1 : row] = scale;
}

/* The sums of a block's rows: each team's, added in order of the teams. */
static __device__ inline void add_teams(float *out, const float *mine, int64_t cols, int col, int n,
                                        const hil_norm_team &t)
{
    extern __shared__ float sums[]; /* (rows, cols) */
    if (t.rows == 1) {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i)
            if (i < n) out[col + i] = mine[i];
        return;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i)
        if (i < n) sums[(int)threadIdx.x / t.threads * cols + col + i] = mine[i];
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float sum = 0;
        for (int r = 0; r < t.rows; ++r) sum += sums[r * cols + c];
        out[c] = sum;
    }
}

/* The values of a row that backward reads. */
template <int KEPT> struct gradient_row {
    piece<KEPT> x, dy;
    float mean, scale;
};

template <int KEPT, bool CENTERED>
static __device__ inline gradient_row<KEPT> load_row(const hil_norm_job &j, int64_t row, int lane,
                                                     const hil_norm_team &t)
{
    gradient_row<KEPT> r;
    load_piece(r.x, j.x, row, j.cols, lane, t.threads);
    load_piece(r.dy, j.dy, row, j.cols, lane, t.threads);
    r.mean = CENTERED ? j.saved[2 * row] : 0;
    r.scale = j.saved[CENTERED ? 2 * row + 1 : row];
    return r;
}

/* dx = scale * (g - mean of g - xhat * mean of (g xhat)) with g = dy * weight; the first mean only
   where the norm is centered. A block has block_rows rows of head blockIdx.y, `heads` apart. */
template <int KEPT, bool CENTERED>
static __global__ void __launch_bounds__(HIL_NORM_MOST)
    differentiate(const hil_norm_job j, const hil_norm_team t)
{
    __shared__ float shared[2][2][32];
    int lane = (int)threadIdx.x % t.threads;
    int64_t head = blockIdx.y, step = t.rows * j.heads;
    int64_t first = blockIdx.x * j.block_rows * j.heads, end = first + j.block_rows * j.heads;
    if (end > j.rows) end = j.rows;
    float w[KEPT][HIL_WIDE], dw[KEPT][HIL_WIDE] = {}, db[KEPT][HIL_WIDE] = {};
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        int64_t col = ((int64_t)k * t.threads + lane) * HIL_WIDE;
        hil_wide raw = hil_wide_load(j.weight, head * j.cols + col, hil_wide_count(j.cols - col));
        hil_wide_read(raw, j.weight.dtype, w[k]);
    }
    /* All teams of a warp take the same number of turns; each prefetches the next row. */
    int64_t row = first + threadIdx.x / t.threads * j.heads + head;
    gradient_row<KEPT> now = load_row<KEPT, CENTERED>(j, row < end ? row : end - 1, lane, t);
    int turns = (int)((end - first + step - 1) / step);
    for (int turn = 0; turn < turns; ++turn, row += step) {
        bool mine = row < end;
        int64_t following = row + step < end ? row + step : end - 1;
        gradient_row<KEPT> next = load_row<KEPT, CENTERED>(j, following, lane, t);
        float x[KEPT][HIL_WIDE], dy[KEPT][HIL_WIDE], plain = 0, along = 0, scale = now.scale;
#pragma unroll
        for (int k = 0; k < KEPT; ++k) {
            hil_wide_read(now.x.raw[k], j.x.dtype, x[k]);
            hil_wide_read(now.dy.raw[k], j.dy.dtype, dy[k]);
#pragma unroll
            for (int i = 0; i < HIL_WIDE; ++i) {
                x[k][i] = (x[k][i] - now.mean) * scale;
                if (mine) dw[k][i] = fmaf(dy[k][i], x[k][i], dw[k][i]);
                if (CENTERED && mine) db[k][i] += dy[k][i];
                dy[k][i] *= w[k][i];
                if (CENTERED) plain += dy[k][i];
                along = fmaf(dy[k][i], x[k][i], along);
            }
        }
        now = next;
        if (!j.dx.data) continue;
        if (CENTERED)
            plain = hil_norm_row_sum(plain, t.threads, shared[turn % 2][0]) / (float)j.cols;
        along = hil_norm_row_sum(along, t.threads, shared[turn % 2][1]) / (float)j.cols;
        if (!mine) continue;
#pragma unroll
        for (int k = 0; k < KEPT; ++k) {
            int64_t col = ((int64_t)k * t.threads + lane) * HIL_WIDE;
            int n = hil_wide_count(j.cols - col);
            if (n == 0) continue;
#pragma unroll
            for (int i = 0; i < HIL_WIDE; ++i)
                dy[k][i] = scale * (dy[k][i] - plain - x[k][i] * along);
            hil_wide_write(j.dx, row * j.cols + col, n, dy[k], j.add);
        }
    }
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        int col = (k * t.threads + lane) * HIL_WIDE, n = hil_wide_count(j.cols - col);
        int64_t at = (blockIdx.x * j.heads + head) * j.cols;
        if (j.dweight) add_teams(j.dweight + at, dw[k], j.cols, col, n, t);
        if (CENTERED && j.dbias) add_teams(j.dbias + at, db[k], j.cols, col, n, t);
    }
}

/* How backward cuts the rows of a head into blocks. */
typedef struct cut {
    int64_t block_rows, blocks;
} cut;

static cut cut_rows(int64_t rows, int64_t cols, int64_t heads)
{
    hil_norm_team t = hil_norm_team_of(cols);
    int64_t blocks = t.rows > 1 ? SHORT_BLOCKS : MULTIPROCESSORS * (HIL_NORM_MOST / t.threads);
    blocks = heads < blocks ? blocks / heads : 1;
    rows /= heads;
    int64_t each = ((rows + blocks - 1) / blocks + t.rows - 1) / t.rows * t.rows;
    return {each, each ? (rows + each - 1) / each : 0};
}

static bool is_centered(const hil_op_call *call)
{
    return !strstr(call->op->name, hil_op_rmsnorm.name);
}

static bool is_by_head(const hil_op_call *call)
{
    return strstr(call->op->name, "head_") != NULL;
}

/* At least one, so that rows can be divided by it. */
static int64_t count_heads(const hil_op_call *call)
{
    int64_t heads = is_by_head(call) ? call->in[0].shape.dim[2] : 1;
    return heads ? heads : 1;
}

/* Whether the vectors are copied: LayerNorm's and those of heads, because only one can be acquired
   at a time, those to which a number is added, and ones in place of a weight that is not there. */
static bool copies(const hil_op_call *call)
{
    return is_centered(call) || is_by_head(call) || !call->params ||
           ((const hil_norm_attr *)call->attr)->offset != 0;
}

/* Scratch. Both: weight and bias as fp32 where they are copied. Backward: the gradients of each
   block of rows. */
static hil_status infer(hil_op_call *call)
{
    int64_t rows = hil_shape_rows(&call->in[0].shape), cols = hil_shape_cols(&call->in[0].shape);
    if (cols > HIL_NORM_MOST * RUNS * HIL_WIDE)
        return hil_fail(HIL_ERR_USAGE, "%s: rows of %lld numbers, a GPU takes at most %d",
                        call->op->name, (long long)cols, HIL_NORM_MOST * RUNS * HIL_WIDE);
    int64_t heads = count_heads(call), blocks = cut_rows(rows, cols, heads).blocks;
    if (copies(call)) hil_scratch_add(&call->forward_scratch, (heads + 1) * cols, sizeof(float));
    call->backward_scratch = call->forward_scratch;
    for (int i = 0; i < call->params; ++i)
        hil_scratch_add(&call->backward_scratch, blocks * heads * cols, sizeof(float));
    return HIL_OK;
}

static hil_norm_job describe(const hil_op_call *call)
{
    return {.rows = hil_shape_rows(&call->in[0].shape),
            .cols = hil_shape_cols(&call->in[0].shape),
            .heads = count_heads(call),
            .eps = (float)((const hil_norm_attr *)call->attr)->eps,
            .x = hil_view_of(&call->in[0]),
            .saved = (float *)call->saved[0].data};
}

/* to[i] = from[i] + offset; without data of `from` just the offset. */
static __global__ void __launch_bounds__(HIL_NORM_THREADS)
    copy_vector(float *to, const hil_view from, float offset, int64_t count)
{
    int64_t at = ((int64_t)blockIdx.x * HIL_NORM_THREADS + threadIdx.x) * HIL_WIDE;
    int n = hil_wide_count(count - at);
    if (n == 0) return;
    float x[HIL_WIDE] = {};
    if (from.data) hil_wide_read(hil_wide_load(from, at, n), from.dtype, x);
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) x[i] += offset;
    hil_wide_store({to, HIL_F32}, at, n, x);
}

static hil_status fill(const hil_op_call *call, float *to, hil_view from, float offset,
                       int64_t count)
{
    if (count == 0) return HIL_OK;
    copy_vector<<<hil_blocks(count, HIL_NORM_THREADS * HIL_WIDE), HIL_NORM_THREADS, 0,
                  hil_cuda_of(call->device)->stream>>>(to, from, offset, count);
    return hil_cuda_launched(call->device, "copy a vector");
}

/* Copies all tiles of a parameter plus the offset, one below the other. */
static hil_status copy_param(const hil_op_call *call, int param, float *to, float offset)
{
    const hil_op_param *p = &call->param[param];
    for (int64_t tile = 0; tile < hil_op_tiles(p); ++tile) {
        hil_op_rows r = hil_op_tile(p, tile);
        const void *data;
        HIL_TRY(call->source->weight_begin(call->owner, param, tile, &data));
        hil_status status = fill(call, to + r.first * p->cols, {(void *)(uintptr_t)data, p->dtype},
                                 offset, r.count * p->cols);
        call->source->weight_end(call->owner, param, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

/* Copies the weights plus the offset, and the bias or, without one, zeros. */
static hil_status copy_vectors(const hil_op_call *call, hil_norm_job *j)
{
    float *weight = (float *)call->scratch, *bias = weight + j->heads * j->cols;
    float offset = (float)((const hil_norm_attr *)call->attr)->offset;
    HIL_TRY(call->params ? copy_param(call, 0, weight, offset)
                         : fill(call, weight, {NULL, HIL_F32}, 1, j->heads * j->cols));
    j->weight = {weight, HIL_F32};
    if (!is_centered(call)) return HIL_OK;
    j->bias = {bias, HIL_F32};
    return call->params > 1 ? copy_param(call, 1, bias, 0)
                            : fill(call, bias, {NULL, HIL_F32}, 0, j->cols);
}

template <bool CENTERED> static void launch_forward(const hil_norm_job &j, cudaStream_t stream)
{
    hil_norm_team t = hil_norm_team_of(j.cols), warps = {32, HIL_NORM_THREADS / 32};
    unsigned blocks = hil_blocks(j.rows, t.rows), warp_blocks = hil_blocks(j.rows, warps.rows);
    int threads = t.threads * t.rows;
    if (hil_norm_bf16_forward(j, CENTERED, stream)) return;
    if (j.cols <= HIL_NORM_WARP)
        normalize<1, CENTERED, HIL_NORM_MOST><<<blocks, threads, 0, stream>>>(j, t);
    else if (j.cols <= 8 * HIL_NORM_WARP)
        normalize<8, CENTERED, 256><<<warp_blocks, HIL_NORM_THREADS, 0, stream>>>(j, warps);
    else if (j.cols <= HIL_NORM_MOST * HIL_WIDE)
        normalize<1, CENTERED, HIL_NORM_MOST><<<blocks, threads, 0, stream>>>(j, t);
    else
        normalize<RUNS, CENTERED, HIL_NORM_MOST><<<blocks, threads, 0, stream>>>(j, t);
}

template <bool CENTERED> static void launch_backward(const hil_norm_job &j, cudaStream_t stream)
{
    if (hil_norm_bf16_backward(j, CENTERED, stream)) return;
    hil_norm_team t = hil_norm_team_of(j.cols);
    int threads = t.threads * t.rows;
    dim3 blocks(hil_blocks(j.rows / j.heads, j.block_rows), (unsigned)j.heads);
    size_t shared = t.rows > 1 ? (size_t)(t.rows * j.cols) * sizeof(float) : 0;
    if ((int64_t)threads * HIL_WIDE < j.cols)
        differentiate<RUNS, CENTERED><<<blocks, threads, shared, stream>>>(j, t);
    else
        differentiate<1, CENTERED><<<blocks, threads, shared, stream>>>(j, t);
}

template <bool CENTERED>
static hil_status launch(const hil_op_call *call, const hil_norm_job &j, bool back)
{
    if (back)
        launch_backward<CENTERED>(j, hil_cuda_of(call->device)->stream);
    else
        launch_forward<CENTERED>(j, hil_cuda_of(call->device)->stream);
    return hil_cuda_launched(call->device, call->op->name);
}

/* RMSNorm's one vector is read in place where nothing is added to it. */
static hil_status run(const hil_op_call *call, hil_norm_job *j, bool back)
{
    bool empty = j->rows * j->cols == 0;
    if (copies(call)) {
        HIL_TRY(copy_vectors(call, j));
        if (empty) return HIL_OK;
        return is_centered(call) ? launch<true>(call, *j, back) : launch<false>(call, *j, back);
    }
    const void *weight;
    HIL_TRY(call->source->weight_begin(call->owner, 0, 0, &weight));
    j->weight = {(void *)(uintptr_t)weight, call->param[0].dtype};
    hil_status status = empty ? HIL_OK : launch<false>(call, *j, back);
    call->source->weight_end(call->owner, 0, 0);
    return status;
}

static hil_status forward(hil_op_call *call)
{
    hil_norm_job j = describe(call);
    j.y = hil_view_of(&call->out[0]);
    return run(call, &j, false);
}

/* Adds the blocks' sums up where the weights' copy was, and gives them tile by tile. */
static hil_status give_heads(const hil_op_call *call, hil_gather g)
{
    if (!g.partial) return HIL_OK;
    g.sum = (float *)call->scratch;
    HIL_TRY(hil_op_cuda_gather(call->device, g));
    return hil_op_cuda_give_matrix(call, 0, g.sum);
}

static hil_status backward(hil_op_call *call)
{
    hil_norm_job j = describe(call);
    j.dy = hil_view_of(&call->dout[0]);
    j.dx = hil_view_of(&call->din[0]);
    j.add = call->din_add[0];
    cut rows = cut_rows(j.rows, j.cols, j.heads);
    j.block_rows = rows.block_rows;
    int64_t width = j.heads * j.cols;
    size_t at = 0;
    if (copies(call)) hil_scratch_add(&at, width + j.cols, sizeof(float));
    float *partial[2] = {};
    for (int i = 0; i < call->params; ++i) {
        size_t place = hil_scratch_add(&at, rows.blocks * width, sizeof(float));
        if (call->param[i].trainable) partial[i] = (float *)hil_scratch_at(call, place);
    }
    j.dweight = partial[0];
    j.dbias = partial[1];
    HIL_TRY(run(call, &j, true));
    if (is_by_head(call)) return give_heads(call, {NULL, partial[0], rows.blocks, width, false});
    for (int i = 0; i < call->params; ++i) {
        if (!partial[i]) continue;
        float *sum;
        bool add;
        HIL_TRY(call->source->gradient_begin(call->owner, i, 0, &sum, &add));
        hil_status status =
            hil_op_cuda_gather(call->device, {sum, partial[i], rows.blocks, j.cols, add});
        call->source->gradient_end(call->owner, i, 0);
        HIL_TRY(status);
    }
    return HIL_OK;
}

const hil_op_kernel hil_cuda_layernorm = {
    .op = &hil_op_layernorm, .infer = infer, .forward = forward, .backward = backward};
const hil_op_kernel hil_cuda_rmsnorm = {
    .op = &hil_op_rmsnorm, .infer = infer, .forward = forward, .backward = backward};
const hil_op_kernel hil_cuda_head_norm = {
    .op = &hil_op_head_norm, .infer = infer, .forward = forward, .backward = backward};
const hil_op_kernel hil_cuda_head_rmsnorm = {
    .op = &hil_op_head_rmsnorm, .infer = infer, .forward = forward, .backward = backward};
