/* config_write.c - changes the dtype in config.json, and how weights are quantized, by editing the
   text: nothing else changes. */
#include "model/arch.h"

#include "model/config/config_read.h"

#include <stdio.h>
#include <string.h>

const char *hil_config_torch_name(hil_dtype dtype)
{
    static const char *const names[] = {
        [HIL_F32] = "\"float32\"", [HIL_BF16] = "\"bfloat16\"", [HIL_F16] = "\"float16\""};
    assert(dtype <= HIL_F16);
    return names[dtype];
}

/* One member of the top-level object. */
typedef struct member {
    const char *key, *value, *end; /* the key's and the value's first byte, one past the value */
} member;

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* One past the string that begins at `at`. */
static const char *skip_string(const char *at)
{
    for (++at; *at != '"'; ++at)
        if (*at == '\\') ++at;
    return at + 1;
}

/* One past the value that begins at `at`. The text is known to be valid. */
static const char *skip_value(const char *at)
{
    int depth = 0;
    do {
        if (*at == '"') {
            at = skip_string(at);
            continue;
        }
        if (*at == '{' || *at == '[') ++depth;
        if (*at == '}' || *at == ']') --depth;
        ++at;
    } while (depth > 0 || !strchr(",}] \t\r\n", *at));
    return at;
}

/* The member whose key begins at or after `at`; false at the end of the object. */
static bool next_member(const char *at, member *m)
{
    at = skip_space(at);
    if (*at == '}') return false;
    if (*at == '{' || *at == ',') at = skip_space(at + 1);
    if (*at == '}') return false;
    m->key = at;
    m->value = skip_space(skip_space(skip_string(at)) + 1);
    m->end = skip_value(m->value);
    return true;
}

static bool key_is(const member *m, const char *quoted)
{
    return strncmp(m->key, quoted, strlen(quoted)) == 0;
}

static bool is_nothing(const json_t *value)
{
    return !value || json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0);
}

/* New values. */
typedef struct edits {
    const char *dtype, *quant; /* quant: NULL: unchanged */
    const char *classes;       /* where there are none */
} edits;

/* `text` ends with a NUL and holds a valid object with at least one member. */
static hil_status edit(hil_text *out, const char *text, const json_t *object, const edits *e)
{
    const char *copied = text;
    bool add_classes = is_nothing(json_object_get(object, "architectures"));
    bool has_classes = json_object_get(object, "architectures");
    bool has_quant = json_object_get(object, "quantization_config");
    bool has_dtype = json_object_get(object, "dtype") || json_object_get(object, "torch_dtype");
    const char *open = skip_space(text) + 1;
    size_t space = (size_t)(skip_space(open) - open);
    member m = {0};
    for (const char *at = skip_space(text); next_member(at, &m); at = m.end) {
        const char *value = NULL;
        if (key_is(&m, "\"dtype\"") || key_is(&m, "\"torch_dtype\"")) value = e->dtype;
        if (e->quant && key_is(&m, "\"quantization_config\"")) value = e->quant;
        if (add_classes && key_is(&m, "\"architectures\"")) value = e->classes;
        HIL_TRY(hil_text_add(out, copied, (size_t)((value ? m.value : m.end) - copied)));
        if (value) HIL_TRY(hil_text_add(out, value, strlen(value)));
        copied = m.end;
    }
    if (!has_classes)
        HIL_TRY(hil_text_print(out, ",%.*s\"architectures\": %s", (int)space, open, e->classes));
    if (!has_dtype) HIL_TRY(hil_text_print(out, ",%.*s\"dtype\": %s", (int)space, open, e->dtype));
    if (e->quant && !has_quant)
        HIL_TRY(
            hil_text_print(out, ",%.*s\"quantization_config\": %s", (int)space, open, e->quant));
    return hil_text_add(out, copied, strlen(copied));
}

hil_status hil_config_edit(hil_text *out, const char *json, size_t size, hil_dtype dtype,
                           hil_quant quant)
{
    hil_config config;
    char classes[80];
    hil_text copy = {0}, method = {0};
    json_t *object = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_config_parse(&config, json, size, "config.json"));
    HIL_TRY_DONE(hil_json_parse(json, size, "config.json", &object));
    HIL_TRY_DONE(hil_text_add(&copy, json, size));
    if (quant) HIL_TRY_DONE(hil_config_quant_write(&method, quant, dtype));
    snprintf(classes, sizeof classes, "[\"%s\"]", config.arch->class_name);
    edits changed = {hil_config_torch_name(dtype), method.data, classes};
    status = edit(out, copy.data, object, &changed);
done:
    hil_text_free(&copy);
    hil_text_free(&method);
    json_decref(object);
    return status;
}
