/* fuzz_text_check.c - any bytes as text: the same verdict in pieces of any size, and UTF-8 passes.
 */
#include "data/text_check.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { FIRST = 512 }; /* the first piece has at least so much */

static hil_status look(const char *bytes, size_t size, size_t piece, hil_text_check *content)
{
    *content = (hil_text_check){.path = "input"};
    hil_status status = HIL_OK;
    for (size_t at = 0; at < size && status == HIL_OK;) {
        size_t step = at == 0 && piece < FIRST ? FIRST : piece;
        if (step > size - at) step = size - at;
        status = hil_text_check_add(content, bytes + at, step);
        at += step;
    }
    return status == HIL_OK ? hil_text_check_end(content) : status;
}

/* The bytes that are not part of a character, by the definition of UTF-8. */
static uint64_t count_bad(const uint8_t *bytes, size_t size)
{
    uint64_t bad = 0;
    for (size_t at = 0; at < size;) {
        uint8_t c = bytes[at];
        size_t length = c < 0x80                ? 1
                        : c >= 0xC2 && c < 0xE0 ? 2
                        : c >= 0xE0 && c < 0xF0 ? 3
                        : c >= 0xF0 && c < 0xF5 ? 4
                                                : 0;
        size_t have = length ? 1 : 0;
        while (have && have < length && at + have < size && (bytes[at + have] & 0xC0) == 0x80)
            ++have;
        uint8_t second = have > 1 ? bytes[at + 1] : 0;
        bool wrong = !length || have < length || (c == 0xE0 && second < 0xA0) ||
                     (c == 0xED && second > 0x9F) || (c == 0xF0 && second < 0x90) ||
                     (c == 0xF4 && second > 0x8F);
        bad += wrong;
        at += wrong ? 1 : length;
    }
    return bad;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    hil_text_check whole, pieces;
    hil_status expected = look((const char *)bytes, size, size, &whole);
    for (size_t piece = 1; piece < 8; piece += 2) {
        if (look((const char *)bytes, size, piece, &pieces) != expected) __builtin_trap();
        if (expected == HIL_OK && pieces.bad != whole.bad) __builtin_trap();
    }
    if (expected == HIL_OK && count_bad(bytes, size) * 100 > size) __builtin_trap();
    return 0;
}
