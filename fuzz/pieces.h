/* pieces.h - a parser of pieces: what it finds and says does not depend on where they are cut. */
#ifndef FUZZ_PIECES_H
#define FUZZ_PIECES_H

#include "base/fail.h"

#include <stdio.h>
#include <string.h>

/* Parses the bytes in pieces of at most `piece`, and adds what it finds to the hash. */
typedef hil_status fuzz_feed(const uint8_t *bytes, size_t size, size_t piece, uint64_t *hash);

static inline void fuzz_pieces(const uint8_t *bytes, size_t size, fuzz_feed *feed)
{
    uint64_t whole = 0;
    hil_status expected = feed(bytes, size, size ? size : 1, &whole);
    char message[1024] = "";
    if (expected != HIL_OK) snprintf(message, sizeof message, "%s", hil_status_message());
    for (size_t piece = 1; piece < 8; piece += 3) {
        uint64_t cut = 0;
        hil_status status = feed(bytes, size, piece, &cut);
        if (status != expected || cut != whole) __builtin_trap();
        if (status != HIL_OK && strcmp(message, hil_status_message()) != 0) __builtin_trap();
    }
}

#endif
