/* json.c - strict JSON on jansson. */
#include "base/json.h"

#include <string.h>

hil_status hil_json_parse(const char *text, size_t size, const char *what, json_t **out)
{
    json_error_t error;
    *out = NULL;
    /* jansson skips a NUL byte that follows a number. */
    const char *nul = size ? memchr(text, 0, size) : NULL;
    if (nul)
        return hil_fail(HIL_ERR_INPUT, "%s: not valid JSON: a NUL byte at position %zu", what,
                        (size_t)(nul - text));
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    *out = json_loadb(text, size, flags, &error);
    if (!*out && json_error_code(&error) == json_error_numeric_overflow)
        *out = json_loadb(text, size, flags | JSON_DECODE_INT_AS_REAL, &error);
    if (*out) return HIL_OK;
    if (json_error_code(&error) == json_error_out_of_memory || error.text[0] == 0)
        return hil_fail(HIL_ERR_MEMORY, "%s: out of memory while reading JSON", what);
    return hil_fail(HIL_ERR_INPUT, "%s: not valid JSON at line %d, column %d: %s", what, error.line,
                    error.column, error.text);
}

static hil_status wrong(const char *key, const char *what, const char *expected)
{
    return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" must be %s", what, key, expected);
}

static const json_t *member(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value) ? value : NULL;
}

hil_status hil_json_int(const json_t *object, const char *key, const char *what, int64_t *out)
{
    const json_t *value = member(object, key);
    if (!value) return HIL_OK;
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return HIL_OK;
    }
    double real = json_is_real(value) ? json_real_value(value) : 0.5;
    if (real < -0x1p53 || real > 0x1p53 || real != (double)(int64_t)real)
        return wrong(key, what, "a whole number");
    *out = (int64_t)real;
    return HIL_OK;
}

hil_status hil_json_real(const json_t *object, const char *key, const char *what, double *out)
{
    const json_t *value = member(object, key);
    if (!value) return HIL_OK;
    if (!json_is_number(value)) return wrong(key, what, "a number");
    *out = json_number_value(value);
    return HIL_OK;
}

hil_status hil_json_bool(const json_t *object, const char *key, const char *what, bool *out)
{
    const json_t *value = member(object, key);
    if (!value) return HIL_OK;
    if (!json_is_boolean(value)) return wrong(key, what, "true or false");
    *out = json_is_true(value);
    return HIL_OK;
}

hil_status hil_json_string(const json_t *object, const char *key, const char *what,
                           const char **out)
{
    const json_t *value = member(object, key);
    if (!value) return HIL_OK;
    if (!json_is_string(value)) return wrong(key, what, "a string");
    *out = json_string_value(value);
    return HIL_OK;
}

json_t *hil_json_words(const char *const *word, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; ++i)
        if (json_array_append_new(list, json_string(word[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}
