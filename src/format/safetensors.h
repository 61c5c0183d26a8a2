/* safetensors.h - tensors in files: one file, or shards with an index. */
#ifndef HIL_FORMAT_SAFETENSORS_H
#define HIL_FORMAT_SAFETENSORS_H

#include "io/file.h"
#include "tensor/tensor.h"

/* A parsed file, or all shards of a model folder seen as one. Owns its descriptors; immutable, so
   several threads may read at once. */
typedef struct hil_safetensors hil_safetensors;

/* One tensor of an open file. Borrows from the file. */
typedef struct hil_entry {
    const char *name;
    const char *dtype; /* as written: "F32", "BF16", ... */
    int ndim;
    const int64_t *dim;
    uint64_t offset; /* of its data in the file */
    size_t bytes;
    const hil_safetensors *file; /* that holds the data: of a folder, the shard */
} hil_entry;

/* `path` is a .safetensors file. The whole header is checked: see format/safetensors.c. */
hil_status hil_safetensors_open(hil_safetensors **out, const char *path);
/* A model folder: model.safetensors, or model.safetensors.index.json and its shards. With an index,
   exactly the tensors that it names are seen. */
hil_status hil_safetensors_open_folder(hil_safetensors **out, const char *folder);
/* A file's content in memory, borrowed until close; `what` names it in errors. */
hil_status hil_safetensors_parse(hil_safetensors **out, const char *bytes, size_t size,
                                 const char *what);
void hil_safetensors_close(hil_safetensors *file);

size_t hil_safetensors_count(const hil_safetensors *file);
/* In order of data; of a folder, shard after shard by file name. */
const hil_entry *hil_safetensors_at(const hil_safetensors *file, size_t i);
const hil_entry *hil_safetensors_find(const hil_safetensors *file, const char *name);

/* Bytes [first, first + size) of an entry's data. A file that was cut short since it was opened is
   an error that names it. */
hil_status hil_entry_read(const hil_entry *entry, size_t first, void *out, size_t size);
/* The float dtype of an entry, or a failure that names the tensor. */
hil_status hil_entry_dtype(const hil_entry *entry, hil_dtype *out);
/* The shape of an entry, or a failure that names the tensor when it has too many dimensions. */
hil_status hil_entry_shape(const hil_entry *entry, hil_shape *out);
/* "[2, 3]" into `out`, cut short when it does not fit. Returns out. */
const char *hil_entry_shape_text(const hil_entry *entry, char out[64]);

/* Writing: declare every tensor, then give the data of each in the order of hil_writing_next. The
   file has its name only after commit; destroy without commit leaves nothing. */
typedef struct hil_writing hil_writing;
/* `path` may be NULL to learn sizes only: then nothing is written and begin is not allowed. */
hil_status hil_writing_create(hil_writing **out, const char *path);
hil_status hil_writing_declare(hil_writing *file, const char *name, hil_dtype dtype,
                               const hil_shape *shape);
hil_status hil_writing_metadata(hil_writing *file, const char *key, const char *value);
/* Ends the declarations: the header is written and the order of data is fixed. */
hil_status hil_writing_begin(hil_writing *file);
/* The name of the tensor whose data is next, or NULL when all is written. Empty tensors need no
 * data. */
const char *hil_writing_next(const hil_writing *file);
/* The place of that tensor among the declarations; only while one is next. */
size_t hil_writing_next_index(const hil_writing *file);
/* The next bytes of that tensor, which may come in any number of pieces. */
hil_status hil_writing_data(hil_writing *file, const void *bytes, size_t size);
/* Checks that every byte was given, makes the file durable and gives it its name. */
hil_status hil_writing_commit(hil_writing *file);
void hil_writing_destroy(hil_writing *file);

/* The size that the file will have, header included, with the tensors declared so far. */
hil_status hil_writing_bytes(const hil_writing *file, uint64_t *out);

/* Where everything will be, for who writes the file by other means: `header` is what it begins
   with, `offset` (by declaration) where each tensor's data begins, `bytes` its size. Ends the
   declarations. Tensors of whole blocks come first, so that each begins with a block,
   and the largest of the others, which does, too. */
typedef struct hil_writing_layout {
    size_t block;    /* given: bytes, a multiple of 8 */
    hil_text header; /* the caller frees it */
    uint64_t *offset;
    uint64_t bytes;
} hil_writing_layout;
hil_status hil_writing_place(hil_writing *file, hil_writing_layout *out);

#endif
