/* export.h - a model folder's weights, in one file or in shards. */
#ifndef HIL_FORMAT_EXPORT_H
#define HIL_FORMAT_EXPORT_H

#include "format/safetensors.h"

typedef struct hil_export_tensor {
    const char *name;
    hil_dtype dtype;
    hil_shape shape;
} hil_export_tensor;

/* The most bytes that are asked for at once. */
#define HIL_EXPORT_PIECE ((size_t)4 << 20)

/* Borrows everything. `read` gives bytes [offset, offset + *size) of tensor i in its export dtype,
   or fewer, but whole elements and at least one: it then sets *size. The tensors are asked for one
   after the other, not in the order of the list, each from its beginning to its end. */
typedef struct hil_export {
    const hil_export_tensor *tensor;
    size_t count;
    size_t shard_bytes; /* the most data in one file, 0: 5 GB; a larger tensor has its own */
    hil_status (*read)(void *context, size_t i, size_t offset, size_t *size, void *out);
    void *context;
} hil_export;

/* The bytes that hil_export_write will put on disk. */
hil_status hil_export_bytes(const hil_export *export, uint64_t *out);

/* Writes model.safetensors, or model-00001-of-0000N.safetensors ... and their index, into `folder`,
   which holds no weights. The caller makes their names durable. */
hil_status hil_export_write(const hil_export *export, const char *folder);

#endif
