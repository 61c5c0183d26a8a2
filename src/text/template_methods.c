/* template_methods.c - the methods of str. */
#include "text/template_eval.h"
#include "text/template_strings.h"
#include "text/template_text.h"
#include "text/unicode/unicode.h"

#include <string.h>

/* The set of characters to strip, or NULL if none is given. */
static hil_status strip_set(hil_render *r, hil_variant value, const hil_chars **out)
{
    *out = NULL;
    if (value.type == HIL_V_ABSENT || value.type == HIL_V_NONE) return HIL_OK;
    return hil_argument_text(r, value, out);
}

static hil_status strip(hil_render *r, const hil_call *call, hil_side side, hil_variant *out)
{
    const hil_chars *set;
    HIL_TRY(strip_set(r, call->bound[0], &set));
    return hil_chars_strip(r, call->self.text, set, side, out);
}

HIL_BUILTIN(run_strip, strip(r, call, HIL_SIDE_BOTH, out))
HIL_BUILTIN(run_lstrip, strip(r, call, HIL_SIDE_LEFT, out))
HIL_BUILTIN(run_rstrip, strip(r, call, HIL_SIDE_RIGHT, out))
HIL_BUILTIN(run_upper, hil_chars_case(r, call->self.text, HIL_CASE_UPPER, out))
HIL_BUILTIN(run_lower, hil_chars_case(r, call->self.text, HIL_CASE_LOWER, out))
HIL_BUILTIN(run_title, hil_chars_case(r, call->self.text, HIL_CASE_TITLE, out))
HIL_BUILTIN(run_capitalize, hil_chars_case(r, call->self.text, HIL_CASE_CAPITALIZE, out))
HIL_BUILTIN(run_swapcase, hil_chars_case(r, call->self.text, HIL_CASE_SWAP, out))
HIL_BUILTIN(run_casefold, hil_chars_case(r, call->self.text, HIL_CASE_FOLD, out))

static hil_status split(hil_render *r, const hil_call *call, bool backward, hil_variant *out)
{
    const hil_chars *separator;
    int64_t most;
    hil_items *parts;
    HIL_TRY(strip_set(r, call->bound[0], &separator));
    HIL_TRY(hil_argument_integer(r, call->bound[1], -1, &most));
    HIL_TRY(hil_chars_split(r, call->self.text, separator, most, backward, &parts));
    *out = hil_items_list(parts);
    return HIL_OK;
}

HIL_BUILTIN(run_split, split(r, call, false, out))
HIL_BUILTIN(run_rsplit, split(r, call, true, out))

static hil_status run_splitlines(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_items *lines;
    HIL_TRY(hil_chars_lines(r, call->self.text, hil_variant_truth(call->bound[0]), &lines));
    *out = hil_items_list(lines);
    return HIL_OK;
}

static hil_status run_replace(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *from, *to;
    int64_t most;
    HIL_TRY(hil_argument_text(r, call->bound[0], &from));
    HIL_TRY(hil_argument_text(r, call->bound[1], &to));
    HIL_TRY(hil_argument_integer(r, call->bound[2], -1, &most));
    return hil_chars_replace(r, call->self.text, from, to, most, out);
}

/* The part of the text between the bounds in arguments 1 and 2, in characters. */
typedef struct window {
    hil_chars text;
    size_t begin; /* characters before it */
    bool beyond;  /* it begins after the end of the text */
} window;

static hil_status window_bound(hil_render *r, hil_variant value, int64_t absent, int64_t length,
                               int64_t *out)
{
    if (value.type == HIL_V_NONE) value.type = HIL_V_ABSENT;
    HIL_TRY(hil_argument_integer(r, value, absent, out));
    if (*out < 0) *out = *out + length < 0 ? 0 : *out + length;
    return HIL_OK;
}

static hil_status make_window(hil_render *r, const hil_call *call, window *out)
{
    const hil_chars *text = call->self.text;
    int64_t begin, end, length = (int64_t)text->length;
    HIL_TRY(window_bound(r, call->bound[1], 0, length, &begin));
    HIL_TRY(window_bound(r, call->bound[2], length, length, &end));
    if (end > length) end = length;
    out->beyond = begin > end;
    if (begin > end) begin = end;
    size_t from = hil_chars_offset(text, (size_t)begin), to = hil_chars_offset(text, (size_t)end);
    out->text = (hil_chars){text->data + from, to - from, (size_t)(end - begin), false};
    out->begin = (size_t)begin;
    return hil_render_step(r, text->size / 64);
}

static bool ends_with(const hil_chars *text, const hil_chars *part, bool front)
{
    if (part->size > text->size) return false;
    const char *at = front ? text->data : text->data + text->size - part->size;
    return memcmp(at, part->data, part->size) == 0;
}

static hil_status run_ends(hil_render *r, const hil_call *call, bool front, hil_variant *out)
{
    window w;
    const hil_chars *part;
    HIL_TRY(make_window(r, call, &w));
    hil_variant parts = call->bound[0];
    *out = HIL_BOOL(false);
    if (parts.type != HIL_V_TUPLE) {
        HIL_TRY(hil_argument_text(r, parts, &part));
        *out = HIL_BOOL(!w.beyond && ends_with(&w.text, part, front));
        return HIL_OK;
    }
    for (size_t i = 0; i < parts.items->count && !out->truth; ++i) {
        HIL_TRY(hil_argument_text(r, parts.items->data[i], &part));
        out->truth = !w.beyond && ends_with(&w.text, part, front);
    }
    return HIL_OK;
}

HIL_BUILTIN(run_startswith, run_ends(r, call, true, out))
HIL_BUILTIN(run_endswith, run_ends(r, call, false, out))

/* The offset of the first or last occurrence in bytes, or -1. */
static int64_t search(const hil_chars *text, const hil_chars *part, bool backward)
{
    if (part->size > text->size) return -1;
    if (!backward) {
        const char *found =
            part->size ? memmem(text->data, text->size, part->data, part->size) : text->data;
        return found ? found - text->data : -1;
    }
    for (size_t at = text->size - part->size + 1; at-- > 0;)
        if (memcmp(text->data + at, part->data, part->size) == 0) return (int64_t)at;
    return -1;
}

static hil_status find(hil_render *r, const hil_call *call, bool backward, hil_variant *out)
{
    window w;
    const hil_chars *part;
    HIL_TRY(make_window(r, call, &w));
    HIL_TRY(hil_argument_text(r, call->bound[0], &part));
    if (backward) HIL_TRY(hil_render_step(r, w.text.size / 16 * (1 + part->size / 64)));
    int64_t at = w.beyond ? -1 : search(&w.text, part, backward);
    if (at >= 0) at = (int64_t)(w.begin + hil_chars_length(w.text.data, (size_t)at));
    *out = HIL_INT(at);
    return HIL_OK;
}

HIL_BUILTIN(run_find, find(r, call, false, out))
HIL_BUILTIN(run_rfind, find(r, call, true, out))

static hil_status run_index(hil_render *r, const hil_call *call, hil_variant *out)
{
    HIL_TRY(find(r, call, false, out));
    return out->integer < 0 ? hil_render_fail(r, "substring not found") : HIL_OK;
}

static hil_status run_rindex(hil_render *r, const hil_call *call, hil_variant *out)
{
    HIL_TRY(find(r, call, true, out));
    return out->integer < 0 ? hil_render_fail(r, "substring not found") : HIL_OK;
}

static hil_status run_count(hil_render *r, const hil_call *call, hil_variant *out)
{
    window w;
    const hil_chars *part;
    int64_t count = 0;
    HIL_TRY(make_window(r, call, &w));
    HIL_TRY(hil_argument_text(r, call->bound[0], &part));
    if (!part->size) {
        *out = HIL_INT(w.beyond ? 0 : (int64_t)w.text.length + 1);
        return HIL_OK;
    }
    for (hil_chars rest = w.text;; ++count) {
        int64_t at = search(&rest, part, false);
        if (at < 0) break;
        rest.data += (size_t)at + part->size;
        rest.size -= (size_t)at + part->size;
    }
    *out = HIL_INT(count);
    return HIL_OK;
}

static hil_status run_join(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *between = call->self.text;
    hil_cursor cursor;
    size_t mark, count = 0;
    if (call->bound[0].type == HIL_V_UNDEFINED || !hil_variant_is_iterable(call->bound[0]))
        return hil_render_fail(r, "can only join an iterable");
    HIL_TRY(hil_cursor_open(r, call->bound[0], &cursor));
    hil_capture_begin(r, &mark);
    for (;; ++count) {
        hil_variant item;
        HIL_TRY(hil_cursor_next(r, &cursor, &item));
        if (item.type == HIL_V_ABSENT) break;
        if (item.type != HIL_V_TEXT)
            return hil_render_fail(r, "sequence item %zu: expected str instance, %s found", count,
                                   hil_variant_type_name(item));
        if (count) HIL_TRY(hil_render_add(r, between->data, between->size));
        HIL_TRY(between->safe && !item.text->safe
                    ? hil_print_escaped(r, item.text)
                    : hil_render_add(r, item.text->data, item.text->size));
    }
    HIL_TRY(hil_capture_end(r, mark, out));
    return hil_chars_mark(r, out->text, between->safe, out);
}

HIL_BUILTIN(run_format, hil_format_braces(r, call->self.text, &call->given, out))

/* A tuple of the text before the separator, the separator, and the text after it. */
static hil_status partition(hil_render *r, const hil_call *call, bool backward, hil_variant *out)
{
    const hil_chars *text = call->self.text, *part;
    hil_items *items;
    HIL_TRY(hil_argument_text(r, call->bound[0], &part));
    if (!part->size) return hil_render_fail(r, "empty separator");
    HIL_TRY(hil_render_step(r, text->size / 16 * (1 + part->size / 64)));
    int64_t at = search(text, part, backward);
    size_t cuts[4] = {0, text->size, text->size, text->size};
    if (at < 0 && backward) cuts[1] = cuts[2] = 0;
    if (at >= 0) {
        cuts[1] = (size_t)at;
        cuts[2] = cuts[1] + part->size;
    }
    HIL_TRY(hil_items_create(r, 3, &items));
    for (int i = 0; i < 3; ++i)
        HIL_TRY(hil_chars_part(r, text, cuts[i], cuts[i + 1], &items->data[items->count++]));
    *out = hil_items_tuple(items);
    return HIL_OK;
}

HIL_BUILTIN(run_partition, partition(r, call, false, out))
HIL_BUILTIN(run_rpartition, partition(r, call, true, out))

static hil_status remove_end(hil_render *r, const hil_call *call, bool front, hil_variant *out)
{
    const hil_chars *text = call->self.text, *part;
    HIL_TRY(hil_argument_text(r, call->bound[0], &part));
    size_t cut = ends_with(text, part, front) ? part->size : 0;
    return hil_chars_part(r, text, front ? cut : 0, front ? text->size : text->size - cut, out);
}

HIL_BUILTIN(run_removeprefix, remove_end(r, call, true, out))
HIL_BUILTIN(run_removesuffix, remove_end(r, call, false, out))

const hil_builtin hil_text_methods[] = {
    {"capitalize", run_capitalize, {NULL}, 0, false},
    {"count", run_count, {"sub", "start", "end"}, 1, false},
    {"endswith", run_endswith, {"suffix", "start", "end"}, 1, false},
    {"find", run_find, {"sub", "start", "end"}, 1, false},
    {"format", run_format, {NULL}, 0, true},
    {"index", run_index, {"sub", "start", "end"}, 1, false},
    {"join", run_join, {"iterable"}, 1, false},
    {"lower", run_lower, {NULL}, 0, false},
    {"casefold", run_casefold, {NULL}, 0, false},
    {"lstrip", run_lstrip, {"chars"}, 0, false},
    {"partition", run_partition, {"sep"}, 1, false},
    {"removeprefix", run_removeprefix, {"prefix"}, 1, false},
    {"removesuffix", run_removesuffix, {"suffix"}, 1, false},
    {"replace", run_replace, {"old", "new", "count"}, 2, false},
    {"rfind", run_rfind, {"sub", "start", "end"}, 1, false},
    {"rindex", run_rindex, {"sub", "start", "end"}, 1, false},
    {"rpartition", run_rpartition, {"sep"}, 1, false},
    {"rsplit", run_rsplit, {"sep", "maxsplit"}, 0, false},
    {"rstrip", run_rstrip, {"chars"}, 0, false},
    {"split", run_split, {"sep", "maxsplit"}, 0, false},
    {"splitlines", run_splitlines, {"keepends"}, 0, false},
    {"startswith", run_startswith, {"prefix", "start", "end"}, 1, false},
    {"strip", run_strip, {"chars"}, 0, false},
    {"swapcase", run_swapcase, {NULL}, 0, false},
    {"title", run_title, {NULL}, 0, false},
    {"upper", run_upper, {NULL}, 0, false},
    {NULL, NULL, {NULL}, 0, false},
};
