/* cache_prepare.h - opens the token cache of a set of files; builds it if it is missing or stale.
 */
#ifndef HIL_DATA_CACHE_PREPARE_H
#define HIL_DATA_CACHE_PREPARE_H

#include "data/cache.h"
#include "data/dataset.h"

/* The cache holds at least one sequence. A failure removes the files and folders it created. */
hil_status hil_cache_prepare(hil_cache **out, const char *const *paths, size_t count,
                             const hil_dataset_options *options);

#endif
