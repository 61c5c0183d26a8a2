/* parquet_codec.h - decompression of Parquet pages. */
#ifndef HIL_FORMAT_PARQUET_PARQUET_CODEC_H
#define HIL_FORMAT_PARQUET_PARQUET_CODEC_H

#include "base/fail.h"

/* With the numbers of the format. */
typedef enum hil_parquet_codec {
    HIL_PARQUET_UNCOMPRESSED = 0,
    HIL_PARQUET_SNAPPY = 1,
    HIL_PARQUET_GZIP = 2,
    HIL_PARQUET_ZSTD = 6,
} hil_parquet_codec;

const char *hil_parquet_codec_name(int64_t codec);
bool hil_parquet_codec_known(int64_t codec);
/* The most bytes that `size` compressed ones may become, for checks before memory is taken. */
uint64_t hil_parquet_codec_most(hil_parquet_codec codec, uint64_t size);

/* Fills `out` from a whole page of one of the compressions above. *damaged: it cannot be filled
   exactly. A failure is one of memory. */
hil_status hil_parquet_codec_unpack(hil_parquet_codec codec, const void *bytes, size_t size,
                                    void *out, size_t out_size, bool *damaged);

#endif
