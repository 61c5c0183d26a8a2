/* normal_formula.h - Box-Muller on the words of Philox4x32-10, for CPU and GPU. Only additions,
   products, quotients and roots of IEEE arithmetic: the same bits everywhere. */
#ifndef HIL_BASE_NORMAL_FORMULA_H
#define HIL_BASE_NORMAL_FORMULA_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define HIL_FORMULA static __host__ __device__ inline
#else
#define HIL_FORMULA static inline
#endif

/* Converts via signed integers, which every instruction set can convert. */
HIL_FORMULA double hil_normal_from_word(uint32_t word)
{
    return (double)(int32_t)(word ^ 0x80000000u) + 0x1p31;
}

HIL_FORMULA uint64_t hil_normal_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

HIL_FORMULA double hil_normal_of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The radius of (word + 1) / 2^32 = 2^e m, m in [sqrt(1/2), sqrt(2)): the logarithm of m is twice
   the inverse hyperbolic tangent of (m - 1) / (m + 1), by its series. */
HIL_FORMULA double hil_normal_radius(uint32_t word)
{
    double u = (hil_normal_from_word(word) + 1) * 0x1p-32;
    uint64_t raised = hil_normal_bits(u) - 0x3fe6a09e667f3bcdull; /* sqrt(1/2) */
    double exponent =
        hil_normal_of_bits(((raised >> 52) ^ 0x800) | 0x4330000000000000ull) - 0x1.00000000008p52;
    double m = hil_normal_of_bits((raised & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull);
    double s = (m - 1) / (m + 1), z = s * s;
    double series = 2.0 / 21;
    series = series * z + 2.0 / 19;
    series = series * z + 2.0 / 17;
    series = series * z + 2.0 / 15;
    series = series * z + 2.0 / 13;
    series = series * z + 2.0 / 11;
    series = series * z + 2.0 / 9;
    series = series * z + 2.0 / 7;
    series = series * z + 2.0 / 5;
    series = series * z + 2.0 / 3;
    series = series * z * s + 2 * s;
    return sqrt(-2 * (exponent * 0.69314718055994530942 + series));
}

/* The angle is the nearest quarter turn, exactly, and at most an eighth of a turn. */
HIL_FORMULA void hil_normal_turn(uint32_t word, double radius, float *x, float *y)
{
    uint32_t quarter = (word + 0x20000000u) >> 30;
    double a = (double)(int32_t)(word - (quarter << 30)) * (6.283185307179586476925 * 0x1p-32);
    double z = a * a;
    double sine = -1.0 / 1307674368000;
    sine = sine * z + 1.0 / 6227020800;
    sine = sine * z - 1.0 / 39916800;
    sine = sine * z + 1.0 / 362880;
    sine = sine * z - 1.0 / 5040;
    sine = sine * z + 1.0 / 120;
    sine = sine * z - 1.0 / 6;
    sine = sine * z * a + a;
    double cosine = 1.0 / 20922789888000;
    cosine = cosine * z - 1.0 / 87178291200;
    cosine = cosine * z + 1.0 / 479001600;
    cosine = cosine * z - 1.0 / 3628800;
    cosine = cosine * z + 1.0 / 40320;
    cosine = cosine * z - 1.0 / 720;
    cosine = cosine * z + 1.0 / 24;
    cosine = cosine * z * z + (1 - 0.5 * z);
    uint64_t swap = 0 - (uint64_t)(quarter & 1);
    uint64_t s = hil_normal_bits(sine), c = hil_normal_bits(cosine), mixed = (s ^ c) & swap;
    s ^= mixed ^ (uint64_t)(quarter >> 1) << 63;
    c ^= mixed ^ (uint64_t)((quarter ^ quarter >> 1) & 1) << 63;
    *x = (float)(radius * hil_normal_of_bits(c));
    *y = (float)(radius * hil_normal_of_bits(s));
}

#endif
