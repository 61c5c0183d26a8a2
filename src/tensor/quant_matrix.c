/* quant_matrix.c - quantizes one matrix, some rows at a time. */
#include "tensor/quant_matrix.h"

#include "base/alloc.h"

#define PIECE ((int64_t)4 << 20) /* elements quantized at once, at least some rows of them */
#define TASK 16384               /* elements; whole blocks */

static int64_t divide_up(int64_t count, int64_t by)
{
    return (count + by - 1) / by;
}

int64_t hil_quant_scales(hil_quant quant, int64_t rows, int64_t cols)
{
    switch (quant) {
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

hil_status hil_quant_matrix_open(hil_quant_matrix *m)
{
    return HIL_ALLOC(hil_quant_scales(m->quant, m->rows, m->cols), &m->scale);
}

void hil_quant_matrix_close(hil_quant_matrix *m)
{
    hil_free(m->scale);
    hil_free(m->codes);
    hil_free(m->code);
    hil_free(m->nested);
    hil_free(m->piece);
    *m = (hil_quant_matrix){0};
}

/* Elements of a task. */
static int64_t task_elements(const hil_quant_matrix *m)
{
    if (m->quant == HIL_QUANT_INT8) return m->cols;
    if (m->quant == HIL_QUANT_FP8) return HIL_QUANT_SQUARE * m->cols;
    return TASK;
}

static void quantize_task(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_quant_matrix *m = context;
    int64_t each = task_elements(m), at = task * each, count = m->count - at;
    int64_t scales = m->quant == HIL_QUANT_INT8  ? 1
                     : m->quant == HIL_QUANT_FP8 ? divide_up(m->cols, HIL_QUANT_SQUARE)
                                                 : TASK / HIL_QUANT_BLOCK;
    int64_t before = hil_quant_scales(m->quant, m->first / m->cols, m->cols);
    hil_quant_part part = {.quant = m->quant,
                           .count = count < each ? count : each,
                           .cols = m->cols,
                           .in = m->piece + at,
                           .codes = m->codes ? m->codes + hil_quant_codes(m->quant, at) : NULL,
                           .scale = m->scale + before + task * scales};
    hil_quant_encode(&part);
}

static int64_t most_rows(const hil_quant_matrix *m)
{
    int64_t most = PIECE / (m->cols ? m->cols : 1) / HIL_QUANT_SQUARE * HIL_QUANT_SQUARE;
    if (most < HIL_QUANT_SQUARE) most = HIL_QUANT_SQUARE;
    return most < m->tile_rows ? most : m->tile_rows;
}

hil_status hil_quant_matrix_next(hil_quant_matrix *m)
{
    int64_t most = most_rows(m);
    if (!m->piece) {
        HIL_TRY(HIL_ALLOC(most * m->cols, &m->piece));
        if (!m->no_codes) HIL_TRY(HIL_ALLOC(hil_quant_codes(m->quant, most * m->cols), &m->codes));
    }
    m->first += m->count;
    int64_t row = m->cols ? m->first / m->cols : m->rows, rows = m->tile_rows - row % m->tile_rows;
    if (rows > m->rows - row) rows = m->rows - row;
    if (rows > most) rows = most;
    m->count = rows * m->cols;
    if (!m->count) return HIL_OK;
    HIL_TRY(m->read(m->context, m->first, m->count, m->piece));
    hil_pool_run(m->pool, quantize_task, m, divide_up(m->count, task_elements(m)));
    return HIL_OK;
}

static void nest_task(void *context, int64_t group, int thread)
{
    (void)thread;
    const hil_quant_matrix *m = context;
    int64_t first = group * HIL_QUANT_NESTED;
    int64_t count = hil_quant_scales(m->quant, m->rows, m->cols) - first;
    if (count > HIL_QUANT_NESTED) count = HIL_QUANT_NESTED;
    m->nested[group] = hil_quant_nest(m->scale + first, count, m->offset, m->code + first);
}

hil_status hil_quant_matrix_nest(hil_quant_matrix *m)
{
    int64_t blocks = hil_quant_scales(m->quant, m->rows, m->cols);
    int64_t groups = divide_up(blocks, HIL_QUANT_NESTED);
    HIL_TRY(HIL_ALLOC(blocks, &m->code));
    HIL_TRY(HIL_ALLOC(groups, &m->nested));
    m->offset = hil_quant_mean(m->scale, blocks);
    hil_pool_run(m->pool, nest_task, m, groups);
    return HIL_OK;
}
