/* placement.h - which state of which unit is kept on which tier, and what is kept for backward, for
   given budgets. Pure functions. */
#ifndef HIL_PLAN_PLACEMENT_H
#define HIL_PLAN_PLACEMENT_H

#include "plan/outline.h"

typedef struct hil_budget {
    size_t device, host;
    uint64_t disk; /* 0: no disk */
} hil_budget;

/* Places every state, and chooses the sizes of chunks, slots and ring, in the memory that the
   plan's window and work (device) and offloaded and spilled (host) leave. Fills the device with
   weights, then gradients, then optimizer states; then the host in the same order; the rest goes to
   disk. Earlier units come first, because the next forward needs their update first. A unit that
   does not fit is skipped, so smaller ones may still fit. *missing: bytes that fit nowhere; 0:
   everything is placed. */
void hil_plan_place(hil_plan *plan, const hil_outline *outline, const hil_budget *budget,
                    uint64_t *missing);

/* Whether gradients may leave one by one: [Note: by tile] in pass.h. hil_plan_place chooses it
   where the window does not hold the weights and sums of a segment. */
bool hil_plan_may_give_by_tile(const hil_plan *plan, const hil_outline *outline);
/* Whether sums may stay in the window until the update: [Note: kept sums] in plan.h. */
bool hil_plan_may_keep_sums(const hil_plan *plan, const hil_outline *outline);

/* Share of host-resident updates to give to a device so that both finish together: their states
   cross the bus, together with the weights of the forward, while the CPU updates the rest. */
double hil_plan_device_share(const hil_outline *outline, const hil_speeds *speeds);
/* Chunks on the device for its updates: copied in, updated, copied out, spare. */
#define HIL_DEVICE_SLOTS 4
/* Chooses which host-resident units the device updates: spread evenly over those with all states on
   the host, up to the fraction plan->device_share of their elements. */
void hil_plan_device_updates(hil_plan *plan, const hil_outline *outline);

/* Chooses what is kept for backward. Up to HIL_LEVEL_LEAN a growing share of the (segment,
   micro-batch) pairs keeps a lean tape (without what is cheap to recompute); above that a growing
   share keeps the whole tape. The last segments come first, because their backward does. */
enum { HIL_LEVEL_LEAN = 16, HIL_LEVEL_ALL = 2 * HIL_LEVEL_LEAN };
void hil_plan_keep(hil_plan *plan, int level);

/* Offloads lean or thin tapes of `pairs` more pairs to the host, among the pairs for which nothing
   is kept. Spreads them over all such segments, so that the bus is used evenly. */
int64_t hil_plan_offloadable(const hil_plan *plan); /* the most pairs that can be offloaded */
void hil_plan_offload(hil_plan *plan, int64_t pairs, bool thin);
int64_t hil_plan_recomputed(const hil_plan *plan); /* pairs for which nothing is kept */

/* Upper bound on device memory for anything but window, tensors and states. */
uint64_t hil_plan_besides(const hil_plan *plan, const hil_outline *outline);

/* Bytes that each class of state of units of each kind takes on each tier, in whole pages. */
typedef struct hil_occupied {
    uint64_t bytes[HIL_UNIT_KINDS][HIL_UNIT_STATES][HIL_TIERS];
} hil_occupied;
void hil_plan_occupied(const hil_plan *plan, const hil_outline *outline, hil_occupied *out);

/* Bytes of the states on each tier that no rehearsal has: [Note: representative layers] in
 * outline.h. */
void hil_plan_represented(const hil_plan *plan, const hil_outline *outline,
                          uint64_t more[HIL_TIERS]);

/* Bytes that the plan reserves on each tier. */
void hil_plan_needs(const hil_plan *plan, const hil_outline *outline, uint64_t need[HIL_TIERS]);

/* Least bytes of the ring of staging buffers; 0: the plan keeps nothing on disk. */
size_t hil_plan_ring(const hil_plan *plan, const hil_outline *outline);

/* Sizes of the window on the device. LEAST: the smallest that works. SEGMENT: all that a segment
   uses, so that the next micro-batch finds it resident. AHEAD: that and the next segment's weights.
   WHOLE: all weights, and the sums of one segment. `resident`: all weights are kept on the device,
   so that the window holds only sums. */
enum { HIL_WINDOW_LEAST, HIL_WINDOW_SEGMENT, HIL_WINDOW_AHEAD, HIL_WINDOW_WHOLE, HIL_WINDOWS };
void hil_plan_windows(const hil_outline *outline, bool resident, uint64_t window[HIL_WINDOWS]);
/* Whether all sums are spilled: they do not fit, and the window is renewed within a step. */
bool hil_plan_spills_all(const hil_plan *plan, const hil_outline *outline);
/* Estimates how many bytes of sums are evicted from the window: all sums if it is renewed and they
   do not fit, or not all weights do and sums are small; those of one segment if the window is too
   small for a segment that many micro-batches visit. The estimate saves a rehearsal; it is 0 if it
   would take much of the host. */
size_t hil_plan_leaving_sums(const hil_plan *plan, const hil_outline *outline);
/* Bytes of the fp32 sums of all gradients. */
uint64_t hil_plan_sums(const hil_outline *outline);

#endif
