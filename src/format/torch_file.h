/* torch_file.h - a file of torch.save: a zip archive with a pickle and the bytes of its tensors. */
#ifndef HIL_FORMAT_TORCH_FILE_H
#define HIL_FORMAT_TORCH_FILE_H

#include "format/pickle.h"
#include "tensor/tensor.h"

/* Owns its descriptor. Immutable: several threads may read at once. */
typedef struct hil_torch hil_torch;

hil_status hil_torch_open(hil_torch **out, const char *path);
/* The same from memory, which is borrowed until close; `what` names the source in errors. */
hil_status hil_torch_parse(hil_torch **out, const char *bytes, size_t size, const char *what);
void hil_torch_close(hil_torch *file);

const char *hil_torch_name(const hil_torch *file);
/* What was saved. */
const hil_pickle_value *hil_torch_root(const hil_torch *file);

#define HIL_TORCH_DIMS 8

/* Where the elements of a contiguous tensor are. Borrows from the file. */
typedef struct hil_torch_tensor {
    const hil_torch *file;
    const char *dtype; /* as safetensors has it: "F32", "BOOL", ... */
    size_t element_bytes;
    int ndim; /* 0, one element: a single number */
    int64_t dim[HIL_TORCH_DIMS];
    int64_t elements;
    uint64_t offset; /* in the file */
} hil_torch_tensor;
/* Fails unless it is a contiguous tensor that lies within its storage. */
hil_status hil_torch_find(const hil_torch *file, const hil_pickle_value *value,
                          hil_torch_tensor *out);
/* The same of fp32, bf16 or fp16. */
hil_status hil_torch_find_floats(const hil_torch *file, const hil_pickle_value *value,
                                 hil_torch_tensor *out);
/* Elements [first, first + count) of floats as fp32. */
hil_status hil_torch_read(const hil_torch_tensor *tensor, int64_t first, int64_t count, float *out);
/* Bytes of the file, from an offset that hil_torch_find gave. */
hil_status hil_torch_read_bytes(const hil_torch *file, uint64_t offset, void *out, size_t size);

#endif
