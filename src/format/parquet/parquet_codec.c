/* parquet_codec.c - gzip by zlib, zstd by libzstd, Snappy by snappy.c. */
#include "format/parquet/parquet_codec.h"

#include "format/parquet/snappy.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define ZLIB_OR_GZIP (MAX_WBITS + 32)

const char *hil_parquet_codec_name(int64_t codec)
{
    static const char *const names[] = {"UNCOMPRESSED", "SNAPPY", "GZIP", "LZO",
                                        "BROTLI",       "LZ4",    "ZSTD", "LZ4_RAW"};
    bool known = codec >= 0 && codec < (int64_t)(sizeof names / sizeof *names);
    return known ? names[codec] : "a way unknown to hilbert";
}

bool hil_parquet_codec_known(int64_t codec)
{
    return (codec >= HIL_PARQUET_UNCOMPRESSED && codec <= HIL_PARQUET_GZIP) ||
           codec == HIL_PARQUET_ZSTD;
}

uint64_t hil_parquet_codec_most(hil_parquet_codec codec, uint64_t size)
{
    switch (codec) {
    case HIL_PARQUET_SNAPPY:
        return size * 22; /* 64 bytes by a copy of 3 */
    case HIL_PARQUET_GZIP:
        return size * 1032; /* deflate's limit */
    case HIL_PARQUET_ZSTD:
        return size * 32768; /* blocks of 128 KiB in 4 bytes */
    case HIL_PARQUET_UNCOMPRESSED:
        break;
    }
    return size;
}

/* Pages are smaller than 2 GiB, so that zlib counts them. Several gzip members make one page. */
static hil_status unpack_gzip(const void *bytes, size_t size, void *out, size_t out_size,
                              bool *damaged)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes,
                       .avail_in = (uInt)size,
                       .next_out = out,
                       .avail_out = (uInt)out_size};
    assert(size <= INT32_MAX && out_size <= INT32_MAX);
    if (inflateInit2(&stream, ZLIB_OR_GZIP) != Z_OK)
        return hil_fail(HIL_ERR_MEMORY, "out of memory for decompression");
    int code = inflate(&stream, Z_FINISH);
    while (code == Z_STREAM_END && stream.avail_in && inflateReset(&stream) == Z_OK)
        code = inflate(&stream, Z_FINISH);
    *damaged = code != Z_STREAM_END || stream.avail_out != 0;
    inflateEnd(&stream);
    return code == Z_MEM_ERROR ? hil_fail(HIL_ERR_MEMORY, "out of memory for decompression")
                               : HIL_OK;
}

static hil_status unpack_zstd(const void *bytes, size_t size, void *out, size_t out_size,
                              bool *damaged)
{
    size_t got = ZSTD_decompress(out, out_size, bytes, size);
    if (ZSTD_isError(got) && ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
        return hil_fail(HIL_ERR_MEMORY, "out of memory for decompression");
    *damaged = ZSTD_isError(got) || got != out_size;
    return HIL_OK;
}

hil_status hil_parquet_codec_unpack(hil_parquet_codec codec, const void *bytes, size_t size,
                                    void *out, size_t out_size, bool *damaged)
{
    switch (codec) {
    case HIL_PARQUET_SNAPPY:
        *damaged = !hil_snappy_decode(bytes, size, out, out_size);
        return HIL_OK;
    case HIL_PARQUET_GZIP:
        return unpack_gzip(bytes, size, out, out_size, damaged);
    case HIL_PARQUET_ZSTD:
        return unpack_zstd(bytes, size, out, out_size, damaged);
    case HIL_PARQUET_UNCOMPRESSED:
        break;
    }
    *damaged = size != out_size;
    if (!*damaged && size) memcpy(out, bytes, size);
    return HIL_OK;
}
