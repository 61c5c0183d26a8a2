/* varint.h - numbers of seven bits to a byte, as Parquet and Snappy have them. */
#ifndef HIL_FORMAT_PARQUET_VARINT_H
#define HIL_FORMAT_PARQUET_VARINT_H

#include <stdbool.h>
#include <stdint.h>

/* Takes a number from *at; false: there is none before `end`. */
static inline bool hil_varint_take(const unsigned char **at, const unsigned char *end,
                                   uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        unsigned char byte = *(*at)++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

#endif
