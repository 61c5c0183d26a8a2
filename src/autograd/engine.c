/* engine.c - segments and micro-batches in order; what is kept between them. */
#include "autograd/engine.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

/* A value that leaves a segment, numbered by where it came from: segment * HIL_VALUES_MAX + place.
   Its memory lives until the last segment that reads it is done. */
typedef struct boundary {
    const char *name;
    hil_tensor tensor;
    int root;       /* number of the one whose memory this one shows; -1: the batch's */
    bool wants;     /* a gradient */
    void *memory;   /* owned, where it is its own root */
    void *gradient; /* owned; what later segments have sent back so far */
} boundary;

typedef struct outputs {
    int count;
    bool wants; /* the segment takes part in backward */
    boundary value[HIL_VALUES_MAX];
} outputs;

struct hil_engine {
    hil_model *model;
    hil_engine_options options;
    hil_segment_place *place; /* of each segment */
    hil_buffers *buffers;
    hil_context context;
    hil_cache cache;
    outputs *bounds; /* [micro in group][segment] */
    int64_t bounds_room;
    hil_tape **held; /* [micro in group][segment]: tapes that wait for their backward */
    hil_tape *idle;
    double *losses; /* of the step's micro-batches */
    size_t losses_room;
    bool reads_earlier; /* some segment reads more than its predecessor's values */
    hil_timeline *timeline;
};

/* Ends a span of computing on the timeline. */
static void mark(hil_engine *e, int segment, const char *what, double began)
{
    char name[64];
    if (!e->timeline) return;
    snprintf(name, sizeof name, "%s %s", e->model->segments[segment].name, what);
    hil_timeline_add(e->timeline, HIL_TRACK_COMPUTE, name, began, hil_clock_now(), 0);
}

static outputs *bounds_at(hil_engine *e, int64_t slot, int segment)
{
    return &e->bounds[slot * (int64_t)e->model->count + segment];
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

static boundary *boundary_at(hil_engine *e, int64_t slot, int number)
{
    return &bounds_at(e, slot, number / HIL_VALUES_MAX)->value[number % HIL_VALUES_MAX];
}

static hil_status borrow_boundary(hil_tape *tape, int segment, int place, hil_value **out)
{
    hil_engine *e = tape->owner;
    int number = segment * HIL_VALUES_MAX + place;
    for (hil_value *v = tape->values; v; v = v->next)
        if (v->boundary == number) {
            *out = v;
            return HIL_OK;
        }
    boundary *b = boundary_at(e, tape->micro_index, number);
    HIL_TRY(hil_tape_borrow(tape, &b->tensor, b->wants, out));
    (*out)->boundary = number;
    return HIL_OK;
}

static hil_status earlier(hil_tape *tape, const char *segment, const char *name, hil_value **out)
{
    hil_engine *e = tape->owner;
    e->reads_earlier = true;
    for (int s = 0; s < tape->segment; ++s) {
        if (strcmp(e->model->segments[s].name, segment) != 0) continue;
        outputs *from = bounds_at(e, tape->micro_index, s);
        for (int i = 0; i < from->count; ++i)
            if (strcmp(from->value[i].name, name) == 0) return borrow_boundary(tape, s, i, out);
    }
    return hil_fail(HIL_ERR_USAGE, "no earlier segment %s gives out \"%s\"", segment, name);
}

/* Whose memory output i shows. */
static int root_of(hil_engine *e, const hil_tape *tape, const hil_values *out, int i)
{
    const hil_value *root = out->value[i]->root;
    if (root->owned) return tape->segment * HIL_VALUES_MAX + i;
    for (int j = 0; j < i; ++j)
        if (out->value[j]->root == root)
            return bounds_at(e, tape->micro_index, tape->segment)->value[j].root;
    return root->boundary < 0 ? -1 : boundary_at(e, tape->micro_index, root->boundary)->root;
}

/* Keeps what the segment gave out. The memory of a value that merely passes through stays where it
   came from. */
static void keep_outputs(hil_engine *e, const hil_tape *tape, const hil_values *out)
{
    outputs *kept = bounds_at(e, tape->micro_index, tape->segment);
    kept->count = out->count;
    kept->wants = tape->wants;
    for (int i = 0; i < out->count; ++i) {
        hil_value *v = out->value[i];
        boundary *b = &kept->value[i];
        *b = (boundary){.name = out->name[i],
                        .tensor = v->tensor,
                        .root = root_of(e, tape, out, i),
                        .wants = v->root->wants && v->tensor.dtype != HIL_I32};
        b->memory = hil_tape_take_memory(v);
    }
}

/* Runs segment s for the micro-batch in `slot`; `out` are its values on the tape, which is held. */
static hil_status run_segment(hil_engine *e, const hil_micro *micro, int64_t slot, int s,
                              bool differentiate, hil_values *out)
{
    hil_tape *tape;
    HIL_TRY(take_tape(e, &tape));
    *held_at(e, slot, s) = tape;
    HIL_TRY(hil_tape_begin(tape, &e->context, micro, s, differentiate));
    tape->micro_index = (int)slot;
    hil_values in = {0};
    *out = (hil_values){0};
    if (s > 0) {
        outputs *from = bounds_at(e, slot, s - 1);
        for (int i = 0; i < from->count; ++i) {
            hil_value *v;
            HIL_TRY(borrow_boundary(tape, s - 1, i, &v));
            HIL_TRY(hil_values_set(&in, from->value[i].name, v));
        }
    }
    HIL_TRY(e->model->segments[s].run(tape, e->model->segments[s].layer, &in, out));
    for (int i = 0; i < out->count; ++i) tape->out[i] = out->value[i];
    return HIL_OK;
}

static void drop_tape(hil_engine *e, int64_t slot, int s)
{
    give_tape(e, *held_at(e, slot, s));
    *held_at(e, slot, s) = NULL;
}

typedef enum keep { KEEP_NOTHING, KEEP_TAPE } keep;

static hil_status forward(hil_engine *e, const hil_micro *micro, int64_t slot, int s, keep what,
                          double *loss)
{
    hil_values out;
    double began = hil_clock_now();
    HIL_TRY(run_segment(e, micro, slot, s, what == KEEP_TAPE, &out));
    mark(e, s, "forward", began);
    hil_tape *tape = *held_at(e, slot, s);
    hil_tape_settle(tape, &out);
    *loss += tape->loss;
    keep_outputs(e, tape, &out);
    if (what == KEEP_NOTHING || !tape->wants) drop_tape(e, slot, s);
    return HIL_OK;
}

static void drop_memory(hil_engine *e, boundary *b)
{
    hil_buffers_give(e->buffers, b->memory);
    b->memory = NULL;
}

static void drop_outputs(hil_engine *e, outputs *kept)
{
    for (int i = 0; i < kept->count; ++i) {
        drop_memory(e, &kept->value[i]);
        hil_buffers_give(e->buffers, kept->value[i].gradient);
    }
    kept->count = 0;
}

/* All readers but the tape that made them are done with the outputs of segment s. */
static void drop_read(hil_engine *e, int64_t slot, int s)
{
    const hil_tape *tape = *held_at(e, slot, s);
    outputs *out = bounds_at(e, slot, s);
    for (int i = 0; i < out->count; ++i)
        if (!tape || !tape->out[i]->root->kept) drop_memory(e, &out->value[i]);
}

/* Adds what came back on a tape's inputs to the gradients of the values they came from. */
static hil_status send_back(hil_engine *e, hil_tape *tape)
{
    for (hil_value *v = tape->values; v; v = v->next) {
        if (v->boundary < 0) continue;
        boundary *to = boundary_at(e, tape->micro_index, v->boundary);
        void *data;
        HIL_TRY(hil_tape_take_gradient(tape, v, &data));
        if (!data) continue;
        if (!to->gradient) {
            to->gradient = data;
            continue;
        }
        hil_tape_add(e->context.pool, &to->tensor, to->gradient, data);
        hil_buffers_give(e->buffers, data);
    }
    return HIL_OK;
}

/* A tape whose backward can run: the one of forward, or made again. */
static hil_status ready_tape(hil_engine *e, const hil_micro *micro, int64_t slot, int s,
                             double *loss)
{
    outputs *out = bounds_at(e, slot, s);
    hil_tape *tape = *held_at(e, slot, s);
    if (!tape) {
        hil_values none;
        double began = hil_clock_now();
        HIL_TRY(run_segment(e, micro, slot, s, true, &none));
        mark(e, s, s + 1 == (int)e->model->count ? "forward" : "recompute", began);
        tape = *held_at(e, slot, s);
        hil_tape_settle(tape, NULL);
        *loss += tape->loss;
        return HIL_OK;
    }
    for (int i = 0; i < out->count; ++i) {
        boundary *b = &out->value[i];
        if (b->memory) hil_tape_return_memory(tape->out[i], b->memory);
        b->memory = NULL;
    }
    return HIL_OK;
}

static hil_status backward(hil_engine *e, const hil_micro *micro, int64_t slot, int s, double *loss)
{
    bool last = s + 1 == (int)e->model->count;
    outputs *out = bounds_at(e, slot, s);
    if (last || out->wants) {
        double again = 0;
        HIL_TRY(ready_tape(e, micro, slot, s, last ? loss : &again));
        hil_tape *tape = *held_at(e, slot, s);
        for (int i = 0; i < out->count; ++i) {
            void *gradient = out->value[i].gradient;
            out->value[i].gradient = NULL;
            if (gradient) HIL_TRY(hil_tape_seed(tape, tape->out[i], gradient));
        }
        double began = hil_clock_now();
        HIL_TRY(hil_tape_backward(tape));
        HIL_TRY(send_back(e, tape));
        mark(e, s, "backward", began);
        drop_tape(e, slot, s);
    }
    drop_outputs(e, out);
    if (s > 0) drop_read(e, slot, s - 1);
    return HIL_OK;
}

static hil_status make_room(hil_engine *e, int64_t slots)
{
    if (slots <= e->bounds_room) return HIL_OK;
    size_t need = (size_t)slots * e->model->count;
    hil_free(e->bounds);
    hil_free(e->held);
    e->bounds = NULL;
    e->held = NULL;
    e->bounds_room = 0;
    HIL_TRY(HIL_ALLOC(need, &e->bounds));
    HIL_TRY(HIL_ALLOC(need, &e->held));
    e->bounds_room = slots;
    return HIL_OK;
}

/* After a failure in the middle of a pass: all memory goes back. */
static void clear(hil_engine *e)
{
    for (int64_t slot = 0; slot < e->bounds_room; ++slot)
        for (int s = 0; s < (int)e->model->count; ++s) {
            drop_tape(e, slot, s);
            drop_outputs(e, bounds_at(e, slot, s));
        }
}

/* The last segment runs once, in backward: nothing waits for its outputs. */
static hil_status train_group(hil_engine *e, const hil_micro *micro, int64_t count, bool last,
                              double *loss)
{
    int segments = (int)e->model->count;
    hil_store *store = e->model->store;
    for (int s = 0; s + 1 < segments; ++s)
        for (int64_t m = 0; m < count; ++m) {
            keep what = m < e->place[s].keep ? KEEP_TAPE : KEEP_NOTHING;
            HIL_TRY(hil_store_pass_mark(store));
            HIL_TRY(forward(e, &micro[m], m, s, what, &loss[m]));
        }
    for (int s = segments - 1; s >= 0; --s) {
        for (int64_t m = 0; m < count; ++m) {
            HIL_TRY(hil_store_pass_mark(store));
            HIL_TRY(backward(e, &micro[m], m, s, &loss[m]));
        }
        HIL_TRY(hil_store_pass_mark(store));
        if (last) HIL_TRY(hil_store_give_gradients(store, s));
    }
    return HIL_OK;
}

hil_status hil_engine_train(hil_engine *e, const hil_step *step, double *loss)
{
    int64_t group = e->options.group ? e->options.group : step->count;
    if (group > step->count) group = step->count;
    e->context.mode = HIL_MODE_LOSS;
    e->context.training = true;
    e->context.seed = step->seed;
    e->context.step = step->step;
    e->context.loss_scale = step->scale;
    HIL_TRY(make_room(e, group));
    HIL_TRY(HIL_GROW(&e->losses, &e->losses_room, step->count));
    memset(e->losses, 0, (size_t)step->count * sizeof *e->losses);
    hil_status status = HIL_OK;
    HIL_TRY_DONE(hil_store_pass_begin(e->model->store, HIL_PASS_TRAIN));
    for (int64_t at = 0; at < step->count; at += group) {
        int64_t count = step->count - at < group ? step->count - at : group;
        bool last = at + count == step->count;
        HIL_TRY_DONE(train_group(e, step->micro + at, count, last, e->losses + at));
    }
    HIL_TRY_DONE(hil_store_pass_end(e->model->store));
    *loss = 0;
    for (int64_t m = 0; m < step->count; ++m) *loss += e->losses[m];
done:
    if (status != HIL_OK) clear(e);
    if (status != HIL_OK) hil_store_pass_drop(e->model->store);
    return status;
}

static bool is_shown(hil_engine *e, int s, int root)
{
    const outputs *out = bounds_at(e, 0, s);
    for (int i = 0; i < out->count; ++i)
        if (out->value[i].root == root) return true;
    return false;
}

/* Segment s has read its inputs: what it does not hand on goes. */
static void release_passed(hil_engine *e, int s)
{
    if (e->reads_earlier || s == 0) return;
    outputs *in = bounds_at(e, 0, s - 1);
    for (int i = 0; i < in->count; ++i) {
        int root = in->value[i].root;
        if (root >= 0 && !is_shown(e, s, root)) drop_memory(e, boundary_at(e, 0, root));
    }
}

/* One micro-batch through all segments without gradients. */
static hil_status forward_only(hil_engine *e, const hil_micro *micro, hil_mode mode, double *loss)
{
    e->context.mode = mode;
    e->context.training = false;
    HIL_TRY(make_room(e, 1));
    hil_store *store = mode == HIL_MODE_TRACE ? NULL : e->model->store; /* uses are only declared */
    hil_status status = HIL_OK;
    hil_pass pass = mode == HIL_MODE_GENERATE ? HIL_PASS_GENERATE : HIL_PASS_LOSS;
    if (store) HIL_TRY_DONE(hil_store_pass_begin(store, pass));
    for (int s = 0; s < (int)e->model->count; ++s) {
        if (store) HIL_TRY_DONE(hil_store_pass_mark(store));
        HIL_TRY_DONE(forward(e, micro, 0, s, KEEP_NOTHING, loss));
        release_passed(e, s);
    }
    if (store) HIL_TRY_DONE(hil_store_pass_end(store));
done:
    if (status != HIL_OK && store) hil_store_pass_drop(store);
    clear(e);
    return status;
}

hil_status hil_engine_loss(hil_engine *e, const hil_micro *micro, double *loss)
{
    *loss = 0;
    return forward_only(e, micro, HIL_MODE_LOSS, loss);
}

hil_status hil_engine_logits(hil_engine *e, const hil_micro *micro, float *logits)
{
    double none = 0;
    e->context.logits = logits;
    return forward_only(e, micro, HIL_MODE_LOGITS, &none);
}

#define CACHE_SLOTS 16384

hil_status hil_engine_cache_begin(hil_engine *e, int64_t positions)
{
    hil_engine_cache_end(e);
    e->cache.positions = positions;
    e->cache.capacity = CACHE_SLOTS;
    HIL_TRY(HIL_ALLOC(CACHE_SLOTS, &e->cache.k));
    return HIL_ALLOC(CACHE_SLOTS, &e->cache.v);
}

hil_status hil_engine_extend(hil_engine *e, const hil_micro *micro, float *logits)
{
    double none = 0;
    e->context.cache = &e->cache;
    e->context.logits = logits;
    e->cache.next = 0;
    HIL_TRY(forward_only(e, micro, HIL_MODE_GENERATE, &none));
    e->cache.length += micro->length;
    return HIL_OK;
}

void hil_engine_cache_end(hil_engine *e)
{
    for (size_t i = 0; i < e->cache.count; ++i) {
        hil_buffers_give(e->buffers, e->cache.k[i]);
        hil_buffers_give(e->buffers, e->cache.v[i]);
    }
    hil_free(e->cache.k);
    hil_free(e->cache.v);
    e->cache = (hil_cache){0};
}

void hil_engine_set_timeline(hil_engine *e, hil_timeline *timeline)
{
    e->timeline = timeline;
}

uint64_t hil_engine_peak(const hil_engine *e)
{
    return hil_buffers_peak(e->buffers);
}

int64_t hil_engine_vocab(const hil_engine *e)
{
    return e->context.vocab;
}

hil_status hil_engine_create(hil_engine **out, hil_model *model, const hil_engine_options *options)
{
    *out = NULL;
    if (model->count == 0) return hil_fail(HIL_ERR_USAGE, "the model has no segments");
    hil_engine *e;
    HIL_TRY(HIL_ALLOC(1, &e));
    e->model = model;
    e->options = *options;
    e->options.segment = NULL;
    hil_status status = HIL_OK;
    HIL_TRY_DONE(HIL_ALLOC(model->count, &e->place));
    for (size_t s = 0; s < model->count; ++s)
        e->place[s] =
            options->segment ? options->segment[s] : (hil_segment_place){INT64_MAX, HIL_DEVICE};
    HIL_TRY_DONE(hil_buffers_create(&e->buffers, options->tiers, options->work));
    e->context = (hil_context){
        .pool = options->pool,
        .store = model->store,
        .buffers = e->buffers,
        .compute = options->compute,
        .earlier = earlier,
    };
    double none = 0;
    hil_micro shapes = {.sequences = 1, .length = 2};
    HIL_TRY_DONE(forward_only(e, &shapes, HIL_MODE_TRACE, &none));
    *out = e;
    e = NULL;
done:
    hil_engine_destroy(e);
    return status;
}

void hil_engine_destroy(hil_engine *e)
{
    if (!e) return;
    if (e->buffers) {
        clear(e);
        hil_engine_cache_end(e);
    }
    while (e->idle) {
        hil_tape *next = e->idle->next;
        hil_tape_free(e->idle);
        hil_free(e->idle);
        e->idle = next;
    }
    hil_buffers_destroy(e->buffers);
    hil_free(e->place);
    hil_free(e->bounds);
    hil_free(e->held);
    hil_free(e->losses);
    hil_free(e);
}
