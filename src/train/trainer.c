/* trainer.c - one step: micro-batches through the engine, then the update. */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "train/account.h"
#include "train/pairs.h"
#include "base/sized.h"
#include "store/pass.h"
#include "store/quantizer.h"
#include "store/store.h"
#include "store/update.h"

#include <math.h>
#include <string.h>

void hil_trainer_defaults_sized(hil_trainer_options *options, size_t size)
{
    const hil_trainer_options defaults = {
        .device = {.name = "auto"},
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
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

hil_status hil_trainer_create(hil_trainer **out, hil_model *model,
                              const hil_trainer_options *options)
{
    hil_trainer_options own;
    *out = NULL;
    HIL_TRY(HIL_SIZED_TAKE(hil_trainer, &own, options));
    HIL_TRY(hil_trainer_open(out, model, &own, NULL));
    hil_status status = hil_ranks_agree(own.comm, hil_store_initialise(model->store, own.seed));
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

/* Checks element i of the batch, which is position `at` of its sequence. */
static hil_status check_place(const hil_batch *b, int64_t i, int64_t at, int64_t vocab)
{
    if (b->token[i] < 0 || b->token[i] >= vocab)
        return hil_fail(HIL_ERR_INPUT,
                        "token id %d at place %lld is outside the vocabulary of %lld",
                        (int)b->token[i], (long long)i, (long long)vocab);
    if (b->first && (b->first[i] < (at ? b->first[i - 1] : 0) || b->first[i] > at))
        return hil_fail(HIL_ERR_INPUT, "first[%lld] is %d: it must not decrease nor be beyond %lld",
                        (long long)i, (int)b->first[i], (long long)at);
    if (b->target && b->target[i] >= vocab)
        return hil_fail(HIL_ERR_INPUT, "target id %d is outside the vocabulary", (int)b->target[i]);
    return HIL_OK;
}

hil_status hil_trainer_check(const hil_trainer *t, const hil_batch *b)
{
    if (b->sequences < 1 || b->length < 1 || !b->token)
        return hil_fail(HIL_ERR_USAGE, "the batch is empty");
    int64_t vocab = hil_engine_vocab(t->engine), i = 0;
    for (int64_t s = 0; s < b->sequences; ++s)
        for (int64_t at = 0; at < b->length; ++at) HIL_TRY(check_place(b, i++, at, vocab));
    return HIL_OK;
}

/* Copies the batch `b` to `out`, with defaults for the arrays that are NULL. */
static hil_status complete(hil_trainer *t, const hil_batch *b, hil_batch *out)
{
    *out = *b;
    bool prompts = t->options.preference.kind == HIL_PREFER_ORPO;
    if (b->target && b->position && b->first && !prompts) return HIL_OK;
    int64_t n = b->sequences * b->length, length = b->length;
    HIL_TRY(HIL_GROW(&t->filled, &t->filled_room, 3 * n));
    int32_t *target = t->filled, *position = target + n, *first = position + n;
    for (int64_t i = 0; i < n; ++i) {
        target[i] = (i + 1) % length ? b->token[i + 1] : -1;
        position[i] = (int32_t)(i % length);
        first[i] = 0;
    }
    if (!b->target) out->target = target;
    if (!b->position) out->position = position;
    if (!b->first) out->first = first;
    if (!prompts) return HIL_OK;
    hil_pairs_read_prompts(out, target);
    out->target = target;
    return HIL_OK;
}

/* A micro-batch of `count` sequences; `reference`: the losses of the batch, or NULL. Their numbers
   count over all ranks, so that results which depend on them (dropout) do not depend on the number
   of ranks. */
static hil_micro slice(const hil_trainer *t, const hil_batch *b, const float *reference,
                       int64_t first, int64_t count)
{
    int64_t at = first * b->length, before = hil_comm_rank(t->options.comm) * b->sequences;
    return (hil_micro){.sequences = count,
                       .length = b->length,
                       .token = b->token + at,
                       .target = b->target + at,
                       .position = b->position + at,
                       .first = b->first + at,
                       .reference = reference ? reference + at : NULL,
                       .sequence = before + first};
}

/* Makes losses of positions from the log probabilities of the batch's documents, if those come with
   it. *losses: NULL if they do not; borrowed from `memory` until its next use. */
static hil_status refer(hil_trainer *t, const hil_batch *b, const double *logp, hil_losses *memory,
                        const float **losses)
{
    const hil_preference_loss *loss = &t->options.preference;
    *losses = NULL;
    if (!hil_reference_wanted(loss->kind) || !loss->precomputed) return HIL_OK;
    if (!logp)
        return hil_fail(HIL_ERR_USAGE,
                        "the batch has no log probabilities of its answers under the reference");
    HIL_TRY(HIL_GROW(&memory->value, &memory->room, b->sequences * b->length));
    hil_pairs_spread(b, logp, memory->value);
    *losses = memory->value;
    return HIL_OK;
}

static bool prefers(const hil_trainer *t)
{
    return t->options.preference.kind != HIL_PREFER_NONE;
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
    return hil_optimizer_update(t->model->store, &t->optimizer, &step);
}

/* Saves for a step whose update is skipped. */
static hil_status save_unchanged(hil_trainer *t)
{
    return hil_store_save(t->model->store);
}

static void take_account(hil_trainer *t, hil_step_account *out)
{
    uint64_t peak[HIL_TIERS];
    hil_store_peaks(t->model->store, peak);
    *out = (hil_step_account){.device_peak = peak[HIL_DEVICE] + hil_engine_work(t->engine),
                              .host_peak = peak[HIL_HOST] + hil_engine_offloaded(t->engine) +
                                           t->planned.tokens,
                              .disk_peak = peak[HIL_DISK]};
    hil_account_take(t->tiers.links, out, &t->spent);
    out->skipped_bytes = hil_store_take_skipped(t->model->store);
}

/* Fails unless the batches of all ranks have one shape, because ranks must visit the same segments
   equally often. Sums the predicted tokens, and pairs, over ranks. */
static hil_status match_ranks(hil_comm *comm, hil_stepping *s)
{
    double shape[3] = {(double)s->batch.sequences, (double)s->batch.length, (double)s->micro_batch};
    double bounds[6], counts[3] = {(double)s->tokens, (double)s->counted, (double)s->chosen};
    if (hil_comm_size(comm) == 1) return HIL_OK;
    for (int i = 0; i < 3; ++i) {
        bounds[2 * i] = shape[i];
        bounds[2 * i + 1] = -shape[i];
    }
    HIL_TRY(hil_comm_least(comm, bounds, 6));
    for (int i = 0; i < 3; ++i)
        if (bounds[2 * i] != -bounds[2 * i + 1])
            return hil_ranks_agree(
                comm,
                hil_fail(HIL_ERR_USAGE, "a step's batches differ in shape from rank to rank"));
    HIL_TRY(hil_comm_sum(comm, counts, 3));
    s->tokens = (int64_t)counts[0];
    s->counted = (int64_t)counts[1];
    s->chosen = (int64_t)counts[2];
    return HIL_OK;
}

static hil_status cut(hil_trainer *t, const hil_batch *given, int64_t micro_batch)
{
    hil_stepping *s = &t->now;
    hil_batch *b = &s->batch;
    const float *reference;
    HIL_TRY(complete(t, given, b));
    HIL_TRY(refer(t, b, b->reference, &t->reference, &reference));
    if (micro_batch < 1 || micro_batch > b->sequences) micro_batch = b->sequences;
    s->micro_batch = micro_batch;
    s->micros = (b->sequences + micro_batch - 1) / micro_batch;
    HIL_TRY(HIL_GROW(&t->micro, &t->micro_room, s->micros));
    for (int64_t m = 0; m < s->micros; ++m) {
        int64_t first = m * micro_batch, rest = b->sequences - first;
        t->micro[m] = slice(t, b, reference, first, rest < micro_batch ? rest : micro_batch);
    }
    s->counted = s->tokens = predicted(b);
    if (!prefers(t)) return HIL_OK;
    hil_pairs_size size = hil_pairs_measure(b, &t->options.preference);
    s->counted = size.pairs;
    s->chosen = size.tokens;
    return HIL_OK;
}

/* Adds the numbers of a batch's mismatched answers, `micro_batch` sequences at a time. */
static hil_status add_mismatched(hil_trainer *t, const hil_batch *b, int64_t micro_batch,
                                 double sum[HIL_PREFERENCES])
{
    int64_t n = b->sequences * b->length;
    hil_batch other;
    const float *reference;
    HIL_TRY(HIL_GROW(&t->mismatched, &t->mismatched_room, 4 * n));
    hil_pairs_mismatch(b, t->mismatched, &other);
    HIL_TRY(refer(t, &other, b->mismatched_reference, &t->mismatched_reference, &reference));
    for (int64_t at = 0; at < b->sequences; at += micro_batch) {
        int64_t rest = b->sequences - at;
        hil_micro micro = slice(t, &other, reference, at, rest < micro_batch ? rest : micro_batch);
        double loss, numbers[HIL_PREFERENCES];
        HIL_TRY(hil_engine_loss(t->engine, &micro, &loss));
        hil_engine_numbers(t->engine, numbers);
        for (int k = 0; k < HIL_PREFERENCES; ++k) sum[k] += numbers[k];
    }
    return HIL_OK;
}

hil_status hil_trainer_mismatched(hil_trainer *t, const hil_batch *given,
                                  double sum[HIL_PREFERENCES])
{
    hil_batch batch;
    hil_status status = hil_trainer_check(t, given);
    if (status == HIL_OK) status = complete(t, given, &batch);
    if (status == HIL_OK) status = add_mismatched(t, &batch, batch.sequences, sum);
    if (status != HIL_OK) hil_comm_fail(t->options.comm, status);
    return status;
}

void hil_trainer_set_kl(hil_trainer *t, const double *kl)
{
    t->kl_given = kl != NULL;
    if (kl) hil_engine_set_kl(t->engine, *kl);
}

/* The step's kl: [Note: mismatched answers]. */
static hil_status find_kl(hil_trainer *t)
{
    double sum[HIL_PREFERENCES] = {0};
    if (t->options.preference.kind != HIL_PREFER_KTO) return HIL_OK;
    hil_comm_set_activity(t->options.comm, "step %lld, kl", (long long)t->step + 1);
    HIL_TRY(add_mismatched(t, &t->now.batch, t->now.micro_batch, sum));
    HIL_TRY(hil_comm_sum(t->options.comm, sum, HIL_PREFERENCES));
    hil_engine_set_kl(t->engine, hil_pairs_kl(&t->options.preference, sum));
    return HIL_OK;
}

/* Starts forward and backward. `checked` is this rank's status so far, on which the ranks agree. */
static hil_status compute(hil_trainer *t, const hil_batch *given, int64_t micro_batch,
                          hil_status checked)
{
    hil_comm *comm = t->options.comm;
    hil_comm_set_activity(comm, "step %lld, its batch", (long long)t->step + 1);
    if (checked == HIL_OK) checked = cut(t, given, micro_batch);
    HIL_TRY(hil_ranks_agree(comm, checked));
    HIL_TRY(match_ranks(comm, &t->now));
    if (t->now.counted == 0)
        return hil_ranks_agree(comm, hil_fail(HIL_ERR_INPUT,
                                              "no position of the batch has a token to predict: "
                                              "there is nothing to learn"));
    HIL_TRY(find_kl(t));
    hil_plan loading = {0};
    hil_account_skip(t->tiers.links, t->spent.step_seconds > 0 ? &t->spent : &loading);
    (void)hil_store_take_skipped(t->model->store);
    double scale = (double)t->scaling.scale;
    double pairs = (double)t->now.counted, chosen = (double)t->now.chosen;
    hil_step step = {t->micro,
                     t->now.micros,
                     t->options.seed,
                     t->step + 1,
                     (float)(scale / pairs),
                     chosen > 0 ? t->options.preference.nll_weight * pairs / chosen : 0};
    hil_status status = hil_engine_begin(t->engine, &step);
    if (status != HIL_OK) hil_store_step_end(t->model->store);
    return status;
}

static hil_status begin(hil_trainer *t, const hil_batch *given, int64_t micro_batch,
                        hil_status checked)
{
    t->now = (hil_stepping){.began = hil_clock_now()};
    hil_status status = compute(t, given, micro_batch, checked);
    if (status != HIL_OK) hil_comm_fail(t->options.comm, status);
    return status;
}

hil_status hil_trainer_begin(hil_trainer *t, const hil_batch *batch, int64_t micro_batch)
{
    return begin(t, batch, micro_batch, HIL_OK);
}

/* Sums over ranks what the engine computed. */
static hil_status sum_losses(hil_trainer *t)
{
    hil_engine_numbers(t->engine, t->now.sum);
    return hil_comm_sum(t->options.comm, t->now.sum, HIL_PREFERENCES);
}

/* The mean of which `sum` has the sums over `counted`. */
static double loss_of(const hil_trainer *t, const double sum[HIL_PREFERENCES], int64_t counted)
{
    if (prefers(t)) return hil_pairs_loss(&t->options.preference, sum);
    return sum[HIL_PREFERENCE_LOSS] / (double)counted;
}

/* Waits for loss and norm over all ranks, so that every later decision is the same on each. */
static hil_status wait_learned(hil_trainer *t, double *loss, double *norm)
{
    hil_comm *comm = t->options.comm;
    double scale = (double)t->scaling.scale;
    HIL_TRY(hil_engine_wait(t->engine, loss));
    hil_comm_set_activity(comm, "step %lld, loss and norm", (long long)t->step + 1);
    HIL_TRY(sum_losses(t));
    *loss = loss_of(t, t->now.sum, t->now.counted);
    HIL_TRY(hil_store_norm(t->model->store, norm));
    *norm /= scale;
    if ((isfinite(*loss) && isfinite(*norm)) || hil_scaling_skips(&t->scaling)) return HIL_OK;
    return hil_ranks_agree(comm, hil_fail(HIL_ERR_NUMERIC, "the %s is not a finite number",
                                          isfinite(*loss) ? "gradient" : "loss"));
}

static hil_status end(hil_trainer *t, double lr, hil_step_result *result)
{
    const hil_stepping *s = &t->now;
    double loss = 0, norm = 0;
    *result = (hil_step_result){.tokens = s->tokens};
    hil_status status = HIL_OK;
    HIL_TRY_DONE(wait_learned(t, &loss, &norm));
    bool finite = isfinite(loss) && isfinite(norm);
    result->loss = loss;
    result->grad_norm = norm;
    if (prefers(t))
        result->preferences = hil_pairs_mean(t->options.preference.kind, s->sum);
    else
        result->aux_loss = s->sum[HIL_LOSS_AUXILIARY] / (double)s->counted;
    hil_comm_set_activity(t->options.comm, "step %lld, update", (long long)t->step + 1);
    HIL_TRY_DONE(finite ? update(t, lr, norm) : save_unchanged(t));
    hil_scaling_advance(&t->scaling, finite);
    ++t->step;
    take_account(t, &result->account);
    t->spent.step_seconds += hil_clock_now() - s->began;
done:
    hil_store_step_end(t->model->store);
    return status;
}

double hil_trainer_router_z(const hil_trainer *t)
{
    return prefers(t) ? 0 : t->now.sum[HIL_LOSS_ROUTER_Z] / (double)t->now.counted;
}

hil_status hil_trainer_end(hil_trainer *t, double lr, hil_step_result *result)
{
    hil_status status = end(t, lr, result);
    if (status != HIL_OK) hil_comm_fail(t->options.comm, status);
    return status;
}

hil_status hil_trainer_step(hil_trainer *t, const hil_batch *given, int64_t micro_batch, double lr,
                            hil_step_result *result)
{
    HIL_TRY(begin(t, given, micro_batch, hil_trainer_check(t, given)));
    return hil_trainer_end(t, lr, result);
}

static hil_status find_loss(hil_trainer *t, const hil_batch *given, hil_step_result *result)
{
    hil_batch batch;
    const float *reference;
    HIL_TRY(hil_trainer_check(t, given));
    HIL_TRY(complete(t, given, &batch));
    HIL_TRY(refer(t, &batch, batch.reference, &t->reference, &reference));
    hil_micro micro = slice(t, &batch, reference, 0, batch.sequences);
    int64_t tokens = predicted(&batch);
    double sum, numbers[HIL_PREFERENCES] = {0};
    if (t->options.preference.kind == HIL_PREFER_KTO && !t->kl_given) {
        HIL_TRY(add_mismatched(t, &batch, batch.sequences, numbers));
        hil_engine_set_kl(t->engine, hil_pairs_kl(&t->options.preference, numbers));
    }
    HIL_TRY(hil_engine_loss(t->engine, &micro, &sum));
    hil_engine_numbers(t->engine, numbers);
    *result = (hil_step_result){.loss = loss_of(t, numbers, tokens), .tokens = tokens};
    if (prefers(t))
        result->preferences = hil_pairs_mean(t->options.preference.kind, numbers);
    else if (tokens)
        result->aux_loss = numbers[HIL_LOSS_AUXILIARY] / (double)tokens;
    return HIL_OK;
}

hil_status hil_trainer_loss(hil_trainer *t, const hil_batch *given, hil_step_result *result)
{
    hil_status status = find_loss(t, given, result);
    if (status != HIL_OK) hil_comm_fail(t->options.comm, status);
    return status;
}

/* The log probabilities of the documents of a batch with all of its arrays. */
static hil_status find_reference(hil_trainer *t, const hil_batch *b, double *logp)
{
    hil_losses *losses = &t->reference;
    HIL_TRY(HIL_GROW(&losses->value, &losses->room, b->sequences * b->length));
    hil_micro micro = slice(t, b, NULL, 0, b->sequences);
    HIL_TRY(hil_engine_reference(t->engine, &micro, losses->value));
    hil_pairs_gather(b, losses->value, logp);
    return HIL_OK;
}

hil_status hil_trainer_reference(hil_trainer *t, const hil_batch *given, double *logp,
                                 double *mismatched)
{
    hil_batch batch, other;
    hil_status status;
    HIL_TRY_DONE(hil_trainer_check(t, given));
    HIL_TRY_DONE(complete(t, given, &batch));
    HIL_TRY_DONE(find_reference(t, &batch, logp));
    if (!mismatched) goto done;
    HIL_TRY_DONE(HIL_GROW(&t->mismatched, &t->mismatched_room, 4 * batch.sequences * batch.length));
    hil_pairs_mismatch(&batch, t->mismatched, &other);
    HIL_TRY_DONE(find_reference(t, &other, mismatched));
done:
    if (status != HIL_OK) hil_comm_fail(t->options.comm, status);
    return status;
}

static hil_status find_logits(hil_trainer *t, const hil_batch *given, float *logits)
{
    hil_batch batch;
    HIL_TRY(hil_trainer_check(t, given));
    HIL_TRY(complete(t, given, &batch));
    hil_micro micro = slice(t, &batch, NULL, 0, batch.sequences);
    return hil_engine_logits(t->engine, &micro, logits);
}

hil_status hil_trainer_logits(hil_trainer *t, const hil_batch *given, float *logits)
{
    hil_status status = find_logits(t, given, logits);
    if (status != HIL_OK) hil_comm_fail(t->options.comm, status);
    return status;
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
    hil_status status = find(t, name, count, &p);
    if (status == HIL_OK) status = hil_store_read_whole(t->model->store, p, HIL_MASTER, out);
    if (status != HIL_OK) hil_comm_fail(t->options.comm, status);
    return status;
}

static hil_status copy_numbers(void *context, int64_t first, int64_t count, float *out)
{
    const float *in = context;
    memcpy(out, in + first, (size_t)count * sizeof *out);
    return HIL_OK;
}

hil_status hil_trainer_write(hil_trainer *t, const char *name, const float *in, int64_t count)
{
    hil_param *p;
    hil_status status = find(t, name, count, &p);
    hil_quantizer quantizer = {.read = copy_numbers, .context = (void *)(uintptr_t)in};
    if (status == HIL_OK && hil_param_quant(p))
        status = hil_quantizer_fill(p, &quantizer);
    else if (status == HIL_OK)
        status = hil_store_write(t->model->store, p, HIL_MASTER, 0, count, in);
    if (status != HIL_OK) hil_comm_fail(t->options.comm, status);
    return status;
}
