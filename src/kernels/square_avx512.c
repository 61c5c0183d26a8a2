/* square_avx512.c - squares of gradients for AVX-512. */
#define SQUARE_KERNEL hil_square_avx512
#include "kernels/square_body.h"
