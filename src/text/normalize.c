/* normalize.c - NFC, Prepend, Replace and sequences of them. */
#include "text/normalize.h"

#include "base/json.h"
#include "text/unicode/unicode.h"

#include <string.h>

static hil_status load_text(const json_t *value, const char *key, const char *what, hil_text *out)
{
    const char *text = NULL;
    HIL_TRY(hil_json_string(value, key, what, &text));
    if (!text) return hil_fail(HIL_ERR_INPUT, "%s: a normalizer has no \"%s\"", what, key);
    return hil_text_add(out, text, strlen(text));
}

static hil_status load_step(hil_normalizer *normalizer, const json_t *value, const char *type,
                            const char *what)
{
    if (normalizer->count == HIL_NORMAL_MAX)
        return hil_fail(HIL_ERR_INPUT, "%s: more than %d normalizers", what, HIL_NORMAL_MAX);
    struct hil_normal_step *step = &normalizer->steps[normalizer->count++];
    if (strcmp(type, "NFC") == 0) {
        step->kind = HIL_NORMAL_NFC;
        return HIL_OK;
    }
    if (strcmp(type, "Prepend") == 0) {
        step->kind = HIL_NORMAL_PREPEND;
        return load_text(value, "prepend", what, &step->content);
    }
    if (strcmp(type, "Replace") == 0) {
        step->kind = HIL_NORMAL_REPLACE;
        const json_t *pattern = json_object_get(value, "pattern");
        const char *regex = NULL;
        HIL_TRY(hil_json_string(pattern, "Regex", what, &regex));
        if (regex)
            return hil_fail(HIL_ERR_INPUT, "%s: the Replace pattern \"%.200s\" is not supported",
                            what, regex);
        HIL_TRY(load_text(pattern, "String", what, &step->pattern));
        if (step->pattern.size == 0)
            return hil_fail(HIL_ERR_INPUT, "%s: a Replace normalizer has an empty pattern", what);
        return load_text(value, "content", what, &step->content);
    }
    return hil_fail(HIL_ERR_INPUT,
                    "%s: the normalizer \"%.60s\" is not supported (NFC, Prepend, Replace are)",
                    what, type);
}

hil_status hil_normalizer_load(hil_normalizer *normalizer, const json_t *value, const char *what)
{
    if (!value || json_is_null(value)) return HIL_OK;
    const char *type = "";
    HIL_TRY(hil_json_string(value, "type", what, &type));
    if (strcmp(type, "Sequence") != 0) return load_step(normalizer, value, type, what);
    const json_t *list = json_object_get(value, "normalizers");
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *item = json_array_get(list, i);
        const char *name = "";
        HIL_TRY(hil_json_string(item, "type", what, &name));
        HIL_TRY(load_step(normalizer, item, name, what));
    }
    return HIL_OK;
}

void hil_normalizer_free(hil_normalizer *normalizer)
{
    for (size_t i = 0; i < normalizer->count; ++i) {
        hil_text_free(&normalizer->steps[i].pattern);
        hil_text_free(&normalizer->steps[i].content);
    }
    *normalizer = (hil_normalizer){0};
}

void hil_normalizer_state_free(hil_normalizer_state *state)
{
    for (size_t i = 0; i < HIL_NORMAL_MAX; ++i) {
        hil_text_free(&state->holds[i].held);
        hil_text_free(&state->scratch[i]);
    }
    *state = (hil_normalizer_state){0};
}

static void drop_front(hil_text *text, size_t size)
{
    text->size -= size;
    if (size && text->size) memmove(text->data, text->data + size, text->size);
}

/* Appends `text` with replacements; unless `last`, stops where a match may begin. *used: the bytes
   of `text` consumed. */
static hil_status replace(const struct hil_normal_step *step, const hil_text *text, bool last,
                          hil_text *out, size_t *used)
{
    const char *pattern = step->pattern.data;
    size_t length = step->pattern.size, at = 0;
    while (text->size - at >= length) {
        const char *from = text->data + at;
        const char *found = memmem(from, text->size - at, pattern, length);
        size_t plain = found ? (size_t)(found - from) : text->size - at - length + 1;
        while (!found && plain > 0 && ((unsigned char)from[plain] & 0xC0) == 0x80) --plain;
        HIL_TRY(hil_text_add(out, from, plain));
        at += plain;
        if (!found) break;
        HIL_TRY(hil_text_add(out, step->content.data, step->content.size));
        at += length;
    }
    if (last) {
        HIL_TRY(hil_text_add(out, text->data + at, text->size - at));
        at = text->size;
    }
    *used = at;
    return HIL_OK;
}

static hil_status run_held(const struct hil_normal_step *step, hil_text *held, bool last,
                           hil_text *out)
{
    size_t used = held->size;
    if (used == 0) return HIL_OK;
    if (step->kind == HIL_NORMAL_REPLACE) {
        HIL_TRY(replace(step, held, last, out, &used));
    } else {
        if (!last) used = hil_nfc_stable(held->data, held->size);
        HIL_TRY(hil_nfc_add(held->data, used, out));
    }
    drop_front(held, used);
    return HIL_OK;
}

/* One step on a fragment, or with `last` at the end of the text. */
static hil_status run_step(const struct hil_normal_step *step, struct hil_normal_hold *hold,
                           const hil_text *in, bool last, hil_text *out)
{
    if (step->kind == HIL_NORMAL_PREPEND) {
        if (in->size && !hold->started) {
            hold->started = true;
            HIL_TRY(hil_text_add(out, step->content.data, step->content.size));
        }
        if (last) hold->started = false;
        return hil_text_add(out, in->data, in->size);
    }
    HIL_TRY(hil_text_add(&hold->held, in->data, in->size));
    return run_held(step, &hold->held, last, out);
}

static hil_status run(const hil_normalizer *normalizer, hil_normalizer_state *state, hil_text in,
                      bool last, hil_text *out)
{
    for (size_t i = 0; i < normalizer->count; ++i) {
        hil_text *next = i + 1 < normalizer->count ? &state->scratch[i] : out;
        if (next != out) next->size = 0;
        HIL_TRY(run_step(&normalizer->steps[i], &state->holds[i], &in, last, next));
        if (next != out) in = *next;
    }
    return HIL_OK;
}

hil_status hil_normalizer_add(const hil_normalizer *normalizer, hil_normalizer_state *state,
                              const char *text, size_t size, hil_text *out)
{
    if (size == 0) return HIL_OK;
    if (normalizer->count == 0) return hil_text_add(out, text, size);
    return run(normalizer, state, (hil_text){.data = (char *)text, .size = size}, false, out);
}

hil_status hil_normalizer_end(const hil_normalizer *normalizer, hil_normalizer_state *state,
                              hil_text *out)
{
    return run(normalizer, state, (hil_text){.data = ""}, true, out);
}
