/* head.cu - the last linear layer fused with cross-entropy, a chunk of positions at a time.

   Rows without a target take part with a gradient of zero: how many there are is not known here.
   Scratch, per chunk: logits (chunk, stride) and, where parts must be summed, the gradient of x
   (chunk, C). The gradient takes the place of the logits, in the compute dtype. */
#include "ops/matmul_cuda.h"

#include <cooperative_groups.h>

#define LOGIT_BYTES                                                                                \
    ((int64_t)1 << 30) /* of one chunk: the weight's sums are read once for each                   \
                        */
#define CHUNK_UNIT 128
#define STRIDE_UNIT 64 /* rows of logits begin aligned */
#define THREADS 1024
#define HELD 4         /* runs of a row that a thread holds */
#define CLUSTER_MOST 8 /* blocks of a row */

typedef struct head {
    hil_op_call *call;
    int64_t rows, cols, vocab; /* B * T, C, V */
    int64_t chunk, stride;
    int64_t first, count; /* rows of the chunk being worked on */
    float *logits, *dx;
    bool dry;
} head;

/* [Note: parts of a tile] Fast products want multiples of 8 rows of the weight (50257 of them take
   seven times as long as 50304). A tile of other sizes is multiplied in two parts, the second of
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
    h->stride = (w->rows + STRIDE_UNIT - 1) / STRIDE_UNIT * STRIDE_UNIT;
    h->chunk = h->stride ? LOGIT_BYTES / (int64_t)sizeof(float) / h->stride : h->rows;
    h->chunk = h->chunk < CHUNK_UNIT ? CHUNK_UNIT : h->chunk - h->chunk % CHUNK_UNIT;
    if (h->chunk > h->rows) h->chunk = h->rows;
    size_t bytes = 0;
    h->logits =
        (float *)hil_scratch_at(call, hil_scratch_add(&bytes, h->chunk * h->stride, sizeof(float)));
    if (call->differentiate && has_parts(w))
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

/* Rows of the weight, of which `data` are a tile. */
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

/* The total of a block's threads; every one of them gets it. */
static __device__ inline total block_total(total mine)
{
    __shared__ total part[THREADS / 32];
    for (int step = 16; step; step /= 2) {
        total other = {__shfl_xor_sync(0xffffffffu, mine.most, step),
                       __shfl_xor_sync(0xffffffffu, mine.sum, step)};
        mine = merge(mine, other);
    }
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = mine;
    __syncthreads();
    total all = part[0];
    for (int i = 1; i < (int)blockDim.x / 32; ++i) all = merge(all, part[i]);
    return all;
}

/* A run of a row joins a thread's total; n of its numbers exist. */
static __device__ inline total add_run(total mine, const float x[HIL_WIDE], int n)
{
    float most = mine.most;
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i)
        if (i < n) most = fmaxf(most, x[i]);
    float sum = most == -INFINITY ? 0 : mine.sum * __expf(mine.most - most);
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i)
        if (i < n && most > -INFINITY) sum += __expf(x[i] - most);
    return {most, sum};
}

static __device__ inline total row_total(const float *row, int64_t vocab)
{
    total mine = {-INFINITY, 0};
    for (int64_t at = threadIdx.x * HIL_WIDE; at < vocab; at += THREADS * HIL_WIDE) {
        int n = hil_wide_count(vocab - at);
        float x[HIL_WIDE];
        hil_wide_read(hil_wide_load({(void *)(uintptr_t)row, HIL_F32}, at, n), HIL_F32, x);
        mine = add_run(mine, x, n);
    }
    return block_total(mine);
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

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
/* The totals of all blocks of a row, merged in their order; none reads its row after that. */
static __device__ inline total cluster_total(total mine)
{
    __shared__ total shown;
    cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
    if (threadIdx.x == 0) shown = mine;
    cluster.sync();
    total all = *cluster.map_shared_rank(&shown, 0);
    for (unsigned i = 1; i < cluster.num_blocks(); ++i)
        all = merge(all, *cluster.map_shared_rank(&shown, i));
    cluster.sync();
    return all;
}
#else
static __device__ inline total cluster_total(total mine)
{
    return mine;
}
#endif

/* The same for rows that fit into the registers of `blocks` blocks, which make a cluster: logits
   are read once. */
static __global__ void __launch_bounds__(THREADS)
    finish_held_rows(const softmax s, const int blocks)
{
    float *row = s.logits + blockIdx.x / blocks * s.stride, x[HELD][HIL_WIDE];
    int first = (int)(blockIdx.x % blocks * blockDim.x + threadIdx.x) * HIL_WIDE;
    int step = blocks * (int)blockDim.x * HIL_WIDE, vocab = (int)s.vocab;
    int target = s.target[blockIdx.x / blocks];
    if (target >= vocab) {
        if (threadIdx.x == 0) hil_fault_report(s.fault, target, s.vocab);
        target = -1;
    }
#pragma unroll
    for (int k = 0; k < HELD; ++k) {
        int at = first + k * step;
        hil_wide_read(hil_wide_load({row, HIL_F32}, at, hil_wide_count(vocab - at)), HIL_F32, x[k]);
    }
    float of_target = target < 0 ? 0 : row[target];
    total all = {-INFINITY, 0};
#pragma unroll
    for (int k = 0; k < HELD; ++k)
        all = add_run(all, x[k], hil_wide_count(vocab - first - k * step));
    all = block_total(all);
    if (blocks > 1) all = cluster_total(all);
    if (threadIdx.x == 0 && blockIdx.x % blocks == 0)
        s.loss[blockIdx.x / blocks] = target < 0 ? 0 : logf(all.sum) + (all.most - of_target);
    if (!s.differentiate) return;
    float factor = s.loss_scale / all.sum;
#pragma unroll
    for (int k = 0; k < HELD; ++k) {
        int at = first + k * step, n = hil_wide_count(vocab - at);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            x[k][i] = target < 0 ? 0 : __expf(x[k][i] - all.most) * factor;
            if (at + i == target) x[k][i] -= s.loss_scale;
        }
        if (n) hil_wide_store({row, s.compute}, at, n, x[k]);
    }
}

/* How a row is held: small blocks, of which others work while one waits. No blocks: it cannot be.
   Clusters came with compute capability 9. */
typedef struct holding {
    int blocks, threads;
} holding;

static holding hold_row(const hil_device *device, int64_t vocab)
{
    int major = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, hil_cuda_of(device)->index);
    int most = major >= 9 ? CLUSTER_MOST : 1;
    for (int threads = THREADS / 4; threads <= THREADS; threads *= 2) {
        int64_t blocks = (vocab + threads * HELD * HIL_WIDE - 1) / (threads * HELD * HIL_WIDE);
        if (blocks <= most) return {(int)blocks, threads};
    }
    return {};
}

static hil_status launch_held(const hil_device *device, const softmax &s, int64_t rows,
                              const holding &held)
{
    cudaLaunchAttribute cluster = {.id = cudaLaunchAttributeClusterDimension};
    cluster.val.clusterDim = {(unsigned)held.blocks, 1, 1};
    cudaLaunchConfig_t config = {.gridDim = dim3((unsigned)(rows * held.blocks)),
                                 .blockDim = dim3((unsigned)held.threads),
                                 .stream = hil_cuda_of(device)->stream,
                                 .attrs = &cluster,
                                 .numAttrs = held.blocks > 1};
    return hil_cuda_check(device, cudaLaunchKernelEx(&config, finish_held_rows, s, held.blocks),
                          "head");
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
    holding held = hold_row(call->device, h->vocab);
    if (held.blocks) return launch_held(call->device, s, h->count, held);
    finish_rows<<<(unsigned)h->count, THREADS, 0, hil_cuda_of(call->device)->stream>>>(s);
    return hil_cuda_launched(call->device, "head");
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

/* The gradient of x, into `saved` or the parts' sum. */
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
    HIL_TRY(call->source->gradient_begin(call->owner, 0, tile, &sum));
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
                              .add = true});
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
