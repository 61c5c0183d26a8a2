/* Snappy blocks are decompressed byte for byte, and anything else is refused within its bounds. */
#include "format/parquet/snappy.h"
#include "check.h"

#define BLOCK(text) text, sizeof text - 1

/* `expected` NULL: refused. Both buffers are exact, so that sanitizers see what is beyond them. */
static void check_block(const char *block, size_t size, const char *expected, size_t out_size)
{
    char *in = malloc(size + 1), *out = malloc(out_size + 1);
    CHECK(in && out);
    memcpy(in, block, size);
    in = realloc(in, size ? size : 1);
    out = realloc(out, out_size ? out_size : 1);
    CHECK(hil_snappy_decode(in, size, out, out_size) == (expected != NULL));
    if (expected) CHECK(memcmp(out, expected, out_size) == 0);
    free(in);
    free(out);
}

/* A literal whose length has `bytes` bytes of its own. */
static void check_literal(size_t length, unsigned bytes)
{
    unsigned char *block = malloc(length + 16);
    char *text = malloc(length);
    CHECK(block && text);
    size_t at = 0;
    for (size_t left = length; left > 127; left >>= 7) block[at++] = (unsigned char)(left | 128);
    block[at] = (unsigned char)(length >> (7 * at));
    ++at;
    block[at++] = (unsigned char)((59 + bytes) << 2);
    for (unsigned i = 0; i < bytes; ++i) block[at++] = (unsigned char)((length - 1) >> (8 * i));
    for (size_t i = 0; i < length; ++i) text[i] = (char)(i * 7);
    memcpy(block + at, text, length);
    check_block((char *)block, at + length, text, length);
    check_block((char *)block, at + length - 1, NULL, length);
    free(text);
    free(block);
}

int main(void)
{
    check_block(BLOCK("\0"), "", 0);
    check_block(BLOCK("\3\x08"
                      "abc"),
                "abc", 3);
    /* Copies with offsets of 1, 2 and 4 bytes; those that overlap repeat. */
    check_block(BLOCK("\x0b\x08"
                      "abc\x11\3"),
                "abcabcabcab", 11);
    check_block(BLOCK("\5\0a\x0e\1\0"), "aaaaa", 5);
    check_block(BLOCK("\x0c\x08"
                      "abc\x22\3\0"),
                "abcabcabcabc", 12);
    check_block(BLOCK("\6\x08"
                      "abc\x0b\3\0\0\0"),
                "abcabc", 6);
    check_block(BLOCK("\x1d\x24"
                      "0123456789\x4a\x0a\0"),
                "01234567890123456789012345678", 29);
    for (unsigned bytes = 1; bytes <= 4; ++bytes) check_literal(200, bytes);
    check_literal(70000, 3);
    /* Another size, cut off, offsets before the start or 0, more than there is room for. */
    check_block(BLOCK(""), NULL, 0);
    check_block(BLOCK("\x80\x80\x80\x80\x80\1"), NULL, 0);
    check_block(BLOCK("\3\x08"
                      "abc"),
                NULL, 4);
    check_block(BLOCK("\3\x08"
                      "ab"),
                NULL, 3);
    check_block(BLOCK("\4\x08"
                      "abc"),
                NULL, 4);
    check_block(BLOCK("\2\x08"
                      "abc"),
                NULL, 2);
    check_block(BLOCK("\5\0a\x0e\2\0"), NULL, 5);
    check_block(BLOCK("\5\0a\x0e\0\0"), NULL, 5);
    check_block(BLOCK("\4\0a\x0e\1\0"), NULL, 4);
    check_block(BLOCK("\5\0a\x0e\1"), NULL, 5);
    check_block(BLOCK("\5\0a\1"), NULL, 5);
    check_block(BLOCK("\3\xfc\xff\xff\xff\xff"
                      "abc"),
                NULL, 3);
    return 0;
}
