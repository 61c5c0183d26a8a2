/* rounding.h - rounds and squares the sums of members, in pieces, on any device, and compares with
   a result computed element by element. */
#ifndef HIL_TESTS_ROUNDING_H
#define HIL_TESTS_ROUNDING_H

#include "base/normal.h"
#include "check.h"
#include "kernels/kernels.h"

#include <math.h>

static const int64_t rounding_member[] = {256, 16384 + 512,    768, 2 * 16384, 1024,
                                          256, 5 * 16384 + 256};
#define ROUNDING_MEMBERS ((int)(sizeof rounding_member / sizeof *rounding_member))

typedef struct rounding_case {
    hil_dtype dtype;
    int64_t count, blocks;
    float *sum;
    char *out;      /* of the sum */
    double *square; /* of every block of rounded numbers */
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
    c.square = calloc((size_t)c.blocks, sizeof *c.square);
    double *lane = calloc((size_t)(c.blocks * HIL_SQUARES), sizeof *lane);
    CHECK(c.sum && c.out && c.square && lane);
    hil_normal_fill(3, 1, 0, c.count, 1, c.sum);
    int64_t at = 0, block = 0;
    for (int m = 0; m < ROUNDING_MEMBERS; ++m) {
        for (int64_t i = 0; i < rounding_member[m]; ++i, ++at) {
            float rounded;
            c.sum[at] *= (float)exp2((double)(at % 13) - 9);
            hil_dtype_from_f32(c.out + (size_t)at * size, &c.sum[at], dtype, 1);
            hil_dtype_to_f32(&rounded, c.out + (size_t)at * size, dtype, 1);
            lane[(block + i / HIL_BLOCK) * HIL_SQUARES + i % HIL_SQUARES] +=
                (double)rounded * (double)rounded;
        }
        block += (rounding_member[m] + HIL_BLOCK - 1) / HIL_BLOCK;
    }
    for (int64_t i = 0; i < c.blocks * HIL_SQUARES; ++i) c.square[i / HIL_SQUARES] += lane[i];
    free(lane);
    return c;
}

/* The memory of sums and results. Without `square` nothing is squared, without `out` nothing is
   stored. */
typedef struct rounding_place {
    const float *sum;
    void *out;
    double *lanes, *square;
} rounding_place;

/* Rounds `piece` elements at a time. */
static void rounding_run(const rounding_case *c, int64_t piece, const rounding_place *place,
                         void run(const hil_rounding *rounding))
{
    for (int64_t first = 0; first < c->count; first += piece) {
        int64_t last = first + piece < c->count ? first + piece : c->count, at = 0, block = 0;
        hil_rounding r = {.dtype = c->dtype};
        for (int m = 0; m < ROUNDING_MEMBERS; ++m) {
            int64_t from = at > first ? at : first, end = at + rounding_member[m];
            int64_t to = end < last ? end : last;
            if (from < to) {
                hil_rounding_range *s = &r.range[r.ranges++];
                *s = (hil_rounding_range){.first = from - at,
                                          .count = to - from,
                                          .sum = place->sum + from,
                                          .last = to == end};
                if (place->out)
                    s->out = (char *)place->out + (size_t)from * hil_dtype_size(c->dtype);
                if (place->square) {
                    s->lanes = place->lanes + block * HIL_SQUARES;
                    s->square = place->square + block;
                }
            }
            at = end;
            block += (rounding_member[m] + HIL_BLOCK - 1) / HIL_BLOCK;
        }
        run(&r);
    }
}

/* Where the rounded numbers go. */
typedef enum rounding_into { ROUNDING_OUT, ROUNDING_IN_PLACE, ROUNDING_NOWHERE } rounding_into;

/* Every dtype in small and large pieces, with and without squares; in place where possible; only
   squared. */
static void rounding_each(void check(hil_dtype dtype, int64_t piece, bool squares,
                                     rounding_into into))
{
    const int64_t pieces[] = {4096, 5 * 4096, 1 << 20};
    for (int d = HIL_F32; d <= HIL_F16; ++d)
        for (int p = 0; p < 3; ++p) {
            check((hil_dtype)d, pieces[p], true, ROUNDING_OUT);
            check((hil_dtype)d, pieces[p], false, ROUNDING_OUT);
            check((hil_dtype)d, pieces[p], true, ROUNDING_NOWHERE);
            if (d == HIL_F32) check((hil_dtype)d, pieces[p], true, ROUNDING_IN_PLACE);
        }
}

static void rounding_free(rounding_case *c)
{
    free(c->sum);
    free(c->out);
    free(c->square);
}

#endif
