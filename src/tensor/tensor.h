/* tensor.h - dtype, shape and a view of contiguous memory. */
#ifndef HIL_TENSOR_TENSOR_H
#define HIL_TENSOR_TENSOR_H

#include "base/fail.h"

/* HIL_U8: bytes of quantized weights (quant.h), and of files. */
typedef enum hil_dtype { HIL_F32, HIL_BF16, HIL_F16, HIL_I32, HIL_U8, HIL_I8, HIL_E4M3 } hil_dtype;

#define HIL_DIMS 4

typedef struct hil_shape {
    int ndim;
    int64_t dim[HIL_DIMS];
} hil_shape;

/* Borrows `data`: row-major, no gaps. */
typedef struct hil_tensor {
    hil_dtype dtype;
    hil_shape shape;
    void *data;
} hil_tensor;

size_t hil_dtype_size(hil_dtype dtype);
const char *hil_dtype_name(hil_dtype dtype); /* "fp32", "bf16", "fp16", "int32" */
hil_status hil_dtype_parse(const char *name, hil_dtype *out);

int64_t hil_shape_count(const hil_shape *shape);
/* The last dimension, and the product of all others. */
int64_t hil_shape_cols(const hil_shape *shape);
int64_t hil_shape_rows(const hil_shape *shape);
bool hil_shape_equal(const hil_shape *a, const hil_shape *b);
size_t hil_tensor_bytes(const hil_tensor *tensor);

/* Formulas that GPU kernels share. */
#ifdef __CUDACC__
#define HIL_BOTH __host__ __device__
#else
#define HIL_BOTH
#endif

/* [Note: rounding to bf16] Weights are rounded with ties away from zero, so that the 16 bits that
   were cut off (`low`) give the fp32 number back exactly. Activations and gradients are rounded to
   nearest even like everywhere else; only weights need the inverse. */
static inline HIL_BOTH uint32_t hil_bits(float x)
{
    uint32_t u;
    __builtin_memcpy(&u, &x, 4);
    return u;
}
static inline HIL_BOTH float hil_float(uint32_t u)
{
    float x;
    __builtin_memcpy(&x, &u, 4);
    return x;
}
static inline HIL_BOTH float hil_bf16_load(uint16_t h)
{
    return hil_float((uint32_t)h << 16);
}
static inline HIL_BOTH uint16_t hil_bf16_round(float x)
{
    uint32_t u = hil_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
static inline HIL_BOTH uint16_t hil_bf16_high(float master)
{
    return (uint16_t)((hil_bits(master) + 0x8000u) >> 16);
}
static inline HIL_BOTH uint16_t hil_bf16_low(float master)
{
    return (uint16_t)hil_bits(master);
}
static inline HIL_BOTH float hil_bf16_join(uint16_t high, uint16_t low)
{
    return hil_float(((uint32_t)(uint16_t)(high - (low >> 15)) << 16) | low);
}
float hil_f16_load(uint16_t h);
uint16_t hil_f16_round(float x);

/* Conversion of `count` numbers between fp32 and any float dtype, rounding to nearest even. */
void hil_dtype_to_f32(float *out, const void *in, hil_dtype dtype, int64_t count);
void hil_dtype_from_f32(void *out, const float *in, hil_dtype dtype, int64_t count);

#endif
