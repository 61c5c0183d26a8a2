/* Codes of 8 bits by their definition, rounding of every bf16 number against a search of the
   nearest code, and the scale of a tensor. */
#include "check.h"
#include "tensor/fp8.h"

typedef struct format {
    hil_fp8 kind;
    int exponent_bits, bias;
    unsigned last; /* the code of the largest number */
    double most;
} format;

static const format formats[] = {{HIL_FP8_E4M3, 4, 7, 0x7e, 448},
                                 {HIL_FP8_E5M2, 5, 15, 0x7b, 57344}};

/* The number of a code without sign, from the definition of the format. */
static double value_of(const format *f, unsigned code)
{
    int low_bits = 7 - f->exponent_bits;
    int exponent = (int)(code >> low_bits), low = (int)(code & ((1u << low_bits) - 1));
    double fraction = ldexp(low, -low_bits);
    return exponent ? ldexp(1 + fraction, exponent - f->bias) : ldexp(fraction, 1 - f->bias);
}

static void check_codes(const format *f)
{
    CHECK_NEAR(value_of(f, f->last), f->most, 0);
    for (unsigned code = 0; code <= f->last; ++code) {
        double value = value_of(f, code);
        CHECK_NEAR((double)hil_fp8_load(code, f->kind), value, 0);
        CHECK_NEAR((double)hil_fp8_load(code | 0x80u, f->kind), -value, 0);
        CHECK_INT(hil_fp8_round((float)value, 0, f->kind), code);
        CHECK_INT(hil_fp8_round((float)-value, 0, f->kind), code | 0x80u);
    }
    for (unsigned code = 0x7f; code <= 0xff; code += 0x80)
        CHECK(isnan(hil_fp8_load(code, f->kind)));
}

/* The nearest code without sign; the even one of two that are as near. */
static unsigned nearest(const format *f, double x)
{
    unsigned best = 0;
    for (unsigned code = 1; code <= f->last; ++code) {
        double far = fabs(value_of(f, code) - x), nearer = fabs(value_of(f, best) - x);
        if (far < nearer || (far == nearer && code % 2 == 0)) best = code;
    }
    return best;
}

static void check_rounding(const format *f, int shift)
{
    for (unsigned bits = 0; bits < 0x7f80; ++bits) {
        float x = hil_bf16_load((uint16_t)bits);
        double scaled = ldexp((double)x, shift);
        unsigned want = nearest(f, scaled > f->most ? f->most : scaled);
        CHECK_INT(hil_fp8_round(x, shift, f->kind), want);
        CHECK_INT(hil_fp8_round(-x, shift, f->kind), want | 0x80u);
    }
    for (unsigned bits = 0x7f80; bits < 0x8000; ++bits) {
        CHECK_INT(hil_fp8_round(hil_bf16_load((uint16_t)bits), shift, f->kind), 0x7f);
        CHECK_INT(hil_fp8_expand(0x7f, shift, f->kind), 0x7fc0);
    }
}

/* The largest power of two with which the largest magnitude stays within the format. */
static void check_shift(const format *f)
{
    CHECK_INT(hil_fp8_shift(0, f->kind), 0);
    for (unsigned bits = 1; bits < 0x7f80; ++bits) {
        int shift = hil_fp8_shift(bits, f->kind);
        double most = (double)hil_bf16_load((uint16_t)bits);
        CHECK(ldexp(most, shift) <= f->most);
        CHECK(shift == HIL_FP8_SHIFT_MOST || ldexp(most, shift + 1) > f->most);
        CHECK(shift >= -126 && shift <= HIL_FP8_SHIFT_MOST);
    }
    for (unsigned bits = 0x7f80; bits < 0x8000; ++bits) CHECK_INT(hil_fp8_shift(bits, f->kind), 0);
}

/* bf16 has every number of every scale exactly, and none is subnormal. */
static void check_expanded(const format *f)
{
    for (int shift = -100; shift <= HIL_FP8_SHIFT_MOST; ++shift)
        for (unsigned code = 0; code <= f->last; ++code) {
            double want = ldexp(value_of(f, code), -shift);
            CHECK_NEAR((double)hil_bf16_load(hil_fp8_expand(code, shift, f->kind)), want, 0);
            CHECK_NEAR((double)hil_bf16_load(hil_fp8_expand(code | 0x80u, shift, f->kind)), -want,
                       0);
            CHECK(want == 0 || want >= 0x1p-126);
        }
}

static void check_names(void)
{
    hil_dtype dtype;
    bool fp8;
    CHECK_OK(hil_fp8_parse("fp8", &dtype, &fp8));
    CHECK(fp8 && dtype == HIL_BF16);
    CHECK_OK(hil_fp8_parse("fp16", &dtype, &fp8));
    CHECK(!fp8 && dtype == HIL_F16);
    CHECK_FAILS(hil_fp8_parse("fp4", &dtype, &fp8), HIL_ERR_USAGE, "unknown dtype \"fp4\"");
}

int main(void)
{
    static const int shifts[] = {0, 9, -5, HIL_FP8_SHIFT_MOST};
    for (int i = 0; i < 2; ++i) {
        check_codes(&formats[i]);
        for (int s = 0; s < 4; ++s) check_rounding(&formats[i], shifts[s]);
        check_shift(&formats[i]);
        check_expanded(&formats[i]);
    }
    check_names();
    return 0;
}
