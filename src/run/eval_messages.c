/* eval_messages.c - the loss of one conversation, on the assistant's messages. */
#include "run/eval_messages.h"

#include "base/clock.h"
#include "run/conversation.h"
#include "run/model_source.h"

#include <math.h>

typedef struct job {
    hil_source source;
    hil_conversation conversation;
    int32_t *target; /* -1: not learned */
    int64_t learned;
    hil_model *model;
    hil_trainer *trainer;
} job;

static hil_status open_conversation(job *j, const hil_eval_options *o)
{
    const hil_conversation_file file = {o->messages, o->format, o->train_on};
    if (!o->model || o->data_count)
        return hil_fail(HIL_ERR_USAGE, "eval needs a model, and --data or --messages");
    if (hil_comm_size(o->comm) > 1)
        return hil_fail(HIL_ERR_USAGE, "eval --messages runs in one process: start it alone");
    HIL_TRY(hil_source_open(&j->source, o->model));
    HIL_TRY(hil_source_need_weights(&j->source, "eval"));
    HIL_TRY(hil_source_adapt_folder(&j->source, o->adapter));
    if (!j->source.tokenizer) return hil_source_no_tokenizer(j->source.folder, "");
    HIL_TRY(hil_conversation_learn(&j->conversation, j->source.folder, j->source.tokenizer, &file));
    if (j->conversation.record.kind == HIL_RECORD_PAIR)
        return hil_fail(HIL_ERR_USAGE,
                        "%s holds a pair of answers: measure it with --loss dpo --data %s",
                        o->messages, o->messages);
    if (j->conversation.record.row.documents > 1)
        return hil_fail(HIL_ERR_USAGE,
                        "%s holds several documents in one row: measure them with --data %s",
                        o->messages, o->messages);
    int64_t length = (int64_t)j->conversation.dialogue.ids.size;
    int64_t most = hil_config_longest(&j->source.config);
    if (length <= most) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s has %lld tokens, but the model only %lld positions%s",
                    o->messages, (long long)length, (long long)most,
                    hil_config_longest_why(&j->source.config));
}

/* A position predicts the token after it, if that one is learned. */
static hil_status set_targets(job *j, const char *file)
{
    const hil_dialogue *d = &j->conversation.dialogue;
    HIL_TRY(HIL_ALLOC(d->ids.size + 1, &j->target));
    for (size_t i = 0; i < d->ids.size; ++i) j->target[i] = -1;
    for (size_t s = 0; s < d->rendering.span_count; ++s)
        for (size_t i = d->learned[s].begin; i < d->learned[s].end; ++i) {
            if (i == 0 || j->target[i - 1] >= 0) continue;
            j->target[i - 1] = d->ids.data[i];
            ++j->learned;
        }
    if (j->learned) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s has nothing to predict: no message of the assistant", file);
}

void hil_eval_trainer(const hil_eval_options *options, int64_t sequences, int64_t length,
                      hil_trainer_options *out)
{
    hil_trainer_defaults(out);
    out->dtype = options->dtype;
    out->base_dtype = options->base_dtype;
    out->threads = options->threads;
    out->training = false;
    out->sequences = out->micro_batch = sequences;
    out->length = length;
    out->device = options->device;
    out->memory = options->memory;
    out->stop = options->stop;
}

static hil_status run_job(job *j, const hil_eval_options *o, const hil_observer *observer,
                          hil_eval_result *result)
{
    double began = hil_clock_now();
    HIL_TRY(open_conversation(j, o));
    HIL_TRY(set_targets(j, o->messages));
    const hil_ids *ids = &j->conversation.dialogue.ids;
    hil_trainer_options options;
    hil_eval_trainer(o, 1, (int64_t)ids->size, &options);
    HIL_TRY(hil_source_load(&j->source, &options, observer, &j->model, &j->trainer));
    double ready = hil_clock_now();
    hil_step_result loss;
    hil_batch batch = {
        .sequences = 1, .length = options.length, .token = ids->data, .target = j->target};
    HIL_TRY(hil_trainer_loss(j->trainer, &batch, &loss));
    *result = (hil_eval_result){.loss = loss.loss,
                                .perplexity = exp(loss.loss),
                                .seconds = hil_clock_now() - began,
                                .seconds_to_first_batch = ready - began,
                                .tokens = j->learned,
                                .learned_share = (double)j->learned / (double)ids->size,
                                .examples = {.count = 1}};
    return HIL_OK;
}

hil_status hil_eval_messages(const hil_eval_options *options, const hil_observer *observer,
                             hil_eval_result *result)
{
    job j = {0};
    hil_status status = run_job(&j, options, observer, result);
    hil_trainer_destroy(j.trainer);
    hil_model_destroy(j.model);
    hil_conversation_free(&j.conversation);
    hil_source_close(&j.source);
    hil_free(j.target);
    return status;
}
