/* 8-bit groups: the values are as documented, every number is encoded as the nearest one, and
   encoding a decoded group gives the same bytes for every code and (with --full) every fraction of
   a scale. */
/* soak: --full */
#include "base/normal.h"
#include "base/philox.h"
#include "check.h"
#include "tensor/q8.h"

enum { N = HIL_Q8_GROUP, BYTES = HIL_Q8_GROUP_BYTES };

/* Each decade has twice as many values as the one below, evenly spaced, and ends in a power of
   ten. */
static void check_values(hil_q8_kind kind, int lowest)
{
    const float *value = hil_q8_values(kind);
    CHECK(value[0] == 0);
    int at = 0;
    double below = 0, above = 1e-6;
    for (int d = 0; d < 7; ++d, below = above, above *= 10) {
        int count = lowest << d;
        for (int k = 1; k <= count; ++k) {
            double expected = below + (above - below) * k / count;
            CHECK_NEAR((double)value[++at], expected, 1e-7 * expected);
            if (kind == HIL_Q8_SIGNED) CHECK(value[256 - at] == -value[at]);
        }
    }
    CHECK(value[at] == 1.0f);
    CHECK_INT(at, kind == HIL_Q8_SIGNED ? 127 : 254);
}

/* Every code once; unused codes are replaced by 0. */
static void check_round_trip(hil_q8_kind kind, float scale)
{
    unsigned char before[BYTES], after[BYTES];
    float numbers[N];
    memcpy(before, &scale, 4);
    for (int i = 0; i < N; ++i) before[4 + i] = (unsigned char)i;
    before[4 + (kind == HIL_Q8_SIGNED ? 128 : 255)] = 0;
    hil_q8_decode(numbers, before, kind, N);
    hil_q8_encode(after, numbers, kind, N);
    CHECK(memcmp(before, after, sizeof before) == 0);
}

static float random_number(uint64_t i, double spread)
{
    uint32_t word[4];
    float one;
    hil_philox(3, i, 9, word);
    hil_normal_fill(3, 9, 4 * (int64_t)i, 1, 1, &one);
    return (float)((double)one * pow(10, spread * ((double)word[2] * 0x1p-32 - 0.5)));
}

static double nearest_distance(const float *value, double x)
{
    double least = INFINITY;
    for (int i = 0; i < 256; ++i) least = fmin(least, fabs((double)value[i] - x));
    return least;
}

static void check_nearest(hil_q8_kind kind, uint64_t seed, double spread)
{
    const float *value = hil_q8_values(kind);
    unsigned char bytes[BYTES], again[BYTES];
    float x[N], y[N], largest = 0, scale;
    for (int i = 0; i < N; ++i) {
        x[i] = random_number(seed * N + (uint64_t)i, spread);
        if (kind == HIL_Q8_UNSIGNED) x[i] *= x[i];
        largest = fmaxf(largest, fabsf(x[i]));
    }
    hil_q8_encode(bytes, x, kind, N);
    memcpy(&scale, bytes, 4);
    CHECK(scale == largest);
    for (int i = 0; i < N; ++i) {
        double part = (double)x[i] / (double)scale, got = (double)value[bytes[4 + i]];
        if (kind == HIL_Q8_UNSIGNED) {
            CHECK(bytes[4 + i] > 0);
            if (part < 0.25e-6) continue; /* rounded up to the smallest value */
        }
        CHECK_NEAR(fabs(got - part), nearest_distance(value, part), 3e-7 * fabs(part));
        /* Half a step of the number's own decade: decade d has 2^d steps of 9 / 2^d (or twice as
           many). */
        int decade = (int)ceil(log10(fabs(part)) + 6 - 1e-9);
        if (decade < 1) continue;
        double step = 0.9 * pow(10, decade - 6) / (kind == HIL_Q8_SIGNED ? 1 : 2) / (1 << decade);
        CHECK(fabs(got - part) <= 0.5 * step * 1.0001);
    }
    hil_q8_decode(y, bytes, kind, N);
    hil_q8_encode(again, y, kind, N);
    CHECK(memcmp(bytes, again, sizeof bytes) == 0);
}

static void check_edges(void)
{
    unsigned char bytes[2 * BYTES];
    float x[N + 3] = {0}, y[N + 3];
    hil_q8_encode(bytes, x, HIL_Q8_SIGNED, N);
    for (int i = 0; i < BYTES; ++i) CHECK_INT(bytes[i], 0);
    x[7] = HIL_Q8_LEAST / 2;
    hil_q8_encode(bytes, x, HIL_Q8_UNSIGNED, N);
    for (int i = 0; i < BYTES; ++i) CHECK_INT(bytes[i], 0);
    x[7] = -2.5f; /* a negative number can be the largest */
    x[N + 1] = 1e-3f;
    memset(bytes, 0xff, sizeof bytes);
    hil_q8_encode(bytes, x, HIL_Q8_SIGNED, N + 3);
    memset(y, 0xff, sizeof y);
    hil_q8_decode(y, bytes, HIL_Q8_SIGNED, N + 3);
    CHECK(memcmp(x, y, sizeof x) == 0);
    for (int i = 3; i < N; ++i) CHECK_INT(bytes[BYTES + 4 + i], 0);
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    uint32_t stride = full ? 1 : 1021;
    check_values(HIL_Q8_SIGNED, 1);
    check_values(HIL_Q8_UNSIGNED, 2);
    for (int kind = HIL_Q8_SIGNED; kind <= HIL_Q8_UNSIGNED; ++kind) {
        for (uint32_t fraction = 0; fraction < 1u << 23; fraction += stride)
            check_round_trip((hil_q8_kind)kind, hil_float(127u << 23 | fraction));
        for (int exponent = -100; exponent < 128; ++exponent)
            for (uint64_t i = 0; i < 50; ++i) {
                uint32_t word[4];
                hil_philox(8, i, (uint64_t)(exponent + 200), word);
                check_round_trip((hil_q8_kind)kind,
                                 hil_float((uint32_t)(127 + exponent) << 23 | word[0] >> 9));
            }
        for (uint64_t i = 0; i < 300; ++i) check_nearest((hil_q8_kind)kind, i, (double)(i % 7) * 2);
    }
    check_edges();
    return 0;
}
