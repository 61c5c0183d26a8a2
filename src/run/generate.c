/* generate.c - continues a prompt, one token at a time, with a key/value cache. */
#include "base/clock.h"
#include "base/philox.h"
#include "data/prompt.h"
#include "run/sampling.h"
#include "run/model_source.h"
#include "base/sized.h"

#include <math.h>
#include <string.h>

void hil_generate_defaults_sized(hil_generate_options *options, size_t size)
{
    const hil_generate_options defaults = {
        .prompt = "",
        .max_tokens = 128,
        .temperature = 1,
        .top_p = 1,
        .seed = 42,
        .dtype = "fp32",
        .device = {.name = "auto"},
    };
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

typedef struct job {
    const hil_generate_options *options;
    hil_source source;
    hil_model *model;
    hil_trainer *trainer;
    hil_decoder *decoder;
    hil_ids ids;
    hil_text text;
    float *logits;
    int32_t *order, *position;
} job;

static hil_status check_options(const hil_generate_options *o)
{
    if (!o->model) return hil_fail(HIL_ERR_USAGE, "generate needs a model");
    if (o->max_tokens < 0) return hil_fail(HIL_ERR_USAGE, "--max-tokens must not be negative");
    if (!(o->temperature >= 0))
        return hil_fail(HIL_ERR_USAGE, "--temperature must not be negative");
    if (!(o->top_p > 0 && o->top_p <= 1))
        return hil_fail(HIL_ERR_USAGE, "--top-p must be above 0 and at most 1");
    if (o->top_k < 0) return hil_fail(HIL_ERR_USAGE, "--top-k must not be negative");
    return HIL_OK;
}

static hil_status encode_prompt(job *j)
{
    const char *prompt = j->options->prompt ? j->options->prompt : "";
    const hil_config *config = &j->source.config;
    hil_prompter prompter = {j->source.tokenizer, NULL, config->bos, j->source.eot};
    if (prompter.tokenizer) HIL_TRY(hil_encoder_create(&prompter.encoder, prompter.tokenizer));
    hil_status status = hil_prompt_encode(&prompter, prompt, strlen(prompt), &j->ids, NULL);
    hil_encoder_destroy(prompter.encoder);
    HIL_TRY(status);
    if (!j->ids.size)
        return hil_fail(HIL_ERR_USAGE, "the model has no beginning-of-text token: give a --prompt");
    for (size_t i = 0; i < j->ids.size; ++i)
        if (j->ids.data[i] >= config->vocab)
            return hil_fail(HIL_ERR_INPUT,
                            "the prompt has token id %d, outside the vocabulary of %lld",
                            (int)j->ids.data[i], (long long)config->vocab);
    if ((int64_t)j->ids.size > config->max_positions)
        return hil_fail(HIL_ERR_USAGE,
                        "the prompt has %zu tokens, but the model only %lld positions", j->ids.size,
                        (long long)config->max_positions);
    return HIL_OK;
}

static bool is_end(const job *j, int32_t id)
{
    if (!j->source.tokenizer) return id == j->source.eot;
    for (int i = 0; i < HIL_EOS_MAX && j->source.config.eos_all[i] >= 0; ++i)
        if (id == j->source.config.eos_all[i]) return true;
    return false;
}

static hil_status put(job *j, int32_t id, bool *stop)
{
    j->text.size = 0;
    if (!j->source.tokenizer) {
        char byte = (char)id;
        if (id < 256) HIL_TRY(hil_text_add(&j->text, &byte, 1));
    } else if (id >= 0) {
        HIL_TRY(hil_decoder_add(j->decoder, id, &j->text));
    } else {
        HIL_TRY(hil_decoder_end(j->decoder, &j->text));
    }
    const hil_generate_options *o = j->options;
    if (j->text.size && o->write && o->write(o->write_context, j->text.data, j->text.size) != 0)
        *stop = true;
    if (o->stop && *o->stop) *stop = true;
    return HIL_OK;
}

/* Runs ids [done, size) through the model; j->logits become those of the last id. */
static hil_status extend(job *j, size_t done)
{
    int64_t length = (int64_t)(j->ids.size - done);
    for (int64_t i = 0; i < length; ++i) j->position[i] = (int32_t)done + (int32_t)i;
    hil_micro micro = {
        .sequences = 1, .length = length, .token = j->ids.data + done, .position = j->position};
    return hil_engine_extend(j->trainer->engine, &micro, j->logits);
}

static hil_status check_logits(const job *j)
{
    for (int64_t i = 0; i < j->source.config.vocab; ++i)
        if (isnan(j->logits[i]))
            return hil_fail(HIL_ERR_NUMERIC, "the model computes NaN: its weights are damaged");
    return HIL_OK;
}

static hil_status continue_prompt(job *j, hil_generate_result *result)
{
    const hil_generate_options *o = j->options;
    int64_t room = j->source.config.max_positions - (int64_t)j->ids.size;
    int64_t most = o->max_tokens < room ? o->max_tokens : room;
    hil_sampling how = {o->temperature, o->top_k, o->top_p};
    size_t done = 0;
    bool stop = false;
    double began = hil_clock_now();
    for (; result->tokens < most && !stop; ++result->tokens) {
        HIL_TRY(extend(j, done));
        if (done == 0) began = hil_clock_now();
        done = j->ids.size;
        HIL_TRY(check_logits(j));
        uint32_t word[4];
        hil_philox(o->seed, done, HIL_PHILOX_SAMPLE, word);
        int32_t id = hil_sample(&how, j->logits, j->source.config.vocab,
                                (double)hil_philox_unit(word[0]), j->order);
        if (is_end(j, id)) break;
        HIL_TRY(hil_ids_add(&j->ids, id));
        HIL_TRY(put(j, id, &stop));
    }
    result->seconds = hil_clock_now() - began;
    if (result->seconds > 0 && result->tokens > 1)
        result->tokens_per_second = (double)(result->tokens - 1) / result->seconds;
    return j->source.tokenizer ? put(j, -1, &stop) : HIL_OK;
}

static hil_status run_job(job *j, hil_generate_result *result)
{
    const hil_generate_options *o = j->options;
    HIL_TRY(check_options(o));
    HIL_TRY(hil_source_open(&j->source, o->model));
    HIL_TRY(hil_source_need_weights(&j->source, "generate"));
    HIL_TRY(hil_source_need_tokenizer(&j->source, o->tokenizer));
    HIL_TRY(encode_prompt(j));
    int64_t room = j->source.config.max_positions - (int64_t)j->ids.size;
    int64_t positions = (int64_t)j->ids.size + (o->max_tokens < room ? o->max_tokens : room);
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = o->dtype;
    options.threads = o->threads;
    options.training = false;
    options.length = (int64_t)j->ids.size;
    options.cache = positions;
    options.device = o->device;
    options.memory = o->memory;
    options.stop = o->stop;
    HIL_TRY(hil_source_load(&j->source, &options, NULL, &j->model, &j->trainer));
    if (j->source.tokenizer) HIL_TRY(hil_decoder_create(&j->decoder, j->source.tokenizer));
    HIL_TRY(hil_engine_cache_begin(j->trainer->engine, positions));
    HIL_TRY(HIL_ALLOC(j->source.config.vocab, &j->logits));
    HIL_TRY(HIL_ALLOC(j->source.config.vocab, &j->order));
    HIL_TRY(HIL_ALLOC(positions + 1, &j->position));
    result->prompt_tokens = (int64_t)j->ids.size;
    return continue_prompt(j, result);
}

hil_status hil_generate(const hil_generate_options *options, hil_generate_result *result)
{
    hil_generate_options own;
    HIL_TRY(HIL_SIZED_TAKE(hil_generate, &own, options));
    job j = {.options = &own};
    *result = (hil_generate_result){0};
    hil_status status = run_job(&j, result);
    hil_decoder_destroy(j.decoder);
    hil_trainer_destroy(j.trainer);
    hil_model_destroy(j.model);
    hil_source_close(&j.source);
    hil_ids_free(&j.ids);
    hil_text_free(&j.text);
    hil_free(j.logits);
    hil_free(j.order);
    hil_free(j.position);
    return status;
}
