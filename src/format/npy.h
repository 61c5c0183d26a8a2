/* npy.h - a one-dimensional NumPy array file of token ids. */
#ifndef HIL_FORMAT_NPY_H
#define HIL_FORMAT_NPY_H

#include "base/fail.h"

/* Owns the descriptor of its file. Immutable: several threads may read at once. */
typedef struct hil_npy hil_npy;

/* Versions 1 to 3; uint16, uint32, int32 or int64, little-endian; exactly one array in the file. */
hil_status hil_npy_open(hil_npy **out, const char *path);
/* The same from memory, which is borrowed until close; `what` names the source in errors. */
hil_status hil_npy_parse(hil_npy **out, const char *bytes, size_t size, const char *what);
void hil_npy_close(hil_npy *npy);

int64_t hil_npy_count(const hil_npy *npy);

/* Reads elements [begin, begin + count), which must be in the array. An id outside [0, vocab) is an
   error that names its index. */
hil_status hil_npy_read(const hil_npy *npy, int64_t begin, int64_t count, int64_t vocab,
                        int32_t *out);

#endif
