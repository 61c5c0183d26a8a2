/* head.cu - the last linear layer fused with cross-entropy, a chunk of positions at a time.

   Rows without a target take part with a gradient of zero: how many there are is not known here.
   Scratch, per chunk: logits (chunk, stride) and, where tiles must be summed, the gradient of x
   (chunk, C). The gradient takes the place of the logits, in the compute dtype. */
#include "ops/matmul_cuda.h"

#define LOGIT_BYTES                                                                                \
    ((int64_t)1 << 30) /* of one chunk: the weight's sums are read once for each                   \
                        */
#define CHUNK_UNIT 128
#define STRIDE_UNIT 64 /* rows of logits begin aligned */
#define THREADS 1024

typedef struct head {
    hil_op_call *call;
    int64_t rows, cols, vocab; /* B * T, C, V */
    int64_t chunk, stride;
    int64_t first, count; /* rows of the chunk being worked on */
    float *logits, *dx;
    bool dry;
} head;

static size_t layout(head *h)
{
    hil_op_call *call = h->call;
    const hil_op_param *w = &call->param[0];
    h->rows = hil_shape_rows(&call->in[0].shape);
    h->cols = w->cols;
    h->vocab = w->rows;
    h->stride = (w->rows + STRIDE_UNIT - 1) / STRIDE_UNIT * STRIDE_UNIT;
    h->chunk = h->stride ? LOGIT_BYTES / (int64_t)sizeof(float) / h->stride : h->rows;
    h->chunk = h->chunk < CHUNK_UNIT ? CHUNK_UNIT : h->chunk - h->chunk % CHUNK_UNIT;
    if (h->chunk > h->rows) h->chunk = h->rows;
    size_t bytes = 0;
    h->logits =
        (float *)hil_scratch_at(call, hil_scratch_add(&bytes, h->chunk * h->stride, sizeof(float)));
    if (call->differentiate && hil_op_tiles(w) > 1)
        h->dx = (float *)hil_scratch_at(call,
                                        hil_scratch_add(&bytes, h->chunk * h->cols, sizeof(float)));
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

static int64_t tile_rows(const hil_op_param *w, int64_t tile)
{
    int64_t left = w->rows - tile * w->tile_rows;
    return left < w->tile_rows ? left : w->tile_rows;
}

static hil_status multiply(const head *h, const hil_cuda_matmul &product)
{
    return h->dry ? HIL_OK : hil_cuda_matmul_run(h->call->device, &product);
}

static void *input_row(const head *h)
{
    const hil_tensor *x = &h->call->in[0];
    return (char *)x->data + (size_t)(h->first * h->cols) * hil_dtype_size(x->dtype);
}

static hil_status multiply_logits(const head *h)
{
    hil_op_call *call = h->call;
    const hil_op_param *w = &call->param[0];
    for (int64_t tile = 0; tile < hil_op_tiles(w); ++tile) {
        const void *data;
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &data));
        hil_status status = multiply(h, {.m = h->count,
                                         .n = tile_rows(w, tile),
                                         .k = h->cols,
                                         .dtype = w->dtype,
                                         .a = {input_row(h), h->cols, false},
                                         .b = {data, h->cols, true},
                                         .c = h->logits + tile * w->tile_rows,
                                         .c_dtype = HIL_F32,
                                         .c_stride = h->stride});
        call->source->weight_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

typedef struct softmax {
    float *logits;
    int64_t stride, vocab;
    const int32_t *target;
    float *loss;
    float loss_scale;
    hil_dtype compute;
    bool differentiate;
    hil_cuda_fault *fault;
} softmax;

/* The largest of some numbers, and the sum of exp(number - largest). */
typedef struct total {
    float most, sum;
} total;

static __device__ inline total merge(total a, total b)
{
    float most = fmaxf(a.most, b.most);
    if (most == -INFINITY) return {most, 0};
    return {most, a.sum * __expf(a.most - most) + b.sum * __expf(b.most - most)};
}

static __device__ inline total row_total(const float *row, int64_t vocab)
{
    __shared__ total part[THREADS / 32];
    total mine = {-INFINITY, 0};
    for (int64_t at = threadIdx.x * HIL_WIDE; at < vocab; at += THREADS * HIL_WIDE) {
        int n = hil_wide_count(vocab - at);
        float x[HIL_WIDE], most = mine.most;
        hil_wide_read(hil_wide_load({(void *)(uintptr_t)row, HIL_F32}, at, n), HIL_F32, x);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i)
            if (i < n) most = fmaxf(most, x[i]);
        float sum = most == -INFINITY ? 0 : mine.sum * __expf(mine.most - most);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i)
            if (i < n && most > -INFINITY) sum += __expf(x[i] - most);
        mine = {most, sum};
    }
    for (int step = 16; step; step /= 2) {
        total other = {__shfl_xor_sync(0xffffffffu, mine.most, step),
                       __shfl_xor_sync(0xffffffffu, mine.sum, step)};
        mine = merge(mine, other);
    }
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = mine;
    __syncthreads();
    total all = part[0];
    for (int i = 1; i < THREADS / 32; ++i) all = merge(all, part[i]);
    return all;
}

/* loss = log(sum of exp) - logit of the target; the gradient replaces the logits. Row by row a
   block first reads a piece, then writes it: in 16 bits it ends before what is still to be read. */
static __global__ void __launch_bounds__(THREADS) finish_rows(const softmax s)
{
    float *row = s.logits + blockIdx.x * s.stride;
    int64_t target = s.target[blockIdx.x];
    if (target >= s.vocab) {
        if (threadIdx.x == 0) hil_fault_report(s.fault, target, s.vocab);
        target = -1;
    }
    total all = {0, 1};
    float of_target = 0;
    if (target >= 0) {
        of_target = row[target];
        all = row_total(row, s.vocab);
    }
    if (threadIdx.x == 0)
        s.loss[blockIdx.x] = target < 0 ? 0 : logf(all.sum) + (all.most - of_target);
    if (!s.differentiate) return;
    float factor = target < 0 ? 0 : s.loss_scale / all.sum;
    __syncthreads();
    for (int64_t first = 0; first < s.vocab; first += THREADS * HIL_WIDE) {
        int64_t at = first + threadIdx.x * HIL_WIDE;
        int n = hil_wide_count(s.vocab - at);
        float x[HIL_WIDE] = {};
        if (target >= 0 && n) {
            hil_wide_read(hil_wide_load({row, HIL_F32}, at, n), HIL_F32, x);
#pragma unroll
            for (int i = 0; i < HIL_WIDE; ++i) {
                x[i] = __expf(x[i] - all.most) * factor;
                if (at + i == target) x[i] -= s.loss_scale;
            }
        }
        __syncthreads();
        if (n) hil_wide_store({row, s.compute}, at, n, x);
    }
}

static hil_status finish_chunk(const head *h)
{
    const hil_op_call *call = h->call;
    if (h->dry || h->count == 0) return HIL_OK;
    softmax s = {.logits = h->logits,
                 .stride = h->stride,
                 .vocab = h->vocab,
                 .target = (const int32_t *)call->in[1].data + h->first,
                 .loss = (float *)call->out[0].data + h->first,
                 .loss_scale = call->loss_scale,
                 .compute = call->compute,
                 .differentiate = call->differentiate,
                 .fault = hil_cuda_of(call->device)->fault};
    finish_rows<<<(unsigned)h->count, THREADS, 0, hil_cuda_of(call->device)->stream>>>(s);
    return hil_cuda_launched(call->device, "head");
}

/* The gradients of x, into `saved` or the tiles' sum, and of the weight. */
static hil_status multiply_gradients(const head *h)
{
    hil_op_call *call = h->call;
    const hil_op_param *w = &call->param[0];
    const hil_tensor *saved = &call->saved[0];
    int64_t size = (int64_t)hil_dtype_size(call->compute);
    int64_t stride = h->stride * (int64_t)sizeof(float) / size;
    char *rows = (char *)saved->data + (size_t)(h->first * h->cols) * hil_dtype_size(saved->dtype);
    for (int64_t tile = 0; tile < hil_op_tiles(w); ++tile) {
        char *dlogits = (char *)h->logits + tile * w->tile_rows * size;
        const void *data;
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &data));
        hil_status status = multiply(h, {.m = h->count,
                                         .n = h->cols,
                                         .k = tile_rows(w, tile),
                                         .dtype = w->dtype,
                                         .a = {dlogits, stride, false},
                                         .b = {data, h->cols, false},
                                         .c = h->dx ? (void *)h->dx : (void *)rows,
                                         .c_dtype = h->dx ? HIL_F32 : saved->dtype,
                                         .c_stride = h->cols,
                                         .add = tile > 0});
        call->source->weight_end(call->owner, 0, tile);
        HIL_TRY(status);
        if (!w->trainable) continue;
        float *sum;
        HIL_TRY(call->source->gradient_begin(call->owner, 0, tile, &sum));
        status = multiply(h, {.m = tile_rows(w, tile),
                              .n = h->cols,
                              .k = h->count,
                              .dtype = w->dtype,
                              .a = {dlogits, stride, true},
                              .b = {input_row(h), h->cols, false},
                              .c = sum,
                              .c_dtype = HIL_F32,
                              .c_stride = h->cols,
                              .add = true});
        call->source->gradient_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    if (!h->dx || h->dry) return HIL_OK;
    hil_tensor to = {saved->dtype, {2, {h->count, h->cols}}, rows},
               from = {HIL_F32, to.shape, h->dx};
    return hil_cuda_convert(call->device, &to, &from, false);
}

static hil_status forward(hil_op_call *call)
{
    head h = {.call = call, .dry = hil_pool_is_dry(call->pool)};
    layout(&h);
    for (; h.first < h.rows; h.first += h.chunk) {
        h.count = h.rows - h.first < h.chunk ? h.rows - h.first : h.chunk;
        HIL_TRY(multiply_logits(&h));
        HIL_TRY(finish_chunk(&h));
        if (call->differentiate) HIL_TRY(multiply_gradients(&h));
    }
    return HIL_OK;
}

static hil_status backward(hil_op_call *call)
{
    if (!call->din[0].data) return HIL_OK;
    return hil_cuda_convert(call->device, &call->din[0], &call->saved[0], call->din_add[0]);
}

const hil_op_kernel hil_cuda_head = {.op = &hil_op_head,
                                     .infer = infer,
                                     .forward = forward,
                                     .backward = backward,
                                     .rehearses = true};
