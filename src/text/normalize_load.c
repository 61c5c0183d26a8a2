/* normalize_load.c - the "normalizer" of a tokenizer.json. */
#include "base/json.h"
#include "text/component.h"
#include "text/normalize.h"

#include <string.h>

static hil_status load_text(const json_t *value, const char *key, const char *what, hil_text *out)
{
    const char *text = NULL;
    HIL_TRY(hil_json_string(value, key, what, &text));
    if (!text) return hil_fail(HIL_ERR_INPUT, "%s: a normalizer has no \"%s\"", what, key);
    return hil_text_add(out, text, strlen(text));
}

static hil_status load_replace(struct hil_normal_step *step, const json_t *value, const char *what)
{
    const json_t *pattern = json_object_get(value, "pattern");
    const char *regex = NULL;
    HIL_TRY(hil_json_string(pattern, "Regex", what, &regex));
    HIL_TRY(load_text(value, "content", what, &step->content));
    if (regex) {
        step->kind = HIL_NORMAL_FIND;
        HIL_TRY(HIL_ALLOC(1, &step->find));
        return hil_pattern_compile(step->find, regex, what);
    }
    step->kind = HIL_NORMAL_REPLACE;
    HIL_TRY(load_text(pattern, "String", what, &step->pattern));
    if (step->pattern.size) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s: a Replace normalizer has an empty pattern", what);
}

static hil_status load_strip(struct hil_normal_step *step, const json_t *value, const char *what)
{
    step->kind = HIL_NORMAL_STRIP;
    step->left = step->right = true;
    HIL_TRY(hil_json_bool(value, "strip_left", what, &step->left));
    return hil_json_bool(value, "strip_right", what, &step->right);
}

static hil_status load_charsmap(struct hil_normal_step *step, const json_t *value, const char *what)
{
    const char *encoded = NULL;
    step->kind = HIL_NORMAL_CHARSMAP;
    HIL_TRY(hil_json_string(value, "precompiled_charsmap", what, &encoded));
    return hil_charsmap_load(&step->charsmap, encoded ? encoded : "", what);
}

static hil_status load_step(struct hil_normal_step *step, const json_t *value, const char *type,
                            const char *what)
{
    static const char *const forms[] = {
        [HIL_NFC] = "NFC", [HIL_NFD] = "NFD", [HIL_NFKC] = "NFKC", [HIL_NFKD] = "NFKD"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i) {
        step->form = (hil_normal_form)i;
        if (strcmp(type, forms[i]) == 0) return HIL_OK; /* HIL_NORMAL_FORM */
    }
    if (strcmp(type, "Replace") == 0) return load_replace(step, value, what);
    if (strcmp(type, "Strip") == 0) return load_strip(step, value, what);
    if (strcmp(type, "Precompiled") == 0) return load_charsmap(step, value, what);
    if (strcmp(type, "Prepend") == 0) {
        step->kind = HIL_NORMAL_PREPEND;
        return load_text(value, "prepend", what, &step->content);
    }
    bool lower = strcmp(type, "Lowercase") == 0;
    step->kind = lower ? HIL_NORMAL_LOWERCASE : HIL_NORMAL_STRIP_ACCENTS;
    if (lower || strcmp(type, "StripAccents") == 0) return HIL_OK;
    return hil_fail(
        HIL_ERR_INPUT,
        "%s: the normalizer \"%.60s\" is not supported (NFC, NFD, NFKC, NFKD, Lowercase, "
        "Strip, StripAccents, Prepend, Replace and Precompiled are)",
        what, type);
}

hil_status hil_normalizer_load(hil_normalizer *normalizer, const json_t *value, const char *what)
{
    hil_component list;
    HIL_TRY(hil_component_list(&list, value, "normalizers", what));
    while (normalizer->count < list.count) {
        size_t i = normalizer->count++;
        HIL_TRY(load_step(&normalizer->steps[i], list.steps[i], list.types[i], what));
    }
    return HIL_OK;
}
