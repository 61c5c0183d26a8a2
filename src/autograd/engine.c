/* engine.c - runs segments and micro-batches in the order of the plan. */
#include "autograd/engine.h"

#include "autograd/visit.h"
#include "base/alloc.h"
#include "io/align.h"
#include "store/pass.h"

#include <string.h>

static hil_status make_room(hil_engine *e, int64_t group)
{
    int64_t slots = hil_reference_runs(&e->options.preference) ? 2 * group : group;
    if (slots <= e->held_slots) return HIL_OK;
    hil_free(e->held);
    e->held = NULL;
    e->held_slots = 0;
    HIL_TRY(hil_boundaries_reserve(&e->boundaries, slots));
    HIL_TRY(HIL_ALLOC((size_t)slots * e->model->count, &e->held));
    e->held_slots = slots;
    return HIL_OK;
}

/* Frees all tensors at the end of a pass, or after a failure in it. */
static void clear(hil_engine *e)
{
    e->has_next = false;
    hil_visit_reference_end(e);
    for (int64_t slot = 0; slot < e->held_slots; ++slot)
        for (int s = 0; s < (int)e->model->count; ++s) hil_visit_clear(e, slot, s);
    if (e->offload) hil_offload_reclaim(e->offload);
}

static hil_status enter(hil_engine *e, const hil_visit *v)
{
    const hil_segment_visit visit = {.segment = v->segment,
                                     .direction = v->back ? HIL_BACKWARD : HIL_FORWARD,
                                     .name = e->model->segments[v->segment].name};
    if (e->context.training)
        hil_comm_set_activity(e->options.comm, "step %lld, %s through %s",
                              (long long)e->context.step, v->back ? "backward" : "forward",
                              visit.name);
    return hil_store_pass_enter(e->model->store, &visit);
}

/* Called when all segments but the last have run forward. */
static void note_kept(hil_engine *e, int64_t count)
{
    uint64_t now[HIL_TIERS];
    if (!e->options.speeds) return;
    hil_visit_kept(e, count, now);
    for (int t = 0; t < HIL_TIERS; ++t)
        if (now[t] > e->kept[t]) e->kept[t] = now[t];
}

void hil_engine_kept(const hil_engine *e, uint64_t kept[HIL_TIERS])
{
    memcpy(kept, e->kept, sizeof e->kept);
}

#define AHEAD 2 /* visits to prefetch for */

static hil_status train_group(hil_engine *e, const hil_micro *micro, int64_t count, bool last,
                              double *loss)
{
    hil_store *store = e->model->store;
    size_t segments = e->model->count;
    int64_t visits = (2 * (int64_t)segments - 1) * count;
    for (int64_t i = 0; i < visits; ++i) {
        hil_visit v = hil_visit_at(segments, count, i);
        int64_t m = v.slot;
        e->has_next = i + 1 < visits;
        if (e->has_next) e->next = hil_visit_at(segments, count, i + 1);
        ++e->visits;
        if (i == ((int64_t)segments - 1) * count) note_kept(e, count);
        hil_offload_turn(e->offload);
        HIL_TRY(enter(e, &v));
        HIL_TRY(hil_visit_prefetch(e, &v));
        for (int64_t k = i + 1; k <= i + AHEAD && k < visits && e->options.prefetch; ++k) {
            hil_visit later = hil_visit_at(segments, count, k);
            HIL_TRY(hil_visit_prefetch(e, &later));
        }
        e->context.last = last && m + 1 == count;
        if (v.back) {
            HIL_TRY(hil_visit_backward(e, &micro[m], &v, &loss[m * HIL_PREFERENCES]));
            if (m + 1 < count) continue;
            HIL_TRY(hil_store_pass_exit(store));
            if (last) HIL_TRY(hil_store_give_gradients(store, v.segment));
        } else {
            hil_keep keep = hil_visit_keep(&e->place[v.segment], m, count);
            HIL_TRY(hil_visit_forward(e, &micro[m], &v, keep, &loss[m * HIL_PREFERENCES]));
        }
    }
    hil_offload_reclaim(e->offload);
    return HIL_OK;
}

/* Ends a training pass, also after a failure. */
static void end_training(hil_engine *e, hil_status status)
{
    hil_batch_input_end(&e->input);
    hil_spans_flush(&e->spans);
    if (status == HIL_OK) return;
    clear(e);
    hil_store_pass_drop(e->model->store);
}

static hil_status renew(hil_engine *e, bool *again)
{
    hil_store *store = e->model->store;
    HIL_TRY(hil_store_pass_renew(store));
    if (e->options.renewed) HIL_TRY(e->options.renewed(e->options.context, again));
    return hil_store_pass_resume(store, *again);
}

hil_status hil_engine_begin(hil_engine *e, const hil_step *step)
{
    int64_t group = e->options.group ? e->options.group : step->count;
    if (group > step->count) group = step->count;
    e->context.mode = HIL_MODE_LOSS;
    e->context.training = true;
    e->context.seed = step->seed;
    e->context.step = step->step;
    e->context.loss_scale = step->scale;
    e->context.token_weight = step->token_weight;
    e->visits = 0;
    hil_status status;
    HIL_TRY_DONE(make_room(e, group));
    HIL_TRY_DONE(hil_batch_input_begin(&e->input, step->micro, step->count));
    hil_store_set_tokens(e->model->store, step->micro->sequences * step->micro->length);
    HIL_TRY_DONE(hil_store_pass_begin(e->model->store, HIL_PASS_TRAIN));
    int64_t since = 0; /* micro-batches since the last renewal */
    for (int64_t at = 0; at < step->count; at += group) {
        int64_t count = step->count - at < group ? step->count - at : group;
        bool last = at + count == step->count;
        HIL_TRY_DONE(
            train_group(e, e->input.micro + at, count, last, e->input.loss + at * HIL_PREFERENCES));
        since += count;
        if (last || since < hil_engine_period(e->model->count)) continue;
        bool again = false;
        HIL_TRY_DONE(renew(e, &again));
        if (again) at -= since;
        since = 0;
    }
    HIL_TRY_DONE(hil_store_pass_end(e->model->store));
done:
    if (status != HIL_OK) end_training(e, status);
    return status;
}

/* Adds up the numbers of the pass's micro-batches, once they are computed. */
static void add_up(hil_engine *e)
{
    memset(e->sum, 0, sizeof e->sum);
    for (int64_t i = 0; i < e->input.count * HIL_PREFERENCES; ++i)
        e->sum[i % HIL_PREFERENCES] += e->input.loss[i];
}

void hil_engine_numbers(const hil_engine *e, double out[HIL_PREFERENCES])
{
    memcpy(out, e->sum, sizeof e->sum);
}

void hil_engine_set_kl(hil_engine *e, double kl)
{
    e->context.kl = kl;
}

hil_status hil_engine_wait(hil_engine *e, double *loss)
{
    hil_status status = hil_batch_input_wait(&e->input);
    if (status == HIL_OK) add_up(e);
    *loss = status == HIL_OK ? e->sum[HIL_PREFERENCE_LOSS] : 0;
    end_training(e, status);
    return status;
}

hil_status hil_engine_train(hil_engine *e, const hil_step *step, double *loss)
{
    HIL_TRY(hil_engine_begin(e, step));
    return hil_engine_wait(e, loss);
}

/* One micro-batch through all segments without gradients. */
static hil_status forward_only(hil_engine *e, const hil_micro *micro, hil_mode mode, double *loss)
{
    e->context.mode = mode;
    e->context.training = false;
    hil_store *store =
        mode == HIL_MODE_TRACE ? NULL : e->model->store; /* NULL: no weight is used */
    hil_status status;
    HIL_TRY_DONE(make_room(e, 1));
    hil_pass pass = mode == HIL_MODE_GENERATE ? HIL_PASS_GENERATE : HIL_PASS_LOSS;
    HIL_TRY_DONE(hil_batch_input_begin(&e->input, micro, 1));
    if (store) hil_store_set_tokens(store, micro->sequences * micro->length);
    if (store) HIL_TRY_DONE(hil_store_pass_begin(store, pass));
    for (int s = 0; s < (int)e->model->count; ++s) {
        const hil_visit v = {.segment = s};
        e->has_next = s + 1 < (int)e->model->count;
        e->next = (hil_visit){.segment = s + 1};
        if (e->watch) HIL_TRY_DONE(e->watch(e->watch_context, s, (int)e->model->count));
        if (store) hil_offload_turn(e->offload);
        if (store) HIL_TRY_DONE(enter(e, &v));
        HIL_TRY_DONE(hil_visit_prefetch(e, &v));
        HIL_TRY_DONE(hil_visit_forward(e, e->input.micro, &v, HIL_KEEP_NOTHING, e->input.loss));
    }
    if (store) HIL_TRY_DONE(hil_store_pass_end(store));
    HIL_TRY_DONE(hil_batch_input_wait(&e->input));
    add_up(e);
    *loss = e->sum[HIL_PREFERENCE_LOSS];
done:
    hil_batch_input_end(&e->input);
    hil_spans_flush(&e->spans);
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
    e->context.output = logits;
    return forward_only(e, micro, HIL_MODE_LOGITS, &none);
}

hil_status hil_engine_reference(hil_engine *e, const hil_micro *micro, float *losses)
{
    double none = 0;
    e->context.output = losses;
    e->context.without_adapter = true;
    hil_status status = forward_only(e, micro, HIL_MODE_LOSSES, &none);
    e->context.without_adapter = false;
    return status;
}

#define CACHE_SLOTS 16384

hil_status hil_engine_cache_begin(hil_engine *e, int64_t positions)
{
    hil_engine_cache_end(e);
    e->cache.positions = positions;
    e->cache.capacity = CACHE_SLOTS;
    HIL_TRY(HIL_ALLOC(CACHE_SLOTS, &e->cache.k));
    HIL_TRY(HIL_ALLOC(CACHE_SLOTS, &e->cache.norm));
    for (int i = 0; i < 2; ++i) HIL_TRY(HIL_ALLOC(CACHE_SLOTS, &e->cache.state[i]));
    return HIL_ALLOC(CACHE_SLOTS, &e->cache.v);
}

hil_status hil_engine_extend(hil_engine *e, const hil_micro *micro, float *logits)
{
    double none = 0;
    hil_kv_cache *cache = &e->cache;
    e->context.cache = cache;
    e->context.output = logits;
    cache->next = cache->next_norm = cache->next_state = 0;
    cache->before = -1;
    HIL_TRY(forward_only(e, micro, HIL_MODE_GENERATE, &none));
    cache->before = cache->length;
    cache->length += micro->length;
    cache->turn = !cache->turn;
    return HIL_OK;
}

int64_t hil_engine_cache_cut(hil_engine *e, int64_t length)
{
    hil_kv_cache *cache = &e->cache;
    assert(length >= 0 && length <= cache->length);
    if (cache->states && length < cache->length) {
        bool undo = cache->before >= 0 && cache->before <= length;
        length = undo ? cache->before : 0;
        if (undo) cache->turn = !cache->turn;
        cache->before = -1;
    }
    return cache->length = length;
}

void hil_engine_cache_end(hil_engine *e)
{
    for (size_t i = 0; i < e->cache.count; ++i) {
        hil_buffers_give(e->buffers, e->cache.k[i]);
        hil_buffers_give(e->buffers, e->cache.v[i]);
    }
    for (size_t i = 0; i < e->cache.norms; ++i) hil_buffers_give(e->buffers, e->cache.norm[i]);
    for (int turn = 0; turn < 2; ++turn) {
        for (size_t i = 0; i < e->cache.states; ++i)
            hil_buffers_give(e->buffers, e->cache.state[turn][i]);
        hil_free(e->cache.state[turn]);
    }
    hil_free(e->cache.k);
    hil_free(e->cache.v);
    hil_free(e->cache.norm);
    e->cache = (hil_kv_cache){0};
}

void hil_engine_set_watch(hil_engine *e, hil_engine_watch watch, void *context)
{
    e->watch = watch;
    e->watch_context = context;
}

void hil_engine_set_timeline(hil_engine *e, hil_timeline *timeline)
{
    e->spans.timeline = timeline;
}

size_t hil_engine_expanded(const hil_engine *e)
{
    return hil_align_up(hil_buffers_peak(e->context.kept));
}

size_t hil_engine_work(const hil_engine *e)
{
    return hil_buffers_peak(e->buffers) + hil_engine_expanded(e);
}

size_t hil_engine_offloaded(const hil_engine *e)
{
    return hil_offload_peak(e->offload);
}

int64_t hil_engine_visits(const hil_engine *e)
{
    return e->visits;
}

int64_t hil_engine_vocab(const hil_engine *e)
{
    return e->model->vocab;
}

/* Creates an engine without tensor memory, which is enough for a trace. */
static hil_status begin(hil_engine **out, hil_model *model, const hil_engine_options *options)
{
    if (model->count == 0) return hil_fail(HIL_ERR_USAGE, "the model has no segments");
    HIL_TRY(HIL_ALLOC(1, out));
    hil_engine *e = *out;
    e->model = model;
    e->options = *options;
    e->options.segment = NULL;
    e->context = (hil_context){.pool = options->pool,
                               .model = model,
                               .branches = &model->branches,
                               .store = model->store,
                               .compute = options->compute,
                               .speeds = options->speeds,
                               .share = options->share,
                               .preference = options->preference,
                               .input = &e->input,
                               .spans = &e->spans,
                               .earlier = hil_visit_earlier};
    e->input.pool = options->pool;
    e->input.references = options->preference.precomputed;
    HIL_TRY(HIL_ALLOC(model->count, &e->place));
    for (size_t s = 0; s < model->count; ++s)
        e->place[s] =
            options->segment ? options->segment[s] : (hil_segment_place){.keep = INT64_MAX};
    e->boundaries.segments = (int)model->count;
    e->boundaries.place = e->place;
    return HIL_OK;
}

hil_status hil_engine_trace(hil_model *model, hil_dtype compute)
{
    if (model->traced) return HIL_OK;
    hil_engine *e = NULL;
    double none = 0;
    hil_micro shapes = {.sequences = 1, .length = 2};
    hil_free(model->last_reader); /* of a trace that failed */
    HIL_TRY(HIL_ALLOC(model->count * HIL_VALUES_MAX, &model->last_reader));
    hil_status status = begin(&e, model, &(hil_engine_options){.compute = compute});
    if (status == HIL_OK) status = forward_only(e, &shapes, HIL_MODE_TRACE, &none);
    for (size_t i = 0; i < model->extras && status == HIL_OK; ++i)
        status =
            hil_store_declare_use(model->store, model->extra[i].param, model->extra[i].segment);
    if (status == HIL_OK) {
        model->vocab = e->context.vocab;
        model->traced = true;
    }
    hil_engine_destroy(e);
    return status;
}

hil_status hil_engine_create(hil_engine **out, hil_model *model, const hil_engine_options *options)
{
    *out = NULL;
    hil_engine *e = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_engine_trace(model, options->compute));
    HIL_TRY_DONE(begin(&e, model, options));
    HIL_TRY_DONE(
        hil_buffers_create(&e->buffers, options->tiers, options->work - options->expanded));
    HIL_TRY_DONE(hil_buffers_create(&e->context.kept, options->tiers, options->expanded));
    HIL_TRY_DONE(hil_offload_create(&e->offload, options->tiers, e->buffers, options->ring,
                                    options->offloaded, HIL_PIN_FIRST));
    HIL_TRY_DONE(hil_tiers_pin_all(options->tiers));
    e->context.buffers = e->boundaries.buffers = e->buffers;
    e->context.links = e->spans.links = options->tiers->links;
    e->context.device = e->input.device = options->tiers->device;
    e->input.buffers = e->buffers;
    if (!hil_pool_is_dry(options->pool)) e->spans.device = e->context.device;
    e->boundaries.offload = e->context.offload = e->offload;
    *out = e;
    e = NULL;
done:
    hil_engine_destroy(e);
    return status;
}

void hil_engine_destroy(hil_engine *e)
{
    if (!e) return;
    clear(e);
    hil_engine_cache_end(e);
    while (e->idle) {
        hil_tape *next = e->idle->next;
        hil_tape_free(e->idle);
        hil_free(e->idle);
        e->idle = next;
    }
    hil_boundaries_free(&e->boundaries);
    hil_offload_destroy(e->offload);
    for (size_t i = 0; i < e->context.expanded_count; ++i)
        hil_buffers_give(e->context.kept, e->context.expanded[i].data);
    hil_free(e->context.expanded);
    hil_buffers_destroy(e->context.kept);
    hil_buffers_destroy(e->buffers);
    hil_free(e->place);
    hil_free(e->held);
    hil_batch_input_free(&e->input);
    hil_spans_free(&e->spans);
    hil_free(e->reads);
    hil_free(e);
}
