/* trainer.c - one step: micro-batches through the engine, then the sweep. */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "train/account.h"

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
        .prefetch = true,
    };
}

hil_status hil_trainer_create(hil_trainer **out, hil_model *model,
                              const hil_trainer_options *options)
{
    HIL_TRY(hil_trainer_open(out, model, options, NULL));
    hil_status status = hil_store_initialise(model->store, options->seed);
    if (status == HIL_OK) return HIL_OK;
    hil_trainer_destroy(*out);
    *out = NULL;
    return status;
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
    hil_account_skip(t->tiers.links, &t->spent);
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
