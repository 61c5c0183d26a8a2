/* f16_portable.c - rows of fp16 and bf16 for any machine. */
#include "tensor/f16_rows.h"

const hil_f16_kernel hil_f16_portable = {hil_f16_load_row, hil_f16_round_row, hil_bf16_round_row};
