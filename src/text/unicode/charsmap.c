/* charsmap.c - replaces graphemes and characters by a table of SentencePiece. */
#include "text/unicode/charsmap.h"

#include "text/unicode/unicode.h"

#include <string.h>

/* Graphemes of fewer bytes are looked up as a whole first. */
enum { SHORT_GRAPHEME = 6 };

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static hil_status decode(const char *encoded, hil_text *bytes)
{
    uint32_t bits = 0;
    size_t count = 0;
    for (; *encoded && *encoded != '='; ++encoded, ++count) {
        int digit = digit_of(*encoded);
        if (digit < 0) {
            bytes->size = 0;
            break;
        }
        bits = bits << 6 | (uint32_t)digit;
        char byte = (char)(bits >> (6 - count % 4 * 2) % 8);
        if (count % 4) HIL_TRY(hil_text_add(bytes, &byte, 1));
    }
    return hil_text_add(bytes, "", 0);
}

static uint32_t read_u32(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

hil_status hil_charsmap_load(hil_charsmap *map, const char *encoded, const char *what)
{
    hil_text bytes = {0};
    size_t bad;
    hil_status status;
    HIL_TRY_DONE(decode(encoded, &bytes));
    size_t size = bytes.size < 4 ? 0 : read_u32(bytes.data);
    const char *texts = bytes.data + 4 + size;
    bool whole = size >= 4 && size % 4 == 0 && bytes.size - 4 >= size;
    size_t rest = whole ? bytes.size - 4 - size : 0;
    if (!whole || hil_utf8_check(texts, rest, &bad) != rest) {
        status = hil_fail(HIL_ERR_INPUT, "%s: the precompiled_charsmap is damaged", what);
        goto done;
    }
    map->count = size / 4;
    HIL_TRY_DONE(HIL_ALLOC(map->count, &map->units));
    for (size_t i = 0; i < map->count; ++i) map->units[i] = read_u32(bytes.data + 4 + 4 * i);
    HIL_TRY_DONE(hil_text_add(&map->texts, texts, rest));
done:
    hil_text_free(&bytes);
    return status;
}

void hil_charsmap_free(hil_charsmap *map)
{
    hil_free(map->units);
    hil_text_free(&map->texts);
    *map = (hil_charsmap){0};
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* The replacement of the shortest key that `text` begins with, as Hugging Face tokenizers takes it;
   NULL: there is none. */
static const char *find(const hil_charsmap *map, const char *text, size_t size)
{
    size_t at = offset_of(map->units[0]);
    for (size_t i = 0; i < size && text[i]; ++i) {
        unsigned char byte = (unsigned char)text[i];
        at ^= byte;
        if (at >= map->count) return NULL;
        uint32_t unit = map->units[at];
        if ((unit & (1u << 31 | 0xFF)) != byte) return NULL;
        at ^= offset_of(unit);
        if (!(unit >> 8 & 1)) continue;
        size_t value = at < map->count ? map->units[at] & 0x7FFFFFFF : SIZE_MAX;
        if (value >= map->texts.size) return NULL;
        bool begins = ((unsigned char)map->texts.data[value] & 0xC0) != 0x80;
        return begins ? map->texts.data + value : NULL;
    }
    return NULL;
}

static bool between(uint32_t point, uint32_t first, uint32_t last)
{
    return point >= first && point <= last;
}

/* Characters that belong to the one after them. */
static bool is_prepended(uint32_t point)
{
    return between(point, 0x600, 0x605) || point == 0x6DD || point == 0x70F ||
           between(point, 0x890, 0x891) || point == 0x8E2 || point == 0xD4E || point == 0x110BD ||
           point == 0x110CD || between(point, 0x111C2, 0x111C3) || point == 0x113D1 ||
           point == 0x1193F || point == 0x11941 || between(point, 0x11A84, 0x11A89) ||
           point == 0x11D46 || point == 0x11F02;
}

/* Line ends, controls and formats stand alone. */
static bool is_alone(uint32_t point)
{
    if (point < 0x300) return point < 32 || between(point, 0x7F, 0x9F) || point == 0xAD;
    unsigned category = hil_unicode_category(point);
    return category >= HIL_CATEGORY_ZL && category <= HIL_CATEGORY_CF &&
           !hil_unicode_continues(point) && !is_prepended(point);
}

/* Parts of Hangul syllables: leading consonant, vowel, trailing consonant, or a syllable. */
static bool joins_hangul(uint32_t before, uint32_t point)
{
    bool vowel = between(point, 0x1160, 0x11A7) || between(point, 0xD7B0, 0xD7C6);
    bool tail = between(point, 0x11A8, 0x11FF) || between(point, 0xD7CB, 0xD7FB);
    bool lead = between(point, 0x1100, 0x115F) || between(point, 0xA960, 0xA97C);
    bool syllable = between(before, 0xAC00, 0xD7A3);
    bool open = syllable && (before - 0xAC00) % 28 == 0;
    if (between(before, 0x1100, 0x115F) || between(before, 0xA960, 0xA97C))
        return lead || vowel || between(point, 0xAC00, 0xD7A3);
    if (open || between(before, 0x1160, 0x11A7) || between(before, 0xD7B0, 0xD7C6))
        return vowel || tail;
    return tail && (syllable || between(before, 0x11A8, 0x11FF) || between(before, 0xD7CB, 0xD7FB));
}

/* The end of the grapheme at `at`. Sequences of emoji and of Indic consonants count as several:
   they are longer than what is looked up as a whole in any case. */
static size_t grapheme_end(const hil_text *text, size_t at)
{
    size_t step;
    uint32_t before = hil_utf8_get(text->data + at, &step);
    at += step;
    while (at < text->size) {
        uint32_t point = hil_utf8_get(text->data + at, &step);
        bool line = before == '\r' && point == '\n';
        bool joined =
            hil_unicode_continues(point) || is_prepended(before) || joins_hangul(before, point);
        if (!line && (!joined || is_alone(before) || is_alone(point))) break;
        before = point;
        at += step;
    }
    return at;
}

static hil_status add_grapheme(const hil_charsmap *map, const char *text, size_t size,
                               hil_text *out)
{
    const char *found = size < SHORT_GRAPHEME ? find(map, text, size) : NULL;
    if (found) return hil_text_add(out, found, strlen(found));
    for (size_t i = 0, step; i < size; i += step) {
        hil_utf8_get(text + i, &step);
        found = find(map, text + i, step);
        HIL_TRY(found ? hil_text_add(out, found, strlen(found))
                      : hil_text_add(out, text + i, step));
    }
    return HIL_OK;
}

hil_status hil_charsmap_add(const hil_charsmap *map, const hil_text *text, bool last, hil_text *out,
                            size_t *used)
{
    size_t at = 0;
    while (at < text->size) {
        size_t end = grapheme_end(text, at);
        if (end == text->size && !last) break;
        HIL_TRY(add_grapheme(map, text->data + at, end - at, out));
        at = end;
    }
    *used = at;
    return HIL_OK;
}
