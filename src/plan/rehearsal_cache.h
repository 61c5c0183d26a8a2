/* rehearsal_cache.h - inside of the planner: plans that were rehearsed before. */
#ifndef HIL_PLAN_REHEARSAL_CACHE_H
#define HIL_PLAN_REHEARSAL_CACHE_H

#include "plan/planner.h"

/* Zero it first. Owns copies of the plans. */
typedef struct hil_tried {
    struct hil_tried_plan *plan;
    size_t count, room;
} hil_tried;

/* planner->rehearse of a plan that was not rehearsed before; otherwise what that said. */
hil_status hil_tried_rehearse(hil_tried *tried, const hil_planner *planner, hil_plan *plan);
void hil_tried_free(hil_tried *tried);

#endif
