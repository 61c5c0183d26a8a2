/* clock.h - monotonic seconds, and the date for people. */
#ifndef HIL_BASE_CLOCK_H
#define HIL_BASE_CLOCK_H

double hil_clock_now(void);
/* The date and time of day as "2026-01-31 23:59:59 UTC" into `out`. Returns out. */
const char *hil_clock_date(char out[32]);

#endif
