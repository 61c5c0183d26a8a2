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
    hil_plan resident; /* the best so far with all states on a device that has its own memory */
    hil_candidate resident_at;
    bool resident_found;
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

/* Sizes of the window to try. FAIR: leaves a good part of the device to states. ALL: as large as is
   useful. LEAST: the smallest. RESIDENT: for sums only, with all weights on the device. WHOLE: for
   all weights, if ranks divide them. */
typedef enum hil_choice_step {
    HIL_STEP_FAIR,
    HIL_STEP_ALL,
    HIL_STEP_LEAST,
    HIL_STEP_RESIDENT,
    HIL_STEP_WHOLE
} hil_choice_step;

/* Makes the trial this candidate, with nothing placed. */
void hil_choice_begin(hil_choice *c, hil_candidate at);
/* Rehearses the tensors with all states on the device. `limited`: within the budgets. */
hil_status hil_choice_rehearse_tensors(hil_choice *c, hil_tier tier, bool limited,
                                       hil_tensor_needs *out);
/* Finds what tensors need, independent of where states are. *works: they fit. */
hil_status hil_choice_learn(hil_choice *c, hil_candidate at, bool *works);
/* Device memory for tensors, window and states. */
uint64_t hil_choice_room(const hil_choice *c);
/* The window of the trial. False: it does not fit. */
bool hil_choice_window(const hil_choice *c, hil_choice_step how, size_t *out);
/* Places the states of the trial, whose tensors and window are known, and rehearses it; repeats
   while it needs more than was assumed. *ok: it works within the budgets. */
hil_status hil_choice_try_places(hil_choice *c, hil_choice_step how, bool *ok);
/* The best plans so far again, with activations that are offloaded to the host. */
hil_status hil_choice_offload(hil_choice *c);

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
   computing, which a rehearsal does not model. States in RAM beside a GPU cost more: the CPU's
   update is less even than a rehearsal's. */
double hil_choice_cost(const hil_plan *plan);
/* Gives the trial its window. Sums that it holds until the last micro-batch stay there until the
   update: [Note: kept sums] in plan.h. */
void hil_choice_set_window(hil_choice *c, size_t window);
/* Whether the plan has all weights on the device. */
bool hil_choice_resident(const hil_choice *c, const hil_plan *plan);
/* Whether the plan has all states on the device. */
bool hil_choice_states_on_device(const hil_choice *c, const hil_plan *plan);
/* Whether the best plan has all states and activations on the device; and if it has, gives it what
   is left of the device for quantized weights that stay expanded. */
bool hil_choice_all_on_device(const hil_choice *c);
hil_status hil_choice_keep_expanded(hil_choice *c);
/* The winner again, with late moments: they are kept if it is faster so. */
hil_status hil_choice_late_moments(hil_choice *c);

/* Always fails: the message says what does not fit where, and which options would help. */
hil_status hil_choice_refuse(const hil_choice *c);

#endif
