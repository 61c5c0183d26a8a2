/* pretokenize_load.c - the "pre_tokenizer" of a tokenizer.json. */
#include "text/pretokenize.h"

#include "base/json.h"
#include "text/component.h"

#include <string.h>

static const char *const patterns[] = {
    [HIL_KNOWN_GPT2] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    [HIL_KNOWN_LLAMA3] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
                         "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    [HIL_KNOWN_QWEN2] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
                        "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    [HIL_KNOWN_SPACE] = " ",
};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

static hil_status load_behavior(hil_pretoken_step *step, const json_t *value, const char *what)
{
    static const char *const names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious",
                                        "MergedWithNext"};
    const char *name = "Isolated";
    HIL_TRY(hil_json_string(value, "behavior", what, &name));
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        step->behavior = (hil_behavior)i;
        if (strcmp(names[i], name) == 0) return HIL_OK;
    }
    return hil_fail(HIL_ERR_INPUT, "%s: a pre-tokenizer has the unknown behavior \"%.60s\"", what,
                    name);
}

static hil_status load_split(hil_pretoken_step *step, const json_t *value, const char *what)
{
    const char *regex = NULL, *plain = NULL;
    const json_t *pattern = json_object_get(value, "pattern");
    HIL_TRY(hil_json_string(pattern, "Regex", what, &regex));
    HIL_TRY(hil_json_string(pattern, "String", what, &plain));
    HIL_TRY(load_behavior(step, value, what));
    HIL_TRY(hil_json_bool(value, "invert", what, &step->invert));
    for (int i = 1; i < PATTERNS; ++i)
        if (strcmp(patterns[i], regex ? regex : plain ? plain : "") == 0)
            step->known = (hil_pretoken_known)i;
    if (regex) return hil_pattern_compile(&step->regex, regex, what);
    if (plain && *plain) return hil_pattern_compile_text(&step->regex, plain, what);
    return hil_fail(HIL_ERR_INPUT, "%s: the pre-tokenizer Split has no pattern", what);
}

static hil_status load_byte_level(hil_pretoken_step *step, const json_t *value, const char *what)
{
    bool prefix = true, regex = true;
    HIL_TRY(hil_json_bool(value, "add_prefix_space", what, &prefix));
    HIL_TRY(hil_json_bool(value, "use_regex", what, &regex));
    step->maps = true;
    step->prefix = prefix ? HIL_PREFIX_ALWAYS : HIL_PREFIX_NEVER;
    memcpy(step->space, " ", 2);
    if (!regex) return HIL_OK;
    step->known = HIL_KNOWN_GPT2;
    return hil_pattern_compile(&step->regex, patterns[HIL_KNOWN_GPT2], what);
}

static hil_status load_metaspace(hil_pretoken_step *step, const json_t *value, const char *what)
{
    const char *space = "\xE2\x96\x81", *scheme = NULL;
    bool prefix = true, split = true;
    HIL_TRY(hil_json_string(value, "replacement", what, &space));
    HIL_TRY(hil_json_string(value, "prepend_scheme", what, &scheme));
    HIL_TRY(hil_json_bool(value, "split", what, &split));
    HIL_TRY(hil_json_bool(value, "add_prefix_space", what, &prefix));
    size_t size = 0;
    if (*space) hil_utf8_get(space, &size);
    if (size == 0 || space[size])
        return hil_fail(HIL_ERR_INPUT, "%s: the replacement of Metaspace is not one character",
                        what);
    memcpy(step->space, space, size);
    step->replaces = true;
    if (!scheme) scheme = prefix ? "always" : "never";
    if (strcmp(scheme, "always") == 0)
        step->prefix = HIL_PREFIX_ALWAYS;
    else if (strcmp(scheme, "first") == 0)
        step->prefix = HIL_PREFIX_FIRST;
    else if (strcmp(scheme, "never") != 0)
        return hil_fail(HIL_ERR_INPUT, "%s: Metaspace has the unknown prepend_scheme \"%.60s\"",
                        what, scheme);
    step->behavior = HIL_BEHAVIOR_WITH_NEXT;
    return split ? hil_pattern_compile_text(&step->regex, step->space, what) : HIL_OK;
}

static hil_status load_digits(hil_pretoken_step *step, const json_t *value, const char *what)
{
    bool single = false;
    HIL_TRY(hil_json_bool(value, "individual_digits", what, &single));
    step->behavior = single ? HIL_BEHAVIOR_ISOLATED : HIL_BEHAVIOR_CONTIGUOUS;
    step->known = HIL_KNOWN_DIGIT;
    return hil_pattern_compile_class(&step->regex, HIL_ITEM_DIGIT);
}

static hil_status load_delimiter(hil_pretoken_step *step, const json_t *value, const char *what)
{
    const char *delimiter = "";
    HIL_TRY(hil_json_string(value, "delimiter", what, &delimiter));
    step->behavior = HIL_BEHAVIOR_REMOVED;
    if (*delimiter) return hil_pattern_compile_text(&step->regex, delimiter, what);
    return hil_fail(HIL_ERR_INPUT, "%s: CharDelimiterSplit has no delimiter", what);
}

static hil_status load_step(hil_pretoken_step *step, const json_t *value, const char *type,
                            const char *what)
{
    if (strcmp(type, "Split") == 0) return load_split(step, value, what);
    if (strcmp(type, "Digits") == 0) return load_digits(step, value, what);
    if (strcmp(type, "ByteLevel") == 0) return load_byte_level(step, value, what);
    if (strcmp(type, "Metaspace") == 0) return load_metaspace(step, value, what);
    if (strcmp(type, "CharDelimiterSplit") == 0) return load_delimiter(step, value, what);
    if (strcmp(type, "Punctuation") == 0) {
        HIL_TRY(load_behavior(step, value, what));
        return hil_pattern_compile_class(&step->regex, HIL_ITEM_MARK);
    }
    step->behavior = HIL_BEHAVIOR_REMOVED;
    if (strcmp(type, "WhitespaceSplit") == 0)
        return hil_pattern_compile_class(&step->regex, HIL_ITEM_SPACE);
    return hil_fail(HIL_ERR_INPUT,
                    "%s: the pre-tokenizer \"%.60s\" is not supported (ByteLevel, Split, Digits, "
                    "Punctuation, Metaspace, WhitespaceSplit and CharDelimiterSplit are)",
                    what, type);
}

hil_status hil_pretokenizer_load(hil_pretokenizer *pretokenizer, const json_t *value,
                                 const char *what)
{
    hil_component list;
    *pretokenizer = (hil_pretokenizer){0};
    HIL_TRY(hil_component_list(&list, value, "pretokenizers", what));
    HIL_TRY(HIL_ALLOC(list.count, &pretokenizer->steps));
    while (pretokenizer->count < list.count) {
        size_t i = pretokenizer->count++;
        HIL_TRY(load_step(&pretokenizer->steps[i], list.steps[i], list.types[i], what));
    }
    return HIL_OK;
}

bool hil_pretokenizer_drop_map(hil_pretokenizer *pretokenizer)
{
    if (pretokenizer->count == 0) return false;
    hil_pretoken_step *last = &pretokenizer->steps[pretokenizer->count - 1];
    if (!last->maps) return false;
    last->maps = false;
    if (last->regex.states == 0 && last->prefix == HIL_PREFIX_NEVER) --pretokenizer->count;
    return true;
}

void hil_pretokenizer_free(hil_pretokenizer *pretokenizer)
{
    for (size_t i = 0; i < pretokenizer->count; ++i)
        hil_pattern_free(&pretokenizer->steps[i].regex);
    hil_free(pretokenizer->steps);
    *pretokenizer = (hil_pretokenizer){0};
}
