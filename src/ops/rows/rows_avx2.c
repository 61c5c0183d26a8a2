/* rows_avx2.c - arithmetic on rows for AVX2. */
#define ROWS_NAME "avx2"
#define ROWS_KERNEL hil_rows_avx2
#define ROWS_BYTES 32
#include "ops/rows/rows_body.h"
