/* Learning rates: values computed by hand, and Hugging Face's formulas after the warm-up. */
#include "check.h"
#include "optim/schedule.h"

static const struct {
    hil_schedule_kind kind;
    double base, least;
    int64_t warmup, steps, s;
    double rate;
} cases[] = {
    {HIL_COSINE, 1, 0, 4, 12, 1, 0.25},
    {HIL_COSINE, 1, 0, 4, 12, 4, 1},
    {HIL_COSINE, 1, 0, 4, 12, 5, 1},
    {HIL_COSINE, 1, 0, 4, 12, 9, 0.5},
    {HIL_COSINE, 2, 0, 0, 10, 1, 2},
    {HIL_COSINE, 1, 0, 0, 3, 2, 0.75},
    {HIL_LINEAR, 1, 0, 0, 10, 10, 0.1},
    {HIL_LINEAR, 1e-3, 0, 10, 100, 12, 1e-3 * 89 / 90},
    {HIL_CONSTANT, 3, 0, 2, 10, 1, 1.5},
    {HIL_CONSTANT, 3, 0, 2, 10, 10, 3},
    {HIL_COSINE, 1, 0, 20, 10, 10, 0.5},
    {HIL_COSINE, 1, 0, 5, 10, 40, 0},
    /* transformers' cosine_with_min_lr: least + (base - least) * share */
    {HIL_COSINE, 1, 0.1, 4, 12, 2, 0.5},
    {HIL_COSINE, 1, 0.1, 4, 12, 9, 0.55},
    {HIL_COSINE, 1, 0.1, 5, 10, 40, 0.1},
    {HIL_LINEAR, 1, 0.5, 0, 10, 6, 0.75},
    {HIL_CONSTANT, 3, 0.5, 2, 10, 10, 3},
};

int main(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        CHECK_NEAR(hil_schedule_rate(cases[i].kind, cases[i].base, cases[i].least, cases[i].warmup,
                                     cases[i].steps, cases[i].s),
                   cases[i].rate, 1e-15);
    return 0;
}
