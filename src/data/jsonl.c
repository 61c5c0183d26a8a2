/* jsonl.c - assembles lines from fragments and parses the documents in them. */
#include "data/jsonl.h"

#include <jansson.h>
#include <string.h>

static hil_status fail_line(const hil_jsonl *jsonl, const char *what)
{
    return hil_fail(HIL_ERR_INPUT, "%s line %lld: %s", jsonl->path, (long long)jsonl->line, what);
}

static hil_status fail_keys(const hil_jsonl *jsonl, const json_t *object)
{
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
        HIL_TRY_DONE(hil_text_print(&keys, "%s\"%.60s\"", keys.size ? ", " : "", key));
    }
    status = hil_fail(HIL_ERR_INPUT,
                      "%s line %lld: expected either \"text\" or both \"prompt\" and "
                      "\"completion\", found %s",
                      jsonl->path, (long long)jsonl->line, keys.size ? keys.data : "no keys");
done:
    hil_text_free(&keys);
    return status;
}

static hil_status get_string(const hil_jsonl *jsonl, const json_t *value, const char *key,
                             const char **text, size_t *size)
{
    if (!json_is_string(value))
        return hil_fail(HIL_ERR_INPUT, "%s line %lld: \"%s\" must be a string", jsonl->path,
                        (long long)jsonl->line, key);
    *text = json_string_value(value);
    *size = json_string_length(value);
    return HIL_OK;
}

static hil_status take_object(const hil_jsonl *jsonl, const json_t *object)
{
    if (!json_is_object(object)) return fail_line(jsonl, "not a JSON object");
    const json_t *text = json_object_get(object, "text");
    const json_t *prompt = json_object_get(object, "prompt");
    const json_t *completion = json_object_get(object, "completion");
    if (text ? prompt || completion : !prompt || !completion) return fail_keys(jsonl, object);
    hil_record record = {.prompt = ""};
    if (text) {
        HIL_TRY(get_string(jsonl, text, "text", &record.text, &record.text_size));
    } else {
        record.kind = HIL_RECORD_EXAMPLE;
        HIL_TRY(get_string(jsonl, prompt, "prompt", &record.prompt, &record.prompt_size));
        HIL_TRY(get_string(jsonl, completion, "completion", &record.text, &record.text_size));
    }
    return jsonl->take(jsonl->context, &record);
}

static bool is_blank(const char *line, size_t size)
{
    while (size && strchr(" \t\r", line[size - 1]) && line[size - 1]) --size;
    return size == 0;
}

/* Other keys may hold numbers of any size (INT_AS_REAL); text may hold U+0000 (ALLOW_NUL). */
static hil_status take_line(hil_jsonl *jsonl, const char *line, size_t size)
{
    ++jsonl->line;
    if (jsonl->line == 1 && size >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0) {
        line += 3;
        size -= 3;
    }
    if (is_blank(line, size)) return HIL_OK;
    if (line[strspn(line, " \t")] == '[')
        return fail_line(jsonl, "not a JSON object; a file that is one JSON array becomes JSONL "
                                "with jq -c '.[]' FILE > NEW.jsonl");
    json_error_t error;
    json_t *object = json_loadb(line, size,
                                JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL |
                                    JSON_DECODE_INT_AS_REAL,
                                &error);
    if (!object)
        return hil_fail(HIL_ERR_INPUT, "%s line %lld: not valid JSON at column %d: %s", jsonl->path,
                        (long long)jsonl->line, error.column, error.text);
    hil_status status = take_object(jsonl, object);
    json_decref(object);
    return status;
}

static hil_status add_partial(hil_jsonl *jsonl, const char *bytes, size_t size)
{
    if (size > jsonl->line_max - jsonl->partial.size) {
        char limit[32];
        return hil_fail(HIL_ERR_INPUT, "%s line %lld: longer than %s", jsonl->path,
                        (long long)jsonl->line + 1, hil_text_bytes(limit, jsonl->line_max));
    }
    return hil_text_add(&jsonl->partial, bytes, size);
}

hil_status hil_jsonl_add(hil_jsonl *jsonl, const char *bytes, size_t size)
{
    while (size) {
        const char *end = memchr(bytes, '\n', size);
        size_t line = end ? (size_t)(end - bytes) : size;
        if (!end || jsonl->partial.size || line > jsonl->line_max)
            HIL_TRY(add_partial(jsonl, bytes, line));
        if (!end) break;
        if (jsonl->partial.size)
            HIL_TRY(hil_jsonl_end(jsonl));
        else
            HIL_TRY(take_line(jsonl, bytes, line));
        bytes += line + 1;
        size -= line + 1;
    }
    return HIL_OK;
}

hil_status hil_jsonl_end(hil_jsonl *jsonl)
{
    if (!jsonl->partial.size) return HIL_OK;
    size_t size = jsonl->partial.size;
    jsonl->partial.size = 0;
    return take_line(jsonl, jsonl->partial.data, size);
}

void hil_jsonl_free(hil_jsonl *jsonl)
{
    hil_text_free(&jsonl->partial);
}
