/* generate.c - continues a prompt or a conversation with a model. */
#include "base/sized.h"
#include "run/conversation.h"
#include "run/generator.h"

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

/* The template has added the special tokens, so none are added. */
static hil_status encode_messages(hil_generator *g, const char *file)
{
    hil_rendering rendering = {0};
    const hil_tokenizer *tokenizer = g->source.tokenizer;
    if (!tokenizer) return hil_source_no_tokenizer(g->source.folder, "");
    hil_status status = hil_conversation_render(g->source.folder, file, true, &rendering);
    if (status == HIL_OK)
        status = hil_tokenizer_encode(tokenizer, rendering.text.data, rendering.text.size,
                                      HIL_SPECIAL_NONE, &g->ids);
    hil_rendering_free(&rendering);
    return status;
}

static hil_status encode(hil_generator *g, const hil_generate_options *o)
{
    const char *what = o->messages ? "conversation" : "prompt";
    HIL_TRY(hil_source_need_tokenizer(&g->source, o->tokenizer));
    HIL_TRY(o->messages ? encode_messages(g, o->messages)
                        : hil_generator_prompt(&g->source, o->prompt ? o->prompt : "", &g->ids));
    HIL_TRY(hil_generator_check(&g->source, &g->ids, what));
    int64_t most = hil_config_longest(&g->source.config);
    if ((int64_t)g->ids.size <= most) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "the %s has %zu tokens, but the model only %lld positions%s",
                    what, g->ids.size, (long long)most, hil_config_longest_why(&g->source.config));
}

static hil_status run_job(hil_generator *g, const hil_generate_options *o,
                          hil_generate_result *result)
{
    HIL_TRY(hil_generator_open(g, o, "generate"));
    HIL_TRY(encode(g, o));
    g->continues = !o->messages && o->prompt && *o->prompt;
    int64_t prompt = (int64_t)g->ids.size, room = hil_config_longest(&g->source.config) - prompt;
    int64_t most = o->max_tokens < room ? o->max_tokens : room;
    HIL_TRY(hil_generator_load(g, prompt + most, prompt, NULL));
    return hil_generator_run(g, most, result);
}

hil_status hil_generate(const hil_generate_options *options, hil_generate_result *result)
{
    hil_generate_options own;
    HIL_TRY(HIL_SIZED_TAKE(hil_generate, &own, options));
    hil_generator g = {0};
    *result = (hil_generate_result){0};
    hil_status status = run_job(&g, &own, result);
    hil_generator_close(&g);
    return status;
}
