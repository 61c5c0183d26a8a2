/* fp8.h - numbers in 8 bits for products, and the scale of a tensor in them.

   [Note: FP8] With --dtype fp8 the factors of a block's products are rounded to 8 bits where they
   are used: weights and activations to e4m3, gradients of outputs to e5m2. Products are summed in
   fp32 and rounded once to bf16, or added to the weight's fp32 sum, as with bf16; everything else
   is as with bf16, and the gradient passes the rounding as if it were not there.

   A tensor's numbers are multiplied by 2^s before they are rounded, where s is the largest integer
   with which no number passes the format's largest one. The tensor is what the operation has in
   hand: the input of one micro-batch, the gradient of its output, one tile of the weight. So s
   depends on the batch, --micro-batch and --tile-size, which decide a run's numbers anyway, and
   never on the tier, the rank or the past: nothing of it is in a checkpoint, and forward and
   backward find the same codes.

   Why a power of two: a code times 2^-s is a bf16 number, exactly. The product of two factors in
   8 bits is then that of the same numbers in bf16, on any device, and a GPU whose shapes or
   libraries do not fit its 8-bit products has the same inputs. It costs less than one of the 18
   powers of two that e4m3 spans, and no precision above its subnormal numbers.
   Why one scale per tensor: a factor's transpose has the same codes, so the products of backward
   need no second rounding along the other dimension, as scales per row or per block of a row do;
   and all GPUs with 8-bit products take such scales.
   Why e5m2 for gradients: of one tensor they span more powers of two than activations do, and what
   becomes zero is lost to a sum, whereas roundings even out. With e4m3 instead the losses were
   0.15% above bf16's after 250 steps of a tiny model on text, with e5m2 0.01%; both were within
   0.1% where a model of 260K parameters was tuned on other text. */
#ifndef HIL_TENSOR_FP8_H
#define HIL_TENSOR_FP8_H

#include "tensor/quant.h"

typedef enum hil_fp8 { HIL_FP8_E4M3, HIL_FP8_E5M2 } hil_fp8;

/* The dtype of the computation; *fp8: its products round their factors to 8 bits. */
hil_status hil_fp8_parse(const char *name, hil_dtype *compute, bool *fp8);

/* The largest s: numbers of tensors without larger ones become zero, and none becomes subnormal in
   bf16. */
#define HIL_FP8_SHIFT_MOST 100

/* s for a tensor whose largest magnitude has these bits in bf16. 0 if that is zero, or not finite.
 */
static inline HIL_BOTH int hil_fp8_shift(unsigned most, hil_fp8 kind)
{
    int top = kind == HIL_FP8_E4M3 ? 8 : 15; /* the largest number is 1.75 * 2^top */
    if (most == 0 || most >= 0x7f80u) return 0;
    int shift = top + 127 - (int)(most >> 7) - ((most & 0x7fu) > 0x60u);
    return shift > HIL_FP8_SHIFT_MOST ? HIL_FP8_SHIFT_MOST : shift;
}

/* 2^s, for |s| of at most 126. */
static inline HIL_BOTH float hil_fp8_power(int s)
{
    return hil_float((uint32_t)(127 + s) << 23);
}

/* e5m2: 5 bits of exponent, 2 of mantissa; the upper byte of an fp16 number. */
static inline HIL_BOTH float hil_fp8_e5m2_load(unsigned code)
{
    uint32_t sign = (uint32_t)(code & 0x80u) << 24, exponent = code >> 2 & 31u, low = code & 3u;
    if (exponent == 31) return hil_float(sign | 0x7f800000u | low << 21);
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * ((float)low * 0x1p-16f);
    return hil_float(sign | (exponent + 112u) << 23 | low << 21);
}
/* To nearest even; beyond the largest number 57344 to that. */
static inline HIL_BOTH unsigned hil_fp8_e5m2_round(float x)
{
    return hil_quant_round_8(x, 2, 112, 0x47600000u, 0x7bu); /* 57344 */
}

static inline HIL_BOTH float hil_fp8_load(unsigned code, hil_fp8 kind)
{
    return kind == HIL_FP8_E4M3 ? hil_quant_e4m3_load(code) : hil_fp8_e5m2_load(code);
}
/* The code of a number of a tensor. Infinity becomes NaN, so that a step which is not finite stops
   the run as with bf16. */
static inline HIL_BOTH unsigned hil_fp8_round(float x, int shift, hil_fp8 kind)
{
    if ((hil_bits(x) & 0x7fffffffu) >= 0x7f800000u) return 0x7fu;
    float scaled = x * hil_fp8_power(shift);
    return kind == HIL_FP8_E4M3 ? hil_quant_e4m3_round(scaled) : hil_fp8_e5m2_round(scaled);
}
/* The number of a code, in bf16; of NaN the same bits on every device. */
static inline HIL_BOTH uint16_t hil_fp8_expand(unsigned code, int shift, hil_fp8 kind)
{
    if ((code & 0x7fu) == 0x7fu) return 0x7fc0u;
    return hil_bf16_round(hil_fp8_load(code, kind) * hil_fp8_power(-shift));
}
/* hil_fp8_expand of hil_fp8_round without branches, so that loops are vectorised: for a finite
   number that the scale keeps within the format. */
static inline HIL_BOTH uint16_t hil_fp8_near(uint16_t x, int shift, hil_fp8 kind)
{
    const unsigned drop = kind == HIL_FP8_E4M3 ? 20 : 21; /* bits of fp32's mantissa */
    const uint32_t least = kind == HIL_FP8_E4M3 ? 0x3c800000u : 0x38800000u; /* normal number */
    const float whole =
        kind == HIL_FP8_E4M3 ? 0x1p14f : 0x1p7f; /* its last bit: a subnormal step */
    float size = hil_bf16_load(x & 0x7fffu) * hil_fp8_power(shift);
    uint32_t bits = hil_bits(size), low = hil_bits((size + whole) - whole);
    uint32_t high = (bits + (1u << (drop - 1)) - 1 + (bits >> drop & 1u)) & ~((1u << drop) - 1);
    uint32_t is_low = 0u - (uint32_t)(bits < least);
    float near = hil_float((low & is_low) | (high & ~is_low));
    uint32_t out = hil_bits(near * hil_fp8_power(-shift));
    return (uint16_t)(out >> 16 | (x & 0x8000u));
}

#endif
