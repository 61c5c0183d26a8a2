/* square_avx2.c - squares of gradients for AVX2. */
#define SQUARE_KERNEL hil_square_avx2
#include "kernels/square_body.h"
