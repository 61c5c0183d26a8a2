/* chat.c - a conversation with a model: every reply is generated from the rendering of all messages
   so far. */
#include "base/note.h"
#include "base/sized.h"
#include "run/generator.h"
#include "text/chat_template.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_CONTEXT 4096

struct hil_chat {
    hil_generate_options options;
    hil_generator generator;
    hil_chat_template *template;
    json_t *variables; /* for the template: messages, add_generation_prompt */
    hil_text reply;
};

void hil_chat_defaults_sized(hil_generate_options *options, size_t size)
{
    const hil_generate_options defaults = {
        .max_tokens = 1024,
        .temperature = 1,
        .top_p = 1,
        .seed = 42,
        .device = {.name = "auto"},
    };
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

static hil_status no_memory(void)
{
    return hil_fail(HIL_ERR_MEMORY, "out of memory for the conversation");
}

static json_t *messages_of(const hil_chat *chat)
{
    return json_object_get(chat->variables, "messages");
}

/* Text that is not UTF-8 fails. */
static hil_status add_message(hil_chat *chat, const char *role, const char *text, size_t size)
{
    json_t *content = json_stringn(text, size);
    if (!content)
        return hil_fail(HIL_ERR_INPUT, "the message is not UTF-8, or out of memory: repeat it");
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
    if (!message || json_array_append_new(messages_of(chat), message) != 0) return no_memory();
    return HIL_OK;
}

static void drop_messages(hil_chat *chat, size_t keep)
{
    json_t *messages = messages_of(chat);
    while (json_array_size(messages) > keep) json_array_remove(messages, keep);
}

static int write_reply(void *context, const char *text, size_t size)
{
    hil_chat *chat = context;
    const hil_generate_options *o = &chat->options;
    if (hil_text_add(&chat->reply, text, size) != HIL_OK) return 1;
    return o->write ? o->write(o->write_context, text, size) : 0;
}

static hil_status check_context(const hil_chat *chat, size_t tokens)
{
    const hil_config *config = &chat->generator.source.config;
    int64_t context = chat->generator.positions, most = hil_config_longest(config);
    if ((int64_t)tokens < context) return HIL_OK;
    if (context < most)
        return hil_fail(HIL_ERR_BUDGET,
                        "the conversation has %zu tokens, and the context holds %lld: begin anew "
                        "with /reset, or start with a larger --context (the model has %lld)",
                        tokens, (long long)context, (long long)most);
    return hil_fail(HIL_ERR_BUDGET,
                    "the conversation has %zu tokens, and the model's context holds %lld: begin "
                    "anew with /reset%s",
                    tokens, (long long)context, hil_config_longest_why(config));
}

/* Renders all messages and passes their ids to the generator. */
static hil_status read_messages(hil_chat *chat)
{
    hil_rendering rendering = {0};
    hil_ids ids = {0};
    hil_status status;
    HIL_TRY_DONE(hil_chat_template_render(chat->template, chat->variables, NULL, &rendering));
    HIL_TRY_DONE(hil_tokenizer_encode(chat->generator.source.tokenizer, rendering.text.data,
                                      rendering.text.size, HIL_SPECIAL_NONE, &ids));
    HIL_TRY_DONE(hil_generator_check(&chat->generator.source, &ids, "conversation"));
    HIL_TRY_DONE(check_context(chat, ids.size));
    HIL_TRY_DONE(hil_generator_set(&chat->generator, &ids));
done:
    hil_rendering_free(&rendering);
    hil_ids_free(&ids);
    return status;
}

hil_status hil_chat_say(hil_chat *chat, const char *text, hil_generate_result *result)
{
    size_t before = json_array_size(messages_of(chat));
    hil_status status;
    chat->reply.size = 0;
    *result = (hil_generate_result){0};
    HIL_TRY_DONE(add_message(chat, "user", text, strlen(text)));
    HIL_TRY_DONE(read_messages(chat));
    HIL_TRY_DONE(hil_generator_run(&chat->generator, chat->options.max_tokens, result));
    if (result->end != HIL_GENERATE_STOPPED || chat->reply.size)
        HIL_TRY_DONE(add_message(chat, "assistant", chat->reply.size ? chat->reply.data : "",
                                 chat->reply.size));
    else
        drop_messages(chat, before);
done:
    if (status != HIL_OK) drop_messages(chat, before);
    return status;
}

hil_status hil_chat_reset(hil_chat *chat)
{
    const json_t *first = json_array_get(messages_of(chat), 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    drop_messages(chat, role && strcmp(role, "system") == 0 ? 1 : 0);
    return HIL_OK;
}

hil_status hil_chat_set_system(hil_chat *chat, const char *text)
{
    drop_messages(chat, 0);
    return text && *text ? add_message(chat, "system", text, strlen(text)) : HIL_OK;
}

static hil_status open_chat(hil_chat *chat, const hil_observer *observer)
{
    const hil_generate_options *o = &chat->options;
    hil_generator *g = &chat->generator;
    HIL_TRY(hil_generator_open(g, o, "chat"));
    g->options.write = write_reply;
    g->options.write_context = chat;
    if (!g->source.tokenizer) return hil_source_no_tokenizer(g->source.folder, "");
    HIL_TRY(hil_chat_template_open(&chat->template, g->source.folder));
    chat->variables = json_pack("{s:[], s:b}", "messages", "add_generation_prompt", 1);
    if (!chat->variables) return no_memory();
    HIL_TRY(hil_chat_set_system(chat, o->system));
    int64_t most = hil_config_longest(&g->source.config), context = o->context;
    if (context > most || context < 0)
        return hil_fail(HIL_ERR_USAGE, "--context %lld: the model has %lld positions%s",
                        (long long)context, (long long)most,
                        hil_config_longest_why(&g->source.config));
    if (!context) context = most < DEFAULT_CONTEXT ? most : DEFAULT_CONTEXT;
    char kept[1024];
    hil_status status = hil_generator_load(g, context, hil_generator_chunk(context), observer);
    if (status != HIL_ERR_BUDGET) return status;
    snprintf(kept, sizeof kept, "%s", hil_status_message());
    return hil_fail(status, "%s (or a smaller --context than %lld)", kept, (long long)context);
}

hil_status hil_chat_open(hil_chat **out, const hil_generate_options *options,
                         const hil_observer *observer)
{
    hil_chat *chat;
    *out = NULL;
    HIL_TRY(HIL_ALLOC(1, &chat));
    hil_status status = HIL_SIZED_TAKE(hil_chat, &chat->options, options);
    if (status == HIL_OK) status = open_chat(chat, observer);
    if (status == HIL_OK)
        *out = chat;
    else
        hil_chat_close(chat);
    return status;
}

void hil_chat_close(hil_chat *chat)
{
    if (!chat) return;
    hil_generator_close(&chat->generator);
    hil_chat_template_close(chat->template);
    json_decref(chat->variables);
    hil_text_free(&chat->reply);
    hil_free(chat);
}
