/* postprocess.c - the "post_processor" of a tokenizer.json: ids before and after a text. */
#include "text/tokenizer_parts.h"

#include "base/json.h"

#include <string.h>

static hil_status load_special(const json_t *name, const json_t *table, const hil_vocab *vocab,
                               const char *what, hil_ids *out)
{
    const char *token = "";
    HIL_TRY(hil_json_string(name, "id", what, &token));
    const json_t *list = json_object_get(json_object_get(table, token), "ids");
    if (!json_is_array(list))
        return hil_fail(HIL_ERR_INPUT, "%s: the post-processor has no ids for \"%.60s\"", what,
                        token);
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *value = json_array_get(list, i);
        int64_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (!hil_vocab_has(vocab, id))
            return hil_fail(HIL_ERR_INPUT, "%s: the post-processor's \"%.60s\" has an unknown id",
                            what, token);
        HIL_TRY(hil_ids_add(out, (int32_t)id));
    }
    return HIL_OK;
}

/* Puts the template's ids around those that `frame` has already. */
static hil_status load_template(hil_frame *frame, const json_t *value, const hil_vocab *vocab,
                                const char *what)
{
    hil_status status = HIL_OK;
    hil_ids before = {0}, after = frame->after;
    const json_t *single = json_object_get(value, "single");
    const json_t *table = json_object_get(value, "special_tokens");
    size_t texts = 0;
    for (size_t i = 0; i < json_array_size(single); ++i) {
        const json_t *item = json_array_get(single, i);
        const json_t *special = json_object_get(item, "SpecialToken");
        if (special) {
            hil_ids *side = texts ? &after : &before;
            HIL_TRY_DONE(load_special(special, table, vocab, what, side));
        } else {
            ++texts;
        }
    }
    if (texts != 1) {
        status =
            hil_fail(HIL_ERR_INPUT, "%s: the post-processor's template must have one text", what);
        goto done;
    }
    for (size_t i = 0; i < frame->before.size; ++i)
        HIL_TRY_DONE(hil_ids_add(&before, frame->before.data[i]));
    hil_ids swap = frame->before;
    frame->before = before;
    before = swap;
done:
    frame->after = after;
    hil_ids_free(&before);
    return status;
}

hil_status hil_frame_load(hil_frame *frame, const json_t *value, const hil_vocab *vocab,
                          const char *what)
{
    if (!value || json_is_null(value)) return HIL_OK;
    const char *type = "";
    HIL_TRY(hil_json_string(value, "type", what, &type));
    if (strcmp(type, "ByteLevel") == 0) return HIL_OK;
    if (strcmp(type, "TemplateProcessing") == 0) return load_template(frame, value, vocab, what);
    if (strcmp(type, "Sequence") != 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: the post-processor \"%.60s\" is not supported (ByteLevel, "
                        "TemplateProcessing and Sequence are)",
                        what, type);
    const json_t *list = json_object_get(value, "processors");
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *item = json_array_get(list, i);
        const char *name = "";
        HIL_TRY(hil_json_string(item, "type", what, &name));
        if (strcmp(name, "Sequence") == 0)
            return hil_fail(HIL_ERR_INPUT, "%s: a post-processor Sequence in a Sequence", what);
        HIL_TRY(hil_frame_load(frame, item, vocab, what));
    }
    return HIL_OK;
}
