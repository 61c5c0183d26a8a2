/* eval.c - loss and perplexity of a model folder on some files. */
#include "base/clock.h"
#include "run/batches.h"
#include "run/eval_messages.h"
#include "run/model_compare.h"
#include "run/model_source.h"
#include "base/sized.h"

#include <math.h>
#include <stdio.h>

#define BATCH_TOKENS 4096 /* computed at once where the caller does not say */

void hil_eval_defaults_sized(hil_eval_options *options, size_t size)
{
    const hil_eval_options defaults = {.preference = {0, -1, -1, -1, -1},
                                       .format = "auto",
                                       .train_on = "assistant",
                                       .loss = "cross-entropy",
                                       .dtype = "fp32",
                                       .device = {.name = "auto"}};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

typedef struct job {
    const hil_observer *observer; /* NULL except on rank 0 */
    int64_t seq;
    hil_source source;
    hil_dataset *data;
    hil_batches batches;
    hil_model *model;
    hil_trainer *trainer;
    hil_preference_loss preference;
} job;

/* Without a given batch size, takes the largest that fits: the loss does not depend on it. */
static hil_status load(job *j, hil_trainer_options *options, bool fixed)
{
    for (;;) {
        hil_status status =
            hil_source_load(&j->source, options, j->observer, &j->model, &j->trainer);
        if (status != HIL_ERR_BUDGET || fixed || options->sequences == 1) return status;
        options->sequences = options->micro_batch = options->sequences / 2;
    }
}

/* The tokens are cached in an unnamed file, which the system removes however the process ends. */
static hil_status read_data(job *j, const hil_eval_options *o)
{
    hil_source_files files = {.path = o->data,
                              .count = o->data_count,
                              .seq = j->seq,
                              .format = o->format,
                              .train_on = o->train_on,
                              .cache = o->cache ? o->cache : "/tmp",
                              .observer = j->observer,
                              .stop = o->stop,
                              .nameless = true};
    return hil_source_data(&j->source, &files, &j->data);
}

/* The token cache that rank 0 prepared. A rank that cannot open it (on another machine) prepares
   its own. */
typedef struct prepared {
    char path[64];
    uint64_t key, content;
} prepared;

static hil_status join_data(job *j, const hil_eval_options *o, const prepared *p)
{
    hil_source_files files = {.path = o->data,
                              .count = o->data_count,
                              .seq = j->seq,
                              .format = o->format,
                              .train_on = o->train_on,
                              .cache = "",
                              .stop = o->stop,
                              .prepared = p->key,
                              .prepared_path = p->path};
    if (hil_source_data(&j->source, &files, &j->data) != HIL_OK) HIL_TRY(read_data(j, o));
    if (hil_dataset_content(j->data) == p->content) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s is not the file here that rank 0 reads", o->data[0]);
}

static hil_status open_data(job *j, const hil_eval_options *o)
{
    prepared p = {0};
    hil_comm_set_activity(o->comm, "reading the data");
    int rank = hil_comm_rank(o->comm);
    HIL_TRY(hil_ranks_follow(o->comm, rank ? HIL_OK : read_data(j, o)));
    if (hil_comm_size(o->comm) == 1) return HIL_OK;
    if (rank == 0) {
        snprintf(p.path, sizeof p.path, "%s", hil_dataset_path(j->data));
        p.key = hil_dataset_key(j->data);
        p.content = hil_dataset_content(j->data);
    }
    HIL_TRY(hil_comm_broadcast(o->comm, HIL_CHANNEL_CONTROL, &p, sizeof p));
    return hil_ranks_agree(o->comm, rank ? join_data(j, o, &p) : HIL_OK);
}

static hil_status open_source(job *j, const hil_eval_options *o)
{
    if (!o->model || !o->data_count)
        return hil_fail(HIL_ERR_USAGE, "eval needs a model, and --data or --messages");
    HIL_TRY(hil_source_open(&j->source, o->model));
    HIL_TRY(hil_source_need_weights(&j->source, "eval"));
    HIL_TRY(hil_source_adapt_folder(&j->source, o->adapter));
    const hil_loss_request loss = {o->loss, o->beta, o->preference, NULL, 0};
    HIL_TRY(hil_source_loss(&j->source, &loss, &j->preference));
    if (j->preference.precomputed)
        return hil_fail(HIL_ERR_USAGE,
                        "eval --loss %s of a whole model would need the model before it was "
                        "trained: give --adapter as well, or train with --eval-data",
                        o->loss);
    const hil_source_words words = {o->tokenizer, o->format};
    bool bytes;
    HIL_TRY(hil_source_check_data(&j->source, &words, o->data, o->data_count, &bytes));
    return hil_source_seq(&j->source, o->seq, &j->seq);
}

static hil_status compare_options(const job *j, const hil_eval_options *o)
{
    const hil_preference_loss *l = &j->preference;
    char seq[32], batch[32], loss[200];
    snprintf(seq, sizeof seq, "%lld", (long long)j->seq);
    snprintf(batch, sizeof batch, "%lld", (long long)o->batch);
    snprintf(loss, sizeof loss, "%s, %.17g, %.17g, %.17g, %.17g, %.17g, %.17g",
             hil_source_loss_word(l->kind), l->beta, l->label_smoothing, l->margin, l->nll_weight,
             l->desirable_weight, l->undesirable_weight);
    hil_fact fact[] = {{"--seq", seq},
                       {"--batch", batch},
                       {"--dtype", o->dtype},
                       {"--base-dtype", o->base_dtype ? o->base_dtype : o->dtype},
                       {"--loss and its numbers", loss}};
    return hil_comm_compare(o->comm, HIL_OK, fact, sizeof fact / sizeof *fact,
                            "all ranks must have the same options");
}

static hil_status run_job(job *j, const hil_eval_options *o, hil_eval_result *result)
{
    double began = hil_clock_now(), ready = began;
    HIL_TRY(hil_ranks_agree(o->comm, open_source(j, o)));
    HIL_TRY(compare_options(j, o));
    HIL_TRY(hil_source_compare(o->comm, &j->source));
    HIL_TRY(open_data(j, o));
    hil_source_note_examples(j->data, "data", j->observer);
    hil_trainer_options options;
    int64_t sequences = o->batch > 0 ? o->batch : BATCH_TOKENS / j->seq;
    hil_eval_trainer(o, sequences < 1 ? 1 : sequences, j->seq, &options);
    options.comm = o->comm;
    options.preference = j->preference;
    HIL_TRY(load(j, &options, o->batch > 0));
    j->batches =
        (hil_batches){.data = j->data, .observer = j->observer, .stop = o->stop, .seq = j->seq};
    hil_step_result loss;
    HIL_TRY(hil_batches_eval(&j->batches, j->trainer, options.sequences, &ready, &loss));
    *result = (hil_eval_result){
        .loss = loss.loss,
        .perplexity = exp(loss.loss),
        .seconds = hil_clock_now() - began,
        .seconds_to_first_batch = ready - began,
        .tokens = loss.tokens,
        .learned_share = (double)loss.tokens / (double)hil_dataset_tokens(j->data),
        .examples = hil_source_examples(j->data),
        .preferences = loss.preferences,
        .aux_loss = loss.aux_loss,
    };
    return HIL_OK;
}

hil_status hil_eval(const hil_eval_options *options, const hil_observer *observer,
                    hil_eval_result *result)
{
    hil_eval_options own;
    HIL_TRY(HIL_SIZED_TAKE(hil_eval, &own, options));
    options = &own;
    if (own.micro_batch) own.batch = own.micro_batch;
    if (own.messages) return hil_eval_messages(&own, observer, result);
    job j = {.observer = hil_comm_rank(options->comm) == 0 ? observer : NULL};
    hil_status status = run_job(&j, options, result);
    if (status != HIL_OK) hil_comm_fail(options->comm, status);
    hil_trainer_destroy(j.trainer);
    hil_model_destroy(j.model);
    hil_batches_free(&j.batches);
    hil_dataset_close(j.data);
    hil_source_close(&j.source);
    return status;
}
