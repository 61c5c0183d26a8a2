/* Learning rates and loss scales as DeepSpeed 0.19.8 gave them for the same settings. */
#include "check.h"
#include "optim/scaling.h"

enum { UPDATES = 12 };

static void check_curve(const hil_curve *curve, const double *expected)
{
    for (int i = 0; i < UPDATES; ++i) {
        double rate = hil_curve_rate(curve, 8, i + 1);
        CHECK_NEAR(rate, expected[i], 1e-15 * (1 + fabs(expected[i])));
    }
}

static void check_rates(void)
{
    static const struct {
        hil_curve curve;
        double expected[UPDATES];
    } cases[] = {
        {{HIL_CURVE_WARMUP, false, 1e-4, 2e-3, 0, 4, 0},
         {0.0001, 0.0001, 0.0010499999999999999, 0.0016057143756850985, 0.002, 0.002, 0.002, 0.002,
          0.002, 0.002, 0.002, 0.002}},
        {{HIL_CURVE_WARMUP, true, 1e-4, 2e-3, 0, 4, 0},
         {0.0001, 0.0001, 0.00057499999999999999, 0.0010499999999999999, 0.0015250000000000001,
          0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002}},
        {{HIL_CURVE_WARMUP_DECAY, false, 1e-4, 2e-3, 0, 3, 8},
         {0.0001, 0.0001, 0.0012987665317857689, 0.002, 0.002, 0.0016200000000000001, 0.00124,
          0.00086000000000000009, 0.00048000000000000001, 0.0001, 0.0001, 0.0001}},
        {{HIL_CURVE_WARMUP_DECAY, true, 0, 2e-3, 0, 1, 0}, /* the run has 8 */
         {0, 0, 0.001, 0.002, 0.0016666666666666668, 0.0013333333333333333, 0.001,
          0.00066666666666666664, 0.00033333333333333332, 0, 0, 0}},
        {{HIL_CURVE_WARMUP_COSINE, false, 0.1, 3e-3, 0.05, 3, 8},
         {0, 0.00030000000000000003, 0.0020035103346429345, 0.0030000000000000001,
          0.0027278492169843, 0.0020153492169843004, 0.0011346507830156999, 0.00042215078301570006,
          0.00015000000000000001, 0.00015000000000000001, 0.00015000000000000001,
          0.00015000000000000001}},
        {{HIL_CURVE_WARMUP_COSINE, true, 0, 3e-3, 0.0001, 3, 8},
         {0, 0, 0.001, 0.002, 0.0027135541390132653, 0.001963629139013265, 0.0010366708609867352,
          0.00028674586098673523, 3.0000000000000004e-07, 3.0000000000000004e-07,
          3.0000000000000004e-07, 3.0000000000000004e-07}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        check_curve(&cases[i].curve, cases[i].expected);
}

/* 'x' is a step that overflows. */
static void check_scale(hil_loss_scale rule, const char *steps, const int64_t *expected, bool ends)
{
    hil_scaling s = hil_scaling_begin(HIL_F16, &rule);
    CHECK_INT(s.scale, rule.start);
    for (int i = 0; steps[i]; ++i) {
        CHECK(steps[i] == '.' || hil_scaling_skips(&s));
        hil_scaling_advance(&s, steps[i] == '.');
        CHECK_INT(s.scale, expected[i]);
    }
    CHECK(hil_scaling_skips(&s) == !ends);
}

static void check_scales(void)
{
    check_scale((hil_loss_scale){64, 3, 1, 2, false, false}, "......x....x.x..xxx..x.x.xx.",
                (int64_t[]){64,  64,  64, 128, 128, 128, 128, 128, 128, 128, 256, 256, 256, 128,
                            128, 128, 64, 32,  16,  16,  16,  8,   8,   4,   4,   2,   1,   1},
                true);
    check_scale((hil_loss_scale){64, 3, 4, 3, true, false},
                "x..x...x....x.xxx..x........x.x..x...xxx",
                (int64_t[]){64,  64,  64,  64,  64,  64,  64,  64,  64,  64,  64,  128, 128, 128,
                            128, 128, 64,  64,  64,  64,  64,  64,  64,  128, 128, 128, 256, 256,
                            256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 128},
                false);
    check_scale(
        (hil_loss_scale){64, 3, 1, 1, false, false}, ".x.......x...x.x........xxx..xx...x....x",
        (int64_t[]){64, 32, 32, 32, 32, 64, 64, 64, 128, 64, 64, 64, 64, 32, 32, 16, 16, 16, 16, 32,
                    32, 32, 64, 64, 32, 16, 8,  8,  8,   4,  2,  2,  2,  2,  1,  1,  1,  1,  2,  1},
        true);
    check_scale((hil_loss_scale){128, 1, 1, 1, false, true}, "x..x", /* fixed */
                (int64_t[]){128, 128, 128, 128}, false);
}

int main(void)
{
    check_rates();
    check_scales();
    return 0;
}
