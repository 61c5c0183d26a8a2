/* square.c - squares of gradients by instruction set; all sets give the same bits. */
#include "kernels/square_kernel.h"

#include "base/cpu.h"

#ifndef HIL_WITH_AVX2
#define hil_square_avx2 hil_square_portable
#endif
#ifndef HIL_WITH_AVX512
#define hil_square_avx512 hil_square_avx2
#endif

void hil_block_square(const hil_block *block, double lane[HIL_SQUARES])
{
    static void (*const kernels[])(const hil_block *, double *) = {
        hil_square_portable, hil_square_avx2, hil_square_avx512};
    kernels[hil_cpu_vectors()](block, lane);
}
