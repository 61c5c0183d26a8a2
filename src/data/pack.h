/* pack.h - files as windows of marked tokens. */
#ifndef HIL_DATA_PACK_H
#define HIL_DATA_PACK_H

#include "data/cache.h"
#include "data/dataset.h"

/* Appends the windows of all files: documents with end-of-text between them, and examples. Memory
   stays bounded by one piece of a file, or one line of JSONL, and some windows. */
hil_status hil_pack_files(hil_cache_writer *writer, const char *const *paths, size_t count,
                          const hil_dataset_options *options, hil_packing *packing);

#endif
