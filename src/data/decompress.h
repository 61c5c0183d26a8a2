/* decompress.h - streams of gzip and zstd, in pieces of any size. */
#ifndef HIL_DATA_DECOMPRESS_H
#define HIL_DATA_DECOMPRESS_H

#include "base/alloc.h"

/* Where a call takes bytes from and puts them. It moves all five on. */
typedef struct hil_flow {
    const char *in;
    char *out;
    size_t in_left, out_left;
    uint64_t at; /* bytes of the file taken so far */
} hil_flow;

/* A format. Several streams one after the other in a file count as one. */
typedef struct hil_decompressor {
    const char *name;
    hil_status (*open)(void **engine);
    /* Goes on until `in` or `out` is used up. *whole: a stream has just ended. */
    hil_status (*run)(void *engine, const char *path, hil_flow *flow, bool *whole);
    void (*close)(void *engine);
} hil_decompressor;

extern const hil_decompressor hil_decompress_gzip;
/* Refuses frames whose window is larger than 8 MiB (levels above 19, --long). */
extern const hil_decompressor hil_decompress_zstd;

#endif
