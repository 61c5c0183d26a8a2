/* candidate.h - inside of the planner: what was tried so far. */
#ifndef HIL_PLAN_CANDIDATE_H
#define HIL_PLAN_CANDIDATE_H

#include "plan/rehearsal_cache.h"

/* What tensors need, once it was learned. */
typedef struct hil_lesson {
    bool known, works;
    size_t work, parked;
    double computing; /* seconds of a step at least */
} hil_lesson;

enum { HIL_GROUPS = 2 }; /* one micro-batch at a time, or all */

/* What is tried: see [Note: candidates] in planner.c. */
typedef struct hil_candidate {
    int64_t group;
    hil_tier tier; /* where values between segments wait */
    int level;     /* up to HIL_LEVEL_ALL: kept activations */
    int most;      /* the highest that works */
} hil_candidate;

typedef struct hil_choice {
    const hil_planner *planner;
    const hil_outline *outline;
    hil_plan trial, best;
    hil_candidate at, best_at; /* of these */
    bool found;
    uint64_t least;   /* bytes of the device that computing needs at least */
    uint64_t working; /* of these, tensors */
    uint64_t missing; /* bytes of states that found no place, of the candidate that lacked least */
    uint64_t lacking_host; /* what it needs of the host where only that is too small; or 0 */
    uint64_t states;       /* bytes of all */
    int zero;              /* stage, where there are several ranks; otherwise 3 */
    bool by_segment;       /* windows hold all that a segment may use */
    double visiting;       /* what is tried: see hil_planner */
    hil_tried tried;
    hil_lesson lessons[HIL_GROUPS][HIL_TIERS][HIL_LEVEL_ALL + 1];
} hil_choice;

static inline bool hil_choice_alone(const hil_choice *c)
{
    return hil_outline_ranks(c->outline) == 1;
}

/* Nothing fits: says what is missing where, and what would help. */
hil_status hil_choice_refuse(const hil_choice *c);

#endif
