/* cuda_wide.h - loads and stores of any dtype in a kernel, as fp32, eight numbers at a time. */
#ifndef HIL_TENSOR_CUDA_WIDE_H
#define HIL_TENSOR_CUDA_WIDE_H

extern "C" {
#include "tensor/tensor.h"
}

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define HIL_WIDE 8 /* numbers of one access of a thread */

/* A tensor as an argument of kernels. */
typedef struct hil_view {
    void *data;
    hil_dtype dtype;
} hil_view;

static inline hil_view hil_view_of(const hil_tensor *x)
{
    return {x->data, x->dtype};
}

/* Up to HIL_WIDE numbers as in memory. Loading and converting are separate steps, so that a thread
   can have several loads in flight. */
typedef struct hil_wide {
    uint32_t word[HIL_WIDE];
} hil_wide;

/* Elements [at, at + n) of x; the rest are zeros. */
static __device__ inline hil_wide hil_wide_load(hil_view x, int64_t at, int n)
{
    hil_wide out = {};
    if (x.dtype == HIL_F32) {
        const uint32_t *from = (const uint32_t *)x.data + at;
        if (n == HIL_WIDE && ((uintptr_t)from & 15) == 0) {
            uint4 low = ((const uint4 *)from)[0], high = ((const uint4 *)from)[1];
            return {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        }
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i)
            if (i < n) out.word[i] = from[i];
        return out;
    }
    const uint16_t *from = (const uint16_t *)x.data + at;
    if (n == HIL_WIDE && ((uintptr_t)from & 15) == 0) {
        uint4 all = *(const uint4 *)from;
        return {all.x, all.y, all.z, all.w};
    }
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i)
        if (i < n) out.word[i / 2] |= (uint32_t)from[i] << 16 * (i % 2);
    return out;
}

static __device__ inline void hil_wide_read(const hil_wide &in, hil_dtype dtype,
                                            float out[HIL_WIDE])
{
    if (dtype == HIL_F32) {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) out[i] = __uint_as_float(in.word[i]);
    } else if (dtype == HIL_BF16) {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; i += 2) {
            out[i] = __uint_as_float(in.word[i / 2] << 16);
            out[i + 1] = __uint_as_float(in.word[i / 2] & 0xffff0000u);
        }
    } else {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; i += 2) {
            float2 two = __half22float2(*(const __half2 *)&in.word[i / 2]);
            out[i] = two.x, out[i + 1] = two.y;
        }
    }
}

/* Pairs of numbers rounded to a dtype of 16 bits. */
static __device__ inline void hil_wide_round(const float from[HIL_WIDE], hil_dtype dtype,
                                             uint32_t word[HIL_WIDE / 2])
{
    if (dtype == HIL_BF16) {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; i += 2)
            *(__nv_bfloat162 *)&word[i / 2] = __floats2bfloat162_rn(from[i], from[i + 1]);
    } else {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; i += 2)
            *(__half2 *)&word[i / 2] = __floats2half2_rn(from[i], from[i + 1]);
    }
}

/* Rounds n numbers once into elements [at, at + n). */
static __device__ inline void hil_wide_store(hil_view x, int64_t at, int n,
                                             const float from[HIL_WIDE])
{
    if (x.dtype == HIL_F32) {
        float *to = (float *)x.data + at;
        if (n == HIL_WIDE && ((uintptr_t)to & 15) == 0) {
            ((float4 *)to)[0] = make_float4(from[0], from[1], from[2], from[3]);
            ((float4 *)to)[1] = make_float4(from[4], from[5], from[6], from[7]);
            return;
        }
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i)
            if (i < n) to[i] = from[i];
        return;
    }
    uint16_t *to = (uint16_t *)x.data + at;
    uint32_t word[HIL_WIDE / 2];
    hil_wide_round(from, x.dtype, word);
    if (n == HIL_WIDE && ((uintptr_t)to & 15) == 0) {
        *(uint4 *)to = make_uint4(word[0], word[1], word[2], word[3]);
        return;
    }
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i)
        if (i < n) to[i] = (uint16_t)(word[i / 2] >> 16 * (i % 2));
}

/* The same; with `add`, adds to the elements. */
static __device__ inline void hil_wide_write(hil_view x, int64_t at, int n, float from[HIL_WIDE],
                                             bool add)
{
    if (add) {
        float held[HIL_WIDE];
        hil_wide_read(hil_wide_load(x, at, n), x.dtype, held);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) from[i] += held[i];
    }
    hil_wide_store(x, at, n, from);
}

static __device__ inline int hil_wide_count(int64_t left)
{
    return left < 0 ? 0 : left < HIL_WIDE ? (int)left : HIL_WIDE;
}

/* Thread blocks for `count` elements. */
static inline unsigned hil_blocks(int64_t count, int64_t each)
{
    return (unsigned)((count + each - 1) / each);
}

#endif
