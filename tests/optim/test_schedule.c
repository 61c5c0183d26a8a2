/* Learning rates: values computed by hand, and Hugging Face's formulas after the warm-up. */
#include "check.h"
#include "optim/schedule.h"

int main(void)
{
    CHECK_NEAR(hil_schedule_rate(HIL_COSINE, 1, 4, 12, 1), 0.25, 1e-15);
    CHECK_NEAR(hil_schedule_rate(HIL_COSINE, 1, 4, 12, 4), 1, 1e-15);
    CHECK_NEAR(hil_schedule_rate(HIL_COSINE, 1, 4, 12, 5), 1, 1e-15);
    CHECK_NEAR(hil_schedule_rate(HIL_COSINE, 1, 4, 12, 9), 0.5, 1e-15);
    CHECK_NEAR(hil_schedule_rate(HIL_COSINE, 2, 0, 10, 1), 2, 1e-15);
    CHECK_NEAR(hil_schedule_rate(HIL_COSINE, 1, 0, 3, 2), 0.75, 1e-15);
    CHECK_NEAR(hil_schedule_rate(HIL_LINEAR, 1, 0, 10, 10), 0.1, 1e-15);
    CHECK_NEAR(hil_schedule_rate(HIL_LINEAR, 1e-3, 10, 100, 12), 1e-3 * 89 / 90, 1e-15);
    CHECK_NEAR(hil_schedule_rate(HIL_CONSTANT, 3, 2, 10, 1), 1.5, 1e-15);
    CHECK_NEAR(hil_schedule_rate(HIL_CONSTANT, 3, 2, 10, 10), 3, 1e-15);
    CHECK_NEAR(hil_schedule_rate(HIL_COSINE, 1, 20, 10, 10), 0.5, 1e-15);
    CHECK_NEAR(hil_schedule_rate(HIL_COSINE, 1, 5, 10, 40), 0, 1e-15);
    return 0;
}
