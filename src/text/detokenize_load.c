/* detokenize_load.c - the "decoder" of a tokenizer.json. */
#include "text/detokenize.h"

#include "base/json.h"
#include "text/component.h"
#include "text/unicode/unicode.h"

#include <string.h>

typedef struct hil_detoken_step step;

static hil_status load_text(const json_t *value, const char *key, const char *what, hil_text *out)
{
    const char *text = NULL;
    HIL_TRY(hil_json_string(value, key, what, &text));
    if (!text) return hil_fail(HIL_ERR_INPUT, "%s: a decoder has no \"%s\"", what, key);
    return hil_text_add(out, text, strlen(text));
}

static hil_status load_character(const json_t *value, const char *key, const char *what,
                                 hil_text *out)
{
    HIL_TRY(load_text(value, key, what, out));
    size_t size = 0;
    if (out->size) hil_utf8_get(out->data, &size);
    if (size && size == out->size) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" of a decoder is not one character", what, key);
}

static hil_status load_strip(step *s, const json_t *value, const char *what)
{
    s->kind = HIL_DETOKEN_STRIP;
    HIL_TRY(hil_json_int(value, "start", what, &s->start));
    HIL_TRY(hil_json_int(value, "stop", what, &s->stop));
    return load_character(value, "content", what, &s->pattern);
}

static hil_status load_replace(step *s, const json_t *value, const char *what)
{
    s->kind = HIL_DETOKEN_REPLACE;
    const json_t *pattern = json_object_get(value, "pattern");
    const char *regex = NULL;
    HIL_TRY(hil_json_string(pattern, "Regex", what, &regex));
    if (regex)
        return hil_fail(HIL_ERR_INPUT, "%s: the decoder pattern \"%.200s\" is not supported", what,
                        regex);
    HIL_TRY(load_text(pattern, "String", what, &s->pattern));
    if (s->pattern.size == 0)
        return hil_fail(HIL_ERR_INPUT, "%s: a Replace decoder has an empty pattern", what);
    return load_text(value, "content", what, &s->content);
}

static hil_status load_metaspace(step *s, const json_t *value, const char *what)
{
    s->kind = HIL_DETOKEN_METASPACE;
    bool prefix = true;
    const char *scheme = NULL;
    HIL_TRY(hil_json_bool(value, "add_prefix_space", what, &prefix));
    HIL_TRY(hil_json_string(value, "prepend_scheme", what, &scheme));
    s->drop_first = scheme ? strcmp(scheme, "never") != 0 : prefix;
    return load_character(value, "replacement", what, &s->pattern);
}

static hil_status load_step(hil_detokenizer *detokenizer, const json_t *value, const char *type,
                            const char *what)
{
    step *s = &detokenizer->steps[detokenizer->count++];
    if (strcmp(type, "Strip") == 0) return load_strip(s, value, what);
    if (strcmp(type, "Replace") == 0) return load_replace(s, value, what);
    if (strcmp(type, "Metaspace") == 0) return load_metaspace(s, value, what);
    if (strcmp(type, "ByteLevel") == 0)
        s->kind = HIL_DETOKEN_BYTE_LEVEL;
    else if (strcmp(type, "ByteFallback") == 0)
        s->kind = HIL_DETOKEN_BYTE_FALLBACK;
    else if (strcmp(type, "Fuse") == 0)
        s->kind = HIL_DETOKEN_FUSE;
    else
        return hil_fail(
            HIL_ERR_INPUT,
            "%s: the decoder \"%.60s\" is not supported (ByteLevel, ByteFallback, Fuse, "
            "Strip, Replace and Metaspace are)",
            what, type);
    return HIL_OK;
}

/* The first BYTE_LEVEL or FUSE step makes one text of all pieces. It and the steps after it stream
   if those accept that text in fragments. */
static void find_streaming(hil_detokenizer *detokenizer)
{
    size_t first = 0;
    while (first < detokenizer->count && detokenizer->steps[first].kind != HIL_DETOKEN_FUSE &&
           detokenizer->steps[first].kind != HIL_DETOKEN_BYTE_LEVEL)
        ++first;
    for (size_t i = first + 1; i < detokenizer->count; ++i) {
        const step *s = &detokenizer->steps[i];
        if (s->kind != HIL_DETOKEN_FUSE && (s->kind != HIL_DETOKEN_STRIP || s->stop > 0)) return;
    }
    for (size_t i = first; i < detokenizer->count; ++i) detokenizer->steps[i].streams = true;
}

hil_status hil_detokenizer_load(hil_detokenizer *detokenizer, const json_t *value, const char *what)
{
    if (!value || json_is_null(value)) {
        detokenizer->count = 1;
        detokenizer->steps[0].kind = HIL_DETOKEN_JOIN;
        return HIL_OK;
    }
    hil_component list;
    HIL_TRY(hil_component_list(&list, value, "decoders", what));
    for (size_t i = 0; i < list.count; ++i)
        HIL_TRY(load_step(detokenizer, list.steps[i], list.types[i], what));
    find_streaming(detokenizer);
    return HIL_OK;
}
