/* decompress_zstd.c - zstd by libzstd. */
#include "data/decompress.h"

#include <zstd.h>
#include <zstd_errors.h>

/* A decompressor holds the window of a frame in memory. RFC 8878 asks every decoder to support
   8 MiB; levels up to 19 use no more. */
#define WINDOW_LOG 23
#define MAGIC_BYTES 4

struct zstd {
    ZSTD_DCtx *context;
    size_t magic; /* bytes of the frame's magic number consumed */
    bool begun, whole;
};

/* Passes the magic number to the library alone. Some builds of it also read legacy formats, whose
   windows they do not limit, but detect those only at the start of a longer piece. */
static size_t piece_of(const struct zstd *zstd, size_t left)
{
    size_t missing = MAGIC_BYTES - zstd->magic;
    return missing && missing < left ? missing : left;
}

static void close_zstd(void *engine)
{
    struct zstd *zstd = engine;
    if (!zstd) return;
    ZSTD_freeDCtx(zstd->context);
    hil_free(zstd);
}

static hil_status open_zstd(void **engine)
{
    struct zstd *zstd;
    HIL_TRY(HIL_ALLOC(1, &zstd));
    zstd->context = ZSTD_createDCtx();
    if (!zstd->context ||
        ZSTD_isError(ZSTD_DCtx_setParameter(zstd->context, ZSTD_d_windowLogMax, WINDOW_LOG))) {
        close_zstd(zstd);
        return hil_fail(HIL_ERR_MEMORY, "out of memory for decompression");
    }
    *engine = zstd;
    return HIL_OK;
}

static hil_status fail_zstd(const struct zstd *zstd, const char *path, const hil_decompress_io *io,
                            size_t code)
{
    switch (ZSTD_getErrorCode(code)) {
    case ZSTD_error_frameParameter_windowTooLarge:
        return hil_fail(HIL_ERR_INPUT,
                        "%s was compressed with a window of more than %d MiB (--ultra or --long), "
                        "which takes too much memory to read; compress it again: "
                        "zstd -dc --long=31 FILE.zst | zstd -o NEW.zst",
                        path, 1 << (WINDOW_LOG - 20));
    case ZSTD_error_prefix_unknown:
        return hil_fail(HIL_ERR_INPUT, "%s: %s", path,
                        zstd->begun ? "something that is not zstd follows the compressed data"
                                    : "not zstd, though its name ends with .zst");
    default:
        return hil_fail(HIL_ERR_INPUT, "%s: zstd data is damaged before byte %llu: %s", path,
                        (unsigned long long)io->at, ZSTD_getErrorName(code));
    }
}

static hil_status run_zstd(void *engine, const char *path, hil_decompress_io *io, bool *whole)
{
    struct zstd *zstd = engine;
    bool moved = true;
    while (moved && io->out_left && (io->in_left || !zstd->whole)) {
        if (zstd->whole) zstd->magic = 0; /* another frame */
        ZSTD_inBuffer in = {io->in, piece_of(zstd, io->in_left), 0};
        ZSTD_outBuffer out = {io->out, io->out_left, 0};
        size_t code = ZSTD_decompressStream(zstd->context, &out, &in);
        io->in += in.pos;
        io->in_left -= in.pos;
        io->at += in.pos;
        io->out += out.pos;
        io->out_left -= out.pos;
        if (ZSTD_isError(code)) return fail_zstd(zstd, path, io, code);
        if (zstd->magic < MAGIC_BYTES) zstd->magic += in.pos;
        moved = in.pos || out.pos;
        if (moved) zstd->whole = code == 0;
        zstd->begun |= zstd->whole;
    }
    *whole = zstd->whole;
    return HIL_OK;
}

const hil_decompressor hil_decompress_zstd = {"zstd", open_zstd, run_zstd, close_zstd};
