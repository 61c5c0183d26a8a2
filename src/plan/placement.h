/* placement.h - which state of which unit lives where and what is kept, for given room. Pure
   functions. */
#ifndef HIL_PLAN_PLACEMENT_H
#define HIL_PLAN_PLACEMENT_H

#include "plan/outline.h"

typedef struct hil_budget {
    size_t device, host;
    uint64_t disk; /* 0: there is none */
} hil_budget;

/* Homes for every state and sizes of chunks, slots and ring, beside what `plan` already says it
   needs: window and work on the device, parked and spilled on the host. The device is filled with
   weights, then gradients, then what the optimizer keeps; then the host in the same order; the rest
   goes to disk. Earlier units first: the next forward needs their update first. One unit at a time:
   what does not fit leaves room for smaller ones.
   *missing: bytes that found no place, 0 when all did. */
void hil_plan_place(hil_plan *plan, const hil_outline *outline, const hil_budget *budget,
                    uint64_t *missing);

/* Chooses which units visit the device to be updated: every so many, in order, of those that live
   on the host with all of their states, until plan->visiting of their elements do. */
void hil_plan_visits(hil_plan *plan, const hil_outline *outline);

/* Chooses what backward finds. Up to HIL_LEVEL_LEAN a growing part of all (segment, micro-batch)
   pairs keeps its activations without what is cheap, above that a growing part keeps all of them:
   the last segments first, whose backward comes first. */
enum { HIL_LEVEL_LEAN = 16, HIL_LEVEL_ALL = 2 * HIL_LEVEL_LEAN };
void hil_plan_keep(hil_plan *plan, int level);

/* Of the pairs of segments for which that leaves nothing, lets `pairs` keep their activations
   without what is cheap on the host, spread over all segments that can: the bus is used all the
   time. */
int64_t hil_plan_parkable(const hil_plan *plan); /* how many could */
void hil_plan_park(hil_plan *plan, int64_t pairs);

/* Bytes at most of the device besides window, tensors and states. */
uint64_t hil_plan_besides(const hil_plan *plan, const hil_outline *outline);

/* Bytes that each class of state takes on each tier: whole pages, in memory as on disk. */
void hil_plan_occupied(const hil_plan *plan, const hil_outline *outline,
                       uint64_t bytes[HIL_UNIT_STATES][HIL_TIERS]);

/* What the plan reserves on each tier. */
void hil_plan_needs(const hil_plan *plan, const hil_outline *outline, uint64_t need[HIL_TIERS]);

/* Bytes that the ring must have at least: 0 where nothing of the plan is on disk. */
size_t hil_plan_ring(const hil_plan *plan, const hil_outline *outline);

/* Sizes of the window on the device: what just works; what holds all that a segment uses, so that
   the next micro-batch finds it; beside that the weights of the segment that follows; all weights,
   with the sums of one segment. `resident`: all weights live on the device, and only sums come and
   go. */
enum { HIL_WINDOW_LEAST, HIL_WINDOW_SEGMENT, HIL_WINDOW_AHEAD, HIL_WINDOW_WHOLE, HIL_WINDOWS };
void hil_plan_windows(const hil_outline *outline, bool resident, uint64_t window[HIL_WINDOWS]);
/* About how many bytes of sums leave the window: all, where they do not fit and it is renewed;
   those of a segment, where it is too small for one that many micro-batches visit. A guess that
   saves a rehearsal, unless it takes much of the host. */
size_t hil_plan_leaving_sums(const hil_plan *plan, const hil_outline *outline);
/* Of the fp32 sums of all gradients together. */
uint64_t hil_plan_sums(const hil_outline *outline);

#endif
