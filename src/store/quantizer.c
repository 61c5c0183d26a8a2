/* quantizer.c - quantizes matrices piece by piece, never whole in memory. */
#include "store/quantizer.h"

#include "base/alloc.h"
#include "store/internal.h"

#include <string.h>

#define PIECE ((int64_t)4 << 20) /* elements quantized at once, at least some rows of them */
#define TASK 16384               /* elements; whole blocks */
/* Elements that a device draws at once. */
#define DRAWN ((int64_t)32 << 20)

static int64_t divide_up(int64_t count, int64_t by)
{
    return (count + by - 1) / by;
}

/* Blocks, rows or squares of `rows` rows. */
static int64_t count_scales(const hil_param *p, int64_t rows)
{
    int64_t cols = hil_shape_cols(&p->spec.shape);
    switch (p->quant) {
    case HIL_QUANT_INT8:
        return rows;
    case HIL_QUANT_FP8:
        return divide_up(rows, HIL_QUANT_SQUARE) * divide_up(cols, HIL_QUANT_SQUARE);
    case HIL_QUANT_BF16:
        return 0;
    default:
        return divide_up(rows * cols, HIL_QUANT_BLOCK);
    }
}

hil_status hil_quantizer_put_codes(hil_param *p, int64_t first, int64_t count, const void *codes)
{
    int64_t cols = hil_shape_cols(&p->spec.shape), tile = p->tile_rows * cols,
            number = first / tile;
    hil_quant_tile place;
    hil_param_quant_tile(p, number, &place);
    size_t at = place.codes + hil_quant_codes(p->quant, first - number * tile);
    return hil_store_write_quantized(p->store, p, number * p->stride + (int64_t)at,
                                     (int64_t)hil_quant_codes(p->quant, count), codes);
}

/* What stands before the codes of a tile. */
static void fill_head(const hil_param *p, const hil_quant_tile *place,
                      const hil_quantizer_scales *s, char *head)
{
    int64_t before = count_scales(p, place->row), scales = count_scales(p, place->rows);
    if (s->table) memcpy(head, s->table, 16 * sizeof *s->table);
    if (p->quant != HIL_QUANT_NF4) {
        memcpy(head + place->scales, s->scale + before, (size_t)scales * sizeof *s->scale);
        return;
    }
    int64_t group = before / HIL_QUANT_NESTED;
    int64_t groups = divide_up(before + scales, HIL_QUANT_NESTED) - group;
    size_t number = sizeof(float), table = HIL_QUANT_NEST_TABLE * number;
    memcpy(head + place->nested_table, s->nested_table, table);
    memcpy(head + place->nested_table + table, &s->offset, number);
    memcpy(head + place->nested, s->nested + group, (size_t)groups * number);
    memcpy(head + place->scales, s->code + before, (size_t)scales);
}

hil_status hil_quantizer_put_scales(hil_param *p, const hil_quantizer_scales *scales)
{
    int64_t tiles = divide_up(hil_shape_rows(&p->spec.shape), p->tile_rows);
    hil_status status = HIL_OK;
    for (int64_t t = 0; t < tiles && status == HIL_OK; ++t) {
        hil_quant_tile place;
        char *head;
        hil_param_quant_tile(p, t, &place);
        if (!place.codes) continue;
        HIL_TRY(HIL_ALLOC(place.codes, &head));
        fill_head(p, &place, scales, head);
        status = hil_store_write_quantized(p->store, p, t * p->stride, (int64_t)place.codes, head);
        hil_free(head);
    }
    return status;
}

/* A matrix being quantized. */
typedef struct quantizing {
    hil_param *param;
    int64_t cols;
    int64_t rows, blocks;  /* of the piece; blocks before it */
    float *piece;          /* its numbers */
    unsigned char *codes;  /* its codes */
    float *scale;          /* of the whole matrix */
    unsigned char *code;   /* nf4: of each block's scale */
    float *nested, offset; /* nf4 */
    float *shared;         /* memory of the device, for a piece: scales, then codes */
} quantizing;

/* Elements of a task. */
static int64_t task_elements(const quantizing *j)
{
    if (j->param->quant == HIL_QUANT_INT8) return j->cols;
    if (j->param->quant == HIL_QUANT_FP8) return HIL_QUANT_SQUARE * j->cols;
    return TASK;
}

static void quantize_task(void *context, int64_t task, int thread)
{
    (void)thread;
    const quantizing *j = context;
    hil_quant quant = j->param->quant;
    int64_t each = task_elements(j), first = task * each, count = j->rows * j->cols - first;
    int64_t scales = quant == HIL_QUANT_INT8  ? 1
                     : quant == HIL_QUANT_FP8 ? divide_up(j->cols, HIL_QUANT_SQUARE)
                                              : TASK / HIL_QUANT_BLOCK;
    hil_quant_part part = {.quant = quant,
                           .count = count < each ? count : each,
                           .cols = j->cols,
                           .in = j->piece + first,
                           .codes = j->codes + hil_quant_codes(quant, first),
                           .scale = j->scale + j->blocks + task * scales};
    hil_quant_encode(&part);
}

static void nest_task(void *context, int64_t group, int thread)
{
    (void)thread;
    const quantizing *j = context;
    int64_t first = group * HIL_QUANT_NESTED, count = j->blocks - first;
    if (count > HIL_QUANT_NESTED) count = HIL_QUANT_NESTED;
    j->nested[group] = hil_quant_nest(j->scale + first, count, j->offset, j->code + first);
}

/* Draws and quantizes a piece on the device, which writes to memory that it shares with the host.
 */
static hil_status draw_piece(quantizing *j, const hil_quant_draw *draw, int64_t first,
                             int64_t count)
{
    hil_device *device = j->param->store->device;
    hil_quant_draw piece = *draw;
    piece.first = first;
    piece.count = count;
    piece.scales = j->shared;
    piece.codes = (unsigned char *)(j->shared + DRAWN / HIL_QUANT_BLOCK);
    HIL_TRY(hil_device_math_of(device)->draw(device, HIL_STREAM_COMPUTE, &piece));
    HIL_TRY(device->queue->finish(device));
    int64_t blocks = divide_up(count, HIL_QUANT_BLOCK);
    memcpy(j->scale + first / HIL_QUANT_BLOCK, piece.scales, (size_t)blocks * sizeof *j->scale);
    return hil_quantizer_put_codes(j->param, first, count, piece.codes);
}

static hil_status draw_pieces(quantizing *j, const hil_quant_draw *draw)
{
    hil_device *device = j->param->store->device;
    int64_t tile = j->param->tile_rows * j->cols, count;
    size_t bytes = DRAWN / HIL_QUANT_BLOCK * sizeof *j->shared + DRAWN / 2;
    HIL_TRY(device->heap->share(device, bytes, (void **)&j->shared));
    for (int64_t first = 0; first < j->param->elements; first += count) {
        count = tile - first % tile;
        if (count > j->param->elements - first) count = j->param->elements - first;
        if (count > DRAWN) count = DRAWN;
        HIL_TRY(draw_piece(j, draw, first, count));
    }
    return HIL_OK;
}

static hil_status quantize_pieces(quantizing *j, const hil_quantizer *quantizer)
{
    hil_param *p = j->param;
    int64_t rows = hil_shape_rows(&p->spec.shape);
    int64_t most = PIECE / (j->cols ? j->cols : 1) / HIL_QUANT_SQUARE * HIL_QUANT_SQUARE;
    if (most < HIL_QUANT_SQUARE) most = HIL_QUANT_SQUARE;
    if (most > p->tile_rows) most = p->tile_rows;
    HIL_TRY(HIL_ALLOC(most * j->cols, &j->piece));
    HIL_TRY(HIL_ALLOC(hil_quant_codes(p->quant, most * j->cols), &j->codes));
    for (int64_t row = 0; row < rows; row += j->rows) {
        int64_t left = p->tile_rows - row % p->tile_rows;
        if (left > rows - row) left = rows - row;
        j->rows = left < most ? left : most;
        j->blocks = count_scales(p, row);
        int64_t first = row * j->cols, count = j->rows * j->cols;
        HIL_TRY(quantizer->read(quantizer->context, first, count, j->piece));
        hil_pool_run(p->store->opening.pool, quantize_task, j, divide_up(count, task_elements(j)));
        HIL_TRY(hil_quantizer_put_codes(p, first, count, j->codes));
    }
    return HIL_OK;
}

static hil_status put_scales(quantizing *j)
{
    hil_param *p = j->param;
    hil_quantizer_scales scales = {.scale = j->scale};
    if (p->quant == HIL_QUANT_NF4 || p->quant == HIL_QUANT_NF4_PLAIN)
        scales.table = hil_quant_nf4_table;
    if (p->quant == HIL_QUANT_NF4) {
        j->blocks = count_scales(p, hil_shape_rows(&p->spec.shape));
        int64_t groups = divide_up(j->blocks, HIL_QUANT_NESTED);
        HIL_TRY(HIL_ALLOC(j->blocks, &j->code));
        HIL_TRY(HIL_ALLOC(groups, &j->nested));
        j->offset = hil_quant_mean(j->scale, j->blocks);
        hil_pool_run(p->store->opening.pool, nest_task, j, groups);
        scales.nested_table = hil_quant_nest_table;
        scales.nested = j->nested;
        scales.offset = j->offset;
        scales.code = j->code;
    }
    return hil_quantizer_put_scales(p, &scales);
}

hil_status hil_quantizer_fill(hil_param *param, const hil_quantizer *quantizer)
{
    quantizing j = {.param = param, .cols = hil_shape_cols(&param->spec.shape)};
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(count_scales(param, hil_shape_rows(&param->spec.shape)), &j.scale));
    hil_device *device = param->store->device;
    if (device && quantizer->draw && param->quant == HIL_QUANT_NF4)
        HIL_TRY_DONE(draw_pieces(&j, quantizer->draw));
    else
        HIL_TRY_DONE(quantize_pieces(&j, quantizer));
    HIL_TRY_DONE(put_scales(&j));
done:
    if (j.shared) param->store->device->heap->unshare(param->store->device, j.shared);
    hil_free(j.piece);
    hil_free(j.codes);
    hil_free(j.scale);
    hil_free(j.code);
    hil_free(j.nested);
    return status;
}

int64_t hil_param_stride(const hil_param *param)
{
    return param->stride;
}

/* Bytes of other ranks are zero here, so the bitwise OR of all ranks is the whole tile. */
hil_status hil_store_read_expanded(hil_store *store, hil_param *p, int64_t tile, float *out)
{
    hil_quant_tile place;
    hil_param_quant_tile(p, tile, &place);
    char *bytes = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(place.bytes, &bytes));
    HIL_TRY_DONE(hil_store_read_quantized(store, p, tile * p->stride, (int64_t)place.bytes, bytes));
    HIL_TRY_DONE(hil_comm_any(store->opening.comm, (unsigned char *)bytes, place.bytes));
    hil_tensor numbers = {HIL_F32, {1, {place.rows * place.cols}}, out};
    hil_quant_expand(&place, bytes, 0, place.rows * place.cols, &numbers);
done:
    hil_free(bytes);
    return status;
}
