/* conversation.c - reads a conversation and renders it by the model's chat template. */
#include "run/conversation.h"

#include "base/json.h"
#include "data/cache.h"
#include "data/prompt.h"
#include "io/file.h"
#include "model/config/config.h"

static hil_status read_conversation(const char *file, bool generation_prompt, json_t **out)
{
    hil_bytes bytes;
    HIL_TRY(hil_bytes_read_stream(&bytes, file));
    hil_status status = hil_json_parse(bytes.data, bytes.size, file, out);
    hil_bytes_free(&bytes);
    if (status != HIL_OK) return status;
    if (!json_is_array(json_object_get(*out, "messages")))
        return hil_fail(HIL_ERR_INPUT, "%s must be a JSON object with a list \"messages\"", file);
    if (json_object_set_new(*out, "add_generation_prompt", json_boolean(generation_prompt)) != 0)
        return hil_fail(HIL_ERR_MEMORY, "%s: out of memory", file);
    return HIL_OK;
}

hil_status hil_conversation_render(const char *model, const char *file, bool generation_prompt,
                                   hil_rendering *out)
{
    hil_chat_template *chat = NULL;
    json_t *variables = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_chat_template_open(&chat, model));
    HIL_TRY_DONE(read_conversation(file, generation_prompt, &variables));
    HIL_TRY_DONE(hil_chat_template_render(chat, variables, NULL, out));
done:
    json_decref(variables);
    hil_chat_template_close(chat);
    return status;
}

/* Both answers, and no conversation beside them. */
static bool is_pair(const json_t *object)
{
    return json_object_get(object, "chosen") && json_object_get(object, "rejected") &&
           !json_object_get(object, "messages") && !json_object_get(object, "conversations");
}

static hil_status read_record(const hil_conversation_file *file, json_t **object,
                              hil_record *record)
{
    hil_record_rules rules = {.chat = true};
    hil_bytes bytes;
    HIL_TRY(hil_record_format_read(file->format, &rules.format));
    HIL_TRY(hil_bytes_read_stream(&bytes, file->path));
    hil_status status = hil_json_parse(bytes.data, bytes.size, file->path, object);
    hil_bytes_free(&bytes);
    if (status == HIL_ERR_INPUT && hil_text_ends_with(file->path, ".jsonl"))
        return hil_fail(HIL_ERR_INPUT,
                        "%s holds several records; give one of them: <(head -n 1 %s)", file->path,
                        file->path);
    HIL_TRY(status);
    if (rules.format == HIL_FORMAT_AUTO && is_pair(*object)) rules.format = HIL_FORMAT_PREFERENCE;
    HIL_TRY(hil_record_read(&rules, *object, record));
    if (record->kind != HIL_RECORD_TEXT) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s holds no conversation", file->path);
}

/* The ids of a row, and a span of each run of learned ones. */
static hil_status learn_tokens(hil_conversation *c, hil_token_row *row)
{
    hil_dialogue *d = &c->dialogue;
    hil_config config;
    HIL_TRY(hil_config_open(&config, c->model));
    HIL_TRY(hil_token_row_check(row, config.vocab));
    if (d->answers == HIL_ANSWERS_ALL) hil_token_row_learn_all(row);
    HIL_TRY(HIL_GROW(&d->learned, &d->learned_room, row->size));
    size_t spans = 0;
    for (size_t i = 0; i < row->size; ++i) {
        HIL_TRY(hil_ids_add(&d->ids, (int32_t)(row->token[i] & HIL_MARK_ID)));
        if (row->token[i] & HIL_MARK_NO_LOSS) continue;
        if (!spans || d->learned[spans - 1].end != i) d->learned[spans++].begin = i;
        d->learned[spans - 1].end = i + 1;
    }
    d->rendering.span_count = spans;
    return HIL_OK;
}

/* Prompt and completion of plain text, as one conversation of which the completion is learned. */
static hil_status learn_example(hil_conversation *c, const hil_record *record)
{
    hil_dialogue *d = &c->dialogue;
    hil_ids completion = {0};
    hil_config config;
    hil_status status;
    HIL_TRY_DONE(hil_config_open(&config, c->model));
    const hil_prompter prompter = {d->tokenizer, d->encoder, config.bos, config.eos,
                                   config.eos_all};
    HIL_TRY_DONE(hil_prompter_example(&prompter, record, &d->ids, &completion));
    HIL_TRY_DONE(HIL_GROW(&d->learned, &d->learned_room, 1));
    size_t begin = d->answers == HIL_ANSWERS_ALL ? 0 : d->ids.size;
    for (size_t i = 0; i < completion.size; ++i)
        HIL_TRY_DONE(hil_ids_add(&d->ids, completion.data[i]));
    d->learned[0] = (hil_token_span){begin, d->ids.size};
    d->rendering.span_count = 1;
done:
    hil_ids_free(&completion);
    return status;
}

hil_status hil_conversation_learn(hil_conversation *c, const char *model,
                                  const hil_tokenizer *tokenizer, const hil_conversation_file *file)
{
    *c = (hil_conversation){.model = model, .dialogue = {.tokenizer = tokenizer}};
    HIL_TRY(hil_answers_read(file->train_on, &c->dialogue.answers));
    HIL_TRY(hil_encoder_create(&c->dialogue.encoder, tokenizer));
    HIL_TRY(read_record(file, &c->object, &c->record));
    bool narrow = c->record.last_only && c->dialogue.answers == HIL_ANSWERS_ASSISTANT;
    if (c->record.kind == HIL_RECORD_PAIR || narrow)
        c->dialogue.answers = HIL_ANSWERS_LAST; /* as in training */
    if (c->record.kind == HIL_RECORD_TOKENS) return learn_tokens(c, &c->record.row);
    if (!c->record.variables) return learn_example(c, &c->record);
    HIL_TRY(hil_chat_template_open(&c->chat, model));
    c->dialogue.chat = c->chat;
    return hil_dialogue_encode(&c->dialogue, c->record.variables);
}

hil_status hil_conversation_learn_worse(hil_conversation *c)
{
    hil_record worse = c->record; /* a view */
    worse.text = worse.rejected, worse.text_size = worse.rejected_size;
    return worse.worse ? hil_dialogue_encode(&c->dialogue, worse.worse) : learn_example(c, &worse);
}

void hil_conversation_free(hil_conversation *c)
{
    hil_record_free(&c->record);
    json_decref(c->object);
    hil_dialogue_free(&c->dialogue);
    hil_encoder_destroy(c->dialogue.encoder);
    hil_chat_template_close(c->chat);
    *c = (hil_conversation){0};
}
