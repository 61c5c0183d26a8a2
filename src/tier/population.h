/* population.h - pins memory and faults in its pages in the background, on several threads. */
#ifndef HIL_TIER_POPULATION_H
#define HIL_TIER_POPULATION_H

#include "tier/pins.h"

typedef struct hil_population_task {
    hil_pins *pins; /* borrowed until the end; what is queued is pinned first. NULL: nothing is */
    char *memory;   /* faulted in, instead of page by page at first use */
    size_t bytes;
    int threads;
} hil_population_task;

typedef struct hil_population hil_population;

/* Copies the task. The memory may be used meanwhile, and must exist until the end. Where threads
   cannot be started memory is pinned and pages come at first use. Where there is nothing to pin and
   little memory *out is NULL. */
hil_status hil_population_begin(hil_population **out, const hil_population_task *task);
/* Stops it. NULL is fine. */
void hil_population_end(hil_population *population);

#endif
