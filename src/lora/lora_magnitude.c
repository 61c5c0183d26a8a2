/* lora_magnitude.c - the magnitudes with which DoRA begins: the norms of the weights' rows. */
#include "lora/lora.h"

#include "base/alloc.h"
#include "store/state.h"

#include <math.h>
#include <string.h>

/* Adds the squares of the elements of the weight that this rank keeps to those of their rows. */
static hil_status add_squares(hil_store *store, hil_param *weight, float *range, double *square)
{
    int64_t cols = hil_param_spec_of(weight)->shape.dim[1];
    for (int64_t first = 0, count; (count = hil_param_held(weight, &first)); first += count) {
        HIL_TRY(hil_store_read(store, weight, HIL_MASTER, first, count, range));
        for (int64_t i = 0; i < count; ++i)
            square[(first + i) / cols] += (double)range[i] * (double)range[i];
    }
    return HIL_OK;
}

static double square_of(const float *number, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += (double)number[i] * (double)number[i];
    return sum;
}

/* The same of a quantized weight, rounded as the computation sees it: of all rows, on every rank.
 */
static hil_status add_expanded(hil_store *store, hil_param *weight, double *square)
{
    const hil_shape *shape = &hil_param_spec_of(weight)->shape;
    int64_t rows = shape->dim[0], cols = shape->dim[1], tile = hil_param_tile_rows(weight);
    hil_dtype dtype = hil_param_dtype(weight);
    float *number = NULL, *rounded = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(tile * cols, &number));
    HIL_TRY_DONE(HIL_ALLOC(cols, &rounded));
    for (int64_t row = 0; row < rows; ++row) {
        if (row % tile == 0)
            HIL_TRY_DONE(hil_store_read_expanded(store, weight, row / tile, number));
        float *from = number + row % tile * cols;
        hil_dtype_from_f32(rounded, from, dtype, cols);
        hil_dtype_to_f32(from, rounded, dtype, cols);
        square[row] = square_of(from, cols);
    }
done:
    hil_free(number);
    hil_free(rounded);
    return status;
}

static hil_status fill(const hil_model *model, hil_param *weight, hil_param *magnitude,
                       hil_comm *comm)
{
    int64_t rows = hil_param_elements(magnitude);
    float *range = NULL, *norm = NULL;
    double *square = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(hil_store_range(model->store), &range));
    HIL_TRY_DONE(HIL_ALLOC(rows, &norm));
    HIL_TRY_DONE(HIL_ALLOC(rows, &square));
    if (hil_param_quant(weight)) {
        HIL_TRY_DONE(add_expanded(model->store, weight, square));
    } else {
        HIL_TRY_DONE(add_squares(model->store, weight, range, square));
        HIL_TRY_DONE(hil_comm_sum(comm, square, (size_t)rows));
    }
    for (int64_t i = 0; i < rows; ++i) norm[i] = (float)sqrt(square[i]);
    status = hil_store_write(model->store, magnitude, HIL_MASTER, 0, rows, norm);
done:
    hil_free(range);
    hil_free(norm);
    hil_free(square);
    return status;
}

hil_status hil_lora_fill_magnitudes(const hil_model *model, hil_comm *comm)
{
    for (size_t i = 0; i < model->adapters; ++i) {
        const hil_adapter *a = model->adapter[i];
        if (a && a->magnitude)
            HIL_TRY(fill(model, hil_store_at(model->store, i), a->magnitude, comm));
    }
    return HIL_OK;
}
