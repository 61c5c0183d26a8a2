/* safetensors.h - tensors in files: one file, or shards with an index. */
#ifndef HIL_FORMAT_SAFETENSORS_H
#define HIL_FORMAT_SAFETENSORS_H

#include "io/file.h"
#include "tensor/tensor.h"

/* An open file, or all shards of a model folder as one. Owns its descriptors. Immutable: several
   threads may read at once. */
typedef struct hil_safetensors hil_safetensors;

/* One tensor of an open file. Borrows from the file. */
typedef struct hil_entry {
    const char *name;
    const char *dtype; /* as written: "F32", "BF16", ... */
    int ndim;
    const int64_t *dim;
    uint64_t offset; /* of its data in the file */
    size_t bytes;
    const hil_safetensors *file; /* with the data; of a folder, the shard */
    int64_t piece;               /* elements that are best read at once; 0: any number */
} hil_entry;

/* `path` is a .safetensors file. Validates the whole header. */
hil_status hil_safetensors_open(hil_safetensors **out, const char *path);
/* Opens model.safetensors, or model.safetensors.index.json and its shards; else pytorch_model.bin,
   or its index and shards. With an index, exactly the tensors that it names are visible. */
hil_status hil_safetensors_open_folder(hil_safetensors **out, const char *folder);
/* Whether a folder has one of these files. */
bool hil_safetensors_in_folder(const char *folder);
/* The same from memory, which is borrowed until close; `what` names the source in errors. */
hil_status hil_safetensors_parse(hil_safetensors **out, const char *bytes, size_t size,
                                 const char *what);
void hil_safetensors_close(hil_safetensors *file);

/* Tensors of other files under one view: `read` gives bytes [first, first + size) of an entry,
   whose `offset` is a number of the caller's. */
typedef struct hil_safetensors_source {
    hil_status (*read)(const void *context, const hil_entry *entry, size_t first, void *out,
                       size_t size);
    const void *context;
} hil_safetensors_source;
/* Copies the entries, whose names and dimensions are borrowed until close. */
hil_status hil_safetensors_view(hil_safetensors **out, const hil_entry *entry, size_t count,
                                const hil_safetensors_source *source);

size_t hil_safetensors_count(const hil_safetensors *file);
/* In the order of the data; in a folder, by file name of the shard first. */
const hil_entry *hil_safetensors_at(const hil_safetensors *file, size_t i);
const hil_entry *hil_safetensors_find(const hil_safetensors *file, const char *name);

/* Reads bytes [first, first + size) of an entry's data. A file truncated since it was opened is an
   error that names it. */
hil_status hil_entry_read(const hil_entry *entry, size_t first, void *out, size_t size);
/* The dtype of an entry; fails with the tensor's name if it is no supported float. */
hil_status hil_entry_dtype(const hil_entry *entry, hil_dtype *out);
/* The shape of an entry; fails with the tensor's name if it has too many dimensions. */
hil_status hil_entry_shape(const hil_entry *entry, hil_shape *out);
/* Writes "[2, 3]" to `out`, truncated if it does not fit. Returns out. */
const char *hil_entry_shape_text(const hil_entry *entry, char out[64]);

/* A file being written: declare every tensor, then write the data of each in the order of
   hil_safetensors_writer_next. The file gets its name at commit; destroy without commit removes it.
 */
typedef struct hil_safetensors_writer hil_safetensors_writer;
/* With `path` NULL only sizes are computed, and hil_safetensors_writer_begin is not allowed. */
hil_status hil_safetensors_writer_create(hil_safetensors_writer **out, const char *path);
hil_status hil_safetensors_writer_declare(hil_safetensors_writer *file, const char *name,
                                          hil_dtype dtype, const hil_shape *shape);
hil_status hil_safetensors_writer_metadata(hil_safetensors_writer *file, const char *key,
                                           const char *value);
/* Ends the declarations: writes the header and fixes the order of the data. */
hil_status hil_safetensors_writer_begin(hil_safetensors_writer *file);
/* The name of the tensor whose data is next; NULL: all is written. Skips empty tensors. */
const char *hil_safetensors_writer_next(const hil_safetensors_writer *file);
/* The index of that tensor among the declarations; hil_safetensors_writer_next must not be NULL. */
size_t hil_safetensors_writer_next_index(const hil_safetensors_writer *file);
/* Writes the next bytes of that tensor; any number of calls. */
hil_status hil_safetensors_writer_data(hil_safetensors_writer *file, const void *bytes,
                                       size_t size);
/* Checks that the data is complete, syncs the file and gives it its name. */
hil_status hil_safetensors_writer_commit(hil_safetensors_writer *file);
void hil_safetensors_writer_destroy(hil_safetensors_writer *file);

/* The size that the file will have, header included, with the tensors declared so far. */
hil_status hil_safetensors_writer_bytes(const hil_safetensors_writer *file, uint64_t *out);

/* The layout of the file, for callers that write it by other means. Ends the declarations. Tensors
   whose size is a multiple of `block` come first, then the largest of the others, so that the data
   of all these begins at a multiple of `block`. */
typedef struct hil_safetensors_layout {
    size_t block;     /* set by the caller: bytes, a multiple of 8 */
    hil_text header;  /* the first bytes of the file; the caller frees it */
    uint64_t *offset; /* the caller's array: where the data of each declared tensor begins */
    uint64_t bytes;   /* size of the file */
} hil_safetensors_layout;
hil_status hil_safetensors_writer_place(hil_safetensors_writer *file, hil_safetensors_layout *out);

#endif
