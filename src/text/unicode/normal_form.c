/* normal_form.c - decomposition, order of marks and composition. */
#include "text/unicode/normal_form.h"

#include "text/unicode/unicode.h"
#include "text/unicode/unicode_tables.h"

#include <stdlib.h>

/* One character of a run under composition; `place` keeps the sort stable. */
typedef struct mark {
    uint32_t point, rank;
    size_t place;
} mark;

typedef struct marks {
    mark *data;
    size_t size, capacity;
} marks;

enum { L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11A7, S_BASE = 0xAC00 };
enum { L_COUNT = 19, V_COUNT = 21, T_COUNT = 28, S_COUNT = L_COUNT * V_COUNT * T_COUNT };

static int in_range(const void *key, const void *entry)
{
    uint32_t point = *(const uint32_t *)key;
    const hil_unicode_rank *rank = entry;
    return point < rank->first ? -1 : point > rank->last;
}

static uint32_t rank_of(uint32_t point)
{
    const hil_unicode_rank *found =
        bsearch(&point, hil_unicode_ranks, hil_unicode_ranks_count, sizeof *found, in_range);
    return found ? found->rank : 0;
}

static hil_status add_mark(marks *run, uint32_t point)
{
    HIL_TRY(HIL_GROW(&run->data, &run->capacity, run->size + 1));
    run->data[run->size] = (mark){point, rank_of(point), run->size};
    ++run->size;
    return HIL_OK;
}

static int by_whole(const void *key, const void *entry)
{
    uint32_t point = *(const uint32_t *)key, whole = ((const hil_unicode_pair *)entry)->whole;
    return point < whole ? -1 : point > whole;
}

static const hil_unicode_pair *split_of(uint32_t point)
{
    return bsearch(&point, hil_unicode_splits, hil_unicode_splits_count, sizeof *hil_unicode_splits,
                   by_whole);
}

static bool is_composed(hil_normal_form form)
{
    return form == HIL_NFC || form == HIL_NFKC;
}

/* The compatibility decomposition of a code point: *size points of the pool from *place on, each
   `shift` more. Returns whether there is one. */
static bool find_compat(uint32_t point, size_t *place, size_t *size, uint32_t *shift)
{
    size_t low = 0, high = hil_unicode_compat_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t run = hil_unicode_compat[middle];
        if ((run >> 25) + (run >> 18 & 127) < point)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == hil_unicode_compat_count || hil_unicode_compat[low] >> 25 > point) return false;
    uint64_t run = hil_unicode_compat[low];
    *place = run >> 6 & 4095;
    *size = run >> 1 & 31;
    *shift = run & 1 ? point - (uint32_t)(run >> 25) : 0;
    return true;
}

static bool has_compat(hil_normal_form form, uint32_t point, uint32_t *first)
{
    size_t place, size;
    uint32_t shift;
    if (form != HIL_NFKC && form != HIL_NFKD) return false;
    if (!find_compat(point, &place, &size, &shift)) return false;
    *first = hil_unicode_compat_points[place] + shift;
    return true;
}

static hil_status add_compat(marks *run, uint32_t point, bool *found)
{
    size_t place, size;
    uint32_t shift;
    *found = find_compat(point, &place, &size, &shift);
    for (size_t i = 0; *found && i < size; ++i)
        HIL_TRY(add_mark(run, hil_unicode_compat_points[place + i] + shift));
    return HIL_OK;
}

static hil_status add_split(marks *run, uint32_t point)
{
    if (point >= S_BASE && point < S_BASE + S_COUNT) {
        uint32_t s = point - S_BASE;
        HIL_TRY(add_mark(run, L_BASE + s / (V_COUNT * T_COUNT)));
        HIL_TRY(add_mark(run, V_BASE + s / T_COUNT % V_COUNT));
        return s % T_COUNT ? add_mark(run, T_BASE + s % T_COUNT) : HIL_OK;
    }
    const hil_unicode_pair *pair = split_of(point);
    if (!pair) return add_mark(run, point);
    HIL_TRY(add_split(run, pair->a));
    return pair->b ? add_split(run, pair->b) : HIL_OK;
}

static int by_parts(const void *key, const void *entry)
{
    const hil_unicode_pair *left = key, *right = entry;
    if (left->a != right->a) return left->a < right->a ? -1 : 1;
    return left->b < right->b ? -1 : left->b > right->b;
}

static uint32_t join_of(uint32_t a, uint32_t b)
{
    if (a >= L_BASE && a < L_BASE + L_COUNT && b >= V_BASE && b < V_BASE + V_COUNT)
        return S_BASE + ((a - L_BASE) * V_COUNT + (b - V_BASE)) * T_COUNT;
    if (a >= S_BASE && a < S_BASE + S_COUNT && (a - S_BASE) % T_COUNT == 0 && b > T_BASE &&
        b < T_BASE + T_COUNT)
        return a + (b - T_BASE);
    const hil_unicode_pair parts = {.a = a, .b = b};
    const hil_unicode_pair *found =
        bsearch(&parts, hil_unicode_joins, hil_unicode_joins_count, sizeof *found, by_parts);
    return found ? found->whole : 0;
}

static int by_rank(const void *left, const void *right)
{
    const mark *a = left, *b = right;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static void sort_marks(marks *run)
{
    for (size_t i = 0; i < run->size;) {
        size_t end = i + 1;
        bool sorted = true;
        if (run->data[i].rank) {
            for (; end < run->size && run->data[end].rank; ++end)
                if (run->data[end].rank < run->data[end - 1].rank) sorted = false;
            if (!sorted) qsort(run->data + i, end - i, sizeof *run->data, by_rank);
        }
        i = end;
    }
}

static void join_marks(marks *run)
{
    size_t kept = 0, starter = SIZE_MAX;
    uint32_t last = 0;
    for (size_t i = 0; i < run->size; ++i) {
        mark next = run->data[i];
        bool adjacent = starter != SIZE_MAX && kept == starter + 1;
        bool open = starter != SIZE_MAX && (adjacent || (last < next.rank && next.rank));
        uint32_t joined = open ? join_of(run->data[starter].point, next.point) : 0;
        if (joined) {
            run->data[starter].point = joined;
            continue;
        }
        if (next.rank == 0) starter = kept;
        last = next.rank;
        run->data[kept++] = next;
    }
    run->size = kept;
}

/* One unit: an inert character (or none) and the active ones after it. */
static hil_status rewrite(hil_normal_form form, const char *text, size_t size, marks *run,
                          hil_text *out)
{
    run->size = 0;
    for (size_t i = 0, step; i < size; i += step) {
        uint32_t point = hil_utf8_get(text + i, &step);
        bool found = false;
        if (form == HIL_NFKC || form == HIL_NFKD) HIL_TRY(add_compat(run, point, &found));
        if (!found) HIL_TRY(add_split(run, point));
    }
    sort_marks(run);
    if (is_composed(form)) join_marks(run);
    for (size_t i = 0; i < run->size; ++i) {
        char bytes[4];
        HIL_TRY(hil_text_add(out, bytes, hil_utf8_put(bytes, run->data[i].point)));
    }
    return HIL_OK;
}

static bool is_unstable(uint32_t point)
{
    return hil_unicode_flags(point) & HIL_UNICODE_UNSTABLE;
}

static bool is_split(uint32_t point)
{
    return (point >= S_BASE && point < S_BASE + S_COUNT) || split_of(point);
}

/* Whether the form may change the character, or move or join it to one before it. */
static bool active_at(hil_normal_form form, const char *text, size_t *step)
{
    unsigned char lead = (unsigned char)*text;
    /* NFC changes nothing below U+0300, whose lead bytes are below 0xCC. */
    if (lead < (form == HIL_NFC ? 0xCC : 0x80)) {
        *step = lead < 0x80 ? 1 : 2;
        return false;
    }
    uint32_t point = hil_utf8_get(text, step), first;
    if (is_unstable(point) || has_compat(form, point, &first)) return true;
    return !is_composed(form) && is_split(point);
}

hil_status hil_normal_form_add(hil_normal_form form, const char *text, size_t size, hil_text *out)
{
    hil_status status = HIL_OK;
    marks run = {0};
    size_t copied = 0, last = 0, step;
    for (size_t i = 0; i < size; i += step) {
        if (!active_at(form, text + i, &step)) {
            last = i;
            continue;
        }
        size_t end = i + step;
        while (end < size && active_at(form, text + end, &step)) end += step;
        HIL_TRY_DONE(hil_text_add(out, text + copied, last - copied));
        HIL_TRY_DONE(rewrite(form, text + last, end - last, &run, out));
        copied = last = i = end;
        step = 0;
    }
    HIL_TRY_DONE(hil_text_add(out, text + copied, size - copied));
done:
    hil_free(run.data);
    return status;
}

size_t hil_normal_form_stable(hil_normal_form form, const char *text, size_t size)
{
    size_t at = size, step;
    while (at > 0) {
        at = hil_utf8_back(text, at);
        uint32_t point = hil_utf8_get(text + at, &step), first = point;
        const hil_unicode_pair *pair = split_of(point);
        bool canonical = !has_compat(form, point, &first) && pair && !is_composed(form);
        for (; canonical && pair; pair = split_of(first)) first = pair->a;
        if (!is_unstable(first)) return at;
    }
    return 0;
}
