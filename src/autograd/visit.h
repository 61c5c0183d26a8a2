/* visit.h - the engine's own structures; a visit runs one segment for one micro-batch, forward or
   backward. */
#ifndef HIL_AUTOGRAD_VISIT_H
#define HIL_AUTOGRAD_VISIT_H

#include "autograd/boundary.h"
#include "autograd/engine.h"
#include "autograd/batch_input.h"
#include "autograd/spans.h"

typedef struct hil_visit {
    bool back;
    int segment;
    int64_t slot; /* of the micro-batch within its group */
} hil_visit;

struct hil_engine {
    hil_model *model;
    hil_engine_options options;
    hil_segment_place *place; /* of each segment */
    hil_buffers *buffers;
    hil_offload *offload;
    hil_context context;
    hil_kv_cache cache;
    hil_boundaries boundaries;
    hil_tape **held; /* [slot][segment]: tapes kept for backward */
    int64_t held_slots;
    int64_t visits;           /* begun in this training pass */
    uint64_t kept[HIL_TIERS]; /* see hil_engine_kept */
    hil_tape *idle;
    hil_batch_input input;
    hil_visit next; /* after the current visit, if has_next */
    bool has_next;
    int *reads; /* roots that a visit reads, listed by visit.c */
    size_t reads_count, reads_room;
    hil_spans spans;
    hil_engine_watch watch; /* NULL: none */
    void *watch_context;
    double sum[HIL_PREFERENCES]; /* over the micro-batches of the last pass */
};

/* [Note: reference] With preferences that have a reference, unless its numbers come with the batch,
   every forward visit runs its segment twice: first for the reference model, which is the model
   without its adapters, then as usual. So weights are moved once for both. The reference run keeps
   nothing for backward; the outputs of its last segment are in slots of their own, behind those of
   the group. Its losses, of one micro-batch, stay in context.reference until the loss of that
   micro-batch is computed. Dropout is off in it.
 */

/* Visit i of a group of `count` micro-batches. The last segment has no forward visit: its forward
   runs in backward, because no segment reads its outputs. */
hil_visit hil_visit_at(size_t segments, int64_t count, int64_t i);

/* Prefetches the boundary values, gradients and tape that a visit will read. */
hil_status hil_visit_prefetch(hil_engine *e, const hil_visit *v);

/* Forward keeps the segment's outputs and, as `what` says, no tape, a lean one or all of it. Losses
   are added to *loss. */
typedef enum hil_keep { HIL_KEEP_NOTHING, HIL_KEEP_LEAN, HIL_KEEP_TAPE } hil_keep;
/* For the micro-batch in `slot` of a group of `count`. */
hil_keep hil_visit_keep(const hil_segment_place *place, int64_t slot, int64_t count);
hil_status hil_visit_forward(hil_engine *e, const hil_micro *micro, const hil_visit *v,
                             hil_keep what, double *loss);
/* Backward recomputes the segment if no tape was kept. The last segment's loss is computed here. */
hil_status hil_visit_backward(hil_engine *e, const hil_micro *micro, const hil_visit *v,
                              double *loss);
/* Bytes that backward will read of the outputs and tapes of `count` micro-batches, on the tiers of
   their places; of all segments but the first and the last. */
void hil_visit_kept(hil_engine *e, int64_t count, uint64_t kept[HIL_TIERS]);
/* Frees the losses of the reference model. */
void hil_visit_reference_end(hil_engine *e);
/* Frees all that is kept of a segment for the micro-batch in `slot`. */
void hil_visit_clear(hil_engine *e, int64_t slot, int segment);

/* hil_context.earlier */
hil_status hil_visit_earlier(hil_tape *tape, const char *segment, const char *name,
                             hil_value **out);

#endif
