/* weight_norm.cu - the norms of the rows of W + s B A, by the formula of weight_norm.c. */
#include "ops/linear/matmul_cuda.h"

#define LANES 32
#define ROWS 8 /* of a thread block: one for each warp */

enum { W, A, B };

/* Scratch: A as it is, A W' and A A' as fp32, and the squares of the rows of W. */
typedef struct job {
    int64_t n, k, rank;
    void *a;
    float *product, *gram, *square;
    size_t bytes;
} job;

static job prepare(const hil_op_call *call)
{
    job j = {call->param[W].rows, call->param[W].cols, call->param[A].rows};
    size_t size = hil_dtype_size(call->param[A].dtype);
    j.a = hil_scratch_at(call, hil_scratch_add(&j.bytes, j.rank * j.k, size));
    j.product =
        (float *)hil_scratch_at(call, hil_scratch_add(&j.bytes, j.rank * j.n, sizeof(float)));
    j.gram =
        (float *)hil_scratch_at(call, hil_scratch_add(&j.bytes, j.rank * j.rank, sizeof(float)));
    j.square = (float *)hil_scratch_at(call, hil_scratch_add(&j.bytes, j.n, sizeof(float)));
    return j;
}

static hil_status infer(hil_op_call *call)
{
    call->forward_scratch = prepare(call).bytes;
    return HIL_OK;
}

/* A tile of a parameter while it is acquired. */
typedef struct tile {
    int64_t first, rows;
    hil_view data;
} tile;

static hil_status begin_tile(const hil_op_call *call, int param, int64_t number, tile *out)
{
    const hil_op_param *p = &call->param[param];
    const void *data;
    HIL_TRY(call->source->weight_begin(call->owner, param, number, &data));
    int64_t first = number * p->tile_rows, left = p->rows - first;
    *out = {first, left < p->tile_rows ? left : p->tile_rows, {(void *)(uintptr_t)data, p->dtype}};
    return HIL_OK;
}

static __device__ inline float warp_sum(float x)
{
    for (int step = LANES / 2; step; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

static __global__ void square_rows(float *square, const hil_view w, int64_t rows, int64_t cols)
{
    int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.x / LANES;
    if (row >= rows) return;
    float sum = 0;
    for (int64_t col = threadIdx.x % LANES * HIL_WIDE; col < cols; col += LANES * HIL_WIDE) {
        float x[HIL_WIDE];
        hil_wide_read(hil_wide_load(w, row * cols + col, hil_wide_count(cols - col)), w.dtype, x);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) sum = fmaf(x[i], x[i], sum);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % LANES == 0) square[row] = sum;
}

static __device__ inline float one(hil_view x, int64_t at)
{
    float out[HIL_WIDE];
    hil_wide_read(hil_wide_load(x, at, 1), x.dtype, out);
    return out[0];
}

static __global__ void finish_rows(float *norm, const job j, const tile t, float scale)
{
    int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.x / LANES;
    if (row >= t.rows) return;
    float sum = 0;
    for (int64_t i = threadIdx.x % LANES; i < j.rank; i += LANES) {
        float own = 0;
        for (int64_t k = 0; k < j.rank; ++k)
            own = fmaf(j.gram[i * j.rank + k], one(t.data, row * j.rank + k), own);
        float cross = 2 * j.product[i * j.n + t.first + row];
        sum = fmaf(scale * one(t.data, row * j.rank + i), fmaf(scale, own, cross), sum);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % LANES) return;
    float square = j.square[t.first + row] + sum;
    norm[t.first + row] = sqrtf(square > 0 ? square : 0);
}

static hil_status copy_a(const hil_op_call *call, const job &j)
{
    const hil_op_param *p = &call->param[A];
    for (int64_t i = 0; i < hil_op_tiles(p); ++i) {
        tile t;
        HIL_TRY(begin_tile(call, A, i, &t));
        size_t at = (size_t)(t.first * j.k) * hil_dtype_size(p->dtype);
        hil_shape shape = {2, {t.rows, j.k}};
        hil_tensor to = {p->dtype, shape, (char *)j.a + at}, from = {p->dtype, shape, t.data.data};
        hil_status status = hil_op_cuda_convert(call->device, &to, &from, false);
        call->source->weight_end(call->owner, A, i);
        HIL_TRY(status);
    }
    return HIL_OK;
}

/* c (rank x rows, rows c_stride apart) = A * m', m having `rows` rows. */
static hil_status multiply(const hil_op_call *call, const job &j, const void *m, int64_t rows,
                           float *c, int64_t c_stride)
{
    hil_cuda_matmul product = {.m = j.rank,
                               .n = rows,
                               .k = j.k,
                               .dtype = call->param[A].dtype,
                               .a = {j.a, j.k, false},
                               .b = {m, j.k, true},
                               .c = c,
                               .c_dtype = HIL_F32,
                               .c_stride = c_stride};
    return hil_cuda_matmul_run(call->device, &product);
}

static hil_status use_weight(const hil_op_call *call, const job &j, const tile &t)
{
    HIL_TRY(multiply(call, j, t.data.data, t.rows, j.product + t.first, j.n));
    square_rows<<<hil_blocks(t.rows, ROWS), ROWS * LANES, 0, hil_cuda_of(call->device)->stream>>>(
        j.square + t.first, t.data, t.rows, j.k);
    return hil_cuda_launched(call->device, "weight squares");
}

static hil_status use_b(const hil_op_call *call, const job &j, const tile &t)
{
    float scale = (float)((const hil_weight_norm_attr *)call->attr)->scale;
    finish_rows<<<hil_blocks(t.rows, ROWS), ROWS * LANES, 0, hil_cuda_of(call->device)->stream>>>(
        (float *)call->out[0].data, j, t, scale);
    return hil_cuda_launched(call->device, "weight norms");
}

static hil_status forward(hil_op_call *call)
{
    job j = prepare(call);
    HIL_TRY(copy_a(call, j));
    HIL_TRY(multiply(call, j, j.a, j.rank, j.gram, j.rank));
    for (int param = W; param <= B; param += B - W)
        for (int64_t i = 0; i < hil_op_tiles(&call->param[param]); ++i) {
            tile t;
            HIL_TRY(begin_tile(call, param, i, &t));
            hil_status status = param == W ? use_weight(call, j, t) : use_b(call, j, t);
            call->source->weight_end(call->owner, param, i);
            HIL_TRY(status);
        }
    return HIL_OK;
}

const hil_op_kernel hil_cuda_weight_norm = {
    .op = &hil_op_weight_norm, .infer = infer, .forward = forward};
