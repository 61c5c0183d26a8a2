/* conversation.c - reads a conversation and renders it by the model's chat template. */
#include "run/conversation.h"

#include "base/json.h"
#include "io/file.h"

static hil_status read_conversation(const char *file, bool generation_prompt, json_t **out)
{
    hil_bytes bytes;
    HIL_TRY(hil_bytes_read(&bytes, file));
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
