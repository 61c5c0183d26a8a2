/* export.h - writes a model folder's weights, in one file or in shards. */
#ifndef HIL_FORMAT_EXPORT_H
#define HIL_FORMAT_EXPORT_H

#include "format/safetensors.h"

typedef struct hil_export_tensor {
    const char *name;
    hil_dtype dtype;
    hil_shape shape;
} hil_export_tensor;

/* The most bytes of one call of `read`. */
#define HIL_EXPORT_PIECE ((size_t)4 << 20)

/* Borrows everything. `read` writes bytes [offset, offset + *size) of tensor i, in its export
   dtype, to `out`. It may lower *size, to one or more whole elements. Each tensor is read from its
   start to its end before the next, but the tensors not in the order of the list. */
typedef struct hil_export {
    const hil_export_tensor *tensor;
    size_t count;
    size_t shard_bytes; /* the most data in one file, 0: 5 GB; a larger tensor has its own file */
    const char *single; /* name of one file for everything, however large; NULL: as below */
    hil_status (*read)(void *context, size_t i, size_t offset, size_t *size, void *out);
    void *context;
} hil_export;

/* The bytes that hil_export_write will write. */
hil_status hil_export_bytes(const hil_export *export, uint64_t *out);

/* Writes model.safetensors, or model-00001-of-0000N.safetensors ... and their index, into `folder`,
   which has no weights yet. The caller syncs the folder. */
hil_status hil_export_write(const hil_export *export, const char *folder);

#endif
