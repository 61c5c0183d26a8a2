/* population.h - faults in the pages of memory in the background, on several threads, instead of
   one by one at first use. */
#ifndef HIL_TIER_POPULATION_H
#define HIL_TIER_POPULATION_H

#include "base/fail.h"

typedef struct hil_population hil_population;

/* The memory may be used meanwhile, and must exist until the end. Where threads cannot be started
   pages come at first use; small memory needs none, and *out is NULL. */
hil_status hil_population_begin(hil_population **out, char *memory, size_t bytes, int threads);
/* Stops it. NULL is fine. */
void hil_population_end(hil_population *population);

#endif
