/* freeze.h - freezes parameters by name. */
#ifndef HIL_TRAIN_FREEZE_H
#define HIL_TRAIN_FREEZE_H

#include "store/param.h"

/* Freezes every parameter whose name matches one of the shell patterns. Refuses a pattern without a
   match, and patterns that leave no parameter to train. */
hil_status hil_freeze(hil_store *store, const char *const *pattern, size_t count);

#endif
