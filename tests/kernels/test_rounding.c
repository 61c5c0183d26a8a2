/* test_rounding.c - sums are rounded to gradients and squared in one pass, with the same bits for
   any pieces. */
#include "kernels/rounding.h"

#include "kernels/kernels.h"

static void run(const hil_rounding *rounding)
{
    int64_t blocks = hil_rounding_blocks(rounding);
    while (blocks--) hil_rounding_run(rounding, blocks);
}

static void check(hil_dtype dtype, int64_t piece, bool squares, rounding_into into)
{
    rounding_case c = rounding_make(dtype);
    size_t bytes = (size_t)c.count * hil_dtype_size(dtype);
    size_t lane_bytes = (size_t)(c.blocks * HIL_SQUARES) * sizeof(double);
    size_t square_bytes = (size_t)c.blocks * sizeof(double);
    char *out = into == ROUNDING_IN_PLACE ? (char *)c.sum : malloc(bytes);
    double *lanes = malloc(lane_bytes), *square = malloc(square_bytes);
    CHECK(out && lanes && square);
    if (into != ROUNDING_IN_PLACE) memset(out, 0xff, bytes);
    memset(lanes, 0xff, lane_bytes);
    memset(square, 0xff, square_bytes);
    rounding_place place = {c.sum, into == ROUNDING_NOWHERE ? NULL : out, lanes,
                            squares ? square : NULL};
    rounding_run(&c, piece, &place, run);
    if (into != ROUNDING_NOWHERE) CHECK(memcmp(out, c.out, bytes) == 0);
    if (squares) CHECK(memcmp(square, c.square, square_bytes) == 0);
    free(square);
    if (into != ROUNDING_IN_PLACE) free(out);
    free(lanes);
    rounding_free(&c);
}

int main(void)
{
    rounding_each(check);
    return 0;
}
