/* rehearsal_cache.h - internal to the planner: results of plans that were already rehearsed. */
#ifndef HIL_PLAN_REHEARSAL_CACHE_H
#define HIL_PLAN_REHEARSAL_CACHE_H

#include "plan/planner.h"

/* Zero it first. Owns copies of the plans. */
typedef struct hil_tried {
    struct hil_tried_plan *plan;
    size_t count, room;
} hil_tried;

/* Calls planner->rehearse, or if an equal plan was rehearsed before, returns that result. */
hil_status hil_tried_rehearse(hil_tried *tried, const hil_planner *planner, hil_plan *plan);
void hil_tried_free(hil_tried *tried);

#endif
