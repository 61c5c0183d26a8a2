/* sized.h - structures of options that begin with their size. */
#ifndef HIL_BASE_SIZED_H
#define HIL_BASE_SIZED_H

#include "base/fail.h"

/* [Note: sized options] A program may have been compiled with older or newer headers than the
   library. Its structures of options may then be smaller or larger than ours: fields are only ever
   added at the end, and `size`, the first field, is the size of the program's structure. Fields
   that an older program lacks keep our default. Fields of a newer program that we do not know must
   be zero. `stem` is "hil_train" for hil_train_options and hil_train_defaults. */

/* Fills the caller's `size` bytes at `out` from `defaults`, which has `own` bytes. */
void hil_sized_fill(void *out, size_t size, const void *defaults, size_t own);

/* Copies a caller's options to `out`, which has `own` bytes and holds the defaults. Refuses a size
   that was never set, and options that this library does not know. */
hil_status hil_sized_take(void *out, size_t own, const void *given, const char *stem);
/* The same, into the defaults of this library. */
#define HIL_SIZED_TAKE(stem, out, given)                                                           \
    (stem##_defaults(out), hil_sized_take(out, sizeof *(out), given, #stem))

#endif
