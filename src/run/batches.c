/* batches.c - windows of a dataset as a batch, and the loss over all of them. */
#include "run/batches.h"

#include "base/clock.h"
#include "plan/ranks.h"
#include "train/pairs.h"

#include <math.h>

/* Adds the log probabilities of the documents of a batch under the reference. */
static hil_status add_reference(hil_batches *b, const int64_t *index, hil_batch *out)
{
    if (!b->reference) return HIL_OK;
    int64_t documents = hil_pairs_documents(out), at = 0;
    for (int i = 0; i < 2; ++i) HIL_TRY(HIL_GROW(&b->logp[i], &b->logp_room[i], documents));
    for (int64_t i = 0; i < out->sequences; ++i) {
        hil_batch window = {
            .sequences = 1, .length = b->seq, .target = out->target, .first = out->first};
        window.target += i * b->seq, window.first += i * b->seq;
        int64_t count = hil_pairs_documents(&window);
        HIL_TRY(hil_ledger_read(b->reference, index[i], count, b->logp[0] + at, b->logp[1] + at));
        at += count;
    }
    out->reference = b->logp[0];
    out->mismatched_reference = b->logp[1];
    return HIL_OK;
}

hil_status hil_batches_fill(hil_batches *b, const int64_t *index, int64_t count, hil_batch *out)
{
    int64_t n = count * b->seq;
    HIL_TRY(HIL_GROW(&b->memory, &b->room, 4 * n));
    int32_t *token = b->memory, *target = token + n, *position = target + n, *first = position + n;
    for (int64_t i = 0; i < count; ++i) {
        int64_t at = i * b->seq;
        hil_window window = {token + at, target + at, position + at, first + at};
        HIL_TRY(hil_dataset_window(b->data, index[i], &window));
    }
    *out = (hil_batch){.sequences = count,
                       .length = b->seq,
                       .token = token,
                       .target = target,
                       .position = position,
                       .first = first};
    return add_reference(b, index, out);
}

void hil_batches_free(hil_batches *b)
{
    hil_free(b->memory);
    b->memory = NULL;
    b->room = 0;
    for (int i = 0; i < 2; ++i) {
        hil_free(b->logp[i]);
        b->logp[i] = NULL;
        b->logp_room[i] = 0;
    }
}

void hil_batches_move(hil_batches *from, hil_batches *to)
{
    assert(!to->memory);
    to->memory = from->memory;
    to->room = from->room;
    from->memory = NULL;
    from->room = 0;
    for (int i = 0; i < 2; ++i) {
        to->logp[i] = from->logp[i];
        to->logp_room[i] = from->logp_room[i];
        from->logp[i] = NULL;
        from->logp_room[i] = 0;
    }
}

#define MOST_SEQUENCES 64

/* An evaluation in progress; the sums are this rank's until summed over ranks at the end. */
typedef struct evaluation {
    hil_batches *batches;
    hil_trainer *trainer;
    int64_t windows, sequences;
    double sum[HIL_PREFERENCES]; /* of the loss, and of what is measured of pairs */
    double tokens, counted;
    bool mismatched; /* sums are those of mismatched answers */
} evaluation;

/* Computes windows [at, at + sequences). All ranks must compute batches of one shape, so a rank
   with fewer windows left fills its batch with windows that it does not count. */
static hil_status one_batch(evaluation *e, int64_t at, double *first)
{
    int64_t index[MOST_SEQUENCES], rest = at < e->windows ? e->windows - at : 0;
    int64_t mine = rest < e->sequences ? rest : e->sequences, count = mine;
    if (hil_comm_size(e->trainer->options.comm) > 1) count = e->sequences;
    hil_batch batch;
    hil_step_result part;
    for (int64_t i = 0; i < count; ++i) index[i] = i < mine ? at + i : i % e->windows;
    HIL_TRY(hil_batches_fill(e->batches, index, count, &batch));
    int32_t *target = e->batches->memory + count * e->batches->seq; /* layout of hil_batches_fill */
    for (int64_t i = mine * e->batches->seq; i < count * e->batches->seq && mine > 0; ++i)
        target[i] = -1;
    if (first && *first == 0) *first = hil_clock_now();
    if (e->mismatched) {
        double none[HIL_PREFERENCES] = {0};
        return hil_trainer_mismatched(e->trainer, &batch, at < e->windows ? e->sum : none);
    }
    HIL_TRY(hil_trainer_loss(e->trainer, &batch, &part));
    if (at >= e->windows || !part.tokens) return HIL_OK;
    double counted = (double)hil_pairs_counted(&part);
    e->tokens += (double)part.tokens;
    e->counted += counted;
    hil_pairs_sum(&part.preferences, e->sum);
    if (part.preferences.pairs) return HIL_OK;
    e->sum[HIL_PREFERENCE_LOSS] += part.loss * counted;
    e->sum[HIL_LOSS_AUXILIARY] += part.aux_loss * counted;
    return HIL_OK;
}

static hil_status check_stop(const hil_batches *b, hil_comm *comm)
{
    int stop = b->stop && *b->stop;
    if (b->stop) HIL_TRY(hil_comm_agree(comm, HIL_CHANNEL_CONTROL, HIL_OK, &stop));
    return stop ? hil_ranks_agree(comm, hil_fail(HIL_ERR_INTERRUPTED, "stopped")) : HIL_OK;
}

static hil_status all_batches(evaluation *e, double *first)
{
    const hil_observer *o = e->batches->observer;
    hil_comm *comm = e->trainer->options.comm;
    int64_t round = e->sequences * hil_comm_size(comm), mine = e->sequences * hil_comm_rank(comm);
    for (int64_t at = 0; at < e->windows; at += round) {
        int64_t done = at + round < e->windows ? at + round : e->windows;
        HIL_TRY(check_stop(e->batches, comm));
        HIL_TRY(one_batch(e, at + mine, first));
        if (o && o->progress && !e->mismatched)
            o->progress(o->context, "evaluating", (uint64_t)done, (uint64_t)e->windows);
    }
    HIL_TRY(hil_comm_sum(comm, e->sum, HIL_PREFERENCES));
    HIL_TRY(hil_comm_sum(comm, &e->counted, 1));
    return hil_comm_sum(comm, &e->tokens, 1);
}

/* The kl of kto over all windows, for the trainer's losses. */
static hil_status find_kl(evaluation e, double *first)
{
    const hil_preference_loss *loss = &e.trainer->options.preference;
    if (loss->kind != HIL_PREFER_KTO) return HIL_OK;
    e.mismatched = true;
    HIL_TRY(all_batches(&e, first));
    double kl = hil_pairs_kl(loss, e.sum);
    hil_trainer_set_kl(e.trainer, &kl);
    return HIL_OK;
}

hil_status hil_batches_eval(hil_batches *b, hil_trainer *trainer, int64_t sequences, double *first,
                            hil_step_result *result)
{
    evaluation e = {.batches = b,
                    .trainer = trainer,
                    .windows = hil_dataset_windows(b->data),
                    .sequences = sequences < MOST_SEQUENCES ? sequences : MOST_SEQUENCES};
    if (first) *first = 0;
    hil_comm_set_activity(trainer->options.comm, "evaluating after step %lld",
                          (long long)trainer->step);
    hil_status status = find_kl(e, first);
    if (status == HIL_OK) status = all_batches(&e, first);
    hil_trainer_set_kl(trainer, NULL);
    if (status != HIL_OK) hil_comm_fail(trainer->options.comm, status);
    HIL_TRY(status);
    const hil_preference_loss *compared = &trainer->options.preference;
    bool pairs = compared->kind != HIL_PREFER_NONE;
    double loss = pairs ? hil_pairs_loss(compared, e.sum) : e.sum[HIL_PREFERENCE_LOSS] / e.counted;
    if (!isfinite(loss))
        status = hil_fail(HIL_ERR_NUMERIC, "the loss of the evaluation is not a finite number");
    HIL_TRY(hil_ranks_agree(trainer->options.comm, status));
    *result = (hil_step_result){.loss = loss, .tokens = (int64_t)e.tokens};
    if (pairs)
        result->preferences = hil_pairs_mean(compared->kind, e.sum);
    else
        result->aux_loss = e.sum[HIL_LOSS_AUXILIARY] / e.counted;
    return HIL_OK;
}
