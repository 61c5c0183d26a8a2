/* rounding.c - gradients added to their sums, sums rounded and squared, and gradients of several
   ranks added, on the CPU. */
#include "kernels/kernels.h"

#include <string.h>

#define BLOCK 1024 /* elements that are added at once */

double hil_lanes_add(const double lane[HIL_SQUARES])
{
    double sum = 0;
    for (int k = 0; k < HIL_SQUARES; ++k) sum += lane[k];
    return sum;
}

void hil_rounding_run(const hil_rounding *r, int64_t block)
{
    const hil_rounding_range *range = r->range;
    for (; block >= hil_rounding_range_blocks(range); ++range)
        block -= hil_rounding_range_blocks(range);
    int64_t number = range->first / HIL_BLOCK + block, end = range->first + range->count;
    int64_t from = number * HIL_BLOCK, to = from + HIL_BLOCK;
    bool begins = from >= range->first, ends = to <= end || range->last;
    if (!begins) from = range->first;
    if (to > end) to = end;
    const float *sum = range->sum + from - range->first;
    char *out = NULL;
    if (range->out)
        out = (char *)range->out + (size_t)(sum - range->sum) * hil_dtype_size(r->dtype);
    if (out && (const void *)out != sum) hil_dtype_from_f32(out, sum, r->dtype, to - from);
    if (!range->square) return;
    double whole[HIL_SQUARES];
    double *lanes = begins && ends ? whole : range->lanes + HIL_SQUARES * number;
    if (begins) memset(lanes, 0, HIL_SQUARES * sizeof *lanes);
    hil_block squared = {.count = to - from, .dtype = r->dtype, .sums = !out, .gradients = 1};
    squared.gradient[0] = out ? out : (const char *)sum;
    hil_block_square(&squared, lanes);
    if (ends) range->square[number] = hil_lanes_add(lanes);
}

void hil_addend_run(const hil_addend *a, int64_t from, int64_t to)
{
    size_t size = hil_dtype_size(a->dtype);
    float more[BLOCK];
    for (int64_t at = from; at < to; at += BLOCK) {
        int64_t n = to - at < BLOCK ? to - at : BLOCK;
        const char *gradient = (const char *)a->gradient + (size_t)at * size;
        hil_dtype_to_f32(a->first ? a->sum + at : more, gradient, a->dtype, n);
        for (int64_t i = 0; i < n && !a->first; ++i) a->sum[at + i] += more[i];
    }
}

void hil_kernels_reduce(const hil_tensor *out, const void *parts, int ranks)
{
    size_t size = hil_dtype_size(out->dtype);
    int64_t count = hil_shape_count(&out->shape);
    float sum[BLOCK], more[BLOCK];
    for (int64_t at = 0; at < count; at += BLOCK) {
        int64_t n = count - at < BLOCK ? count - at : BLOCK;
        const char *from = (const char *)parts + (size_t)at * size;
        hil_dtype_to_f32(sum, from, out->dtype, n);
        for (int rank = 1; rank < ranks; ++rank) {
            hil_dtype_to_f32(more, from + (size_t)(rank * count) * size, out->dtype, n);
            for (int64_t i = 0; i < n; ++i) sum[i] += more[i];
        }
        hil_dtype_from_f32((char *)out->data + (size_t)at * size, sum, out->dtype, n);
    }
}
