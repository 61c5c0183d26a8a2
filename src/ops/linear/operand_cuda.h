/* operand_cuda.h - factors of products in 8 bits on a GPU: see operand.h. */
#ifndef HIL_OPS_LINEAR_OPERAND_CUDA_H
#define HIL_OPS_LINEAR_OPERAND_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

#include "device/device.h"
#include "tensor/fp8.h"

/* Sides of matrices whose products are in 8 bits are multiples of this; others are rounded to 8
   bits, but multiplied in bf16. */
#define HIL_OPERAND_MULTIPLE 16

/* What a tensor's scale is found with, in the device's memory. */
typedef struct hil_operand_scale {
    float multiplier; /* 2^-s: a code times this is its number */
    unsigned most;    /* the largest magnitude, as bits of bf16 */
} hil_operand_scale;

/* Rounds `rows` x `cols` bf16 numbers, one tensor, to 8 bits. Each output may be NULL. */
typedef struct hil_cuda_operand {
    hil_fp8 kind;
    const void *from;
    int64_t rows, cols;
    unsigned char *codes;      /* rows x cols */
    unsigned char *transposed; /* cols x rows */
    uint16_t *numbers;         /* rows x cols: what the codes stand for, in bf16 */
    hil_operand_scale *scale;  /* written */
} hil_cuda_operand;
hil_status hil_cuda_operand_round(hil_device *device, const hil_cuda_operand *operand);

#ifdef __cplusplus
}
#endif
#endif
