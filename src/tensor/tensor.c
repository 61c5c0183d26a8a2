/* tensor.c - dtypes, shapes, number formats. */
#include "tensor/tensor.h"

#include "base/cpu.h"
#include "tensor/f16_rows.h"

#include <string.h>

#ifndef HIL_WITH_AVX2
#define hil_f16_avx2 hil_f16_portable
#endif

size_t hil_dtype_size(hil_dtype dtype)
{
    if (dtype == HIL_U8 || dtype == HIL_I8 || dtype == HIL_E4M3) return 1;
    return dtype == HIL_F32 || dtype == HIL_I32 ? 4 : 2;
}

static const char *const names[] = {"fp32", "bf16", "fp16", "int32", "uint8", "int8", "e4m3"};

const char *hil_dtype_name(hil_dtype dtype)
{
    return names[dtype];
}

hil_status hil_dtype_parse(const char *name, hil_dtype *out)
{
    for (int i = HIL_F32; i <= HIL_F16; ++i)
        if (strcmp(name, names[i]) == 0) {
            *out = (hil_dtype)i;
            return HIL_OK;
        }
    return hil_fail(HIL_ERR_USAGE, "unknown dtype \"%s\": expected fp32, bf16 or fp16", name);
}

int64_t hil_shape_count(const hil_shape *shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape->ndim; ++i) count *= shape->dim[i];
    return count;
}

int64_t hil_shape_cols(const hil_shape *shape)
{
    return shape->ndim ? shape->dim[shape->ndim - 1] : 1;
}

int64_t hil_shape_rows(const hil_shape *shape)
{
    int64_t rows = 1;
    for (int i = 0; i + 1 < shape->ndim; ++i) rows *= shape->dim[i];
    return rows;
}

bool hil_shape_equal(const hil_shape *a, const hil_shape *b)
{
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; ++i)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

size_t hil_tensor_bytes(const hil_tensor *tensor)
{
    return (size_t)hil_shape_count(&tensor->shape) * hil_dtype_size(tensor->dtype);
}

float hil_f16_load(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 31u, fraction = h & 1023u;
    if (exponent == 31)
        return hil_float(sign | 0x7f800000u | (fraction ? 0x400000u : 0) | (fraction << 13));
    if (exponent) return hil_float(sign | ((exponent + 112) << 23) | (fraction << 13));
    float small = (float)fraction * 0x1p-24f;
    return sign ? -small : small;
}

uint16_t hil_f16_round(float x)
{
    uint32_t u = hil_bits(x), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {
        /* Adding 0.5 puts the subnormal's bits, rounded to nearest even, into the low fraction. */
        uint32_t rounded = hil_bits(hil_float(magnitude) + 0.5f) - 0x3f000000u;
        return (uint16_t)(sign | rounded);
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

static const hil_f16_kernel *f16(void)
{
    return hil_cpu_best() >= HIL_CPU_AVX2 ? &hil_f16_avx2 : &hil_f16_portable;
}

void hil_dtype_to_f32(float *out, const void *in, hil_dtype dtype, int64_t count)
{
    const uint16_t *half = in;
    if (dtype == HIL_F32) {
        memcpy(out, in, (size_t)count * 4);
    } else if (dtype == HIL_BF16) {
        for (int64_t i = 0; i < count; ++i) out[i] = hil_bf16_load(half[i]);
    } else {
        f16()->load(out, half, count);
    }
}

void hil_dtype_from_f32(void *out, const float *in, hil_dtype dtype, int64_t count)
{
    uint16_t *half = out;
    if (dtype == HIL_F32) {
        memcpy(out, in, (size_t)count * 4);
    } else if (dtype == HIL_BF16) {
        f16()->round_bf16(half, in, count);
    } else {
        f16()->round(half, in, count);
    }
}
