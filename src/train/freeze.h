/* freeze.h - parameters that stay as they are. */
#ifndef HIL_TRAIN_FREEZE_H
#define HIL_TRAIN_FREEZE_H

#include "store/param.h"

/* Freezes every parameter whose name fits one of the shell patterns. A pattern that fits none is
   refused, and so is a model with nothing left to train. */
hil_status hil_freeze(hil_store *store, const char *const *pattern, size_t count);

#endif
