/* charsmap.h - the replacements of a SentencePiece normalizer, "precompiled_charsmap". */
#ifndef HIL_TEXT_UNICODE_CHARSMAP_H
#define HIL_TEXT_UNICODE_CHARSMAP_H

#include "base/text.h"

/* Owns its arrays. */
typedef struct hil_charsmap {
    uint32_t *units; /* a double array: a tree of keys, byte by byte */
    size_t count;
    hil_text texts; /* replacements, each followed by a NUL; valid UTF-8 */
} hil_charsmap;

/* `encoded` is base64; `what` names the source in errors. */
hil_status hil_charsmap_load(hil_charsmap *map, const char *encoded, const char *what);
void hil_charsmap_free(hil_charsmap *map);

/* Appends valid UTF-8 text with its replacements; unless `last`, stops where a grapheme begins that
   later text could continue. *used: the bytes of `text` consumed. */
hil_status hil_charsmap_add(const hil_charsmap *map, const hil_text *text, bool last, hil_text *out,
                            size_t *used);

#endif
