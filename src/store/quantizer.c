/* quantizer.c - quantizes matrices piece by piece, never whole in memory. */
#include "store/quantizer.h"

#include "base/alloc.h"
#include "store/internal.h"
#include "tensor/quant_matrix.h"

#include <string.h>

/* Elements that a device draws at once. */
#define DRAWN ((int64_t)32 << 20)

static int64_t divide_up(int64_t count, int64_t by)
{
    return (count + by - 1) / by;
}

/* Scales of the first `rows` rows. */
static int64_t count_scales(const hil_param *p, int64_t rows)
{
    return hil_quant_scales(p->quant, rows, hil_shape_cols(&p->spec.shape));
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

/* A parameter being quantized. */
typedef struct quantizing {
    hil_param *param;
    hil_quant_matrix matrix;
    float *shared; /* memory of the device, for a piece: scales, then codes */
} quantizing;

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
    memcpy(j->matrix.scale + first / HIL_QUANT_BLOCK, piece.scales,
           (size_t)blocks * sizeof *piece.scales);
    return hil_quantizer_put_codes(j->param, first, count, piece.codes);
}

static hil_status draw_pieces(quantizing *j, const hil_quant_draw *draw)
{
    hil_device *device = j->param->store->device;
    int64_t tile = j->param->tile_rows * j->matrix.cols, count;
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

static hil_status quantize_pieces(quantizing *j)
{
    hil_quant_matrix *m = &j->matrix;
    do {
        HIL_TRY(hil_quant_matrix_next(m));
        if (m->count) HIL_TRY(hil_quantizer_put_codes(j->param, m->first, m->count, m->codes));
    } while (m->count);
    return HIL_OK;
}

static hil_status put_scales(quantizing *j)
{
    hil_param *p = j->param;
    hil_quant_matrix *m = &j->matrix;
    hil_quantizer_scales scales = {.scale = m->scale};
    if (p->quant == HIL_QUANT_NF4 || p->quant == HIL_QUANT_NF4_PLAIN)
        scales.table = hil_quant_nf4_table;
    if (p->quant == HIL_QUANT_NF4) {
        HIL_TRY(hil_quant_matrix_nest(m));
        scales.nested_table = hil_quant_nest_table;
        scales.nested = m->nested;
        scales.offset = m->offset;
        scales.code = m->code;
    }
    return hil_quantizer_put_scales(p, &scales);
}

hil_status hil_quantizer_fill(hil_param *p, const hil_quantizer *quantizer)
{
    hil_device *device = p->store->device;
    quantizing j = {.param = p,
                    .matrix = {.quant = p->quant,
                               .rows = hil_shape_rows(&p->spec.shape),
                               .cols = hil_shape_cols(&p->spec.shape),
                               .tile_rows = p->tile_rows,
                               .pool = p->store->opening.pool,
                               .read = quantizer->read,
                               .context = quantizer->context}};
    hil_status status;
    HIL_TRY_DONE(hil_quant_matrix_open(&j.matrix));
    if (device && quantizer->draw && p->quant == HIL_QUANT_NF4)
        HIL_TRY_DONE(draw_pieces(&j, quantizer->draw));
    else
        HIL_TRY_DONE(quantize_pieces(&j));
    HIL_TRY_DONE(put_scales(&j));
done:
    if (j.shared) device->heap->unshare(device, j.shared);
    hil_quant_matrix_close(&j.matrix);
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
