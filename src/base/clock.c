/* clock.c - monotonic seconds, and the date. */
#include "base/clock.h"

#include <time.h>

double hil_clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const char *hil_clock_date(char out[32])
{
    time_t seconds = time(NULL);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(out, 32, "%Y-%m-%d %H:%M:%S UTC", &utc);
    return out;
}
