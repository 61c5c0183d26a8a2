/* rows_portable.c - arithmetic on rows for any CPU. */
#define ROWS_NAME "portable"
#define ROWS_KERNEL hil_rows_portable
#include "ops/rows_body.h"
