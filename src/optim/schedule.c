/* schedule.c - warm-up, then cosine, linear or constant. */
#include "optim/schedule.h"

#include <math.h>

double hil_schedule_rate(hil_schedule_kind kind, double base, double least, int64_t warmup,
                         int64_t steps, int64_t s)
{
    if (s <= warmup) return base * (double)s / (double)warmup;
    double p = steps > warmup ? (double)(s - 1 - warmup) / (double)(steps - warmup) : 0;
    if (p > 1) p = 1;
    switch (kind) {
    case HIL_COSINE:
        return least + (base - least) * (1 + cos(3.14159265358979323846 * p)) / 2;
    case HIL_LINEAR:
        return least + (base - least) * (1 - p);
    case HIL_CONSTANT:
        break;
    }
    return base;
}
