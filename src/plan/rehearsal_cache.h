/* rehearsal_cache.h - internal to the planner: results of plans that were already rehearsed. */
#ifndef HIL_PLAN_REHEARSAL_CACHE_H
#define HIL_PLAN_REHEARSAL_CACHE_H

#include "plan/planner.h"

/* Zero it first. Owns copies of the plans. */
typedef struct hil_rehearsal_cache {
    struct hil_rehearsed_plan *plan;
    size_t count, room;
} hil_rehearsal_cache;

/* Calls planner->rehearse, or if an equal plan was rehearsed before, returns that result. */
hil_status hil_rehearsal_cache_rehearse(hil_rehearsal_cache *cache, const hil_planner *planner,
                                        hil_plan *plan);
void hil_rehearsal_cache_free(hil_rehearsal_cache *cache);

#endif
