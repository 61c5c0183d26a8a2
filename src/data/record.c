/* record.c - which format an object has, and what it holds. */
#include "data/record.h"

#include "data/dialogue.h"

#include <string.h>
#include <strings.h>

static const char *const words[] = {
    [HIL_FORMAT_AUTO] = "auto",         [HIL_FORMAT_TEXT] = "text",
    [HIL_FORMAT_PROMPT] = "prompt",     [HIL_FORMAT_PLAIN] = "",
    [HIL_FORMAT_MESSAGES] = "messages", [HIL_FORMAT_SHAREGPT] = "sharegpt",
    [HIL_FORMAT_ALPACA] = "alpaca",     [HIL_FORMAT_PREFERENCE] = "preference",
    [HIL_FORMAT_TOKENS] = "tokens",     [HIL_FORMAT_JUDGED] = "",
};

/* What is expected of an object, for errors. */
static const char *const expected[] = {
    [HIL_FORMAT_TEXT] = "\"text\"",
    [HIL_FORMAT_PROMPT] = "\"prompt\" and \"completion\"",
    [HIL_FORMAT_PLAIN] = "either \"text\" or both \"prompt\" and \"completion\"",
    [HIL_FORMAT_MESSAGES] = "\"messages\"",
    [HIL_FORMAT_SHAREGPT] = "\"conversations\"",
    [HIL_FORMAT_ALPACA] = "\"instruction\" and \"output\"",
    [HIL_FORMAT_PREFERENCE] = "\"chosen\" and \"rejected\"",
    [HIL_FORMAT_TOKENS] = "\"input_ids\"",
    [HIL_FORMAT_JUDGED] =
        "\"prompt\", \"completion\" and \"label\", or \"chosen\" and \"rejected\"",
};

hil_status hil_record_format_read(const char *word, hil_record_format *format)
{
    *format = HIL_FORMAT_AUTO;
    if (!word) return HIL_OK;
    for (size_t i = 0; i < sizeof words / sizeof *words; ++i) {
        if (!*word || strcmp(word, words[i]) != 0) continue;
        *format = (hil_record_format)i;
        return HIL_OK;
    }
    return hil_fail(HIL_ERR_USAGE,
                    "--format must be auto, text, prompt, messages, sharegpt, alpaca, tokens "
                    "or preference, not '%s'",
                    word);
}

/* In tables null is in the columns that a row does not have. */
static bool has(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value);
}

static bool fits(hil_record_format format, const json_t *object)
{
    switch (format) {
    case HIL_FORMAT_TEXT:
        return has(object, "text");
    case HIL_FORMAT_PROMPT:
        return has(object, "prompt") && has(object, "completion");
    case HIL_FORMAT_PLAIN:
        return has(object, "text") ? !has(object, "prompt") && !has(object, "completion")
                                   : fits(HIL_FORMAT_PROMPT, object);
    case HIL_FORMAT_MESSAGES:
        return has(object, "messages");
    case HIL_FORMAT_SHAREGPT:
        return has(object, "conversations");
    case HIL_FORMAT_ALPACA:
        return has(object, "instruction") && has(object, "output");
    case HIL_FORMAT_PREFERENCE:
        return has(object, "chosen") && has(object, "rejected");
    case HIL_FORMAT_JUDGED:
        return fits(HIL_FORMAT_PREFERENCE, object) ||
               (fits(HIL_FORMAT_PROMPT, object) && has(object, "label"));
    case HIL_FORMAT_TOKENS:
        return has(object, "input_ids");
    default:
        return false;
    }
}

/* Token ids come first, as in TRL: somebody made them of what is beside them. Then conversations:
   their records often have a "prompt" or a rendered "text" beside. */
static hil_record_format detect(const json_t *object)
{
    static const hil_record_format order[] = {HIL_FORMAT_TOKENS, HIL_FORMAT_MESSAGES,
                                              HIL_FORMAT_SHAREGPT, HIL_FORMAT_PLAIN,
                                              HIL_FORMAT_ALPACA};
    for (size_t i = 0; i < sizeof order / sizeof *order; ++i)
        if (fits(order[i], object)) return order[i];
    return HIL_FORMAT_AUTO;
}

static hil_status fail_keys(const hil_record_rules *rules, const json_t *object)
{
    static const char by_jq[] = "jq renames keys: jq -c '{prompt: .question, completion: .answer}'";
    hil_record_format format = rules->format;
    hil_text keys = {0};
    hil_status status = HIL_OK;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (keys.size > 200) {
            HIL_TRY_DONE(hil_text_print(&keys, ", ..."));
            break;
        }
        HIL_TRY_DONE(hil_text_print(&keys, "%s\"%.60s\"%s", keys.size ? ", " : "", key,
                                    json_is_null(value) ? " (null)" : ""));
    }
    const char *found = keys.size ? keys.data : "no keys";
    if (format == HIL_FORMAT_AUTO && fits(HIL_FORMAT_PREFERENCE, object))
        status = hil_fail(HIL_ERR_INPUT, "a pair of answers (found %s) is for --loss dpo", found);
    else if (format == HIL_FORMAT_AUTO)
        status = hil_fail(HIL_ERR_INPUT,
                          "expected \"messages\", \"conversations\", \"input_ids\", "
                          "\"instruction\" and \"output\", or %s, found %s; %s",
                          expected[HIL_FORMAT_PLAIN], found, rules->rename ? rules->rename : by_jq);
    else
        status = hil_fail(HIL_ERR_INPUT, "expected %s, found %s", expected[format], found);
done:
    hil_text_free(&keys);
    return status;
}

static hil_status get_string(const json_t *object, const char *key, const char **text, size_t *size)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value)) return hil_fail(HIL_ERR_INPUT, "\"%s\" must be a string", key);
    *text = json_string_value(value);
    *size = json_string_length(value);
    return HIL_OK;
}

static hil_status read_plain(const json_t *object, bool example, hil_record *record)
{
    if (example && json_is_array(json_object_get(object, "completion"))) {
        record->kind = HIL_RECORD_CONVERSATION;
        record->last_only = true;
        return hil_dialogue_completion(object, &record->variables);
    }
    record->prompt = "";
    if (!example) return get_string(object, "text", &record->text, &record->text_size);
    record->kind = HIL_RECORD_EXAMPLE;
    HIL_TRY(get_string(object, "prompt", &record->prompt, &record->prompt_size));
    return get_string(object, "completion", &record->text, &record->text_size);
}

static hil_status read_alpaca(const json_t *object, hil_record *record)
{
    record->kind = HIL_RECORD_EXAMPLE;
    HIL_TRY(hil_dialogue_alpaca_prompt(object, &record->own_prompt));
    record->prompt = record->own_prompt.data;
    record->prompt_size = record->own_prompt.size;
    return get_string(object, "output", &record->text, &record->text_size);
}

/* Bytes that both texts begin with: whole characters, without a space at their end, because in most
   tokenizers that belongs to the next word. */
static size_t common_bytes(const hil_record *record)
{
    const char *a = record->text, *b = record->rejected;
    size_t size =
        record->text_size < record->rejected_size ? record->text_size : record->rejected_size;
    size_t same = 0;
    while (same < size && a[same] == b[same]) ++same;
    while (same > 0 && same < record->text_size && (a[same] & 0xc0) == 0x80) --same;
    if (same > 0 && (same < record->text_size || same < record->rejected_size))
        same -= a[same - 1] == ' ';
    return same;
}

static hil_status read_pair(const json_t *object, hil_record *record)
{
    record->kind = HIL_RECORD_PAIR;
    if (json_is_array(json_object_get(object, "chosen"))) {
        json_t *both[2];
        HIL_TRY(hil_dialogue_pair(object, both));
        record->variables = both[0];
        record->worse = both[1];
        return HIL_OK;
    }
    HIL_TRY(get_string(object, "chosen", &record->text, &record->text_size));
    HIL_TRY(get_string(object, "rejected", &record->rejected, &record->rejected_size));
    if (has(object, "prompt"))
        return get_string(object, "prompt", &record->prompt, &record->prompt_size);
    record->prompt = record->text;
    record->prompt_size = common_bytes(record);
    record->text += record->prompt_size;
    record->text_size -= record->prompt_size;
    record->rejected += record->prompt_size;
    record->rejected_size -= record->prompt_size;
    return HIL_OK;
}

/* true and false, also as numbers or, in a table of texts, as words. */
static hil_status read_label(const json_t *object, hil_record *record)
{
    const json_t *label = json_object_get(object, "label");
    const char *text = json_string_value(label);
    bool is_good =
        json_is_true(label) || (json_is_integer(label) && json_integer_value(label) == 1);
    bool is_bad =
        json_is_false(label) || (json_is_integer(label) && json_integer_value(label) == 0);
    if (text) is_good = !strcasecmp(text, "true") || !strcmp(text, "1");
    if (text) is_bad = !strcasecmp(text, "false") || !strcmp(text, "0");
    record->judged = true;
    record->good = is_good;
    if (is_good || is_bad) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "\"label\" must be true or false");
}

/* A pair is two answers with labels; what else it has is ignored. */
static hil_status read_judged(const json_t *object, hil_record *record)
{
    if (!has(object, "label") || !fits(HIL_FORMAT_PROMPT, object)) return read_pair(object, record);
    HIL_TRY(read_label(object, record));
    return read_plain(object, true, record);
}

hil_status hil_record_detect(hil_record_rules *rules, const json_t *object)
{
    if (!json_is_object(object)) return hil_fail(HIL_ERR_INPUT, "not a JSON object");
    if (rules->format == HIL_FORMAT_AUTO) rules->format = detect(object);
    if (!fits(rules->format, object)) return fail_keys(rules, object);
    bool plain = rules->format == HIL_FORMAT_PROMPT || rules->format == HIL_FORMAT_PLAIN;
    if (rules->labels && plain && fits(HIL_FORMAT_PROMPT, object) && has(object, "label"))
        *rules->labels = true;
    return HIL_OK;
}

const char *hil_record_expected(hil_record_format format)
{
    return expected[format];
}

const char *const *hil_record_keys(hil_record_format format)
{
    enum { MOST = 8 };
    static const char *const keys[][MOST] = {
        [HIL_FORMAT_AUTO] = {NULL},
        [HIL_FORMAT_TEXT] = {"text", NULL},
        [HIL_FORMAT_PROMPT] = {"prompt", "completion", "tools", "chat_template_kwargs", NULL},
        [HIL_FORMAT_PLAIN] = {"text", "prompt", "completion", "tools", "chat_template_kwargs",
                              NULL},
        [HIL_FORMAT_MESSAGES] = {"messages", "tools", "chat_template_kwargs", NULL},
        [HIL_FORMAT_SHAREGPT] = {"conversations", "system", "tools", "chat_template_kwargs", NULL},
        [HIL_FORMAT_ALPACA] = {"instruction", "input", "output", "system", "history", NULL},
        [HIL_FORMAT_PREFERENCE] = {"prompt", "chosen", "rejected", "tools", "chat_template_kwargs",
                                   NULL},
        [HIL_FORMAT_TOKENS] = {"input_ids", "labels", "attention_mask", "completion_mask",
                               "assistant_masks", "position_ids", "seq_lengths", NULL},
        [HIL_FORMAT_JUDGED] = {"prompt", "completion", "label", "chosen", "rejected", "tools",
                               "chat_template_kwargs", NULL},
    };
    return keys[format];
}

hil_status hil_record_read(hil_record_rules *rules, const json_t *object, hil_record *record)
{
    *record = (hil_record){0};
    HIL_TRY(hil_record_detect(rules, object));
    hil_record_format format = rules->format;
    if (format == HIL_FORMAT_PREFERENCE) return read_pair(object, record);
    if (format == HIL_FORMAT_JUDGED) return read_judged(object, record);
    if (format == HIL_FORMAT_TOKENS) {
        record->kind = HIL_RECORD_TOKENS;
        return hil_token_row_read(object, &record->row);
    }
    if (format == HIL_FORMAT_ALPACA && !rules->chat) return read_alpaca(object, record);
    if (format < HIL_FORMAT_MESSAGES) {
        bool example = format == HIL_FORMAT_PROMPT || !has(object, "text");
        return read_plain(object, example, record);
    }
    record->kind = HIL_RECORD_CONVERSATION;
    if (format == HIL_FORMAT_MESSAGES) return hil_dialogue_messages(object, &record->variables);
    if (format == HIL_FORMAT_SHAREGPT) return hil_dialogue_sharegpt(object, &record->variables);
    return hil_dialogue_alpaca(object, &record->variables);
}

void hil_record_free(hil_record *record)
{
    json_decref(record->variables);
    json_decref(record->worse);
    hil_text_free(&record->own_prompt);
    hil_token_row_free(&record->row);
    *record = (hil_record){0};
}
