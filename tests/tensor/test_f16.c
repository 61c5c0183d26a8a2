/* fp16: every number, the midpoints between neighbours, overflow, and whole rows with this
   machine's instructions, against the format's definition; rows rounded to bf16. */
#include "check.h"
#include "tensor/tensor.h"

#include "ops/rows/rows.h"
#include "tensor/f16_rows.h"

/* The value by definition: sign, exponent and fraction. */
static double value_of(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    if (exponent == 31) size = fraction ? NAN : INFINITY;
    return h & 0x8000 ? -size : size;
}

static void check_scalars(void)
{
    for (uint32_t h = 0; h < 65536; ++h) {
        double expected = value_of((uint16_t)h);
        float x = hil_f16_load((uint16_t)h);
        if (isnan(expected)) {
            CHECK(isnan(x) && isnan(hil_f16_load(hil_f16_round(x))));
            continue;
        }
        CHECK((double)x == expected && !signbit(x) == !signbit(expected));
        CHECK_INT(hil_f16_round(x), h);
        if ((h & 0x7fff) >= 0x7bff) continue;
        /* The midpoint to the next number away from zero rounds to the even one. */
        double next = value_of((uint16_t)(h + 1)), half = (expected + next) / 2;
        CHECK_INT(hil_f16_round((float)half), h & 1 ? h + 1 : h);
        CHECK_INT(hil_f16_round(nextafterf((float)half, (float)next)), h + 1);
        CHECK_INT(hil_f16_round(nextafterf((float)half, x)), h);
    }
    CHECK_INT(hil_f16_round(65519.99f), 0x7bff);
    CHECK_INT(hil_f16_round(65520.0f), 0x7c00);
    CHECK_INT(hil_f16_round(-1e30f), 0xfc00);
    CHECK_INT(hil_f16_round(1e-30f), 0);
}

static void check_rows(const hil_f16_kernel *kernel)
{
    static uint16_t half[65536 + 5], back[65536 + 5];
    static float full[65536 + 5];
    for (int i = 0; i < 65536 + 5; ++i) half[i] = (uint16_t)i;
    kernel->load(full, half, 65536 + 5);
    kernel->round(back, full, 65536 + 5);
    for (int i = 0; i < 65536 + 5; ++i) {
        CHECK_INT(hil_bits(full[i]), hil_bits(hil_f16_load(half[i])));
        CHECK_INT(back[i], hil_f16_round(full[i]));
    }
    uint32_t u = 1;
    for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < 65536 + 5; ++i) {
            u = u * 1664525u + 1013904223u;
            full[i] = hil_float(round % 2 ? u : (u & 0x8fffffffu) | 0x30000000u);
        }
        kernel->round(back, full, 65536 + 5);
        for (int i = 0; i < 65536 + 5; ++i) CHECK_INT(back[i], hil_f16_round(full[i]));
        kernel->round_bf16(back, full, 65536 + 5);
        for (int i = 0; i < 65536 + 5; ++i) CHECK_INT(back[i], hil_bf16_round(full[i]));
    }
}

static void load(float *out, const uint16_t *in, int64_t n)
{
    hil_dtype_to_f32(out, in, HIL_F16, n);
}

static void round_row(uint16_t *out, const float *in, int64_t n)
{
    hil_dtype_from_f32(out, in, HIL_F16, n);
}

static void round_bf16(uint16_t *out, const float *in, int64_t n)
{
    hil_dtype_from_f32(out, in, HIL_BF16, n);
}

int main(void)
{
    const hil_row_convert *rows = &hil_rows()->convert;
    check_scalars();
    check_rows(&hil_f16_portable);
    check_rows(&(hil_f16_kernel){rows->from_f16, rows->to_f16, rows->to_bf16});
    check_rows(&(hil_f16_kernel){load, round_row, round_bf16});
    return 0;
}
