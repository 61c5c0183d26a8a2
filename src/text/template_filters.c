/* template_filters.c - filters that make text: trim, replace, indent, join, tojson, ... */
#include "text/template_eval.h"
#include "text/template_strings.h"
#include "text/template_text.h"
#include "text/unicode/unicode.h"

#include <string.h>

const hil_builtin *hil_filter_find(const char *name, size_t size)
{
    const hil_builtin *found = hil_builtin_find(hil_text_filters, name, size);
    if (!found) found = hil_builtin_find(hil_sequence_filters, name, size);
    return found ? found : hil_builtin_find(hil_number_filters, name, size);
}

static hil_status run_string(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *text;
    HIL_TRY(hil_variant_text(r, call->self, &text));
    *out = HIL_TEXT(text);
    return HIL_OK;
}

static hil_status run_safe(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *text;
    HIL_TRY(hil_variant_text(r, call->self, &text));
    return hil_chars_mark(r, text, true, out);
}

static hil_status run_forceescape(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *text;
    size_t mark;
    HIL_TRY(hil_variant_text(r, call->self, &text));
    hil_capture_begin(r, &mark);
    HIL_TRY(hil_print_escaped(r, text));
    HIL_TRY(hil_capture_end(r, mark, out));
    return hil_chars_mark(r, out->text, true, out);
}

static hil_status run_escape(hil_render *r, const hil_call *call, hil_variant *out)
{
    *out = call->self;
    if (call->self.type == HIL_V_TEXT && call->self.text->safe) return HIL_OK;
    return run_forceescape(r, call, out);
}

static hil_status change_case(hil_render *r, const hil_call *call, hil_case kind, hil_variant *out)
{
    const hil_chars *text;
    HIL_TRY(hil_variant_text(r, call->self, &text));
    return hil_chars_case(r, text, kind, out);
}

HIL_BUILTIN(run_upper, change_case(r, call, HIL_CASE_UPPER, out))
HIL_BUILTIN(run_lower, change_case(r, call, HIL_CASE_LOWER, out))
HIL_BUILTIN(run_capitalize, change_case(r, call, HIL_CASE_CAPITALIZE, out))

static bool splits_words(uint32_t point)
{
    return hil_char_is_space(point) || (point && point < 0x80 && strchr("-({[<", (int)point));
}

/* Words begin after white space and - ( { [ <, not after other signs as with str.title(). */
static hil_status run_title(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *text;
    size_t mark, size;
    bool inside = false;
    HIL_TRY(hil_variant_text(r, call->self, &text));
    HIL_TRY(hil_render_step(r, text->size / 4));
    hil_capture_begin(r, &mark);
    for (size_t at = 0; at < text->size; at += size) {
        uint32_t point = hil_utf8_get(text->data + at, &size), points[HIL_CASE_MOST] = {point};
        bool word = !splits_words(point);
        size_t count = 1;
        if (word) count = inside ? hil_case_lower(point, points) : hil_case_upper(point, points);
        for (size_t i = 0; i < count; ++i) {
            char bytes[4];
            HIL_TRY(hil_render_add(r, bytes, hil_utf8_put(bytes, points[i])));
        }
        inside = word;
    }
    return hil_capture_end(r, mark, out);
}

static hil_status run_trim(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *text, *set = NULL;
    HIL_TRY(hil_variant_text(r, call->self, &text));
    if (call->bound[0].type != HIL_V_ABSENT && call->bound[0].type != HIL_V_NONE)
        HIL_TRY(hil_argument_text(r, call->bound[0], &set));
    return hil_chars_strip(r, text, set, HIL_SIDE_BOTH, out);
}

static hil_status run_replace(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *text, *from, *to;
    int64_t most = -1;
    hil_variant plain;
    HIL_TRY(hil_variant_text(r, call->self, &text));
    HIL_TRY(hil_variant_text(r, call->bound[0], &from));
    HIL_TRY(hil_variant_text(r, call->bound[1], &to));
    if (call->bound[2].type != HIL_V_NONE)
        HIL_TRY(hil_argument_integer(r, call->bound[2], -1, &most));
    HIL_TRY(hil_chars_mark(r, text, false, &plain));
    return hil_chars_replace(r, plain.text, from, to, most, out);
}

static hil_status run_indent(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *text, *indent;
    hil_items *lines;
    size_t mark;
    hil_variant spaces;
    HIL_TRY(hil_argument_text(r, call->self, &text));
    if (call->bound[0].type == HIL_V_TEXT) {
        indent = call->bound[0].text;
    } else {
        int64_t width;
        HIL_TRY(hil_argument_integer(r, call->bound[0], 4, &width));
        HIL_TRY(hil_chars_literal(r, " ", &spaces));
        HIL_TRY(hil_variant_binary(r, HIL_OP_MUL, spaces, HIL_INT(width), &spaces));
        indent = spaces.text;
    }
    bool first = hil_variant_truth(call->bound[1]), blank = hil_variant_truth(call->bound[2]);
    hil_variant more, newline;
    HIL_TRY(hil_chars_literal(r, "\n", &newline));
    HIL_TRY(hil_variant_binary(r, HIL_OP_ADD, call->self, newline, &more));
    HIL_TRY(hil_chars_lines(r, more.text, false, &lines));
    hil_capture_begin(r, &mark);
    for (size_t i = 0; i < lines->count; ++i) {
        const hil_chars *line = lines->data[i].text;
        if (i) HIL_TRY(HIL_RENDER_ADD(r, "\n"));
        if (i ? blank || line->size : first) HIL_TRY(hil_render_add(r, indent->data, indent->size));
        HIL_TRY(hil_render_add(r, line->data, line->size));
    }
    HIL_TRY(hil_capture_end(r, mark, out));
    return hil_chars_mark(r, out->text, text->safe, out);
}

/* "%s and %s"|format(a, b) */
static hil_status run_format(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *format;
    const hil_arguments *given = &call->given;
    HIL_TRY(hil_variant_text(r, call->self, &format));
    if (given->count && given->keyword_count)
        return hil_render_fail(r, "can't handle positional and keyword arguments at the same time");
    if (given->keyword_count) {
        hil_dict *dict;
        HIL_TRY(hil_dict_create(r, given->keyword_count, &dict));
        for (size_t i = 0; i < given->keyword_count; ++i)
            HIL_TRY(
                hil_dict_set(r, dict, HIL_TEXT(given->keywords[i].name), given->keywords[i].value));
        return hil_format_percent(r, format, (hil_variant){.type = HIL_V_DICT, .dict = dict}, out);
    }
    hil_items *items;
    HIL_TRY(hil_items_create(r, given->count, &items));
    for (size_t i = 0; i < given->count; ++i) HIL_TRY(hil_items_add(r, items, given->values[i]));
    return hil_format_percent(r, format, hil_items_tuple(items), out);
}

static hil_status run_center(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *text;
    hil_variant width = call->bound[0].type == HIL_V_ABSENT ? HIL_INT(80) : call->bound[0];
    HIL_TRY(hil_variant_text(r, call->self, &text));
    return hil_builtin_call(r, hil_builtin_find(hil_text_predicates, "center", 6), HIL_TEXT(text),
                            &(hil_arguments){&width, 1, NULL, 0}, out);
}

static hil_status run_truncate(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *text, *end;
    int64_t length, leeway = 5;
    hil_variant dots;
    HIL_TRY(hil_argument_text(r, call->self, &text));
    HIL_TRY(hil_argument_integer(r, call->bound[0], 255, &length));
    HIL_TRY(hil_chars_literal(r, "...", &dots));
    HIL_TRY(
        hil_argument_text(r, call->bound[2].type == HIL_V_ABSENT ? dots : call->bound[2], &end));
    if (call->bound[3].type != HIL_V_NONE)
        HIL_TRY(hil_argument_integer(r, call->bound[3], 5, &leeway));
    if (length < (int64_t)end->length || leeway < 0)
        return hil_render_fail(r, "expected length >= %zu, got %lld", end->length,
                               (long long)length);
    *out = call->self;
    if ((int64_t)text->length <= length || (int64_t)text->length - length <= leeway) return HIL_OK;
    size_t cut = hil_chars_offset(text, (size_t)length - end->length);
    if (!hil_variant_truth(call->bound[1])) {
        const char *space = memrchr(text->data, ' ', cut);
        if (space) cut = (size_t)(space - text->data);
    }
    hil_variant front;
    HIL_TRY(hil_chars_part(r, text, 0, cut, &front));
    return hil_variant_binary(r, HIL_OP_ADD, front, HIL_TEXT(end), out);
}

static hil_status run_wordcount(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *text;
    int64_t count = 0;
    bool inside = false;
    HIL_TRY(hil_variant_text(r, call->self, &text));
    HIL_TRY(hil_render_step(r, text->size / 8));
    for (size_t at = 0, size; at < text->size; at += size) {
        uint32_t point = hil_utf8_get(text->data + at, &size);
        bool word = point == '_' || (hil_unicode_flags(point) & HIL_UNICODE_WORD);
        count += word && !inside;
        inside = word;
    }
    *out = HIL_INT(count);
    return HIL_OK;
}

static hil_status run_urlencode(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *text;
    size_t mark;
    if (call->self.type != HIL_V_TEXT && hil_variant_is_iterable(call->self))
        return hil_render_fail(r, "urlencode of pairs is not supported");
    HIL_TRY(hil_variant_text(r, call->self, &text));
    HIL_TRY(hil_render_step(r, text->size));
    hil_capture_begin(r, &mark);
    for (size_t i = 0; i < text->size; ++i) {
        unsigned char c = (unsigned char)text->data[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                     (c && strchr("_.-~/", c));
        HIL_TRY(plain ? hil_render_add(r, text->data + i, 1) : hil_render_print(r, "%%%02X", c));
    }
    return hil_capture_end(r, mark, out);
}

/* A separator of tojson: text from `pair`, or `absent`. */
static hil_status separator(hil_render *r, hil_variant pair, size_t index, const char *absent,
                            const hil_chars **out)
{
    hil_variant text;
    HIL_TRY(hil_chars_literal(r, absent, &text));
    if (pair.type == HIL_V_TUPLE || pair.type == HIL_V_LIST) {
        if (pair.items->count != 2) return hil_render_fail(r, "separators must be a pair");
        text = pair.items->data[index];
    } else if (pair.type != HIL_V_ABSENT && pair.type != HIL_V_NONE) {
        return hil_render_fail(r, "separators must be a pair");
    }
    return hil_argument_text(r, text, out);
}

static hil_status run_tojson(hil_render *r, const hil_call *call, hil_variant *out)
{
    size_t mark;
    hil_variant ascii = call->bound[0], indent = call->bound[1], pair = call->bound[2], spaces;
    hil_json_style style = {.ascii = hil_variant_truth(ascii),
                            .sorted = hil_variant_truth(call->bound[3])};
    style.lines = indent.type != HIL_V_ABSENT && indent.type != HIL_V_NONE;
    if (indent.type == HIL_V_TEXT) {
        style.indent = indent.text;
    } else if (style.lines) {
        int64_t width;
        HIL_TRY(hil_argument_integer(r, indent, 0, &width));
        HIL_TRY(hil_chars_literal(r, " ", &spaces));
        HIL_TRY(hil_variant_binary(r, HIL_OP_MUL, spaces, HIL_INT(width), &spaces));
        style.indent = spaces.text;
    }
    HIL_TRY(separator(r, pair, 0, style.lines ? "," : ", ", &style.between));
    HIL_TRY(separator(r, pair, 1, ": ", &style.colon));
    hil_capture_begin(r, &mark);
    HIL_TRY(hil_print_json(r, call->self, &style));
    return hil_capture_end(r, mark, out);
}

const hil_builtin hil_text_filters[] = {
    {"capitalize", run_capitalize, {NULL}, 0, false},
    {"center", run_center, {"width"}, 0, false},
    {"e", run_escape, {NULL}, 0, false},
    {"escape", run_escape, {NULL}, 0, false},
    {"forceescape", run_forceescape, {NULL}, 0, false},
    {"format", run_format, {NULL}, 0, true},
    {"indent", run_indent, {"width", "first", "blank"}, 0, false},
    {"lower", run_lower, {NULL}, 0, false},
    {"replace", run_replace, {"old", "new", "count"}, 2, false},
    {"safe", run_safe, {NULL}, 0, false},
    {"string", run_string, {NULL}, 0, false},
    {"title", run_title, {NULL}, 0, false},
    {"tojson", run_tojson, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, false},
    {"trim", run_trim, {"chars"}, 0, false},
    {"truncate", run_truncate, {"length", "killwords", "end", "leeway"}, 0, false},
    {"upper", run_upper, {NULL}, 0, false},
    {"urlencode", run_urlencode, {NULL}, 0, false},
    {"wordcount", run_wordcount, {NULL}, 0, false},
    {NULL, NULL, {NULL}, 0, false},
};
