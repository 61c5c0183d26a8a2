/* unicode.h - UTF-8 and properties of code points, equal to those of Hugging Face tokenizers. */
#ifndef HIL_TEXT_UNICODE_UNICODE_H
#define HIL_TEXT_UNICODE_UNICODE_H

#include "base/text.h"

enum {
    HIL_UNICODE_LETTER = 1,
    HIL_UNICODE_NUMBER = 2,
    HIL_UNICODE_SPACE = 4,
    HIL_UNICODE_WORD = 8,
    /* NFC may change it alone, compose it with a character before it, or reorder the two. */
    HIL_UNICODE_UNSTABLE = 16,
};

unsigned hil_unicode_flags(uint32_t point);

/* General categories: Cn, Lu, Ll, Lt, Lm, Lo, Mn, Mc, Me, Nd, Nl, No, Pc, Pd, Ps, Pe, Pi, Pf, Po,
   Sm, Sc, Sk, So, Zs, Zl, Zp, Cc, Cf, Co, Cs. */
enum {
    HIL_CATEGORY_MN = 6,
    HIL_CATEGORY_ME = 8,
    HIL_CATEGORY_ND = 9,
    HIL_CATEGORY_PC = 12,
    HIL_CATEGORY_ZL = 24,
    HIL_CATEGORY_CF = 27,
    HIL_CATEGORY_COUNT = 30
};
unsigned hil_unicode_category(uint32_t point);

/* Whether StripAccents drops it. */
bool hil_unicode_is_accent(uint32_t point);
/* Whether it belongs to the grapheme of the character before it. */
bool hil_unicode_continues(uint32_t point);
/* Lower case of code points that Python has none for (hil_case_lower); others stay. */
uint32_t hil_unicode_to_lower(uint32_t point);

/* The length of the valid UTF-8 at the start of `text`. *bad is the length of the invalid sequence
   after it (Unicode's maximal subpart), or 0 at the end and before an incomplete character. */
size_t hil_utf8_check(const char *text, size_t size, size_t *bad);

/* The code point at `text`, which must be valid UTF-8; *size is its length. */
static inline uint32_t hil_utf8_get(const char *text, size_t *size)
{
    const unsigned char *b = (const unsigned char *)text;
    if (b[0] < 0x80) {
        *size = 1;
        return b[0];
    }
    if (b[0] < 0xE0) {
        *size = 2;
        return (b[0] & 0x1Fu) << 6 | (b[1] & 0x3Fu);
    }
    if (b[0] < 0xF0) {
        *size = 3;
        return (b[0] & 0xFu) << 12 | (b[1] & 0x3Fu) << 6 | (b[2] & 0x3Fu);
    }
    *size = 4;
    return (b[0] & 7u) << 18 | (b[1] & 0x3Fu) << 12 | (b[2] & 0x3Fu) << 6 | (b[3] & 0x3Fu);
}

/* The start of the character that ends before `at` > 0 in valid UTF-8. */
static inline size_t hil_utf8_back(const char *text, size_t at)
{
    do --at;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80);
    return at;
}

/* Writes a code point and returns its length, at most 4. */
size_t hil_utf8_put(char out[4], uint32_t point);

#endif
