/* clock.c - monotonic seconds. */
#include "base/clock.h"

#include <time.h>

double hil_clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
