/* norm.c - over the last dimension, LayerNorm: (x - mean) / sqrt(variance + eps) * weight + bias;
   and RMSNorm: x / sqrt(mean of squares + eps) * weight. They differ in the mean and the bias. In a
   norm of heads, row r has the weights of head r modulo the number of heads. */
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <math.h>
#include <string.h>

#define GROUP 1024 /* numbers */

/* Scratch: weight and bias as fp32; in backward also the gradients of both for each block of rows.
 */
typedef struct job {
    const hil_op_call *call;
    hil_grid grid;
    int64_t cols;
    int64_t heads; /* rows of weights */
    int64_t group; /* rows that are converted at once */
    bool centered;
    float *vector[2];
    float *partial[2]; /* blocks x heads x cols; NULL where not wanted */
} job;

static bool is_centered(const hil_op_call *call)
{
    return call->op != &hil_op_rmsnorm && call->op != &hil_op_head_rmsnorm;
}

static bool is_by_head(const hil_op_call *call)
{
    return call->op == &hil_op_head_norm || call->op == &hil_op_head_rmsnorm;
}

static int64_t count_heads(const hil_op_call *call)
{
    const hil_shape *shape = &call->in[0].shape;
    return is_by_head(call) ? shape->dim[shape->ndim - 2] : 1;
}

/* A norm without a weight has a vector of ones in its place. */
static int count_vectors(const hil_op_call *call)
{
    return call->params ? call->params : 1;
}

static hil_status infer_heads(const hil_op_call *call)
{
    const hil_op_param *p = &call->param[0];
    HIL_TRY(hil_infer_float(call, 0, 4));
    int64_t count = count_heads(call) * hil_shape_cols(&call->in[0].shape);
    if (p->rows * p->cols == count && p->tile_rows > 0) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "%s: parameter 0 is %s, expected %lld numbers for %s",
                    call->op->name, hil_infer_param_text(p).text, (long long)count,
                    hil_infer_shape_text(&call->in[0].shape).text);
}

/* Saves 1/deviation per row; for LayerNorm the mean before it. */
static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 0));
    const hil_shape *shape = &call->in[0].shape;
    int64_t rows = hil_shape_rows(shape), cols = hil_shape_cols(shape);
    int vectors = call->op == &hil_op_layernorm ? 2 : 1;
    if (call->params > vectors || (is_by_head(call) && call->params < 1))
        return hil_fail(HIL_ERR_USAGE, "%s: %d parameters, expected %s%d", call->op->name,
                        call->params, is_by_head(call) ? "" : "at most ", vectors);
    if (is_by_head(call)) HIL_TRY(infer_heads(call));
    for (int i = 0; i < call->params && !is_by_head(call); ++i)
        HIL_TRY(hil_infer_vector(call, i, cols));
    hil_infer_out(call, call->compute, shape);
    call->saveds = 1;
    call->saved[0].dtype = HIL_F32;
    call->saved[0].shape = (hil_shape){2, {rows, is_centered(call) ? 2 : 1}};
    cols *= count_heads(call);
    hil_grid grid = hil_row_grid(rows);
    for (int i = 0; i < count_vectors(call); ++i)
        hil_scratch_add(&call->forward_scratch, cols, sizeof(float));
    call->backward_scratch = call->forward_scratch;
    for (int i = 0; i < call->params; ++i)
        hil_scratch_add(&call->backward_scratch, grid.blocks * cols, sizeof(float));
    return HIL_OK;
}

static int64_t buffer_size(const job *j)
{
    return j->group * j->cols + HIL_LANES;
}

static hil_status prepare(const hil_op_call *call, job *out)
{
    *out = (job){.call = call,
                 .grid = hil_row_grid(hil_shape_rows(&call->in[0].shape)),
                 .cols = hil_shape_cols(&call->in[0].shape),
                 .heads = count_heads(call),
                 .centered = is_centered(call)};
    out->group = out->cols < GROUP ? GROUP / out->cols : 1;
    size_t at = 0;
    int64_t width = out->heads * out->cols;
    for (int i = 0; i < count_vectors(call); ++i) {
        out->vector[i] =
            (float *)((char *)call->scratch + hil_scratch_add(&at, width, sizeof(float)));
        if (i < call->params) HIL_TRY(hil_op_vector(call, i, out->vector[i]));
    }
    float offset = (float)((const hil_norm_attr *)call->attr)->offset;
    for (int64_t c = 0; (offset != 0 || !call->params) && c < width; ++c) {
        if (hil_pool_is_dry(call->pool)) break;
        out->vector[0][c] = call->params ? out->vector[0][c] + offset : 1;
    }
    for (int i = 0; i < call->params; ++i)
        out->partial[i] = (float *)((char *)call->scratch +
                                    hil_scratch_add(&at, out->grid.blocks * width, sizeof(float)));
    return hil_pool_reserve(call->pool, 3 * sizeof(float) * (size_t)buffer_size(out));
}

/* One of the thread's three buffers for rows. */
static float *buffer(const job *j, int thread, int i)
{
    return (float *)hil_pool_scratch(j->call->pool, thread) + i * buffer_size(j);
}

/* Row r. */
static void forward_row(const job *j, hil_row_norm *norm, int64_t r, const float *x, float *y)
{
    const hil_row_kernel *kernel = hil_rows();
    double eps = ((const hil_norm_attr *)j->call->attr)->eps;
    float *saved = j->call->saved[0].data;
    int64_t n = j->cols;
    if (j->centered) norm->mean = kernel->math.sum(x, n) / (float)n;
    float variance = kernel->math.sum_squares(x, norm->mean, n) / (float)n;
    norm->scale = 1.0f / sqrtf(variance + (float)eps);
    kernel->norm.normalize(y, x, norm, n);
    if (j->centered) saved[2 * r] = norm->mean;
    saved[j->centered ? 2 * r + 1 : r] = norm->scale;
}

static void forward_rows(void *context, int64_t block, int thread)
{
    const job *j = context;
    const hil_op_call *call = j->call;
    int64_t n = j->cols, end = hil_grid_end(&j->grid, block), count;
    int64_t head = block * j->grid.block % j->heads;
    hil_row_norm norm = {.bias = j->vector[1]};
    for (int64_t r = block * j->grid.block; r < end; r += count) {
        count = end - r < j->group ? end - r : j->group;
        const float *x = hil_row_read(&call->in[0], r * n, count * n, buffer(j, thread, 0));
        float *y = hil_row_place(&call->out[0], r * n, false, buffer(j, thread, 1));
        for (int64_t k = 0; k < count; ++k) {
            norm.weight = j->vector[0] + head * n;
            forward_row(j, &norm, r + k, x + k * n, y + k * n);
            if (++head == j->heads) head = 0;
        }
        hil_row_write(&call->out[0], r * n, count * n, y, false);
    }
}

static hil_status forward(hil_op_call *call)
{
    job j;
    HIL_TRY(prepare(call, &j));
    hil_pool_run(call->pool, forward_rows, &j, j.grid.blocks);
    return HIL_OK;
}

/* Row r, of this head; dx may be NULL. */
static void backward_row(const job *j, hil_row_norm *norm, int64_t r, const float *const in[2],
                         float *dx)
{
    const hil_row_normalize *kernel = &hil_rows()->norm;
    const float *saved = j->call->saved[0].data;
    norm->mean = j->centered ? saved[2 * r] : 0;
    norm->scale = saved[j->centered ? 2 * r + 1 : r];
    kernel->normalize_back(norm, in[0], in[1], j->cols);
    if (dx) kernel->normalize_dx(dx, norm, in[0], in[1], j->cols);
}

static void backward_rows(void *context, int64_t block, int thread)
{
    const job *j = context;
    const hil_op_call *call = j->call;
    int64_t n = j->cols, width = j->heads * n, end = hil_grid_end(&j->grid, block), count;
    int64_t head = block * j->grid.block % j->heads;
    hil_row_norm norm = {.centered = j->centered};
    float *dweight = j->partial[0] ? j->partial[0] + block * width : NULL;
    if (j->partial[1]) norm.dbias = j->partial[1] + block * n;
    if (dweight) memset(dweight, 0, (size_t)width * sizeof(float));
    if (norm.dbias) memset(norm.dbias, 0, (size_t)n * sizeof(float));
    bool wants = call->din[0].data != NULL, add = call->din_add[0];
    for (int64_t r = block * j->grid.block; r < end; r += count) {
        count = end - r < j->group ? end - r : j->group;
        const float *x = hil_row_read(&call->in[0], r * n, count * n, buffer(j, thread, 0));
        const float *dy = hil_row_read(&call->dout[0], r * n, count * n, buffer(j, thread, 1));
        float *dx = wants ? hil_row_place(&call->din[0], r * n, add, buffer(j, thread, 2)) : NULL;
        for (int64_t k = 0; k < count; ++k) {
            const float *in[] = {x + k * n, dy + k * n};
            norm.weight = j->vector[0] + head * n;
            norm.dweight = dweight ? dweight + head * n : NULL;
            backward_row(j, &norm, r + k, in, dx ? dx + k * n : NULL);
            if (++head == j->heads) head = 0;
        }
        if (wants) hil_row_write(&call->din[0], r * n, count * n, dx, add);
    }
}

static hil_status backward(hil_op_call *call)
{
    job j;
    HIL_TRY(prepare(call, &j));
    for (int i = 0; i < call->params; ++i)
        if (!call->param[i].trainable) j.partial[i] = NULL;
    hil_pool_run(call->pool, backward_rows, &j, j.grid.blocks);
    if (!is_by_head(call)) return hil_op_gather_vectors(call, j.partial, j.grid.blocks, j.cols);
    if (!j.partial[0]) return HIL_OK;
    hil_gather sums = {j.vector[0], j.partial[0], j.grid.blocks, j.heads * j.cols, false};
    hil_row_gather(call->pool, &sums);
    return hil_op_give_matrix(call, 0, j.vector[0]);
}

#define NORM(label)                                                                                \
    {                                                                                              \
        .name = (label), .attr_size = sizeof(hil_norm_attr), .keep_in = 1, .cheap = true,          \
        .infer = infer, .forward = forward, .backward = backward                                   \
    }

const hil_op hil_op_layernorm = NORM("layernorm");
const hil_op hil_op_rmsnorm = NORM("rmsnorm");
const hil_op hil_op_head_norm = NORM("head_norm");
const hil_op hil_op_head_rmsnorm = NORM("head_rmsnorm");
