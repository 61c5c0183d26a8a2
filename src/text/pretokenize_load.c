/* pretokenize_load.c - the "pre_tokenizer" of a tokenizer.json. */
#include "text/pretokenize.h"

#include "base/json.h"
#include "text/unicode.h"

#include <string.h>

static const struct {
    const char *text;
    hil_pattern pattern;
} known[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     HIL_PATTERN_GPT2},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     HIL_PATTERN_LLAMA3},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     HIL_PATTERN_QWEN2},
};

static hil_status set_pattern(hil_pretokenizer *pretokenizer, hil_pattern pattern, const char *what)
{
    if (pretokenizer->pattern != HIL_PATTERN_NONE || pretokenizer->byte_level)
        return hil_fail(HIL_ERR_INPUT, "%s: two pre-tokenizers that split words", what);
    pretokenizer->pattern = pattern;
    return HIL_OK;
}

/* The patterns match all text, so keeping the matches and isolating them are the same. */
static hil_status load_split(hil_pretokenizer *pretokenizer, const json_t *value, const char *what)
{
    const char *regex = NULL, *plain = NULL, *behavior = "";
    bool invert = false;
    const json_t *pattern = json_object_get(value, "pattern");
    HIL_TRY(hil_json_string(pattern, "Regex", what, &regex));
    HIL_TRY(hil_json_string(pattern, "String", what, &plain));
    HIL_TRY(hil_json_string(value, "behavior", what, &behavior));
    HIL_TRY(hil_json_bool(value, "invert", what, &invert));
    if (strcmp(behavior, "Isolated") != 0 && !(invert && strcmp(behavior, "Removed") == 0))
        return hil_fail(HIL_ERR_INPUT, "%s: Split with the behavior \"%.60s\" is not supported",
                        what, behavior);
    for (size_t i = 0; regex && i < sizeof known / sizeof *known; ++i)
        if (strcmp(regex, known[i].text) == 0)
            return set_pattern(pretokenizer, known[i].pattern, what);
    return hil_fail(HIL_ERR_INPUT,
                    "%s: the pre-tokenizer pattern \"%.300s\" is not supported (those of GPT-2, "
                    "Llama 3 and Qwen2 are)",
                    what,
                    regex   ? regex
                    : plain ? plain
                            : "");
}

static hil_status load_byte_level(hil_pretokenizer *pretokenizer, const json_t *value,
                                  const char *what)
{
    bool prefix = true, regex = true;
    HIL_TRY(hil_json_bool(value, "add_prefix_space", what, &prefix));
    HIL_TRY(hil_json_bool(value, "use_regex", what, &regex));
    if (regex) HIL_TRY(set_pattern(pretokenizer, HIL_PATTERN_GPT2, what));
    bool first = pretokenizer->digits == HIL_DIGITS_PLAIN &&
                 (regex || pretokenizer->pattern == HIL_PATTERN_NONE);
    if (prefix && !first)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: ByteLevel with add_prefix_space after another pre-tokenizer is not "
                        "supported",
                        what);
    pretokenizer->byte_level = true;
    pretokenizer->prefix = prefix ? HIL_PREFIX_ALWAYS : HIL_PREFIX_NEVER;
    memcpy(pretokenizer->space, " ", 2);
    return HIL_OK;
}

static hil_status load_metaspace(hil_pretokenizer *pretokenizer, const json_t *value,
                                 const char *what)
{
    const char *space = "\xE2\x96\x81", *scheme = NULL;
    bool prefix = true;
    pretokenizer->metaspace = pretokenizer->split_space = true;
    HIL_TRY(hil_json_string(value, "replacement", what, &space));
    HIL_TRY(hil_json_string(value, "prepend_scheme", what, &scheme));
    HIL_TRY(hil_json_bool(value, "split", what, &pretokenizer->split_space));
    HIL_TRY(hil_json_bool(value, "add_prefix_space", what, &prefix));
    size_t step = 0;
    if (*space) hil_utf8_get(space, &step);
    if (step == 0 || space[step])
        return hil_fail(HIL_ERR_INPUT, "%s: the replacement of Metaspace is not one character",
                        what);
    memcpy(pretokenizer->space, space, step);
    if (!scheme) scheme = prefix ? "always" : "never";
    if (strcmp(scheme, "always") == 0)
        pretokenizer->prefix = HIL_PREFIX_ALWAYS;
    else if (strcmp(scheme, "first") == 0)
        pretokenizer->prefix = HIL_PREFIX_FIRST;
    else if (strcmp(scheme, "never") != 0)
        return hil_fail(HIL_ERR_INPUT, "%s: Metaspace has the unknown prepend_scheme \"%.60s\"",
                        what, scheme);
    return HIL_OK;
}

static hil_status load_digits(hil_pretokenizer *pretokenizer, const json_t *value, const char *what)
{
    bool single = false;
    HIL_TRY(hil_json_bool(value, "individual_digits", what, &single));
    if (pretokenizer->pattern != HIL_PATTERN_NONE || pretokenizer->digits != HIL_DIGITS_PLAIN)
        return hil_fail(HIL_ERR_INPUT, "%s: Digits after another pre-tokenizer is not supported",
                        what);
    pretokenizer->digits = single ? HIL_DIGITS_SINGLE : HIL_DIGITS_RUNS;
    return HIL_OK;
}

static hil_status load_one(hil_pretokenizer *pretokenizer, const json_t *value, const char *what)
{
    const char *type = "";
    HIL_TRY(hil_json_string(value, "type", what, &type));
    if (pretokenizer->byte_level || pretokenizer->metaspace)
        return hil_fail(HIL_ERR_INPUT, "%s: the pre-tokenizer \"%.60s\" after %s is not supported",
                        what, type, pretokenizer->byte_level ? "ByteLevel" : "Metaspace");
    if (strcmp(type, "Split") == 0) return load_split(pretokenizer, value, what);
    if (strcmp(type, "Digits") == 0) return load_digits(pretokenizer, value, what);
    if (strcmp(type, "ByteLevel") == 0) return load_byte_level(pretokenizer, value, what);
    bool first = pretokenizer->pattern == HIL_PATTERN_NONE && !pretokenizer->digits;
    if (strcmp(type, "Metaspace") == 0 && first) return load_metaspace(pretokenizer, value, what);
    return hil_fail(HIL_ERR_INPUT,
                    "%s: the pre-tokenizer \"%.60s\" is not supported here (ByteLevel, Split, "
                    "Digits and Metaspace are)",
                    what, type);
}

hil_status hil_pretokenizer_load(hil_pretokenizer *pretokenizer, const json_t *value,
                                 const char *what)
{
    *pretokenizer = (hil_pretokenizer){0};
    if (!value || json_is_null(value)) return HIL_OK;
    const char *type = "";
    HIL_TRY(hil_json_string(value, "type", what, &type));
    if (strcmp(type, "Sequence") != 0) {
        HIL_TRY(load_one(pretokenizer, value, what));
    } else {
        const json_t *list = json_object_get(value, "pretokenizers");
        for (size_t i = 0; i < json_array_size(list); ++i)
            HIL_TRY(load_one(pretokenizer, json_array_get(list, i), what));
    }
    if (!pretokenizer->byte_level && (pretokenizer->pattern || pretokenizer->digits))
        return hil_fail(HIL_ERR_INPUT, "%s: Split and Digits are supported only before ByteLevel",
                        what);
    return HIL_OK;
}
