/* template_strings.c - stripping, case, replacing and splitting of text. */
#include "text/template_strings.h"

#include "text/template_eval.h"
#include "text/template_text.h"
#include "text/unicode/unicode.h"

#include <string.h>

hil_status hil_chars_part(hil_render *r, const hil_chars *text, size_t begin, size_t end,
                          hil_variant *out)
{
    HIL_TRY(hil_chars_borrow(r, text->data + begin, end - begin, out));
    return text->safe ? hil_chars_mark(r, out->text, true, out) : HIL_OK;
}

static bool strips(const hil_chars *set, const char *at, size_t *size)
{
    uint32_t point = hil_utf8_get(at, size);
    if (!set) return hil_char_is_space(point);
    for (size_t i = 0, width; i < set->size; i += width)
        if (hil_utf8_get(set->data + i, &width) == point) return true;
    return false;
}

hil_status hil_chars_strip(hil_render *r, const hil_chars *text, const hil_chars *set,
                           hil_side side, hil_variant *out)
{
    size_t begin = 0, end = text->size, size;
    size_t cost = set ? set->size : 1;
    while (side & HIL_SIDE_LEFT && begin < end && strips(set, text->data + begin, &size)) {
        begin += size;
        HIL_TRY(hil_render_step(r, cost));
    }
    while (side & HIL_SIDE_RIGHT && end > begin) {
        size_t start = hil_utf8_back(text->data, end);
        if (!strips(set, text->data + start, &size)) break;
        end = start;
        HIL_TRY(hil_render_step(r, cost));
    }
    return hil_chars_part(r, text, begin, end, out);
}

/* Whether a capital sigma is at the end of a word, where its lower case is another letter. */
static bool is_final_sigma(const hil_chars *text, size_t at)
{
    size_t size, before = at, after = at;
    bool cased = false;
    hil_utf8_get(text->data + at, &size);
    while (before > 0 && !cased) {
        before = hil_utf8_back(text->data, before);
        size_t width;
        uint32_t point = hil_utf8_get(text->data + before, &width);
        cased = hil_char_is_cased(point);
        if (!cased && point != '\'' && point != 0xAD && point != 0x2019) break;
    }
    if (!cased) return false;
    for (after += size; after < text->size; after += size) {
        uint32_t point = hil_utf8_get(text->data + after, &size);
        if (hil_char_is_cased(point)) return false;
        if (point != '\'' && point != 0xAD && point != 0x2019) break;
    }
    return true;
}

static size_t map_case(const hil_chars *text, size_t at, hil_case kind, bool *inside,
                       uint32_t out[HIL_CASE_MOST])
{
    size_t size;
    uint32_t point = hil_utf8_get(text->data + at, &size);
    bool first = kind == HIL_CASE_CAPITALIZE ? at == 0 : !*inside;
    *inside = hil_char_is_cased(point);
    bool upper = kind == HIL_CASE_UPPER || (kind == HIL_CASE_SWAP && hil_char_is_lower(point));
    bool title = (kind == HIL_CASE_TITLE || kind == HIL_CASE_CAPITALIZE) && first;
    if (kind == HIL_CASE_FOLD) return hil_case_fold(point, out);
    if (upper) return hil_case_upper(point, out);
    if (title) return hil_case_title(point, out);
    if (kind == HIL_CASE_SWAP && !hil_char_is_upper(point)) {
        out[0] = point;
        return 1;
    }
    if (point == 0x3A3) {
        out[0] = is_final_sigma(text, at) ? 0x3C2 : 0x3C3;
        return 1;
    }
    return hil_case_lower(point, out);
}

hil_status hil_chars_case(hil_render *r, const hil_chars *text, hil_case kind, hil_variant *out)
{
    size_t mark, size;
    bool inside = false; /* the character before has a case */
    HIL_TRY(hil_render_step(r, text->size / 4));
    hil_capture_begin(r, &mark);
    for (size_t at = 0; at < text->size; at += size) {
        uint32_t points[HIL_CASE_MOST];
        hil_utf8_get(text->data + at, &size);
        size_t count = map_case(text, at, kind, &inside, points);
        for (size_t i = 0; i < count; ++i) {
            char bytes[4];
            HIL_TRY(hil_render_add(r, bytes, hil_utf8_put(bytes, points[i])));
        }
    }
    HIL_TRY(hil_capture_end(r, mark, out));
    return hil_chars_mark(r, out->text, text->safe, out);
}

/* The next occurrence at or after `at`, or SIZE_MAX. */
static size_t find(const hil_chars *text, const hil_chars *part, size_t at)
{
    if (at > text->size) return SIZE_MAX;
    if (!part->size) return at;
    const char *found = memmem(text->data + at, text->size - at, part->data, part->size);
    return found ? (size_t)(found - text->data) : SIZE_MAX;
}

hil_status hil_chars_replace(hil_render *r, const hil_chars *text, const hil_chars *from,
                             const hil_chars *to, int64_t most, hil_variant *out)
{
    size_t mark, at = 0, copied = 0;
    HIL_TRY(hil_render_step(r, text->size / 32));
    hil_capture_begin(r, &mark);
    for (int64_t i = 0; most < 0 || i < most; ++i) {
        size_t found = find(text, from, at);
        if (found == SIZE_MAX) break;
        HIL_TRY(hil_render_step(r, 1));
        HIL_TRY(hil_render_add(r, text->data + copied, found - copied));
        HIL_TRY(text->safe && !to->safe ? hil_print_escaped(r, to)
                                        : hil_render_add(r, to->data, to->size));
        copied = found + from->size;
        at = copied;
        if (!from->size) { /* between all characters */
            size_t size = 1;
            if (at < text->size) hil_utf8_get(text->data + at, &size);
            at += size;
        }
    }
    HIL_TRY(hil_render_add(r, text->data + copied, text->size - copied));
    HIL_TRY(hil_capture_end(r, mark, out));
    return hil_chars_mark(r, out->text, text->safe, out);
}

hil_status hil_chars_lines(hil_render *r, const hil_chars *text, bool keep, hil_items **out)
{
    HIL_TRY(hil_items_create(r, 0, out));
    HIL_TRY(hil_render_step(r, text->size / 8));
    for (size_t at = 0, begin = 0; at < text->size; begin = at) {
        size_t size, end = 0;
        while (at < text->size && !end) {
            uint32_t point = hil_utf8_get(text->data + at, &size);
            if (hil_char_is_line_end(point)) {
                bool pair = point == '\r' && at + 1 < text->size && text->data[at + 1] == '\n';
                end = size + pair;
                at += end;
            } else {
                at += size;
            }
        }
        hil_variant line;
        HIL_TRY(hil_chars_part(r, text, begin, keep ? at : at - end, &line));
        HIL_TRY(hil_items_add(r, *out, line));
    }
    return HIL_OK;
}

static void reverse(hil_items *items)
{
    for (size_t i = 0; i < items->count / 2; ++i) {
        hil_variant other = items->data[i];
        items->data[i] = items->data[items->count - 1 - i];
        items->data[items->count - 1 - i] = other;
    }
}

static hil_status add_part(hil_render *r, const hil_chars *text, size_t begin, size_t end,
                           hil_items *out)
{
    hil_variant part;
    HIL_TRY(hil_chars_part(r, text, begin, end, &part));
    return hil_items_add(r, out, part);
}

static hil_status split_spaces(hil_render *r, const hil_chars *text, int64_t most, hil_items *out)
{
    for (size_t at = 0, size;;) {
        while (at < text->size && strips(NULL, text->data + at, &size)) at += size;
        if (at == text->size) return HIL_OK;
        size_t begin = at;
        if (most >= 0 && (int64_t)out->count >= most)
            return add_part(r, text, begin, text->size, out);
        while (at < text->size && !strips(NULL, text->data + at, &size)) at += size;
        HIL_TRY(add_part(r, text, begin, at, out));
    }
}

static hil_status split_spaces_back(hil_render *r, const hil_chars *text, int64_t most,
                                    hil_items *out)
{
    size_t size;
    for (size_t at = text->size;;) {
        while (at > 0 && strips(NULL, text->data + hil_utf8_back(text->data, at), &size))
            at -= size;
        if (at == 0) return HIL_OK;
        size_t end = at;
        if (most >= 0 && (int64_t)out->count >= most) return add_part(r, text, 0, end, out);
        while (at > 0 && !strips(NULL, text->data + hil_utf8_back(text->data, at), &size))
            at -= size;
        HIL_TRY(add_part(r, text, at, end, out));
    }
}

static hil_status split_at(hil_render *r, const hil_chars *text, const hil_chars *separator,
                           int64_t most, hil_items *out)
{
    size_t begin = 0;
    while (most < 0 || (int64_t)out->count < most) {
        size_t found = find(text, separator, begin);
        if (found == SIZE_MAX) break;
        HIL_TRY(add_part(r, text, begin, found, out));
        begin = found + separator->size;
    }
    return add_part(r, text, begin, text->size, out);
}

static hil_status split_back(hil_render *r, const hil_chars *text, const hil_chars *separator,
                             int64_t most, hil_items *out)
{
    size_t end = text->size, at = end;
    while (at >= separator->size && (most < 0 || (int64_t)out->count < most)) {
        size_t begin = at - separator->size;
        if (memcmp(text->data + begin, separator->data, separator->size) == 0) {
            HIL_TRY(add_part(r, text, at, end, out));
            end = at = begin;
        } else {
            --at;
        }
    }
    return add_part(r, text, 0, end, out);
}

hil_status hil_chars_split(hil_render *r, const hil_chars *text, const hil_chars *separator,
                           int64_t most, bool backward, hil_items **out)
{
    HIL_TRY(hil_items_create(r, 0, out));
    HIL_TRY(hil_render_step(r, text->size / 16));
    if (separator && !separator->size) return hil_render_fail(r, "empty separator");
    if (separator && backward)
        HIL_TRY(hil_render_step(r, text->size / 16 * (1 + separator->size / 64)));
    if (separator && backward)
        HIL_TRY(split_back(r, text, separator, most, *out));
    else if (separator)
        HIL_TRY(split_at(r, text, separator, most, *out));
    else if (backward)
        HIL_TRY(split_spaces_back(r, text, most, *out));
    else
        HIL_TRY(split_spaces(r, text, most, *out));
    if (backward) reverse(*out);
    return HIL_OK;
}
