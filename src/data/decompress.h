/* decompress.h - streaming decompression of gzip and zstd. */
#ifndef HIL_DATA_DECOMPRESS_H
#define HIL_DATA_DECOMPRESS_H

#include "base/alloc.h"

/* Input and output of a call, which advances all five fields. */
typedef struct hil_decompress_io {
    const char *in;
    char *out;
    size_t in_left, out_left;
    uint64_t at; /* bytes of the file consumed so far */
} hil_decompress_io;

/* A format. Concatenated streams in one file are read as one. */
typedef struct hil_decompressor {
    const char *name;
    hil_status (*open)(void **engine);
    /* Returns when `in` or `out` is used up. *whole: the input so far ends with a whole stream. */
    hil_status (*run)(void *engine, const char *path, hil_decompress_io *io, bool *whole);
    void (*close)(void *engine);
} hil_decompressor;

extern const hil_decompressor hil_decompress_gzip;
/* Refuses frames whose window is larger than 8 MiB (levels above 19, --long). */
extern const hil_decompressor hil_decompress_zstd;

#endif
