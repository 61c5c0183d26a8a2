/* rows_portable.c - arithmetic on rows for any CPU. */
#define ROWS_NAME "portable"
#define ROWS_KERNEL hil_rows_portable
#define ROWS_BYTES 16
#include "ops/rows/rows_body.h"
