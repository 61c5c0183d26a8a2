/* square_kernel.h - what each instruction set provides to square.c. */
#ifndef HIL_KERNELS_SQUARE_KERNEL_H
#define HIL_KERNELS_SQUARE_KERNEL_H

#include "kernels/kernels.h"

void hil_square_portable(const hil_block *block, double lane[HIL_SQUARES]);
void hil_square_avx2(const hil_block *block, double lane[HIL_SQUARES]);
void hil_square_avx512(const hil_block *block, double lane[HIL_SQUARES]);

#endif
