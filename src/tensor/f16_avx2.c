/* f16_avx2.c - rows of fp16 for machines with F16C. */
#include "tensor/f16_rows.h"

static void load(float *out, const uint16_t *in, int64_t n)
{
    hil_f16_load_row(out, in, n);
}

static void round_row(uint16_t *out, const float *in, int64_t n)
{
    hil_f16_round_row(out, in, n);
}

const hil_f16_kernel hil_f16_avx2 = {load, round_row};
