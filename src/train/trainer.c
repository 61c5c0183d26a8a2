/* trainer.c - one step: micro-batches through the engine, then the sweep. */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/memory.h"
#include "train/account.h"
#include "train/freeze.h"

#include <math.h>

void hil_trainer_defaults(hil_trainer_options *options)
{
    *options = (hil_trainer_options){
        .dtype = "bf16",
        .optimizer = hil_rules[HIL_ADAMW].name,
        .weight_decay = 0.1,
        .clip = 1.0,
        .beta1 = 0.9,
        .beta2 = -1,
        .eps = 1e-8,
        .tile_size = (uint64_t)256 << 20,
        .training = true,
    };
}

/* Everything on the device, which may have all the memory there is. */
static hil_status plan_all(hil_trainer *t)
{
    hil_store *store = t->model->store;
    uint64_t available = hil_memory_available();
    size_t room = available == UINT64_MAX ? (size_t)1 << 40 : (size_t)available;
    t->plan = (hil_plan){.device_budget = 4 * room,
                         .host_budget = room,
                         .prefetch = true,
                         .group = 1,
                         .window = room,
                         .work = room,
                         .ring = 64 << 10,
                         .chunk = 1 << 20,
                         .slots = 2,
                         .units = hil_store_units(store),
                         .segments = t->model->count};
    HIL_TRY(HIL_ALLOC(t->plan.units, &t->plan.unit));
    HIL_TRY(HIL_ALLOC(t->plan.segments, &t->plan.segment));
    for (size_t s = 0; s < t->plan.segments; ++s)
        t->plan.segment[s].keep = t->options.recompute ? 0 : INT64_MAX;
    return HIL_OK;
}

static hil_status open_store(hil_trainer *t)
{
    hil_store_options store = {.compute = t->dtype,
                               .training = t->options.training,
                               .tile_size = t->options.tile_size,
                               .moments = t->optimizer.rule->moments,
                               .codec = t->optimizer.rule->codec};
    HIL_TRY(hil_store_arrange(t->model->store, &store));
    HIL_TRY(hil_engine_trace(t->model, t->dtype));
    HIL_TRY(plan_all(t));
    hil_tiers_options tiers = {.device_bytes = t->plan.device_budget,
                               .host_bytes = t->plan.host_budget};
    HIL_TRY(hil_tiers_open(&t->tiers, &tiers));
    hil_store_opening opening = {.tiers = &t->tiers,
                                 .plan = &t->plan,
                                 .pool = t->pool,
                                 .update = t->update,
                                 .square = hil_block_square};
    return hil_store_open(t->model->store, &opening);
}

hil_status hil_trainer_open(hil_trainer **out, hil_model *model, const hil_trainer_options *options)
{
    *out = NULL;
    hil_dtype dtype;
    HIL_TRY(hil_dtype_parse(options->dtype, &dtype));
    const hil_rule *rule;
    HIL_TRY(hil_rule_find(options->optimizer, &rule));
    if (options->training)
        HIL_TRY(hil_freeze(model->store, options->freeze, options->freeze_count));
    hil_trainer *t;
    HIL_TRY(HIL_ALLOC(1, &t));
    t->model = model;
    t->options = *options;
    t->dtype = dtype;
    t->scaling = hil_scaling_begin(dtype);
    t->optimizer = (hil_optimizer){.rule = rule,
                                   .beta1 = options->beta1,
                                   .beta2 = options->beta2 < 0 ? rule->beta2 : options->beta2,
                                   .eps = options->eps,
                                   .weight_decay = options->weight_decay,
                                   .clip = options->clip};
    hil_status status = HIL_OK;
    HIL_TRY_DONE(hil_pool_create(&t->pool, options->threads));
    HIL_TRY_DONE(hil_pool_create(&t->update, options->threads));
    HIL_TRY_DONE(open_store(t));
    hil_engine_options engine = {.pool = t->pool,
                                 .compute = dtype,
                                 .group = t->plan.group,
                                 .segment = t->plan.segment,
                                 .tiers = &t->tiers,
                                 .work = t->plan.work,
                                 .ring = hil_store_ring(model->store),
                                 .parked = t->plan.parked,
                                 .prefetch = t->plan.prefetch};
    HIL_TRY_DONE(hil_engine_create(&t->engine, model, &engine));
    *out = t;
    t = NULL;
done:
    hil_trainer_destroy(t);
    return status;
}

hil_status hil_trainer_create(hil_trainer **out, hil_model *model,
                              const hil_trainer_options *options)
{
    HIL_TRY(hil_trainer_open(out, model, options));
    hil_status status = hil_store_initialise(model->store, options->seed);
    if (status == HIL_OK) return HIL_OK;
    hil_trainer_destroy(*out);
    *out = NULL;
    return status;
}

void hil_trainer_destroy(hil_trainer *t)
{
    if (!t) return;
    hil_engine_destroy(t->engine);
    hil_store_close(t->model->store);
    hil_tiers_close(&t->tiers);
    hil_pool_destroy(t->pool);
    hil_pool_destroy(t->update);
    hil_free(t->plan.unit);
    hil_free(t->plan.segment);
    hil_free(t->micro);
    hil_free(t->filled);
    hil_free(t);
}

void hil_trainer_set_timeline(hil_trainer *t, hil_timeline *timeline)
{
    t->timeline = timeline;
    hil_engine_set_timeline(t->engine, timeline);
    hil_links_set_timeline(t->tiers.links, timeline);
}

static hil_status check_batch(const hil_trainer *t, const hil_batch *b)
{
    if (b->sequences < 1 || b->length < 1 || !b->token)
        return hil_fail(HIL_ERR_USAGE, "an empty batch");
    int64_t vocab = hil_engine_vocab(t->engine);
    for (int64_t i = 0; i < b->sequences * b->length; ++i) {
        if (b->token[i] < 0 || b->token[i] >= vocab)
            return hil_fail(HIL_ERR_INPUT,
                            "token id %d at place %lld is outside the vocabulary of %lld",
                            (int)b->token[i], (long long)i, (long long)vocab);
        int64_t at = i % b->length;
        if (b->first && (b->first[i] < (at ? b->first[i - 1] : 0) || b->first[i] > at))
            return hil_fail(HIL_ERR_INPUT,
                            "first[%lld] is %d: it must not decrease nor be beyond %lld",
                            (long long)i, (int)b->first[i], (long long)at);
        if (b->target && b->target[i] >= vocab)
            return hil_fail(HIL_ERR_INPUT, "target id %d is outside the vocabulary",
                            (int)b->target[i]);
    }
    return HIL_OK;
}

/* The batch with every array present. */
static hil_status complete(hil_trainer *t, const hil_batch *b, hil_batch *out)
{
    HIL_TRY(check_batch(t, b));
    int64_t n = b->sequences * b->length, length = b->length;
    HIL_TRY(HIL_GROW(&t->filled, &t->filled_room, 3 * n));
    int32_t *target = t->filled, *position = target + n, *first = position + n;
    for (int64_t i = 0; i < n; ++i) {
        target[i] = (i + 1) % length ? b->token[i + 1] : -1;
        position[i] = (int32_t)(i % length);
        first[i] = 0;
    }
    *out = (hil_batch){b->sequences,
                       length,
                       b->token,
                       b->target ? b->target : target,
                       b->position ? b->position : position,
                       b->first ? b->first : first};
    return HIL_OK;
}

static hil_micro slice(const hil_batch *b, int64_t first, int64_t count)
{
    int64_t at = first * b->length;
    return (hil_micro){count,         b->length, b->token + at, b->target + at, b->position + at,
                       b->first + at, first};
}

static int64_t predicted(const hil_batch *b)
{
    int64_t count = 0;
    for (int64_t i = 0; i < b->sequences * b->length; ++i) count += b->target[i] >= 0;
    return count;
}

static hil_status update(hil_trainer *t, double lr, double norm)
{
    hil_update step = {.lr = lr,
                       .norm = norm,
                       .loss_scale = (double)t->scaling.scale,
                       .updates = t->step + 1 - t->scaling.skipped};
    return hil_sweep_update(t->model->store, &t->optimizer, &step);
}

static void take_account(hil_trainer *t, hil_step_account *out)
{
    uint64_t peak[HIL_TIERS];
    hil_store_peaks(t->model->store, peak);
    *out = (hil_step_account){.device_peak = peak[HIL_DEVICE] + hil_engine_work(t->engine),
                              .host_peak = peak[HIL_HOST] + hil_engine_parked(t->engine),
                              .disk_peak = peak[HIL_DISK]};
    hil_account_take(t->tiers.links, out, &t->spent);
}

hil_status hil_trainer_step(hil_trainer *t, const hil_batch *given, int64_t micro_batch, double lr,
                            hil_step_result *result)
{
    double began = hil_clock_now();
    hil_batch batch;
    HIL_TRY(complete(t, given, &batch));
    if (micro_batch < 1 || micro_batch > batch.sequences) micro_batch = batch.sequences;
    int64_t count = (batch.sequences + micro_batch - 1) / micro_batch;
    HIL_TRY(HIL_GROW(&t->micro, &t->micro_room, count));
    for (int64_t m = 0; m < count; ++m) {
        int64_t first = m * micro_batch, rest = batch.sequences - first;
        t->micro[m] = slice(&batch, first, rest < micro_batch ? rest : micro_batch);
    }
    int64_t tokens = predicted(&batch);
    if (tokens == 0) { /* nothing to learn from: all of it lies inside prompts */
        *result = (hil_step_result){0};
        ++t->step;
        return HIL_OK;
    }
    double scale = (double)t->scaling.scale;
    hil_step step = {t->micro, count, t->options.seed, t->step + 1,
                     (float)(scale / (double)tokens)};
    hil_store *store = t->model->store;
    double sum = 0, norm = 0;
    hil_status status = HIL_OK;
    HIL_TRY_DONE(hil_engine_train(t->engine, &step, &sum));
    HIL_TRY_DONE(hil_store_norm(store, &norm));
    norm /= scale;
    bool finite = isfinite(sum) && isfinite(norm);
    if (!finite && scale <= 1)
        HIL_TRY_DONE(hil_fail(HIL_ERR_NUMERIC, "the %s is not a finite number",
                              isfinite(sum) ? "gradient" : "loss"));
    *result = (hil_step_result){.loss = sum / (double)tokens, .grad_norm = norm, .tokens = tokens};
    if (finite) HIL_TRY_DONE(update(t, lr, norm));
    hil_scaling_advance(&t->scaling, finite);
    ++t->step;
    take_account(t, &result->account);
    t->spent.step_seconds += hil_clock_now() - began;
done:
    hil_store_step_end(store);
    return status;
}

hil_status hil_trainer_loss(hil_trainer *t, const hil_batch *given, hil_step_result *result)
{
    hil_batch batch;
    HIL_TRY(complete(t, given, &batch));
    hil_micro micro = slice(&batch, 0, batch.sequences);
    int64_t tokens = predicted(&batch);
    double sum;
    HIL_TRY(hil_engine_loss(t->engine, &micro, &sum));
    *result = (hil_step_result){.loss = tokens ? sum / (double)tokens : 0, .tokens = tokens};
    return HIL_OK;
}

hil_status hil_trainer_logits(hil_trainer *t, const hil_batch *given, float *logits)
{
    hil_batch batch;
    HIL_TRY(complete(t, given, &batch));
    hil_micro micro = slice(&batch, 0, batch.sequences);
    return hil_engine_logits(t->engine, &micro, logits);
}

static hil_status find(hil_trainer *t, const char *name, int64_t count, hil_param **out)
{
    *out = hil_store_find(t->model->store, name);
    if (!*out) return hil_fail(HIL_ERR_USAGE, "the model has no parameter %s", name);
    if (hil_param_elements(*out) != count)
        return hil_fail(HIL_ERR_USAGE, "%s has %lld elements, not %lld", name,
                        (long long)hil_param_elements(*out), (long long)count);
    return HIL_OK;
}

hil_status hil_trainer_read(hil_trainer *t, const char *name, float *out, int64_t count)
{
    hil_param *p;
    HIL_TRY(find(t, name, count, &p));
    return hil_store_read(t->model->store, p, HIL_MASTER, 0, count, out);
}

hil_status hil_trainer_write(hil_trainer *t, const char *name, const float *in, int64_t count)
{
    hil_param *p;
    HIL_TRY(find(t, name, count, &p));
    return hil_store_write(t->model->store, p, HIL_MASTER, 0, count, in);
}
