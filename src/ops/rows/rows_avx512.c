/* rows_avx512.c - arithmetic on rows for AVX-512. */
#if !defined(__clang__)
#pragma GCC target("prefer-vector-width=512")
#endif
#define ROWS_NAME "avx512"
#define ROWS_KERNEL hil_rows_avx512
#define ROWS_BYTES 64
#include "ops/rows/rows_body.h"
