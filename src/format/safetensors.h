/* safetensors.h - tensors in files: one file, or shards with an index. */
#ifndef HIL_FORMAT_SAFETENSORS_H
#define HIL_FORMAT_SAFETENSORS_H

#include "io/file.h"

#include "tensor/tensor.h"

/* One tensor of an open file. Borrows from the file. `data` may be unaligned. */
typedef struct hil_entry {
    const char *name;
    const char *dtype; /* as written: "F32", "BF16", ... */
    int ndim;
    const int64_t *dim;
    const void *data;
    size_t bytes;
} hil_entry;

/* A parsed file, or all shards of a model folder seen as one. Owns the mappings. */
typedef struct hil_safetensors hil_safetensors;

/* `path` is a .safetensors file. The whole header is checked: see format/safetensors.c. */
hil_status hil_safetensors_open(hil_safetensors **out, const char *path);
/* A model folder: model.safetensors, or model.safetensors.index.json and its shards. */
hil_status hil_safetensors_open_folder(hil_safetensors **out, const char *folder);
void hil_safetensors_close(hil_safetensors *file);

size_t hil_safetensors_count(const hil_safetensors *file);
const hil_entry *hil_safetensors_at(const hil_safetensors *file, size_t i); /* in order of data */
const hil_entry *hil_safetensors_find(const hil_safetensors *file, const char *name);

/* The float dtype of an entry, or a failure that names the tensor. */
hil_status hil_entry_dtype(const hil_entry *entry, hil_dtype *out);

/* Checks a header alone (fuzzing, tests): `bytes` are the file's content. */
hil_status hil_safetensors_check(const char *bytes, size_t size, const char *what);

/* Writing: declare every tensor, then give the data of each in the order of hil_plan_at. */
typedef struct hil_writing hil_writing;
hil_status hil_writing_create(hil_writing **out, const char *path);
hil_status hil_writing_declare(hil_writing *file, const char *name, hil_dtype dtype,
                               const hil_shape *shape);
hil_status hil_writing_metadata(hil_writing *file, const char *key, const char *value);
/* Ends the declarations: the header is written and the order of data is fixed. */
hil_status hil_writing_begin(hil_writing *file);
/* The name of the tensor whose data is next, or NULL when all is written. */
const char *hil_writing_next(const hil_writing *file);
hil_status hil_writing_data(hil_writing *file, const void *bytes, size_t size);
/* Checks that every byte was given, makes the file durable and gives it its name. */
hil_status hil_writing_commit(hil_writing *file);
void hil_writing_destroy(hil_writing *file);

#endif
