/* decompress_gzip.c - gzip by zlib. */
#include "data/decompress.h"

#include <limits.h>
#include <zlib.h>

#define GZIP_ONLY (MAX_WBITS + 16)

struct gzip {
    z_stream stream;
    bool begun; /* a member has begun */
    bool whole; /* the last one has ended */
};

static void close_gzip(void *engine)
{
    struct gzip *gzip = engine;
    if (!gzip) return;
    inflateEnd(&gzip->stream);
    hil_free(gzip);
}

static hil_status open_gzip(void **engine)
{
    struct gzip *gzip;
    HIL_TRY(HIL_ALLOC(1, &gzip));
    if (inflateInit2(&gzip->stream, GZIP_ONLY) != Z_OK) {
        hil_free(gzip);
        return hil_fail(HIL_ERR_MEMORY, "out of memory for decompression");
    }
    *engine = gzip;
    return HIL_OK;
}

static hil_status fail_gzip(const struct gzip *gzip, const char *path, const hil_decompress_io *io)
{
    const char *why = gzip->stream.msg ? gzip->stream.msg : "bad data";
    if (gzip->stream.total_out == 0 && gzip->stream.total_in <= 10)
        return hil_fail(HIL_ERR_INPUT, "%s: %s", path,
                        gzip->begun ? "something that is not gzip follows the compressed data"
                                    : "not gzip, though its name ends with .gz");
    return hil_fail(HIL_ERR_INPUT, "%s: gzip data is damaged before byte %llu: %s", path,
                    (unsigned long long)io->at, why);
}

static hil_status run_gzip(void *engine, const char *path, hil_decompress_io *io, bool *whole)
{
    struct gzip *gzip = engine;
    z_stream *stream = &gzip->stream;
    int code = Z_OK;
    while (code == Z_OK && io->out_left && (io->in_left || !gzip->whole)) {
        if (gzip->whole) {
            inflateReset(stream);
            gzip->whole = false;
            gzip->begun = true;
        }
        uInt in = io->in_left < INT_MAX ? (uInt)io->in_left : INT_MAX;
        uInt out = io->out_left < INT_MAX ? (uInt)io->out_left : INT_MAX;
        stream->next_in = (Bytef *)(uintptr_t)io->in;
        stream->next_out = (Bytef *)io->out;
        stream->avail_in = in;
        stream->avail_out = out;
        code = inflate(stream, Z_NO_FLUSH);
        in -= stream->avail_in;
        out -= stream->avail_out;
        io->in += in;
        io->in_left -= in;
        io->at += in;
        io->out += out;
        io->out_left -= out;
        gzip->whole = code == Z_STREAM_END;
        if (gzip->whole) code = Z_OK;
    }
    *whole = gzip->whole;
    if (code == Z_OK || code == Z_BUF_ERROR) return HIL_OK; /* Z_BUF_ERROR: nothing to do */
    if (code == Z_MEM_ERROR) return hil_fail(HIL_ERR_MEMORY, "%s: out of memory", path);
    return fail_gzip(gzip, path, io);
}

const hil_decompressor hil_decompress_gzip = {"gzip", open_gzip, run_gzip, close_gzip};
