/* Normal numbers equal what the C library computes from Philox's words, on every instruction set
   and from any offset on; so their bits are the same on every machine. */
#include "base/cpu.h"
#include "base/normal.h"
#include "base/philox.h"
#include "check.h"

#include <math.h>

enum { COUNT = 100003 };

/* Box-Muller in long double, rounded once. */
static float expected(uint64_t i)
{
    uint32_t word[4];
    hil_philox(3, i / 4, 77, word);
    uint32_t a = word[i % 4 / 2 * 2], b = word[i % 4 / 2 * 2 + 1];
    long double radius = sqrtl(-2 * logl(((long double)a + 1) * 0x1p-32L));
    long double angle = 6.283185307179586476925287L * ((long double)b * 0x1p-32L);
    return (float)(radius * (i % 2 ? sinl(angle) : cosl(angle)));
}

int main(void)
{
    static float number[COUNT], piece[COUNT];
    double sum = 0, square = 0;
    hil_normal_fill(3, 77, 0, COUNT, 1, number);
    for (uint64_t i = 0; i < COUNT; ++i) {
        CHECK(number[i] == expected(i));
        sum += (double)number[i];
        square += (double)number[i] * (double)number[i];
    }
    CHECK_NEAR(sum / COUNT, 0, 0.02);
    CHECK_NEAR(square / COUNT, 1, 0.03);
    for (int level = HIL_CPU_PORTABLE; level <= HIL_CPU_AMX; ++level) {
        hil_cpu_limit((hil_cpu_level)level);
        int64_t at = 0;
        for (int64_t n = 1; at + n <= COUNT; at += n, n = n * 7 % 1009 + 1)
            hil_normal_fill(3, 77, at, n, 1, piece + at);
        CHECK(at > COUNT / 2);
        CHECK(memcmp(piece, number, (size_t)at * sizeof *piece) == 0);
    }
    hil_normal_fill(3, 77, 5, 3, 0.02f, piece);
    for (int i = 0; i < 3; ++i) CHECK(piece[i] == 0.02f * number[5 + i]);
    return 0;
}
