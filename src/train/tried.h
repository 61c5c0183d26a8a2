/* tried.h - inside of the planner: plans that were rehearsed before. */
#ifndef HIL_TRAIN_TRIED_H
#define HIL_TRAIN_TRIED_H

#include "train/planner.h"

/* Zero it first. Owns copies of the plans. */
typedef struct hil_tried {
    struct hil_tried_plan *plan;
    size_t count, room;
} hil_tried;

/* planner->rehearse of a plan that was not rehearsed before; otherwise what that said. */
hil_status hil_tried_rehearse(hil_tried *tried, const hil_planner *planner, hil_plan *plan);
void hil_tried_free(hil_tried *tried);

#endif
