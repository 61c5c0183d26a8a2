/* chat_learned.c - finds the answers in a rendered conversation. */
#include "text/chat_learned.h"

#include <string.h>

hil_status hil_answers_read(const char *word, hil_answers *on)
{
    static const char *const words[] = {"assistant", "last", "all"};
    *on = HIL_ANSWERS_ASSISTANT;
    for (size_t i = 0; word && i < sizeof words / sizeof *words; ++i) {
        if (strcmp(word, words[i]) != 0) continue;
        *on = (hil_answers)i;
        return HIL_OK;
    }
    if (!word) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "--train-on must be assistant, last or all, not '%s'", word);
}

struct search {
    const hil_chat_template *chat;
    const json_t *variables, *messages;
    const hil_jinja_limits *limits;
    const hil_text *whole;
    hil_rendering part; /* of the last prefix */
};

/* Renders the first `count` messages. */
static hil_status render(struct search *s, size_t count, bool generation_prompt, hil_rendering *out)
{
    json_t *variables = json_copy((json_t *)(uintptr_t)s->variables), *some = json_array();
    bool made = variables && some;
    for (size_t i = 0; made && i < count; ++i)
        made = json_array_append(some, json_array_get(s->messages, i)) == 0;
    made = made && json_object_set(variables, "messages", some) == 0 &&
           json_object_set_new(variables, "add_generation_prompt",
                               json_boolean(generation_prompt)) == 0;
    hil_status status = made ? hil_chat_template_render(s->chat, variables, s->limits, out)
                             : hil_fail(HIL_ERR_MEMORY, "out of memory: a conversation");
    json_decref(some);
    json_decref(variables);
    return status;
}

/* *size: of the rendering of the first messages, which must be a prefix of the whole. */
static hil_status prefix(struct search *s, size_t count, bool generation_prompt, size_t *size,
                         bool *sound)
{
    hil_text *text = &s->part.text;
    text->size = s->part.span_count = 0;
    HIL_TRY(render(s, count, generation_prompt, &s->part));
    *size = text->size;
    *sound = *size <= s->whole->size && memcmp(text->data, s->whole->data, *size) == 0;
    return HIL_OK;
}

#define OTHERWISE                                                                                  \
    "or mark the answers in the template with {%% generation %%} ... {%% endgeneration %%}"

static hil_status find_answer(struct search *s, size_t message, hil_byte_span *span)
{
    bool sound, last = message + 1 == json_array_size(s->messages);
    HIL_TRY(prefix(s, message, true, &span->begin, &sound));
    if (!sound)
        return hil_fail(HIL_ERR_INPUT,
                        "message %zu: it is not certain where this answer begins, because the chat "
                        "template does not render it after its own generation prompt; use "
                        "--train-on all, " OTHERWISE,
                        message + 1);
    span->end = s->whole->size;
    if (!last) HIL_TRY(prefix(s, message + 1, false, &span->end, &sound));
    if (!sound || span->end < span->begin)
        return hil_fail(HIL_ERR_INPUT,
                        "message %zu: it is not certain what the model has to learn here, because "
                        "the chat template renders this answer in another way when messages follow "
                        "(some remove <think>); use --train-on last, " OTHERWISE,
                        message + 1);
    return HIL_OK;
}

static bool is_answer(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && strcmp(role, "assistant") == 0;
}

static hil_status add_span(hil_rendering *out, hil_byte_span span)
{
    HIL_TRY(HIL_GROW(&out->spans, &out->span_capacity, out->span_count + 1));
    out->spans[out->span_count++] = span;
    return HIL_OK;
}

static hil_status find_answers(struct search *s, hil_answers on, hil_rendering *out)
{
    size_t count = json_array_size(s->messages), first = 0;
    for (size_t i = 0; i < count && on == HIL_ANSWERS_LAST; ++i)
        if (is_answer(json_array_get(s->messages, i))) first = i;
    out->span_count = 0;
    for (size_t i = first; i < count; ++i) {
        hil_byte_span span = {0};
        if (!is_answer(json_array_get(s->messages, i))) continue;
        HIL_TRY(find_answer(s, i, &span));
        HIL_TRY(add_span(out, span));
    }
    return HIL_OK;
}

static hil_status find(struct search *s, hil_answers on, hil_rendering *out)
{
    const hil_jinja *chosen;
    HIL_TRY(hil_chat_template_choose(s->chat, s->variables, &chosen));
    HIL_TRY(render(s, json_array_size(s->messages), false, out));
    if (on == HIL_ANSWERS_ALL) {
        out->span_count = 0;
        return add_span(out, (hil_byte_span){0, out->text.size});
    }
    if (!hil_jinja_marks_generation(chosen) || out->spans_lost) return find_answers(s, on, out);
    if (on == HIL_ANSWERS_LAST && out->span_count) {
        out->spans[0] = out->spans[out->span_count - 1];
        out->span_count = 1;
    }
    return HIL_OK;
}

hil_status hil_chat_template_learned(const hil_chat_template *chat, const json_t *variables,
                                     hil_answers on, const hil_jinja_limits *limits,
                                     hil_rendering *out)
{
    assert(!out->text.size && !out->span_count);
    struct search search = {.chat = chat,
                            .variables = variables,
                            .messages = json_object_get(variables, "messages"),
                            .limits = limits,
                            .whole = &out->text};
    hil_status status = find(&search, on, out);
    hil_rendering_free(&search.part);
    return status;
}
