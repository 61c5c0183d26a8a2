/* pack.h - tokenizes files and packs them into windows. */
#ifndef HIL_DATA_PACK_H
#define HIL_DATA_PACK_H

#include "data/cache.h"
#include "data/dataset.h"

/* Writes the windows of all files to `writer`: text with end-of-text between documents, and
   examples. Memory is bounded: 1 MiB of a file, or one line of JSONL, and the open windows. */
hil_status hil_pack_files(hil_cache_writer *writer, const char *const *paths, size_t count,
                          const hil_dataset_options *options, hil_packing *packing);

#endif
