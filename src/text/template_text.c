/* template_text.c - characters as Python's str sees them: white space, case, printable or not. */
#include "text/template_text.h"

#include "text/template_tables.h"

bool hil_char_is_space(uint32_t point)
{
    if (point < 0x80) return (point >= 9 && point <= 13) || (point >= 0x1C && point <= 0x20);
    return point == 0x85 || point == 0xA0 || point == 0x1680 ||
           (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
           point == 0x202F || point == 0x205F || point == 0x3000;
}

bool hil_char_is_line_end(uint32_t point)
{
    return (point >= 10 && point <= 13) || (point >= 0x1C && point <= 0x1E) || point == 0x85 ||
           point == 0x2028 || point == 0x2029;
}

/* The span that contains the character, or NULL. */
static const hil_char_span *find(const hil_char_span *spans, size_t count, uint32_t point)
{
    size_t low = 0, high = count; /* the last span that begins at or before it: low - 1 */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spans[middle].first <= point)
            low = middle + 1;
        else
            high = middle;
    }
    /* Two spans of every second character may interleave. */
    for (size_t back = 1; back <= 2 && back <= low; ++back) {
        const hil_char_span *span = &spans[low - back];
        if (point <= span->last && (point - span->first) % (uint32_t)span->step == 0) return span;
    }
    return NULL;
}

#define FIND(table, point) find(table, table##_count, point)

bool hil_char_is_printable(uint32_t point)
{
    if (point < 0x7F) return point >= 0x20;
    return !FIND(hil_char_unprintable_spans, point);
}

bool hil_char_is_upper(uint32_t point)
{
    if (point < 0x80) return point >= 'A' && point <= 'Z';
    return FIND(hil_char_upper_spans, point);
}

bool hil_char_is_lower(uint32_t point)
{
    if (point < 0x80) return point >= 'a' && point <= 'z';
    return FIND(hil_char_lower_spans, point);
}

bool hil_char_is_titled(uint32_t point)
{
    return point >= 0x80 && FIND(hil_char_titled_spans, point);
}

bool hil_char_is_cased(uint32_t point)
{
    return hil_char_is_upper(point) || hil_char_is_lower(point) || hil_char_is_titled(point);
}

/* Maps a character by a table of single characters and one of expansions; 0: in neither. */
static size_t map(const hil_char_span *span, const hil_char_expansion *several, size_t count,
                  uint32_t point, uint32_t out[HIL_CASE_MOST])
{
    if (span) {
        out[0] = (uint32_t)((int64_t)point + span->delta);
        return 1;
    }
    for (size_t i = 0; i < count; ++i) {
        if (several[i].point != point) continue;
        size_t put = 0;
        for (; put < HIL_CASE_MOST && several[i].to[put]; ++put) out[put] = several[i].to[put];
        return put;
    }
    return 0;
}

#define MAP(table, point, out)                                                                     \
    map(FIND(table, point), table##_several, table##_several_count, point, out)

size_t hil_case_upper(uint32_t point, uint32_t out[HIL_CASE_MOST])
{
    out[0] = point;
    if (point < 0x80) {
        if (point >= 'a' && point <= 'z') out[0] = point - 0x20;
        return 1;
    }
    size_t count = MAP(hil_char_to_upper, point, out);
    return count ? count : 1;
}

size_t hil_case_lower(uint32_t point, uint32_t out[HIL_CASE_MOST])
{
    out[0] = point;
    if (point < 0x80) {
        if (point >= 'A' && point <= 'Z') out[0] = point + 0x20;
        return 1;
    }
    size_t count = MAP(hil_char_to_lower, point, out);
    return count ? count : 1;
}

size_t hil_case_title(uint32_t point, uint32_t out[HIL_CASE_MOST])
{
    if (point < 0x80) return hil_case_upper(point, out);
    size_t count = MAP(hil_char_to_title, point, out);
    return count ? count : hil_case_upper(point, out);
}

size_t hil_case_fold(uint32_t point, uint32_t out[HIL_CASE_MOST])
{
    if (point < 0x80) return hil_case_lower(point, out);
    size_t count = MAP(hil_char_to_casefold, point, out);
    return count ? count : hil_case_lower(point, out);
}
