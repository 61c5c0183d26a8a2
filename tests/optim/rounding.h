/* rounding.h - sums of members are rounded and squared, in pieces, on any machine; what must come
   of it is computed element by element. */
#ifndef HIL_TESTS_ROUNDING_H
#define HIL_TESTS_ROUNDING_H

#include "base/normal.h"
#include "check.h"
#include "store/store.h"

#include <math.h>

static const int64_t rounding_member[] = {256, 16384 + 512,    768, 2 * 16384, 1024,
                                          256, 5 * 16384 + 256};
#define ROUNDING_MEMBERS ((int)(sizeof rounding_member / sizeof *rounding_member))

typedef struct rounding_case {
    hil_dtype dtype;
    int64_t count, blocks;
    float *sum;
    char *out;    /* of the sum */
    double *lane; /* of what was rounded */
} rounding_case;

static rounding_case rounding_make(hil_dtype dtype)
{
    rounding_case c = {.dtype = dtype};
    for (int m = 0; m < ROUNDING_MEMBERS; ++m) {
        c.count += rounding_member[m];
        c.blocks += (rounding_member[m] + HIL_BLOCK - 1) / HIL_BLOCK;
    }
    size_t size = hil_dtype_size(dtype);
    c.sum = malloc((size_t)c.count * sizeof *c.sum);
    c.out = malloc((size_t)c.count * size);
    c.lane = calloc((size_t)(c.blocks * HIL_SQUARES), sizeof *c.lane);
    CHECK(c.sum && c.out && c.lane);
    hil_normal_fill(3, 1, 0, c.count, 1, c.sum);
    int64_t at = 0, block = 0;
    for (int m = 0; m < ROUNDING_MEMBERS; ++m) {
        for (int64_t i = 0; i < rounding_member[m]; ++i, ++at) {
            float rounded;
            c.sum[at] *= (float)exp2((double)(at % 13) - 9);
            hil_from_f32(c.out + (size_t)at * size, &c.sum[at], dtype, 1);
            hil_to_f32(&rounded, c.out + (size_t)at * size, dtype, 1);
            c.lane[(block + i / HIL_BLOCK) * HIL_SQUARES + i % HIL_SQUARES] +=
                (double)rounded * (double)rounded;
        }
        block += (rounding_member[m] + HIL_BLOCK - 1) / HIL_BLOCK;
    }
    return c;
}

/* From `sum` to `out` and `lanes`, which may lie anywhere, `piece` elements at a time. Without
   lanes nothing is squared. */
static void rounding_run(const rounding_case *c, int64_t piece, const float *sum, void *out,
                         double *lanes, void run(const hil_rounding *rounding))
{
    for (int64_t first = 0; first < c->count; first += piece) {
        int64_t last = first + piece < c->count ? first + piece : c->count, at = 0, block = 0;
        hil_stretch stretch[ROUNDING_MEMBERS];
        hil_rounding r = {.out = (char *)out + (size_t)first * hil_dtype_size(c->dtype),
                          .dtype = c->dtype,
                          .sum = sum + first,
                          .stretch = stretch};
        for (int m = 0; m < ROUNDING_MEMBERS; ++m) {
            int64_t from = at > first ? at : first, to = at + rounding_member[m];
            if (to > last) to = last;
            if (from < to)
                stretch[r.stretches++] =
                    (hil_stretch){.at = from - first,
                                  .first = from - at,
                                  .count = to - from,
                                  .lanes = lanes ? lanes + block * HIL_SQUARES : NULL};
            at += rounding_member[m];
            block += (rounding_member[m] + HIL_BLOCK - 1) / HIL_BLOCK;
        }
        run(&r);
    }
}

static void rounding_free(rounding_case *c)
{
    free(c->sum);
    free(c->out);
    free(c->lane);
}

#endif
