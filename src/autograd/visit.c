/* visit.c - runs one segment for one micro-batch: prefetches what it reads, offloads what is needed
   later. */
#include "autograd/visit.h"

#include "base/alloc.h"

#include <string.h>

hil_visit hil_visit_at(size_t segments, int64_t count, int64_t i)
{
    int last = (int)segments - 1;
    int64_t forwards = last * count;
    if (i < forwards) return (hil_visit){false, (int)(i / count), i % count};
    i -= forwards;
    return (hil_visit){true, last - (int)(i / count), i % count};
}

/* Kept tapes that are offloaded are spread over the group, so that their transfers overlap with
   computing; `at` is the number of kept tapes before this one. */
hil_keep hil_visit_keep(const hil_segment_place *place, int64_t slot, int64_t count)
{
    int64_t at = slot, keep = place->keep < count ? place->keep : count;
    int64_t lean = place->lean < count - keep ? place->lean : count - keep;
    if (place->tapes != HIL_DEVICE) {
        at = slot * (keep + lean) / count;
        if ((slot + 1) * (keep + lean) / count == at) return HIL_KEEP_NOTHING;
    }
    if (at < keep) return HIL_KEEP_TAPE;
    return at < keep + lean ? HIL_KEEP_LEAN : HIL_KEEP_NOTHING;
}

static hil_status end_span(hil_engine *e, int segment, const char *what)
{
    return hil_spans_end(&e->spans, e->model->segments[segment].name, what);
}

static hil_tape **held_at(hil_engine *e, int64_t slot, int segment)
{
    return &e->held[slot * (int64_t)e->model->count + segment];
}

static hil_status take_tape(hil_engine *e, hil_tape **out)
{
    if (e->idle) {
        *out = e->idle;
        e->idle = e->idle->next;
        return HIL_OK;
    }
    HIL_TRY(HIL_ALLOC(1, out));
    (*out)->owner = e;
    (*out)->context = &e->context;
    return HIL_OK;
}

static void give_tape(hil_engine *e, hil_tape *tape)
{
    if (!tape) return;
    hil_tape_reset(tape);
    tape->next = e->idle;
    e->idle = tape;
}

static hil_status borrow_boundary(hil_tape *tape, int segment, int place, hil_value **out)
{
    hil_engine *e = tape->owner;
    int64_t slot = tape->micro_index;
    int number = segment * HIL_VALUES_MAX + place;
    for (hil_value *v = tape->values; v; v = v->next)
        if (v->boundary == number) {
            *out = v;
            return HIL_OK;
        }
    const hil_boundary *b = hil_boundaries_find(&e->boundaries, slot, number);
    hil_tensor tensor = b->tensor;
    if (b->root >= 0) HIL_TRY(hil_boundaries_wait(&e->boundaries, slot, b->root, &tensor.data));
    if (b->root >= 0 && !tensor.data && e->context.mode != HIL_MODE_TRACE)
        return hil_fail(HIL_ERR_USAGE,
                        "segment %s reads \"%s\" of segment %s, which it did not while only shapes "
                        "were known: read it on the usual path too",
                        e->model->segments[tape->segment].name, b->name,
                        e->model->segments[segment].name);
    HIL_TRY(hil_tape_borrow(tape, &tensor, b->wants, out));
    (*out)->boundary = number;
    (*out)->ids = b->ids;
    (*out)->branches = &e->model->branches;
    return HIL_OK;
}

hil_status hil_visit_earlier(hil_tape *tape, const char *segment, const char *name, hil_value **out)
{
    hil_engine *e = tape->owner;
    for (int s = 0; s < tape->segment; ++s) {
        if (strcmp(e->model->segments[s].name, segment) != 0) continue;
        const hil_outputs *from = hil_boundaries_at(&e->boundaries, tape->micro_index, s);
        for (int i = 0; i < from->count; ++i)
            if (strcmp(from->value[i].name, name) == 0) {
                int *reader = &e->model->last_reader[s * HIL_VALUES_MAX + i];
                if (*reader < tape->segment) *reader = tape->segment;
                return borrow_boundary(tape, s, i, out);
            }
    }
    return hil_fail(HIL_ERR_USAGE, "no earlier segment %s gives out \"%s\"", segment, name);
}

static bool is_last(const hil_engine *e, int segment)
{
    return segment + 1 == (int)e->model->count;
}

/* Whether it is the backward visit of a segment with no trainable parameters in it or before it. */
static bool has_no_backward(const hil_engine *e, const hil_visit *v)
{
    if (!v->back || is_last(e, v->segment)) return false;
    return !hil_boundaries_at(&e->boundaries, v->slot, v->segment)->wants;
}

static hil_status add_read(hil_engine *e, int root)
{
    if (root < 0) return HIL_OK;
    HIL_TRY(HIL_GROW(&e->reads, &e->reads_room, e->reads_count + 1));
    e->reads[e->reads_count++] = root;
    return HIL_OK;
}

/* Lists the roots that a visit will read: those that its tape keeps, or all outputs of the previous
   segment. */
static hil_status list_reads(hil_engine *e, const hil_visit *v)
{
    e->reads_count = 0;
    if (has_no_backward(e, v)) return HIL_OK;
    const hil_tape *tape = v->back ? *held_at(e, v->slot, v->segment) : NULL;
    if (!tape && v->segment == 0) return HIL_OK;
    const hil_outputs *out =
        hil_boundaries_at(&e->boundaries, v->slot, v->segment - (tape ? 0 : 1));
    for (int i = 0; i < out->count; ++i)
        if (!tape || tape->out[i]->root->kept) HIL_TRY(add_read(e, out->value[i].root));
    for (const hil_value *x = tape ? tape->values : NULL; x; x = x->next)
        if (x->boundary >= 0 && x->kept)
            HIL_TRY(add_read(e, hil_boundaries_find(&e->boundaries, v->slot, x->boundary)->root));
    return HIL_OK;
}

/* Finds the run of the reference model in a visit, as a visit of its own; false: it has none. */
static bool find_reference(const hil_engine *e, const hil_visit *v, hil_visit *out)
{
    *out = (hil_visit){.segment = v->segment, .slot = e->held_slots / 2 + v->slot};
    return hil_reference_runs(&e->context.preference) && e->context.mode == HIL_MODE_LOSS &&
           (!v->back || is_last(e, v->segment));
}

static hil_status prefetch_inputs(hil_engine *e, const hil_visit *v)
{
    HIL_TRY(list_reads(e, v));
    for (size_t i = 0; i < e->reads_count; ++i)
        HIL_TRY(hil_boundaries_prefetch(&e->boundaries, v->slot, e->reads[i]));
    return HIL_OK;
}

hil_status hil_visit_prefetch(hil_engine *e, const hil_visit *v)
{
    hil_visit reference;
    if (find_reference(e, v, &reference)) HIL_TRY(prefetch_inputs(e, &reference));
    HIL_TRY(prefetch_inputs(e, v));
    if (!v->back) return HIL_OK;
    hil_tape *tape = *held_at(e, v->slot, v->segment);
    if (tape) HIL_TRY(hil_tape_prefetch(tape));
    const hil_outputs *out = hil_boundaries_at(&e->boundaries, v->slot, v->segment);
    for (int i = 0; i < out->count; ++i)
        HIL_TRY(hil_boundaries_gradient_prefetch(&e->boundaries, v->slot,
                                                 v->segment * HIL_VALUES_MAX + i));
    return HIL_OK;
}

/* Offloads memory and gradients of a visit's inputs, and the memory of its outputs, except what the
   next visit reads. */
static hil_status offload(hil_engine *e, const hil_tape *tape)
{
    if (!e->has_next) return HIL_OK;
    const hil_visit *next = &e->next;
    int64_t slot = tape->micro_index;
    bool same = next->slot == slot;
    HIL_TRY(list_reads(e, next));
    const hil_outputs *out = hil_boundaries_at(&e->boundaries, slot, tape->segment);
    size_t read = same ? e->reads_count : 0, listed = e->reads_count;
    for (const hil_value *v = tape->values; v; v = v->next) {
        if (v->boundary < 0) continue;
        HIL_TRY(add_read(e, hil_boundaries_find(&e->boundaries, slot, v->boundary)->root));
        if (!same || !next->back || next->segment != v->boundary / HIL_VALUES_MAX)
            HIL_TRY(hil_boundaries_gradient_offload(&e->boundaries, slot, v->boundary));
    }
    for (int i = 0; i < out->count; ++i) HIL_TRY(add_read(e, out->value[i].root));
    for (size_t i = listed; i < e->reads_count; ++i) {
        bool needed = false;
        for (size_t k = 0; k < read; ++k) needed |= e->reads[k] == e->reads[i];
        if (!needed) HIL_TRY(hil_boundaries_offload(&e->boundaries, slot, e->reads[i]));
    }
    return HIL_OK;
}

/* Runs a segment for a micro-batch; keeps its tape in e->held. `out`: its outputs on the tape.
   Losses are added to *loss, unless that is NULL. */
static hil_status run_segment(hil_engine *e, const hil_micro *micro, const hil_visit *v,
                              bool differentiate, double *loss, hil_values *out)
{
    int s = v->segment;
    hil_tape *tape;
    HIL_TRY(take_tape(e, &tape));
    *held_at(e, v->slot, s) = tape;
    HIL_TRY(hil_tape_begin(tape, &e->context, micro, s, differentiate));
    tape->micro_index = (int)v->slot;
    tape->loss = loss;
    tape->again = v->back && !is_last(e, s);
    hil_values in = {0};
    *out = (hil_values){0};
    if (s > 0) {
        const hil_outputs *from = hil_boundaries_at(&e->boundaries, v->slot, s - 1);
        for (int i = 0; i < from->count; ++i) {
            hil_value *x;
            HIL_TRY(borrow_boundary(tape, s - 1, i, &x));
            HIL_TRY(hil_values_set(&in, from->value[i].name, x));
        }
    }
    HIL_TRY(e->model->segments[s].run(tape, e->model->segments[s].layer, &in, out));
    for (int i = 0; i < out->count; ++i) tape->out[i] = out->value[i];
    return HIL_OK;
}

static void drop_tape(hil_engine *e, const hil_visit *v)
{
    give_tape(e, *held_at(e, v->slot, v->segment));
    *held_at(e, v->slot, v->segment) = NULL;
}

static bool is_output(const hil_outputs *out, int root)
{
    for (int i = 0; i < out->count; ++i)
        if (out->value[i].root == root) return true;
    return false;
}

/* Whether a segment after the visit's reads a value whose memory `root` owns. */
static bool is_read_later(const hil_engine *e, const hil_visit *v, int root)
{
    for (int s = root / HIL_VALUES_MAX; s <= v->segment; ++s) {
        const hil_outputs *out = hil_boundaries_at(&e->boundaries, v->slot, s);
        for (int i = 0; i < out->count; ++i)
            if (out->value[i].root == root &&
                e->model->last_reader[s * HIL_VALUES_MAX + i] > v->segment)
                return true;
    }
    return false;
}

/* Frees the inputs of a forward visit without backward, except those that its segment outputs
   unchanged or that later segments may read. */
static void drop_inputs(hil_engine *e, const hil_visit *v)
{
    const hil_outputs *out = hil_boundaries_at(&e->boundaries, v->slot, v->segment);
    for (int s = 0; s < v->segment && !e->model->branches; ++s) {
        const hil_outputs *in = hil_boundaries_at(&e->boundaries, v->slot, s);
        for (int i = 0; i < in->count; ++i) {
            const hil_boundary *b = &in->value[i];
            bool there = b->memory.data || b->memory.stored;
            if (there && !is_output(out, b->root) && !is_read_later(e, v, b->root))
                hil_boundaries_drop(&e->boundaries, v->slot, b->root);
        }
    }
}

void hil_visit_reference_end(hil_engine *e)
{
    if (e->context.reference) hil_buffers_give(e->buffers, e->context.reference);
    e->context.reference = NULL;
}

/* Runs the segment without adapters; `v` is the visit that find_reference found. */
static hil_status forward_reference(hil_engine *e, const hil_micro *micro, const hil_visit *v)
{
    hil_values out;
    size_t bytes = (size_t)(micro->sequences * micro->length) * sizeof(float);
    if (is_last(e, v->segment)) HIL_TRY(hil_buffers_take(e->buffers, bytes, &e->context.reference));
    HIL_TRY(hil_spans_begin(&e->spans));
    HIL_TRY(run_segment(e, micro, v, false, NULL, &out));
    HIL_TRY(end_span(e, v->segment, "reference"));
    hil_tape *tape = *held_at(e, v->slot, v->segment);
    hil_tape_trim(tape, &out);
    HIL_TRY(hil_boundaries_keep(&e->boundaries, tape, &out));
    drop_inputs(e, v);
    HIL_TRY(offload(e, tape));
    drop_tape(e, v);
    for (int s = 0; s <= v->segment && is_last(e, v->segment); ++s) hil_visit_clear(e, v->slot, s);
    return HIL_OK;
}

/* See [Note: reference]. */
static hil_status run_reference(hil_engine *e, const hil_micro *micro, const hil_visit *v)
{
    hil_visit reference, next = e->next;
    bool training = e->context.training, has_next = e->has_next;
    if (!find_reference(e, v, &reference)) return HIL_OK;
    e->has_next = has_next && find_reference(e, &next, &e->next);
    e->context.training = false;
    e->context.without_adapter = true;
    hil_status status = forward_reference(e, micro, &reference);
    e->context.without_adapter = false;
    e->context.training = training;
    e->has_next = has_next;
    e->next = next;
    return status;
}

hil_status hil_visit_forward(hil_engine *e, const hil_micro *micro, const hil_visit *v,
                             hil_keep what, double *loss)
{
    hil_values out;
    HIL_TRY(run_reference(e, micro, v));
    HIL_TRY(hil_spans_begin(&e->spans));
    HIL_TRY(run_segment(e, micro, v, what != HIL_KEEP_NOTHING, loss, &out));
    HIL_TRY(end_span(e, v->segment, "forward"));
    hil_visit_reference_end(e);
    hil_tape *tape = *held_at(e, v->slot, v->segment);
    tape->lean = what == HIL_KEEP_LEAN;
    tape->thin = e->place[v->segment].thin;
    hil_tape_trim(tape, &out);
    HIL_TRY(hil_boundaries_keep(&e->boundaries, tape, &out));
    if (!e->context.training) drop_inputs(e, v);
    HIL_TRY(offload(e, tape));
    hil_tier tier = e->place[v->segment].tapes;
    if (what == HIL_KEEP_NOTHING || !tape->wants)
        drop_tape(e, v);
    else if (tier != HIL_DEVICE)
        HIL_TRY(hil_tape_offload(tape, tier));
    return HIL_OK;
}

/* Frees the outputs of segment s that only its own tape could still read, and does not. */
static void drop_outputs(hil_engine *e, int64_t slot, int s)
{
    const hil_tape *tape = *held_at(e, slot, s);
    const hil_outputs *out = hil_boundaries_at(&e->boundaries, slot, s);
    for (int i = 0; i < out->count; ++i)
        if (!tape || !tape->out[i]->root->kept)
            hil_boundaries_drop(&e->boundaries, slot, s * HIL_VALUES_MAX + i);
}

/* Adds the gradients of a tape's inputs to those of the boundary values. */
static hil_status return_gradients(hil_engine *e, hil_tape *tape)
{
    for (hil_value *v = tape->values; v; v = v->next) {
        if (v->boundary < 0) continue;
        void *data;
        HIL_TRY(hil_tape_take_gradient(tape, v, &data));
        if (data)
            HIL_TRY(hil_boundaries_gradient_add(&e->boundaries, tape->micro_index, v->boundary,
                                                &e->context, data));
    }
    return HIL_OK;
}

/* Waits for what a kept tape reads, and sets the addresses to which it was fetched. */
static hil_status update_addresses(hil_engine *e, hil_tape *tape)
{
    int64_t slot = tape->micro_index;
    HIL_TRY(hil_tape_restore(tape));
    for (hil_value *v = tape->values; v; v = v->next) {
        if (v->boundary < 0 || !v->kept) continue;
        int root = hil_boundaries_find(&e->boundaries, slot, v->boundary)->root;
        void *data;
        if (root < 0) continue;
        HIL_TRY(hil_boundaries_wait(&e->boundaries, slot, root, &data));
        hil_tape_show(tape, v, data);
    }
    const hil_outputs *out = hil_boundaries_at(&e->boundaries, slot, tape->segment);
    for (int i = 0; i < out->count; ++i) {
        int number = tape->segment * HIL_VALUES_MAX + i;
        void *data;
        if (out->value[i].root != number || !tape->out[i]->root->kept) continue;
        HIL_TRY(hil_boundaries_take(&e->boundaries, slot, number, &data));
        hil_tape_show(tape, tape->out[i]->root, data);
        hil_tape_return_memory(tape->out[i], data);
    }
    return HIL_OK;
}

/* Makes the tape ready for backward: the one that forward kept, or recomputed. */
static hil_status prepare_tape(hil_engine *e, const hil_micro *micro, const hil_visit *v,
                               double *loss)
{
    bool last = is_last(e, v->segment);
    if (*held_at(e, v->slot, v->segment))
        return update_addresses(e, *held_at(e, v->slot, v->segment));
    hil_values none;
    HIL_TRY(run_reference(e, micro, v));
    HIL_TRY(hil_spans_begin(&e->spans));
    HIL_TRY(run_segment(e, micro, v, true, last ? loss : NULL, &none));
    HIL_TRY(end_span(e, v->segment, last ? "forward" : "recompute"));
    hil_visit_reference_end(e);
    hil_tape_trim(*held_at(e, v->slot, v->segment), NULL);
    return HIL_OK;
}

static hil_status seed_tape(hil_engine *e, hil_tape *tape)
{
    int64_t slot = tape->micro_index;
    const hil_outputs *out = hil_boundaries_at(&e->boundaries, slot, tape->segment);
    for (int i = 0; i < out->count; ++i) {
        void *gradient;
        HIL_TRY(hil_boundaries_gradient_take(&e->boundaries, slot,
                                             tape->segment * HIL_VALUES_MAX + i, &gradient));
        if (gradient) HIL_TRY(hil_tape_seed(tape, tape->out[i], gradient));
    }
    return HIL_OK;
}

hil_status hil_visit_backward(hil_engine *e, const hil_micro *micro, const hil_visit *v,
                              double *loss)
{
    int s = v->segment;
    hil_tape *tape = NULL;
    if (!has_no_backward(e, v)) {
        HIL_TRY(prepare_tape(e, micro, v, loss));
        tape = *held_at(e, v->slot, s);
        HIL_TRY(seed_tape(e, tape));
        HIL_TRY(hil_spans_begin(&e->spans));
        HIL_TRY(hil_tape_backward(tape));
        HIL_TRY(return_gradients(e, tape));
        HIL_TRY(end_span(e, s, "backward"));
    }
    hil_boundaries_clear(&e->boundaries, v->slot, s);
    if (s > 0) drop_outputs(e, v->slot, s - 1);
    if (tape) HIL_TRY(offload(e, tape));
    drop_tape(e, v);
    return HIL_OK;
}

/* Outputs that own their memory. */
static uint64_t output_bytes(const hil_outputs *out, int segment)
{
    uint64_t bytes = 0;
    for (int i = 0; i < out->count; ++i)
        if (out->value[i].root == segment * HIL_VALUES_MAX + i)
            bytes += hil_tensor_bytes(&out->value[i].tensor);
    return bytes;
}

void hil_visit_kept(hil_engine *e, int64_t count, uint64_t kept[HIL_TIERS])
{
    memset(kept, 0, HIL_TIERS * sizeof *kept);
    for (int64_t slot = 0; slot < count; ++slot)
        for (int s = 1; s + 1 < (int)e->model->count; ++s) {
            const hil_tape *tape = *held_at(e, slot, s);
            kept[e->place[s].tier] += output_bytes(hil_boundaries_at(&e->boundaries, slot, s), s);
            if (tape) kept[e->place[s].tapes] += hil_tape_kept(tape);
        }
}

void hil_visit_clear(hil_engine *e, int64_t slot, int segment)
{
    drop_tape(e, &(hil_visit){.slot = slot, .segment = segment});
    hil_boundaries_clear(&e->boundaries, slot, segment);
}
