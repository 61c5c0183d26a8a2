/* clock.h - monotonic seconds. */
#ifndef HIL_BASE_CLOCK_H
#define HIL_BASE_CLOCK_H

double hil_clock_now(void);

#endif
