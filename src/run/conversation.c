/* conversation.c - reads a conversation and renders it by the model's chat template. */
#include "run/conversation.h"

#include "base/json.h"
#include "data/record.h"
#include "io/file.h"

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
    HIL_TRY(status);
    if (rules.format == HIL_FORMAT_AUTO && is_pair(*object)) rules.format = HIL_FORMAT_PREFERENCE;
    HIL_TRY(hil_record_read(&rules, *object, record));
    if (record->variables) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s holds no conversation", file->path);
}

hil_status hil_conversation_learn(hil_conversation *c, const char *model,
                                  const hil_tokenizer *tokenizer, const hil_conversation_file *file)
{
    hil_record record = {0};
    json_t *object = NULL;
    hil_status status;
    *c = (hil_conversation){.dialogue = {.tokenizer = tokenizer}};
    HIL_TRY_DONE(hil_answers_read(file->train_on, &c->dialogue.answers));
    HIL_TRY_DONE(hil_chat_template_open(&c->chat, model));
    HIL_TRY_DONE(hil_encoder_create(&c->dialogue.encoder, tokenizer));
    HIL_TRY_DONE(read_record(file, &object, &record));
    c->dialogue.chat = c->chat;
    c->worse = json_incref(record.worse);
    if (c->worse) c->dialogue.answers = HIL_ANSWERS_LAST; /* as in training */
    HIL_TRY_DONE(hil_dialogue_encode(&c->dialogue, record.variables));
done:
    hil_record_free(&record);
    json_decref(object);
    return status;
}

hil_status hil_conversation_learn_worse(hil_conversation *c)
{
    return hil_dialogue_encode(&c->dialogue, c->worse);
}

void hil_conversation_free(hil_conversation *c)
{
    json_decref(c->worse);
    hil_dialogue_free(&c->dialogue);
    hil_encoder_destroy(c->dialogue.encoder);
    hil_chat_template_close(c->chat);
    *c = (hil_conversation){0};
}
