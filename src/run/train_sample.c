/* train_sample.c - samples of text while a run trains. */
#include "run/train.h"

#include "base/clock.h"
#include "base/note.h"
#include "run/generator.h"

#include <string.h>

#define TOKENS 64 /* of a sample */
#define TEMPERATURE 0.8
#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

typedef hil_training job;

hil_status hil_training_prompt(const hil_train_options *o, const hil_source *source, hil_ids *ids,
                               int64_t *positions)
{
    *positions = 0;
    if (!o->sample_every) return HIL_OK;
    HIL_TRY(hil_source_need_tokenizer(source, o->tokenizer));
    HIL_TRY(hil_generator_prompt(source, o->sample_prompt ? o->sample_prompt : "", ids));
    HIL_TRY(hil_generator_check(source, ids, "--sample-prompt"));
    int64_t most = hil_config_longest(&source->config), size = (int64_t)ids->size;
    if (size >= most)
        return hil_fail(HIL_ERR_USAGE,
                        "--sample-prompt has %lld tokens, but the model only %lld positions%s",
                        (long long)size, (long long)most, hil_config_longest_why(&source->config));
    *positions = size + TOKENS < most ? size + TOKENS : most;
    return HIL_OK;
}

/* The text of a sample. A rank without memory for it still takes all tokens, because the others
   wait for it at each; then it fails. */
typedef struct kept_text {
    hil_text *text;
    hil_status status;
} kept_text;

static int keep_text(void *context, const char *text, size_t size)
{
    kept_text *kept = context;
    if (kept->status == HIL_OK) kept->status = hil_text_add(kept->text, text, size);
    return 0;
}

/* Bytes of the character at `text`, which ends with NUL; 0: it is not UTF-8. */
static size_t character(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t size = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
    if (*at > 0xf4) return 0;
    for (size_t i = 1; i < size; ++i)
        if ((at[i] & 0xc0) != 0x80) return 0;
    if (size == 3 && ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f))) return 0;
    if (size == 4 && ((*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f))) return 0;
    return size;
}

/* Copies a text as UTF-8 that any reader takes: what is not becomes U+FFFD. */
static hil_status clean(const hil_text *in, hil_text *out)
{
    HIL_TRY(hil_text_add(out, "", 0));
    for (size_t i = 0; i < in->size;) {
        size_t size = in->data[i] ? character(in->data + i) : 0;
        HIL_TRY(size ? hil_text_add(out, in->data + i, size)
                     : hil_text_add(out, REPLACEMENT, strlen(REPLACEMENT)));
        i += size ? size : 1;
    }
    return HIL_OK;
}

/* On one line, without what a terminal would obey: the controls of ASCII, and U+0080 to U+009F. */
static void flatten(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at; ++at) {
        if (*at < 0x20 || *at == 0x7f) *at = ' ';
        if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0) at[0] = at[1] = ' ';
    }
}

static hil_status report(job *j, const hil_text *raw, double seconds)
{
    const char *given = j->options->sample_prompt;
    hil_text prompt = {0}, text = {0}, said = {0};
    hil_status status;
    if (given) HIL_TRY_DONE(hil_text_add(&said, given, strlen(given)));
    HIL_TRY_DONE(clean(&said, &prompt));
    HIL_TRY_DONE(clean(raw, &text));
    HIL_TRY_DONE(hil_metrics_sample(&j->metrics, j->run.step, prompt.data, text.data, seconds));
    said.size = 0;
    HIL_TRY_DONE(hil_text_print(&said, "step %lld: sample: %s%s", (long long)j->run.step,
                                prompt.data, text.data));
    flatten(said.data);
    if (j->outer && j->outer->note) j->outer->note(j->outer->context, said.data);
done:
    hil_text_free(&prompt);
    hil_text_free(&text);
    hil_text_free(&said);
    return status;
}

static hil_status continue_prompt(const job *j, hil_generator *g, hil_text *text)
{
    hil_generate_options o;
    hil_generate_result result;
    kept_text kept = {text, HIL_OK};
    int64_t size = (int64_t)j->prompt.size;
    hil_generate_defaults(&o);
    o.prompt = j->options->sample_prompt;
    o.temperature = TEMPERATURE;
    o.seed = j->options->seed;
    o.write = keep_text;
    o.write_context = &kept;
    HIL_TRY(hil_generator_lend(g, &j->source, j->trainer, j->trainer->options.cache, &o));
    HIL_TRY(hil_generator_set(g, &j->prompt));
    HIL_TRY(hil_generator_run(g, g->positions - size, &result));
    return kept.status;
}

hil_status hil_training_sample(job *j)
{
    hil_generator g = {0};
    hil_text text = {0};
    double began = hil_clock_now();
    hil_comm_set_activity(j->comm, "step %lld, a sample of text", (long long)j->run.step);
    hil_status status = continue_prompt(j, &g, &text);
    if (status == HIL_OK && j->rank == 0) status = report(j, &text, hil_clock_now() - began);
    hil_generator_close(&g);
    hil_text_free(&text);
    return status;
}
