/* normal_body.h - Philox4x32-10 and Box-Muller on arrays, compiled once for each instruction set:
   the including file defines NORMAL_KERNEL. Only additions, products, quotients and roots of IEEE
   arithmetic: compilers make vectors of them without changing a bit. */
#include "base/normal_kernel.h"

#include <math.h>
#include <string.h>

#define N HIL_NORMAL_GROUPS

typedef struct words {
    uint32_t word[4][N];
} words;

static inline void draw(const hil_normal_groups *g, words *w)
{
    for (int i = 0; i < N; ++i) {
        uint64_t low = g->first + (uint64_t)i;
        w->word[0][i] = (uint32_t)low;
        w->word[1][i] = (uint32_t)(low >> 32);
        w->word[2][i] = (uint32_t)g->high;
        w->word[3][i] = (uint32_t)(g->high >> 32);
    }
    uint32_t k0 = (uint32_t)g->key, k1 = (uint32_t)(g->key >> 32);
    for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < N; ++i) {
            uint64_t p0 = (uint64_t)0xD2511F53u * w->word[0][i];
            uint64_t p1 = (uint64_t)0xCD9E8D57u * w->word[2][i];
            uint32_t n0 = (uint32_t)(p1 >> 32) ^ w->word[1][i] ^ k0;
            uint32_t n2 = (uint32_t)(p0 >> 32) ^ w->word[3][i] ^ k1;
            w->word[0][i] = n0;
            w->word[1][i] = (uint32_t)p1;
            w->word[2][i] = n2;
            w->word[3][i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Converts via signed integers, which every instruction set can convert. */
static inline double from_word(uint32_t word)
{
    return (double)(int32_t)(word ^ 0x80000000u) + 0x1p31;
}

static inline uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The radius of (word + 1) / 2^32 = 2^e m, m in [sqrt(1/2), sqrt(2)): the logarithm of m is twice
   the inverse hyperbolic tangent of (m - 1) / (m + 1), by its series. */
static inline double radius_of(uint32_t word)
{
    double u = (from_word(word) + 1) * 0x1p-32;
    uint64_t raised = bits_of(u) - 0x3fe6a09e667f3bcdull; /* sqrt(1/2) */
    double exponent =
        of_bits(((raised >> 52) ^ 0x800) | 0x4330000000000000ull) - 0x1.00000000008p52;
    double m = of_bits((raised & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull);
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
static inline void turn(uint32_t word, double radius, float *x, float *y)
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
    uint64_t s = bits_of(sine), c = bits_of(cosine), mixed = (s ^ c) & swap;
    s ^= mixed ^ (uint64_t)(quarter >> 1) << 63;
    c ^= mixed ^ (uint64_t)((quarter ^ quarter >> 1) & 1) << 63;
    *x = (float)(radius * of_bits(c));
    *y = (float)(radius * of_bits(s));
}

void NORMAL_KERNEL(hil_normal_groups *g)
{
    words w;
    float x[N], y[N], z[N], t[N];
    double radius[N];
    draw(g, &w);
    for (int i = 0; i < N; ++i) radius[i] = radius_of(w.word[0][i]);
    for (int i = 0; i < N; ++i) turn(w.word[1][i], radius[i], &x[i], &y[i]);
    for (int i = 0; i < N; ++i) radius[i] = radius_of(w.word[2][i]);
    for (int i = 0; i < N; ++i) turn(w.word[3][i], radius[i], &z[i], &t[i]);
    for (int i = 0; i < N; ++i) {
        g->out[4 * i] = x[i];
        g->out[4 * i + 1] = y[i];
        g->out[4 * i + 2] = z[i];
        g->out[4 * i + 3] = t[i];
    }
}
