/* Squares on the CPU of gradients that are kept as fp32 sums are those of the rounded gradients, in
   every block. */
#include "check.h"
#include "store/worker.h"

enum { COUNT = 2 * HIL_BLOCK + 100, BLOCKS = 4 };

static void square(hil_block *block, int64_t first, double *lanes)
{
    hil_worker worker = {0};
    hil_unit unit = {0};
    hil_store store = {.lanes = lanes};
    memset(lanes, 0, BLOCKS * HIL_SQUARES * sizeof *lanes);
    CHECK_OK(hil_squares_add(&store, &worker, &unit, 0, block, first));
}

int main(void)
{
    static const hil_dtype dtypes[] = {HIL_BF16, HIL_F16, HIL_F32};
    static float sum[COUNT], rounded[COUNT];
    static double from_sums[BLOCKS * HIL_SQUARES], expected[BLOCKS * HIL_SQUARES];
    for (int i = 0; i < COUNT; ++i) sum[i] = (float)sin(i) * (float)(1 + i % 7);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d)
        for (int64_t first = 0; first < HIL_BLOCK; first += 9000) {
            hil_dtype_from_f32(rounded, sum, dtypes[d], COUNT);
            hil_block block = {.count = COUNT, .dtype = dtypes[d], .gradients = 1};
            block.gradient[0] = rounded;
            square(&block, first, expected);
            block.gradient[0] = sum;
            block.sums = true;
            square(&block, first, from_sums);
            CHECK(memcmp(from_sums, expected, sizeof expected) == 0);
            CHECK(expected[2 * HIL_SQUARES] > 0);
        }
    return 0;
}
