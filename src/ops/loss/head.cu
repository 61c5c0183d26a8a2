/* head.cu - the last linear layer fused with cross-entropy, a chunk of positions at a time.

   Rows without a target are computed, too, with a gradient of zero: the host does not know how many
   there are. Scratch, per chunk: logits (chunk, stride) and, if parts must be summed, the gradient
   of x (chunk, C). The gradient overwrites the logits, in the compute dtype. With a bias also that
   (V), with a cap the bounded logits (chunk, stride), from which their gradient is computed. */
#include "ops/linear/matmul_cuda.h"
#include "ops/loss/softmax_cuda.h"
#include "ops/cuda_elements.h"

/* Of one chunk. The sums of the weight's gradient are read and written once per chunk, which with
   4096 rows takes 5% of the products' time. */
#define LOGIT_BYTES ((int64_t)2 << 30)
#define CHUNK_UNIT 128

typedef struct head {
    hil_op_call *call;
    int64_t rows, cols, vocab; /* B * T, C, V */
    int64_t chunk, stride;
    int64_t first, count; /* rows of the chunk being worked on */
    float *logits, *dx;
    float *bias, *bounded; /* NULL: not needed */
    float cap;
    bool dry;
} head;

/* [Note: parts of a tile] Fast products need multiples of 8 rows of the weight (50257 rows take
   seven times as long as 50304). A tile of another size is multiplied in two parts, the second of
   which is small. */
#define PART_UNIT 8
#define PART_ROWS 64

typedef struct part {
    int64_t first, count;
} part;

static int64_t tile_rows(const hil_op_param *w, int64_t tile)
{
    int64_t left = w->rows - tile * w->tile_rows;
    return left < w->tile_rows ? left : w->tile_rows;
}

static part tile_part(const hil_op_param *w, int64_t tile, int i)
{
    int64_t rows = tile_rows(w, tile), even = rows % PART_UNIT ? rows - rows % PART_ROWS : rows;
    return i ? part{even, rows - even} : part{0, even};
}

static bool has_parts(const hil_op_param *w)
{
    return hil_op_tiles(w) > 1 || w->rows % PART_UNIT;
}

static size_t layout(head *h)
{
    hil_op_call *call = h->call;
    const hil_op_param *w = &call->param[0];
    h->rows = hil_shape_rows(&call->in[0].shape);
    h->cols = w->cols;
    h->vocab = w->rows;
    h->stride = (w->rows + HIL_LOGIT_UNIT - 1) / HIL_LOGIT_UNIT * HIL_LOGIT_UNIT;
    const hil_head_attr *attr = (const hil_head_attr *)call->attr;
    h->cap = attr ? (float)attr->cap : 0;
    bool keeps = h->cap > 0 && call->differentiate;
    h->chunk =
        h->stride ? LOGIT_BYTES / (keeps ? 2 : 1) / (int64_t)sizeof(float) / h->stride : h->rows;
    h->chunk = h->chunk < CHUNK_UNIT ? CHUNK_UNIT : h->chunk - h->chunk % CHUNK_UNIT;
    int64_t chunks = (h->rows + h->chunk - 1) / h->chunk; /* of about the same size */
    if (chunks) h->chunk = (h->rows + chunks - 1) / chunks;
    h->chunk = (h->chunk + CHUNK_UNIT - 1) / CHUNK_UNIT * CHUNK_UNIT;
    if (h->chunk > h->rows) h->chunk = h->rows;
    size_t bytes = 0;
    h->logits =
        (float *)hil_scratch_at(call, hil_scratch_add(&bytes, h->chunk * h->stride, sizeof(float)));
    if (call->differentiate && has_parts(w))
        h->dx = (float *)hil_scratch_at(call,
                                        hil_scratch_add(&bytes, h->chunk * h->cols, sizeof(float)));
    if (call->params == 2)
        h->bias = (float *)hil_scratch_at(call, hil_scratch_add(&bytes, h->vocab, sizeof(float)));
    if (keeps)
        h->bounded = (float *)hil_scratch_at(
            call, hil_scratch_add(&bytes, h->chunk * h->stride, sizeof(float)));
    return bytes;
}

static hil_status infer(hil_op_call *call)
{
    if (call->in[0].dtype != call->param[0].dtype || call->compute != call->param[0].dtype)
        return hil_fail(HIL_ERR_USAGE, "head: input is %s, weight is %s; a GPU wants both alike",
                        hil_dtype_name(call->in[0].dtype), hil_dtype_name(call->param[0].dtype));
    head h = {.call = call};
    call->forward_scratch = layout(&h);
    return HIL_OK;
}

static bool is_weighted(const hil_op_call *call)
{
    const hil_head_attr *attr = (const hil_head_attr *)call->attr;
    return attr && attr->weighted;
}

static hil_status multiply(const head *h, const hil_cuda_matmul &product)
{
    bool empty = h->dry || product.m == 0 || product.n == 0 || product.k == 0;
    return empty ? HIL_OK : hil_cuda_matmul_run(h->call->device, &product);
}

static void *input_row(const head *h)
{
    const hil_tensor *x = &h->call->in[0];
    return (char *)x->data + (size_t)(h->first * h->cols) * hil_dtype_size(x->dtype);
}

/* The rows `p` of the weight; `data` is a tile. */
static const void *weight_rows(const head *h, const void *data, const part &p)
{
    size_t size = hil_dtype_size(h->call->param[0].dtype);
    return (const char *)data + (size_t)(p.first * h->cols) * size;
}

static hil_status multiply_logits(const head *h)
{
    hil_op_call *call = h->call;
    const hil_op_param *w = &call->param[0];
    for (int64_t tile = 0; tile < hil_op_tiles(w); ++tile) {
        const void *data;
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &data));
        hil_status status = HIL_OK;
        for (int i = 0; i < 2 && status == HIL_OK; ++i) {
            part p = tile_part(w, tile, i);
            status = multiply(h, {.m = h->count,
                                  .n = p.count,
                                  .k = h->cols,
                                  .dtype = w->dtype,
                                  .a = {input_row(h), h->cols, false},
                                  .b = {weight_rows(h, data, p), h->cols, true},
                                  .c = h->logits + tile * w->tile_rows + p.first,
                                  .c_dtype = HIL_F32,
                                  .c_stride = h->stride});
        }
        call->source->weight_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

/* Numbers of a chunk, `stride` apart from row to row. */
typedef struct chunk_numbers {
    float *logits, *bounded;
    const float *bias;
    int64_t rows, vocab, stride;
    float cap;
} chunk_numbers;

#define THREADS 256

/* Adds the bias and bounds the logits. */
static __global__ void __launch_bounds__(THREADS) shape_logits(const chunk_numbers c)
{
    int64_t col = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (col >= c.vocab) return;
    for (int64_t row = blockIdx.y; row < c.rows; row += gridDim.y) {
        int64_t at = row * c.stride + col;
        float logit = c.logits[at] + (c.bias ? c.bias[col] : 0);
        if (c.cap > 0) logit = c.cap * tanhf(logit / c.cap);
        c.logits[at] = logit;
        if (c.bounded) c.bounded[at] = logit;
    }
}

static __device__ inline hil_view gradient_row(const chunk_numbers &c, hil_dtype dtype, int64_t row)
{
    return {c.logits + row * c.stride, dtype};
}

/* Multiplies the gradients of bounded logits by the slope of the bound. */
static __global__ void __launch_bounds__(THREADS)
    slope_logits(const chunk_numbers c, const hil_dtype dtype)
{
    int64_t col = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * HIL_WIDE;
    int n = hil_wide_count(c.vocab - col);
    if (n == 0) return;
    for (int64_t row = blockIdx.y; row < c.rows; row += gridDim.y) {
        float x[HIL_WIDE], y[HIL_WIDE];
        hil_view gradient = gradient_row(c, dtype, row);
        hil_wide_read(hil_wide_load(gradient, col, n), dtype, x);
        hil_wide_read(hil_wide_load({c.bounded, HIL_F32}, row * c.stride + col, n), HIL_F32, y);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) x[i] *= 1.0f - y[i] / c.cap * (y[i] / c.cap);
        hil_wide_store(gradient, col, n, x);
    }
}

/* The sums of the columns of the gradients, row by row. */
static __global__ void __launch_bounds__(THREADS)
    sum_columns(const chunk_numbers c, const hil_dtype dtype, float *sum, const bool add)
{
    int64_t col = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * HIL_WIDE;
    int n = hil_wide_count(c.vocab - col);
    if (n == 0) return;
    float total[HIL_WIDE] = {};
    for (int64_t row = 0; row < c.rows; ++row) {
        float x[HIL_WIDE];
        hil_wide_read(hil_wide_load(gradient_row(c, dtype, row), col, n), dtype, x);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) total[i] += x[i];
    }
    hil_wide_write({sum, HIL_F32}, col, n, total, add);
}

static chunk_numbers numbers_of(const head *h)
{
    return {h->logits, h->bounded, h->bias, h->count, h->vocab, h->stride, h->cap};
}

#define GRID_ROWS 4096

static hil_status finish_logits(const head *h)
{
    if (!h->bias && !(h->cap > 0)) return HIL_OK;
    dim3 grid(hil_blocks(h->vocab, THREADS),
              (unsigned)(h->count < GRID_ROWS ? h->count : GRID_ROWS));
    shape_logits<<<grid, THREADS, 0, hil_cuda_of(h->call->device)->stream>>>(numbers_of(h));
    return hil_cuda_launched(h->call->device, "head");
}

static hil_status finish_gradients(const head *h)
{
    const hil_op_call *call = h->call;
    cudaStream_t stream = hil_cuda_of(call->device)->stream;
    unsigned runs = hil_blocks(h->vocab, THREADS * HIL_WIDE);
    if (h->bounded && !h->dry) {
        dim3 grid(runs, (unsigned)(h->count < GRID_ROWS ? h->count : GRID_ROWS));
        slope_logits<<<grid, THREADS, 0, stream>>>(numbers_of(h), call->compute);
        HIL_TRY(hil_cuda_launched(call->device, "head"));
    }
    return HIL_OK;
}

static hil_status add_bias_gradient(const head *h)
{
    const hil_op_call *call = h->call;
    if (call->params != 2 || !call->param[1].trainable) return HIL_OK;
    float *sum;
    bool add;
    HIL_TRY(call->source->gradient_begin(call->owner, 1, 0, &sum, &add));
    if (!h->dry)
        sum_columns<<<hil_blocks(h->vocab, THREADS * HIL_WIDE), THREADS, 0,
                      hil_cuda_of(call->device)->stream>>>(numbers_of(h), call->compute, sum, add);
    call->source->gradient_end(call->owner, 1, 0);
    return h->dry ? HIL_OK : hil_cuda_launched(call->device, "head bias");
}

static hil_status copy_bias(const head *h)
{
    const hil_op_call *call = h->call;
    const void *data;
    if (call->params != 2) return HIL_OK;
    HIL_TRY(call->source->weight_begin(call->owner, 1, 0, &data));
    hil_tensor to = {HIL_F32, {1, {h->vocab}}, h->bias};
    hil_tensor from = {call->param[1].dtype, to.shape, (void *)(uintptr_t)data};
    hil_status status = h->dry ? HIL_OK : hil_op_cuda_convert(call->device, &to, &from, false);
    call->source->weight_end(call->owner, 1, 0);
    return status;
}

static hil_status finish_chunk(const head *h)
{
    const hil_op_call *call = h->call;
    if (h->dry) return HIL_OK;
    HIL_TRY(finish_logits(h));
    const hil_head_attr *attr = (const hil_head_attr *)call->attr;
    hil_softmax job = {.logits = h->logits,
                       .rows = h->count,
                       .stride = h->stride,
                       .vocab = h->vocab,
                       .target = (const int32_t *)call->in[1].data + h->first,
                       .loss = (float *)call->out[0].data + h->first,
                       .loss_scale = is_weighted(call) ? 1 : call->loss_scale,
                       .scale = call->ins == 3 ? (const float *)call->in[2].data + h->first : NULL,
                       .prompts = attr && attr->prompts,
                       .compute = call->compute,
                       .differentiate = call->differentiate};
    HIL_TRY(hil_softmax_cuda(call->device, &job));
    return finish_gradients(h);
}

/* The gradient of logits, from column `first` of a tile on. */
static const char *logit_gradients(const head *h, int64_t tile, int64_t first)
{
    int64_t column = tile * h->call->param[0].tile_rows + first;
    return (const char *)h->logits + (size_t)column * hil_dtype_size(h->call->compute);
}

static int64_t gradient_stride(const head *h)
{
    return h->stride * (int64_t)(sizeof(float) / hil_dtype_size(h->call->compute));
}

/* Adds the gradient of x to `saved` or to the parts' sum. */
static hil_status multiply_input(const head *h, int64_t tile, void *rows)
{
    hil_op_call *call = h->call;
    const hil_op_param *w = &call->param[0];
    const void *data;
    HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &data));
    hil_status status = HIL_OK;
    for (int i = 0; i < 2 && status == HIL_OK; ++i) {
        part p = tile_part(w, tile, i);
        status = multiply(h, {.m = h->count,
                              .n = h->cols,
                              .k = p.count,
                              .dtype = w->dtype,
                              .a = {logit_gradients(h, tile, p.first), gradient_stride(h), false},
                              .b = {weight_rows(h, data, p), h->cols, false},
                              .c = h->dx ? (void *)h->dx : rows,
                              .c_dtype = h->dx ? HIL_F32 : call->saved[0].dtype,
                              .c_stride = h->cols,
                              .add = tile > 0 || p.first > 0});
    }
    call->source->weight_end(call->owner, 0, tile);
    return status;
}

static hil_status multiply_weight(const head *h, int64_t tile)
{
    hil_op_call *call = h->call;
    const hil_op_param *w = &call->param[0];
    float *sum;
    bool add;
    HIL_TRY(call->source->gradient_begin(call->owner, 0, tile, &sum, &add));
    hil_status status = HIL_OK;
    for (int i = 0; i < 2 && status == HIL_OK; ++i) {
        part p = tile_part(w, tile, i);
        status = multiply(h, {.m = p.count,
                              .n = h->cols,
                              .k = h->count,
                              .dtype = w->dtype,
                              .a = {logit_gradients(h, tile, p.first), gradient_stride(h), true},
                              .b = {input_row(h), h->cols, false},
                              .c = sum + p.first * h->cols,
                              .c_dtype = HIL_F32,
                              .c_stride = h->cols,
                              .add = add});
    }
    call->source->gradient_end(call->owner, 0, tile);
    return status;
}

static hil_status multiply_gradients(const head *h)
{
    hil_op_call *call = h->call;
    const hil_op_param *w = &call->param[0];
    const hil_tensor *saved = &call->saved[0];
    char *rows = (char *)saved->data + (size_t)(h->first * h->cols) * hil_dtype_size(saved->dtype);
    for (int64_t tile = 0; tile < hil_op_tiles(w); ++tile) {
        HIL_TRY(multiply_input(h, tile, rows));
        if (w->trainable) HIL_TRY(multiply_weight(h, tile));
    }
    if (!h->dx || h->dry) return HIL_OK;
    hil_tensor to = {saved->dtype, {2, {h->count, h->cols}}, rows},
               from = {HIL_F32, to.shape, h->dx};
    return hil_op_cuda_convert(call->device, &to, &from, false);
}

static hil_status forward(hil_op_call *call)
{
    head h = {.call = call, .dry = hil_pool_is_dry(call->pool)};
    layout(&h);
    HIL_TRY(copy_bias(&h));
    for (; h.first < h.rows; h.first += h.chunk) {
        h.count = h.rows - h.first < h.chunk ? h.rows - h.first : h.chunk;
        HIL_TRY(multiply_logits(&h));
        HIL_TRY(finish_chunk(&h));
        if (!call->differentiate) continue;
        HIL_TRY(multiply_gradients(&h));
        HIL_TRY(add_bias_gradient(&h));
    }
    return HIL_OK;
}

/* A row of numbers times the gradient of the row's loss. */
struct weigh_formula {
    const float *weight;
    int64_t rows, cols;
    __device__ void operator()(int64_t at, const float x[1][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
        int64_t row = at / cols, col = at - row * cols;
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i, ++col) {
            if (col == cols) ++row, col = 0;
            y[0][i] = row < rows ? x[0][i] * weight[row] : 0;
        }
    }
};

static hil_status backward(hil_op_call *call)
{
    if (!call->din[0].data) return HIL_OK;
    const hil_shape *shape = &call->in[0].shape;
    hil_cuda_elements<1, 1> job = {.count = hil_shape_count(shape),
                                   .in = {hil_view_of(&call->saved[0])},
                                   .out = {hil_view_of(&call->din[0])},
                                   .add = {call->din_add[0]}};
    if (is_weighted(call))
        return hil_elements_run_cuda(
            call->device, "head", job,
            weigh_formula{(const float *)call->dout[0].data, hil_shape_rows(shape), shape->dim[2]});
    return hil_op_cuda_convert(call->device, &call->din[0], &call->saved[0], call->din_add[0]);
}

const hil_op_kernel hil_cuda_head = {.op = &hil_op_head,
                                     .infer = infer,
                                     .forward = forward,
                                     .backward = backward,
                                     .rehearses = true};
