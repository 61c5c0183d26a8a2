/* candidate.h - internal to the planner: the candidate that is tried, and the best so far. */
#ifndef HIL_PLAN_CANDIDATE_H
#define HIL_PLAN_CANDIDATE_H

#include "plan/rehearsal_cache.h"

/* Memory and time that tensors need, as a rehearsal found. */
typedef struct hil_tensor_needs {
    bool known, works;
    size_t work, offloaded;
    uint64_t disk;    /* bytes of tensors */
    double computing; /* seconds of computing in a step; a lower bound */
} hil_tensor_needs;

enum { HIL_GROUPS = 2 }; /* one micro-batch at a time, or all */

/* See [Note: candidates] in planner.c. */
typedef struct hil_candidate {
    int64_t group;
    hil_tier tier; /* where values between segments are kept until backward */
    int level;     /* how many activations are kept: 0 to HIL_LEVEL_ALL */
    int most;      /* the highest level that works */
} hil_candidate;

typedef struct hil_choice {
    const hil_planner *planner;
    const hil_outline *outline;
    hil_plan trial, best;
    hil_candidate at, best_at; /* candidates of `trial` and `best` */
    bool found;
    hil_plan single; /* the best so far with one micro-batch at a time */
    hil_candidate single_at;
    bool single_found;
    uint64_t least;        /* least device memory for computing */
    uint64_t working;      /* of these bytes, tensors */
    uint64_t missing;      /* bytes of states that do not fit; the smallest of all candidates */
    uint64_t lacking_host; /* host bytes that it needs, if only the host is too small; or 0 */
    uint64_t beside;       /* disk bytes of its tensors and sums, if only the disk is too small */
    uint64_t states;       /* bytes of all states */
    int zero;              /* ZeRO stage with several ranks; otherwise 3 */
    bool by_segment;       /* the window must hold all that a segment may use */
    double device_share;   /* see hil_planner; may be lowered while trying */
    hil_rehearsal_cache cache;
    hil_tensor_needs needs[HIL_GROUPS][HIL_TIERS][HIL_LEVEL_ALL + 1];
} hil_choice;

static inline bool hil_choice_alone(const hil_choice *c)
{
    return hil_outline_ranks(c->outline) == 1;
}

/* Bytes of the trial that do not fit, of which `states` are bytes of states; noted for the message.
 */
uint64_t hil_choice_missing(hil_choice *c, uint64_t states);
/* Whether the plan needs no more than the budgets. */
bool hil_choice_fits(const hil_choice *c, const hil_plan *p);
/* Remembers if tensors of the trial needed more memory than was known: fragments differ from plan
   to plan. Saves the next candidates a rehearsal. */
void hil_choice_note_work(hil_choice *c);
/* All micro-batches of a step, or groups of about equal size. Larger groups would save hardly any
   transfers of weights, but keep more values between segments. */
int64_t hil_choice_large_group(const hil_outline *outline);
/* Seconds of a step, plus a small cost for bytes moved: transfers take memory bandwidth from
   computing, which a rehearsal does not model. */
double hil_choice_cost(const hil_plan *plan);
/* Whether the plan has all weights on the device. */
bool hil_choice_resident(const hil_choice *c, const hil_plan *plan);
/* Whether the best plan has all states and activations on the device; and if it has, gives it what
   is left of the device for quantized weights that stay expanded. */
bool hil_choice_all_on_device(const hil_choice *c);
hil_status hil_choice_keep_expanded(hil_choice *c);

/* Always fails: the message says what does not fit where, and which options would help. */
hil_status hil_choice_refuse(const hil_choice *c);

#endif
