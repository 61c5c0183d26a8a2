/* f16_avx2.c - rows of fp16 and bf16 for machines with F16C. */
#include "tensor/f16_rows.h"

const hil_f16_kernel hil_f16_avx2 = {hil_f16_load_row, hil_f16_round_row, hil_bf16_round_row};
