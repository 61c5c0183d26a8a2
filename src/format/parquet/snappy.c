/* snappy.c - decompression of raw Snappy blocks, which most Parquet files are made of. Written here
   because libsnappy is C++: linked statically, as bundle and wheel need it, it would bring the C++
   runtime into a C program, for a format of one page. */
#include "format/parquet/snappy.h"

#include "format/parquet/varint.h"

#include <string.h>

static size_t take_little(const unsigned char **at, int bytes)
{
    size_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= (size_t)(*at)[i] << (8 * i);
    *at += bytes;
    return value;
}

/* Copies `size` bytes that begin `offset` before `to`; they may reach beyond it, and then repeat.
 */
static void copy_back(unsigned char *to, size_t offset, size_t size)
{
    const unsigned char *from = to - offset;
    if (offset >= size) {
        memcpy(to, from, size);
    } else if (offset >= 8) {
        for (; size >= 8; to += 8, from += 8, size -= 8) memcpy(to, from, 8);
        memcpy(to, from, size);
    } else {
        for (size_t i = 0; i < size; ++i) to[i] = from[i];
    }
}

bool hil_snappy_decode(const void *block, size_t size, void *out, size_t out_size)
{
    static const unsigned char extra_bytes[] = {0, 1, 2, 4}; /* of copies, by kind of element */
    const unsigned char *at = block, *end = at + size;
    unsigned char *to = out, *begin = out;
    uint64_t said; /* the size of the output, with which a block begins */
    if (!hil_varint_take(&at, end, &said) || said != out_size) return false;
    while (at < end) {
        unsigned tag = *at++, kind = tag & 3;
        int extra = kind ? extra_bytes[kind] : tag >> 2 < 60 ? 0 : (int)(tag >> 2) - 59;
        size_t left = out_size - (size_t)(to - begin);
        if (end - at < extra) return false;
        size_t number = take_little(&at, extra);
        if (kind == 0) {
            size_t length = (extra ? number : tag >> 2) + 1;
            if (length > (size_t)(end - at) || length > left) return false;
            memcpy(to, at, length);
            at += length;
            to += length;
            continue;
        }
        size_t length = kind == 1 ? (tag >> 2 & 7) + 4 : (tag >> 2) + 1;
        size_t offset = kind == 1 ? number | (size_t)(tag >> 5) << 8 : number;
        if (offset == 0 || offset > (size_t)(to - begin) || length > left) return false;
        copy_back(to, offset, length);
        to += length;
    }
    return (size_t)(to - begin) == out_size;
}
