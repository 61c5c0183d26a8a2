/* expand.c - packed weights expanded by the threads of a pool. */
#include "kernels/kernels.h"

#define TASK 16384 /* elements; whole blocks of every packing */

typedef struct expansion {
    const hil_quant_tile *tile;
    const void *bytes;
    const hil_tensor *out;
} expansion;

static void expand_task(void *context, int64_t task, int thread)
{
    (void)thread;
    const expansion *e = context;
    int64_t first = task * TASK, count = e->tile->rows * e->tile->cols - first;
    size_t size = hil_dtype_size(e->out->dtype);
    hil_tensor part = {e->out->dtype, {1, {0}}, (char *)e->out->data + (size_t)first * size};
    part.shape.dim[0] = count < TASK ? count : TASK;
    hil_quant_expand(e->tile, e->bytes, first, part.shape.dim[0], &part);
}

void hil_kernels_expand(hil_pool *pool, const hil_quant_tile *tile, const void *bytes,
                        const hil_tensor *out)
{
    expansion e = {tile, bytes, out};
    hil_pool_run(pool, expand_task, &e, (tile->rows * tile->cols + TASK - 1) / TASK);
}
