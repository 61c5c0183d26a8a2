/* arrow_buffer.c - reads buffers a piece at a time, or unpacks them whole. */
#include "format/arrow/arrow_buffer.h"

#include "base/alloc.h"
#include "format/parquet/parquet_codec.h"

#include <string.h>

#define PIECE ((size_t)1 << 16)
#define UNPACKED_MAX ((uint64_t)1 << 30)

hil_status hil_arrow_damaged(const hil_arrow_file *file, const char *why)
{
    return hil_fail(HIL_ERR_INPUT, "%s: damaged: %s; copy the file again", file->what, why);
}

hil_status hil_arrow_file_read(const hil_arrow_file *file, uint64_t at, void *out, size_t size)
{
    size_t got = size;
    if (at > file->size || size > file->size - at)
        return hil_arrow_damaged(file, "the file is cut off");
    if (!file->reader && size) memcpy(out, file->memory + at, size);
    if (file->reader) HIL_TRY(hil_reader_read(file->reader, at, out, size, &got));
    return got == size ? HIL_OK : hil_arrow_damaged(file, "it was cut short while it was read");
}

void hil_arrow_buffer_set(hil_arrow_buffer *b, uint64_t offset, uint64_t size)
{
    b->offset = offset;
    b->size = size;
    b->unpacked = false;
    b->begin = b->end = 0;
}

/* Unpacks what follows the size. */
static hil_status unpack(hil_arrow_buffer *b, const hil_arrow_file *file, uint64_t offset,
                         size_t size, uint64_t unpacked)
{
    bool damaged = false;
    char *packed = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(size, &packed));
    HIL_TRY_DONE(hil_arrow_file_read(file, offset, packed, size));
    HIL_TRY_DONE(HIL_GROW(&b->piece, &b->room, unpacked + 1));
    HIL_TRY_DONE(hil_parquet_codec_unpack(HIL_PARQUET_ZSTD, packed, size, b->piece,
                                          (size_t)unpacked, &damaged));
    if (damaged) status = hil_arrow_damaged(file, "a compressed buffer cannot be unpacked");
    b->size = b->end = unpacked;
    b->unpacked = true;
done:
    hil_free(packed);
    return status;
}

hil_status hil_arrow_buffer_unpack(hil_arrow_buffer *b, const hil_arrow_file *file, uint64_t offset,
                                   uint64_t size)
{
    unsigned char head[8];
    uint64_t unpacked = 0;
    hil_arrow_buffer_set(b, offset, size);
    if (size == 0) return HIL_OK;
    if (size < sizeof head) return hil_arrow_damaged(file, "a compressed buffer has no size");
    HIL_TRY(hil_arrow_file_read(file, offset, head, sizeof head));
    for (size_t i = sizeof head; i-- > 0;) unpacked = unpacked << 8 | head[i];
    hil_arrow_buffer_set(b, offset + sizeof head, size - sizeof head);
    if (unpacked == UINT64_MAX) return HIL_OK; /* it would not have become smaller */
    if (unpacked > UNPACKED_MAX || unpacked > hil_parquet_codec_most(HIL_PARQUET_ZSTD, b->size))
        return hil_arrow_damaged(file, "a compressed buffer has a size that cannot be right");
    return unpack(b, file, b->offset, (size_t)b->size, unpacked);
}

hil_status hil_arrow_buffer_get(hil_arrow_buffer *b, const hil_arrow_file *file, uint64_t at,
                                size_t size, const char **out)
{
    *out = "";
    if (at > b->size || size > b->size - at)
        return hil_arrow_damaged(file, "a column reaches beyond its bytes");
    if (size == 0) return HIL_OK;
    if (!file->reader && !b->unpacked) {
        *out = file->memory + b->offset + at;
        return HIL_OK;
    }
    if (at < b->begin || at + size > b->end) {
        uint64_t left = b->size - at;
        size_t some = size > PIECE ? size : left < PIECE ? (size_t)left : PIECE;
        HIL_TRY(HIL_GROW(&b->piece, &b->room, some));
        b->begin = b->end = at;
        HIL_TRY(hil_arrow_file_read(file, b->offset + at, b->piece, some));
        b->end = at + some;
    }
    *out = b->piece + (at - b->begin);
    return HIL_OK;
}

hil_status hil_arrow_buffer_number(hil_arrow_buffer *b, const hil_arrow_file *file, uint64_t index,
                                   int bytes, int64_t *out)
{
    const char *at = NULL;
    uint64_t n = 0;
    *out = 0;
    if (index > UINT32_MAX * UINT64_C(1024))
        return hil_arrow_damaged(file, "a column has too many rows");
    HIL_TRY(hil_arrow_buffer_get(b, file, index * (uint64_t)bytes, (size_t)bytes, &at));
    for (int i = bytes; i-- > 0;) n = n << 8 | (unsigned char)at[i];
    *out = (int64_t)n;
    return HIL_OK;
}

void hil_arrow_buffer_free(hil_arrow_buffer *b)
{
    hil_free(b->piece);
    *b = (hil_arrow_buffer){0};
}
