/* generator.c - continues token ids, one at a time, with a key/value cache. */
#include "run/generator.h"

#include "base/clock.h"
#include "data/prompt.h"
#include "base/philox.h"

#include <math.h>
#include <string.h>

#define CHUNK 2048
#define QUIET_SECONDS 1.0 /* of reading before its progress is shown */

hil_status hil_generator_open(hil_generator *g, const hil_generate_options *o, const char *command)
{
    *g = (hil_generator){.options = *o, .sampling = {o->temperature, o->top_k, o->top_p}};
    if (!o->model) return hil_fail(HIL_ERR_USAGE, "%s needs a model", command);
    if (o->max_tokens < 0) return hil_fail(HIL_ERR_USAGE, "--max-tokens must not be negative");
    HIL_TRY(hil_sampling_check(&g->sampling));
    HIL_TRY(hil_source_open(&g->source, o->model));
    HIL_TRY(hil_source_adapt_folder(&g->source, o->adapter));
    return hil_source_need_weights(&g->source, command);
}

static bool is_stopped(const hil_generator *g)
{
    return g->options.stop && *g->options.stop;
}

/* Before each layer of a pass: a model whose weights are streamed may need minutes for one. */
static hil_status watch_pass(void *context, int segment, int segments)
{
    const hil_generator *g = context;
    const hil_observer *o = g->observer;
    if (is_stopped(g)) return hil_fail(HIL_ERR_INTERRUPTED, "stopped");
    if (o && o->progress && g->reading > 1 && hil_clock_now() - g->began > QUIET_SECONDS)
        o->progress(o->context, "reading the conversation",
                    g->cached + (uint64_t)(g->reading * segment / segments), g->ids.size);
    return HIL_OK;
}

static hil_status begin_cache(hil_generator *g)
{
    HIL_TRY(hil_engine_cache_begin(g->trainer->engine, g->positions));
    HIL_TRY(HIL_ALLOC(g->source.config.vocab, &g->logits));
    HIL_TRY(HIL_ALLOC(g->source.config.vocab, &g->order));
    return HIL_ALLOC(g->chunk, &g->position);
}

hil_status hil_generator_load(hil_generator *g, int64_t positions, int64_t chunk,
                              const hil_observer *observer)
{
    const hil_generate_options *o = &g->options;
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = o->dtype ? o->dtype : hil_dtype_name(g->source.config.dtype);
    options.base_dtype = o->base_dtype;
    options.threads = o->threads;
    options.training = false;
    options.cache = g->positions = positions;
    options.device = o->device;
    options.memory = o->memory;
    options.stop = o->stop;
    hil_status status;
    for (;; chunk /= 2) {
        options.length = g->chunk = chunk;
        status = hil_source_load(&g->source, &options, observer, &g->model, &g->trainer);
        if (status != HIL_ERR_BUDGET || chunk == 1) break;
    }
    HIL_TRY(status);
    g->observer = observer;
    hil_engine_set_watch(g->trainer->engine, watch_pass, g);
    return begin_cache(g);
}

hil_status hil_generator_lend(hil_generator *g, const hil_source *source, hil_trainer *trainer,
                              int64_t positions, const hil_generate_options *o)
{
    int64_t length = trainer->options.length;
    *g = (hil_generator){.source = *source,
                         .options = *o,
                         .sampling = {o->temperature, o->top_k, o->top_p},
                         .positions = positions,
                         .chunk = length < positions ? length : positions,
                         .trainer = trainer,
                         .comm = trainer->options.comm,
                         .continues = o->prompt && *o->prompt,
                         .lent = true};
    return begin_cache(g);
}

int64_t hil_generator_chunk(int64_t positions)
{
    return positions < CHUNK ? positions : CHUNK;
}

void hil_generator_close(hil_generator *g)
{
    hil_decoder_destroy(g->decoder);
    if (g->lent) {
        hil_engine_cache_end(g->trainer->engine);
    } else {
        hil_trainer_destroy(g->trainer);
        hil_model_destroy(g->model);
        hil_source_close(&g->source);
    }
    hil_ids_free(&g->ids);
    hil_text_free(&g->text);
    hil_free(g->logits);
    hil_free(g->order);
    hil_free(g->position);
    *g = (hil_generator){0};
}

hil_status hil_generator_set(hil_generator *g, const hil_ids *ids)
{
    size_t same = 0, least = g->cached < ids->size ? g->cached : ids->size;
    while (same < least && g->ids.data[same] == ids->data[same]) ++same;
    g->ids.size = same;
    g->cached = same;
    for (size_t i = same; i < ids->size; ++i) HIL_TRY(hil_ids_add(&g->ids, ids->data[i]));
    return HIL_OK;
}

hil_status hil_generator_prompt(const hil_source *source, const char *prompt, hil_ids *ids)
{
    hil_prompter prompter = {source->tokenizer, NULL, source->config.bos, source->eot, NULL};
    if (prompter.tokenizer) HIL_TRY(hil_encoder_create(&prompter.encoder, prompter.tokenizer));
    hil_status status = hil_prompt_encode(&prompter, prompt, strlen(prompt), ids, NULL);
    hil_encoder_destroy(prompter.encoder);
    return status;
}

hil_status hil_generator_check(const hil_source *source, const hil_ids *ids, const char *what)
{
    const hil_config *config = &source->config;
    if (!ids->size)
        return hil_fail(HIL_ERR_USAGE, "the model has no beginning-of-text token: give a %s", what);
    for (size_t i = 0; i < ids->size; ++i)
        if (ids->data[i] >= config->vocab)
            return hil_fail(HIL_ERR_INPUT, "the %s has token id %d, outside the vocabulary of %lld",
                            what, (int)ids->data[i], (long long)config->vocab);
    return HIL_OK;
}

static bool is_end(const hil_generator *g, int32_t id)
{
    if (!g->source.tokenizer) return id == g->source.eot;
    for (int i = 0; i < HIL_EOS_MAX && g->source.config.eos_all[i] >= 0; ++i)
        if (id == g->source.config.eos_all[i]) return true;
    return false;
}

/* Writes the text that is complete after `id`; -1: the rest, at the end. */
static hil_status put(hil_generator *g, int32_t id, bool *stop)
{
    g->text.size = 0;
    if (!g->source.tokenizer) {
        char byte = (char)id;
        if (id >= 0 && id < 256) HIL_TRY(hil_text_add(&g->text, &byte, 1));
    } else if (id >= 0) {
        HIL_TRY(hil_decoder_add(g->decoder, id, &g->text));
    } else {
        HIL_TRY(hil_decoder_end(g->decoder, &g->text));
    }
    const hil_generate_options *o = &g->options;
    if (g->text.size && o->write && o->write(o->write_context, g->text.data, g->text.size) != 0)
        *stop = true;
    if (is_stopped(g)) *stop = true;
    return HIL_OK;
}

/* Leaves in the cache what there is in common, but for the last id, which is read for its logits.
   Recurrences may keep less. */
static void cut_cache(hil_generator *g)
{
    if (g->cached == g->ids.size) --g->cached;
    g->cached = (size_t)hil_engine_cache_cut(g->trainer->engine, (int64_t)g->cached);
}

/* Reads the ids that the cache lacks; the logits become those of the last id. A stop asked for
   leaves some unread. */
static hil_status read_ids(hil_generator *g)
{
    g->began = hil_clock_now();
    while (g->cached < g->ids.size && !is_stopped(g)) {
        int64_t left = (int64_t)(g->ids.size - g->cached);
        int64_t length = left < g->chunk ? left : g->chunk;
        for (int64_t i = 0; i < length; ++i) g->position[i] = (int32_t)g->cached + (int32_t)i;
        hil_micro micro = {.sequences = 1,
                           .length = length,
                           .token = g->ids.data + g->cached,
                           .position = g->position};
        g->reading = length;
        hil_status status = hil_engine_extend(g->trainer->engine, &micro, g->logits);
        if (status == HIL_ERR_INTERRUPTED) return HIL_OK;
        HIL_TRY(status);
        g->cached += (size_t)length;
    }
    return HIL_OK;
}

static hil_status choose(hil_generator *g, int32_t *id)
{
    int64_t vocab = g->source.config.vocab;
    for (int64_t i = 0; i < vocab; ++i)
        if (isnan(g->logits[i]))
            return hil_fail(HIL_ERR_NUMERIC, "the model computes NaN: its weights are damaged");
    uint32_t word[4];
    hil_philox(g->options.seed, g->cached, HIL_PHILOX_SAMPLE, word);
    *id = hil_sample(&g->sampling, g->logits, vocab, (double)hil_philox_unit(word[0]), g->order);
    return hil_comm_broadcast(g->comm, HIL_CHANNEL_CONTROL, id, sizeof *id);
}

static hil_status begin_text(hil_generator *g)
{
    hil_decoder_destroy(g->decoder);
    g->decoder = NULL;
    if (!g->source.tokenizer) return HIL_OK;
    HIL_TRY(hil_decoder_create(&g->decoder, g->source.tokenizer));
    if (g->continues) hil_decoder_continue(g->decoder);
    return HIL_OK;
}

hil_status hil_generator_run(hil_generator *g, int64_t most, hil_generate_result *result)
{
    int64_t room = g->positions - (int64_t)g->ids.size;
    if (most > room) most = room;
    cut_cache(g);
    *result = (hil_generate_result){.prompt_tokens = (int64_t)g->ids.size,
                                    .reused_tokens = (int64_t)g->cached,
                                    .end = HIL_GENERATE_LENGTH};
    HIL_TRY(begin_text(g));
    bool stop = is_stopped(g);
    double began = 0;
    for (; result->tokens < most && !stop; ++result->tokens) {
        int32_t id = -1;
        HIL_TRY(read_ids(g));
        if (is_stopped(g)) break;
        if (result->tokens == 0) began = hil_clock_now();
        HIL_TRY(choose(g, &id));
        if (is_end(g, id)) {
            result->end = HIL_GENERATE_END;
            break;
        }
        HIL_TRY(hil_ids_add(&g->ids, id));
        HIL_TRY(put(g, id, &stop));
    }
    result->seconds = began > 0 ? hil_clock_now() - began : 0;
    if (result->seconds > 0 && result->tokens > 1)
        result->tokens_per_second = (double)(result->tokens - 1) / result->seconds;
    HIL_TRY(put(g, -1, &stop));
    if (stop || is_stopped(g)) result->end = HIL_GENERATE_STOPPED;
    return HIL_OK;
}
