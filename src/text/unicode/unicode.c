/* unicode.c - UTF-8, character classes and canonical composition. */
#include "text/unicode/unicode.h"

#include "text/unicode/unicode_tables.h"

#include <stdlib.h>
#include <string.h>

unsigned hil_unicode_flags(uint32_t point)
{
    if (point > 0x10FFFF) return 0;
    size_t low = hil_unicode_blocks[point >> 8], high = hil_unicode_blocks[(point >> 8) + 1];
    while (low < high) {
        size_t middle = (low + high + 1) / 2;
        if (hil_unicode_runs[middle] >> 8 <= point)
            low = middle;
        else
            high = middle - 1;
    }
    return hil_unicode_runs[low] & 0xFF;
}

size_t hil_utf8_check(const char *text, size_t size, size_t *bad)
{
    size_t i = 0;
    *bad = 0;
    while (i < size) {
        uint64_t eight;
        while (i + 8 <= size && (memcpy(&eight, text + i, 8), !(eight & 0x8080808080808080u)))
            i += 8;
        if (i >= size) break;
        unsigned char lead = (unsigned char)text[i];
        if (lead < 0x80) {
            ++i;
            continue;
        }
        size_t need = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
        unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        size_t have = 1;
        while (have < need && i + have < size) {
            unsigned char next = (unsigned char)text[i + have];
            if (next < low || next > high) break;
            low = 0x80;
            high = 0xBF;
            ++have;
        }
        if (have < need || need == 0) {
            if (need == 0 || i + have < size) *bad = have;
            break;
        }
        i += need;
    }
    return i;
}

size_t hil_utf8_put(char out[4], uint32_t point)
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xC0 | point >> 6);
        out[1] = (char)(0x80 | (point & 0x3F));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (char)(0xE0 | point >> 12);
        out[1] = (char)(0x80 | (point >> 6 & 0x3F));
        out[2] = (char)(0x80 | (point & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | point >> 18);
    out[1] = (char)(0x80 | (point >> 12 & 0x3F));
    out[2] = (char)(0x80 | (point >> 6 & 0x3F));
    out[3] = (char)(0x80 | (point & 0x3F));
    return 4;
}

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

/* Composes one unit: a stable character (or none) and the unstable ones after it. */
static hil_status compose(const char *text, size_t size, marks *run, hil_text *out)
{
    run->size = 0;
    for (size_t i = 0, step; i < size; i += step)
        HIL_TRY(add_split(run, hil_utf8_get(text + i, &step)));
    sort_marks(run);
    join_marks(run);
    for (size_t i = 0; i < run->size; ++i) {
        char bytes[4];
        HIL_TRY(hil_text_add(out, bytes, hil_utf8_put(bytes, run->data[i].point)));
    }
    return HIL_OK;
}

/* All code points below U+0300, whose lead bytes are below 0xCC, are stable. */
static bool unstable_at(const char *text, size_t *step)
{
    unsigned char lead = (unsigned char)*text;
    if (lead < 0xCC) {
        *step = lead < 0x80 ? 1 : 2;
        return false;
    }
    return hil_unicode_flags(hil_utf8_get(text, step)) & HIL_UNICODE_UNSTABLE;
}

hil_status hil_nfc_add(const char *text, size_t size, hil_text *out)
{
    hil_status status = HIL_OK;
    marks run = {0};
    size_t copied = 0, last = 0, step;
    for (size_t i = 0; i < size; i += step) {
        if (!unstable_at(text + i, &step)) {
            last = i;
            continue;
        }
        size_t end = i + step;
        while (end < size && unstable_at(text + end, &step)) end += step;
        HIL_TRY_DONE(hil_text_add(out, text + copied, last - copied));
        HIL_TRY_DONE(compose(text + last, end - last, &run, out));
        copied = last = i = end;
        step = 0;
    }
    HIL_TRY_DONE(hil_text_add(out, text + copied, size - copied));
done:
    hil_free(run.data);
    return status;
}

size_t hil_nfc_stable(const char *text, size_t size)
{
    size_t at = size, step;
    while (at > 0) {
        at = hil_utf8_back(text, at);
        if (!unstable_at(text + at, &step)) return at;
    }
    return 0;
}
