/* snappy.h - decompression of raw Snappy blocks. */
#ifndef HIL_FORMAT_PARQUET_SNAPPY_H
#define HIL_FORMAT_PARQUET_SNAPPY_H

#include "base/fail.h"

/* Fills `out` from a whole block. False: the block is damaged or has another size than `out_size`;
   `out` then holds anything. */
bool hil_snappy_decode(const void *block, size_t size, void *out, size_t out_size);

#endif
