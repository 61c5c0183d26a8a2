/* unicode.c - UTF-8 and properties of code points. */
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

bool hil_unicode_in(const hil_unicode_range *range, size_t count, uint32_t point)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (range[middle].last < point)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && range[low].first <= point;
}

unsigned hil_unicode_category(uint32_t point)
{
    size_t low = 0, high = hil_unicode_categories_count - 1;
    while (low < high) {
        size_t middle = (low + high + 1) / 2;
        if (hil_unicode_categories[middle] >> 5 <= point)
            low = middle;
        else
            high = middle - 1;
    }
    return hil_unicode_categories[low] & 31;
}

static bool is_mark(uint32_t point)
{
    unsigned category = hil_unicode_category(point);
    return category >= HIL_CATEGORY_MN && category <= HIL_CATEGORY_ME;
}

bool hil_unicode_is_accent(uint32_t point)
{
    if (point < 0x300) return false;
    return is_mark(point) != hil_unicode_in(hil_unicode_accents, hil_unicode_accents_count, point);
}

bool hil_unicode_continues(uint32_t point)
{
    if (point < 0x300) return false;
    return is_mark(point) != hil_unicode_in(hil_unicode_extends, hil_unicode_extends_count, point);
}

uint32_t hil_unicode_to_lower(uint32_t point)
{
    for (size_t i = 0; i < hil_unicode_lower_count; ++i) {
        const hil_unicode_lower_run *run = &hil_unicode_lower[i];
        if (point < run->first || point > run->last) continue;
        if ((point - run->first) % run->step == 0) return (uint32_t)((int32_t)point + run->shift);
    }
    return point;
}
