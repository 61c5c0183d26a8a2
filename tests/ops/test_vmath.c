/* exp, tanh, erf and the logistic function against libm in double, over the whole range. */
#include "ops/rows/vmath.h"
#include "check.h"

/* |got - want| in units of the last place of want, at least of the smallest normal number. */
static double ulps(float got, double want)
{
    if (isnan(want)) return isnan(got) ? 0 : 1e9;
    if (isinf(want) || fabs(want) > 3.4028235e38) return isinf(got) ? 0 : 1e9;
    double unit = fabs(want) < 0x1p-126 ? 0x1p-149 : exp2(floor(log2(fabs(want))) - 23);
    return fabs((double)got - want) / unit;
}

static void check_all(float x)
{
    double d = x;
    CHECK(ulps(hil_exp(x), exp(d)) <= 2);
    CHECK(ulps(hil_tanh(x), tanh(d)) <= 3);
    CHECK(ulps(hil_erf(x), erf(d)) <= 3);
    if (x > -87)
        CHECK(ulps(hil_sigmoid(x), 1 / (1 + exp(-d))) <= 4);
    else
        CHECK_NEAR(hil_sigmoid(x), 0, 2e-38);
}

int main(void)
{
    for (uint32_t bits = 0; bits < 0x7f800000u; bits += 3001) {
        check_all(hil_float(bits));
        check_all(-hil_float(bits));
    }
    for (float x = -110; x < 110; x += 0.00037f) check_all(x);
    static const float special[] = {0.0f, -0.0f, 1.0f, 0.625f, 4.0f, 88.7f, 88.8f, -87.4f, -104.0f};
    for (unsigned i = 0; i < sizeof special / sizeof *special; ++i) check_all(special[i]);
    CHECK(hil_exp(-INFINITY) == 0 && hil_exp(INFINITY) == INFINITY && isnan(hil_exp(NAN)));
    CHECK(hil_tanh(-INFINITY) == -1 && hil_tanh(INFINITY) == 1 && isnan(hil_tanh(NAN)));
    CHECK(hil_erf(-INFINITY) == -1 && hil_erf(INFINITY) == 1 && isnan(hil_erf(NAN)));
    CHECK(hil_exp(0) == 1 && hil_sigmoid(0) == 0.5f);
    CHECK(hil_bits(hil_tanh(-0.0f)) == 0x80000000u && hil_bits(hil_erf(-0.0f)) == 0x80000000u);
    return 0;
}
