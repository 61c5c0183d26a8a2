/* vmath.h - exp, tanh, erf and the logistic function without branches, calls or fused operations:
   compilers turn a loop over them into vector code, and every instruction set gives the same bits.
   Errors are below 2 units in the last place for exp, 3 for the others. */
#ifndef HIL_OPS_ROWS_VMATH_H
#define HIL_OPS_ROWS_VMATH_H

#include "tensor/tensor.h"

#define HIL_VMATH static inline __attribute__((always_inline))

/* take ? a : b; written with bits because compilers do not vectorise a choice of floats that might
   raise an exception. */
HIL_VMATH float hil_choose(bool take, float a, float b)
{
    uint32_t mask = 0u - (uint32_t)take;
    return hil_float((hil_bits(a) & mask) | (hil_bits(b) & ~mask));
}

/* exp(x) for every x: 0 below -103.97, infinity above 88.72, NaN for NaN, subnormals in between. */
HIL_VMATH float hil_exp(float x)
{
    /* x = n ln 2 + r. Adding and subtracting 1.5 * 2^23 rounds to an integer, which then also
       stands in the low bits. ln 2 is cut so that n times its first part is exact. */
    const float magic = 12582912.0f;
    x = hil_choose(x < -104.0f, -104.0f, x);
    x = hil_choose(x > 89.0f, 89.0f, x);
    float shifted = x * 1.44269504f + magic;
    int32_t n = (int32_t)hil_bits(shifted) - (int32_t)hil_bits(magic);
    float whole = shifted - magic;
    float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    float p = 0.0013950594f;
    p = p * r + 0.008368953f;
    p = p * r + 0.041666206f;
    p = p * r + 0.16666518f;
    p = p * r + 0.5f;
    p = (p * r) * r + r + 1.0f;
    /* 2^n as two factors, because neither 2^128 nor 2^-150 is a normal number. */
    int32_t half = n >> 1;
    float low = hil_float((uint32_t)(half + 127) << 23);
    float high = hil_float((uint32_t)(n - half + 127) << 23);
    return p * low * high;
}

/* 1 / (1 + exp(-x)); 0 below -88. */
HIL_VMATH float hil_sigmoid(float x)
{
    return 1.0f / (1.0f + hil_exp(-x));
}

/* magnitude with the sign of x */
HIL_VMATH float hil_copysign(float magnitude, float x)
{
    return hil_float(hil_bits(magnitude) | (hil_bits(x) & 0x80000000u));
}

HIL_VMATH float hil_tanh(float x)
{
    float t = hil_float(hil_bits(x) & 0x7fffffffu), u = x * x;
    float p = -0.0057170424f;
    p = p * u + 0.020650584f;
    p = p * u + -0.053743497f;
    p = p * u + 0.13331491f;
    p = p * u + -0.33333284f;
    float near = p * u * t + t;
    float far = 1.0f - 2.0f / (hil_exp(t + t) + 1.0f);
    return hil_copysign(hil_choose(t < 0.625f, near, far), x);
}

HIL_VMATH float hil_erf(float x)
{
    float t = hil_float(hil_bits(x) & 0x7fffffffu), u = x * x;
    float p = 7.8891244e-05f;
    p = p * u + -0.0008020843f;
    p = p * u + 0.0051895357f;
    p = p * u + -0.026854444f;
    p = p * u + 0.112836f;
    p = p * u + -0.37612626f;
    p = p * u + 1.1283791f;
    /* Farther out 1 - exp(-q), where q is fitted to -log(1 - erf) between 1 and 4. */
    float s = hil_choose(t > 4.0f, 4.0f, t);
    float q = -0.00018557378f;
    q = q * s + 0.0029396052f;
    q = q * s + -0.02180531f;
    q = q * s + 0.10303735f;
    q = q * s + 0.6382257f;
    q = q * s + 1.12704f;
    q = q * s + 0.0003537219f;
    float far = 1.0f - hil_exp(-q);
    return hil_copysign(hil_choose(t < 1.0f, p * t, far), x);
}

#endif
