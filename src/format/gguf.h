/* gguf.h - writes GGUF files, version 3: the format of llama.cpp. A file is metadata (keys with
   values), a table of tensors, and their data. */
#ifndef HIL_FORMAT_GGUF_H
#define HIL_FORMAT_GGUF_H

#include "tensor/tensor.h"
#include "base/text.h"

/* How the elements of a tensor are stored; the numbers are the format's. */
typedef enum hil_gguf_type {
    HIL_GGUF_F32 = 0,
    HIL_GGUF_F16 = 1,
    HIL_GGUF_Q8_0 = 8, /* blocks of 32: one fp16 scale, then 32 signed bytes */
    HIL_GGUF_BF16 = 30
} hil_gguf_type;
#define HIL_GGUF_BLOCK 32 /* elements of a Q8_0 block, of which rows are multiples */

/* Bytes of `count` elements: whole blocks. */
size_t hil_gguf_type_bytes(hil_gguf_type type, int64_t count);
/* "fp32", "fp16", "bf16", "q8_0" */
const char *hil_gguf_type_name(hil_gguf_type type);
/* Writes `count` elements, of whole blocks, to `out`. */
void hil_gguf_type_convert(hil_gguf_type type, void *out, const float *in, int64_t count);

/* A file being written: set the metadata and declare every tensor, then write the data of each in
   the order of declaration. The file gets its name at commit; destroy without commit removes it. */
typedef struct hil_gguf hil_gguf;
hil_status hil_gguf_create(hil_gguf **out, const char *path);
void hil_gguf_destroy(hil_gguf *file);

hil_status hil_gguf_set_text(hil_gguf *file, const char *key, const char *text, size_t size);
hil_status hil_gguf_set_u32(hil_gguf *file, const char *key, int64_t value);
hil_status hil_gguf_set_f32(hil_gguf *file, const char *key, double value);
hil_status hil_gguf_set_bool(hil_gguf *file, const char *key, bool value);

/* An array of `count` elements, which follow in as many calls of hil_gguf_add_*. */
typedef enum hil_gguf_item {
    HIL_GGUF_ITEM_I32 = 5,
    HIL_GGUF_ITEM_F32 = 6,
    HIL_GGUF_ITEM_TEXT = 8
} hil_gguf_item;
hil_status hil_gguf_set_array(hil_gguf *file, const char *key, hil_gguf_item item, size_t count);
hil_status hil_gguf_add_i32(hil_gguf *file, int32_t value);
hil_status hil_gguf_add_f32(hil_gguf *file, float value);
hil_status hil_gguf_add_text(hil_gguf *file, const char *text, size_t size);

/* `shape` as in safetensors, outermost dimension first. */
hil_status hil_gguf_declare(hil_gguf *file, const char *name, hil_gguf_type type,
                            const hil_shape *shape);
/* Tensors declared so far, and the size that the file will have with them. */
size_t hil_gguf_count(const hil_gguf *file);
uint64_t hil_gguf_bytes(const hil_gguf *file);
/* Ends the declarations and writes them. */
hil_status hil_gguf_begin(hil_gguf *file);
/* Writes the next bytes; those of one call belong to one tensor. */
hil_status hil_gguf_data(hil_gguf *file, const void *bytes, size_t size);
/* Checks that the data is complete, syncs the file and gives it its name. */
hil_status hil_gguf_commit(hil_gguf *file);

#endif
