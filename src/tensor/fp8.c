/* fp8.c - the name of products in 8 bits. */
#include "tensor/fp8.h"

#include <string.h>

hil_status hil_fp8_parse(const char *name, hil_dtype *compute, bool *fp8)
{
    *fp8 = strcmp(name, "fp8") == 0;
    return hil_dtype_parse(*fp8 ? "bf16" : name, compute);
}
