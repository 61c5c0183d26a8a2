/* quant_matrix.h - quantizes one matrix, some rows at a time: it is never whole in memory. */
#ifndef HIL_TENSOR_QUANT_MATRIX_H
#define HIL_TENSOR_QUANT_MATRIX_H

#include "base/pool.h"
#include "tensor/quant.h"

/* The caller sets the first group; close frees the second, also after a failure. */
typedef struct hil_quant_matrix {
    hil_quant quant;
    int64_t rows, cols;
    int64_t tile_rows; /* no piece crosses a multiple of these rows */
    bool no_codes;     /* only the scales are wanted */
    hil_pool *pool;
    /* Elements [first, first + count), row by row; asked for in order, each once. */
    hil_status (*read)(void *context, int64_t first, int64_t count, float *out);
    void *context;

    float *scale;         /* of each block (nf4), row or square, as far as pieces were made */
    unsigned char *codes; /* of the piece */
    int64_t first, count; /* elements of the piece */
    unsigned char *code;  /* nf4, after hil_quant_matrix_nest: of each block's scale, */
    float *nested, offset;
    float *piece;
} hil_quant_matrix;

/* Blocks, rows or squares with a scale in the first `rows` rows. */
int64_t hil_quant_scales(hil_quant quant, int64_t rows, int64_t cols);
/* Memory: a scale for each block, row or square. */
hil_status hil_quant_matrix_open(hil_quant_matrix *matrix);
void hil_quant_matrix_close(hil_quant_matrix *matrix);
/* Quantizes the rows after those of the last piece. count is 0 after the last row. */
hil_status hil_quant_matrix_next(hil_quant_matrix *matrix);
/* nf4, when all scales are known: quantizes them, too. */
hil_status hil_quant_matrix_nest(hil_quant_matrix *matrix);

#endif
