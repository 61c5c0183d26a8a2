/* weight_norm.c - the norms of the rows of W + s B A, without that matrix:

       |w|^2 + 2 s (w A') b' + s^2 b (A A') b'

   for a row w of W and the row b of B. */
#include "ops/infer.h"
#include "ops/linear/gemm.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <math.h>
#include <string.h>

enum { W, A, B };

/* Scratch: A as it is, A W' and A A' as fp32, and the squares of the rows of W. */
typedef struct job {
    const hil_op_call *call;
    int64_t n, k, rank;
    char *a;
    float *product, *gram, *square;
    hil_tensor tile; /* of W or B */
    int64_t first;   /* row of that tile */
    hil_grid grid;   /* of its rows */
    size_t bytes;
} job;

static job prepare(const hil_op_call *call)
{
    job j = {.call = call,
             .n = call->param[W].rows,
             .k = call->param[W].cols,
             .rank = call->param[A].rows};
    char *scratch = call->scratch;
    j.a = scratch + hil_scratch_add(&j.bytes, j.rank * j.k, hil_dtype_size(call->param[A].dtype));
    j.product = (float *)(scratch + hil_scratch_add(&j.bytes, j.rank * j.n, sizeof(float)));
    j.gram = (float *)(scratch + hil_scratch_add(&j.bytes, j.rank * j.rank, sizeof(float)));
    j.square = (float *)(scratch + hil_scratch_add(&j.bytes, j.n, sizeof(float)));
    return j;
}

static hil_status infer(hil_op_call *call)
{
    const hil_op_param *p = call->param;
    if (call->params != 3 || call->ins || p[A].cols != p[W].cols || p[B].rows != p[W].rows ||
        p[B].cols != p[A].rows)
        return hil_fail(HIL_ERR_USAGE, "weight norm: matrices %s and %s do not fit weight %s",
                        hil_infer_param_text(&p[A]).text, hil_infer_param_text(&p[B]).text,
                        hil_infer_param_text(&p[W]).text);
    hil_infer_out(call, HIL_F32, &(hil_shape){1, {p[W].rows}});
    call->scratch = NULL;
    call->forward_scratch = prepare(call).bytes;
    return HIL_OK;
}

static hil_status copy_a(job *j)
{
    const hil_op_call *call = j->call;
    const hil_op_param *p = &call->param[A];
    size_t row = (size_t)j->k * hil_dtype_size(p->dtype);
    for (int64_t tile = 0; tile < hil_op_tiles(p); ++tile) {
        int64_t first = tile * p->tile_rows, left = p->rows - first;
        const void *data;
        HIL_TRY(call->source->weight_begin(call->owner, A, tile, &data));
        if (!hil_pool_is_dry(call->pool))
            memcpy(j->a + (size_t)first * row, data,
                   (size_t)(left < p->tile_rows ? left : p->tile_rows) * row);
        call->source->weight_end(call->owner, A, tile);
    }
    return HIL_OK;
}

/* Begins with a tile of W or B; false: there are no more. */
static hil_status begin_tile(job *j, int param, int64_t tile)
{
    const hil_op_call *call = j->call;
    const hil_op_param *p = &call->param[param];
    const void *data;
    HIL_TRY(call->source->weight_begin(call->owner, param, tile, &data));
    j->first = tile * p->tile_rows;
    int64_t left = p->rows - j->first, rows = left < p->tile_rows ? left : p->tile_rows;
    j->tile = (hil_tensor){p->dtype, {2, {rows, p->cols}}, (void *)(uintptr_t)data};
    j->grid = hil_row_grid(rows);
    return hil_pool_reserve(call->pool, sizeof(float) * (size_t)(p->cols + HIL_LANES));
}

static void square_rows(void *context, int64_t block, int thread)
{
    const job *j = context;
    float *buffer = hil_pool_scratch(j->call->pool, thread);
    for (int64_t r = block * j->grid.block; r < hil_grid_end(&j->grid, block); ++r) {
        const float *w = hil_row_read(&j->tile, r * j->k, j->k, buffer);
        j->square[j->first + r] = hil_rows()->math.sum_squares(w, 0, j->k);
    }
}

/* c (rank x rows, rows c_stride apart) = A * m', m having `rows` rows. */
static hil_status multiply(const job *j, hil_matrix m, int64_t rows, float *c, int64_t c_stride)
{
    return hil_gemm_run(j->call->pool,
                        &(hil_gemm){.m = j->rank,
                                    .n = rows,
                                    .k = j->k,
                                    .a = hil_matrix_rows(j->a, j->call->param[A].dtype, j->k),
                                    .b = hil_matrix_transpose(m),
                                    .c = c,
                                    .c_dtype = HIL_F32,
                                    .c_stride = c_stride});
}

static void finish_rows(void *context, int64_t block, int thread)
{
    const job *j = context;
    float *buffer = hil_pool_scratch(j->call->pool, thread), *out = j->call->out[0].data;
    double s = ((const hil_weight_norm_attr *)j->call->attr)->scale;
    for (int64_t r = block * j->grid.block; r < hil_grid_end(&j->grid, block); ++r) {
        const float *b = hil_row_read(&j->tile, r * j->rank, j->rank, buffer);
        double cross = 0, own = 0;
        for (int64_t i = 0; i < j->rank; ++i) {
            double sum = 0;
            for (int64_t k = 0; k < j->rank; ++k)
                sum += (double)j->gram[i * j->rank + k] * (double)b[k];
            own += sum * (double)b[i];
            cross += (double)j->product[i * j->n + j->first + r] * (double)b[i];
        }
        double square = (double)j->square[j->first + r] + 2 * s * cross + s * s * own;
        out[j->first + r] = (float)sqrt(square > 0 ? square : 0);
    }
}

static hil_status forward(hil_op_call *call)
{
    job j = prepare(call);
    HIL_TRY(copy_a(&j));
    HIL_TRY(multiply(&j, hil_matrix_rows(j.a, call->param[A].dtype, j.k), j.rank, j.gram, j.rank));
    for (int64_t tile = 0; tile < hil_op_tiles(&call->param[W]); ++tile) {
        HIL_TRY(begin_tile(&j, W, tile));
        hil_status status = multiply(&j, hil_matrix_rows(j.tile.data, j.tile.dtype, j.k),
                                     j.grid.rows, j.product + j.first, j.n);
        if (status == HIL_OK) hil_pool_run(call->pool, square_rows, &j, j.grid.blocks);
        call->source->weight_end(call->owner, W, tile);
        HIL_TRY(status);
    }
    for (int64_t tile = 0; tile < hil_op_tiles(&call->param[B]); ++tile) {
        HIL_TRY(begin_tile(&j, B, tile));
        hil_pool_run(call->pool, finish_rows, &j, j.grid.blocks);
        call->source->weight_end(call->owner, B, tile);
    }
    return HIL_OK;
}

const hil_op hil_op_weight_norm = {
    .name = "weight norm",
    .attr_size = sizeof(hil_weight_norm_attr),
    .infer = infer,
    .forward = forward,
};
