/* gguf.c - the layout of GGUF files, and the types of their elements. */
#include "format/gguf.h"

#include "io/file.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define VERSION 3
#define ALIGNMENT 32 /* of every tensor's data; the format's default */
#define Q8_BYTES 34

/* Types of metadata. */
enum { VALUE_U32 = 4, VALUE_F32 = 6, VALUE_BOOL = 7, VALUE_TEXT = 8, VALUE_ARRAY = 9 };

struct hil_gguf {
    hil_writer *writer;
    hil_text values, tensors; /* as they are in the file */
    uint64_t value_count;
    size_t *size; /* bytes of each tensor's data */
    size_t count, capacity;
    uint64_t data; /* bytes of all tensors, with padding */
    /* After hil_gguf_begin. */
    size_t next;    /* tensor that is being written */
    size_t written; /* bytes of it */
};

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t hil_gguf_type_bytes(hil_gguf_type type, int64_t count)
{
    if (type == HIL_GGUF_Q8_0) return (size_t)(count / HIL_GGUF_BLOCK) * Q8_BYTES;
    return (size_t)count * (type == HIL_GGUF_F32 ? 4 : 2);
}

const char *hil_gguf_type_name(hil_gguf_type type)
{
    switch (type) {
    case HIL_GGUF_F32:
        return "fp32";
    case HIL_GGUF_F16:
        return "fp16";
    case HIL_GGUF_BF16:
        return "bf16";
    case HIL_GGUF_Q8_0:
        break;
    }
    return "q8_0";
}

/* The scale is the largest magnitude / 127; a number becomes round(x / scale), away from zero at
   the half. */
static void convert_block(char *out, const float *in)
{
    float most = 0;
    for (int i = 0; i < HIL_GGUF_BLOCK; ++i) most = fmaxf(most, fabsf(in[i]));
    float scale = most / 127, inverse = scale > 0 ? 1 / scale : 0;
    uint16_t half = hil_f16_round(scale);
    memcpy(out, &half, 2);
    for (int i = 0; i < HIL_GGUF_BLOCK; ++i) out[2 + i] = (char)(int8_t)roundf(in[i] * inverse);
}

void hil_gguf_type_convert(hil_gguf_type type, void *out, const float *in, int64_t count)
{
    if (type == HIL_GGUF_Q8_0) {
        for (int64_t i = 0; i < count / HIL_GGUF_BLOCK; ++i)
            convert_block((char *)out + i * Q8_BYTES, in + i * HIL_GGUF_BLOCK);
        return;
    }
    hil_dtype_from_f32(out, in,
                       type == HIL_GGUF_F32   ? HIL_F32
                       : type == HIL_GGUF_F16 ? HIL_F16
                                              : HIL_BF16,
                       count);
}

hil_status hil_gguf_create(hil_gguf **out, const char *path)
{
    hil_gguf *file;
    *out = NULL;
    HIL_TRY(HIL_ALLOC(1, &file));
    hil_status status = hil_writer_open(&file->writer, path);
    if (status == HIL_OK)
        *out = file;
    else
        hil_gguf_destroy(file);
    return status;
}

void hil_gguf_destroy(hil_gguf *file)
{
    if (!file) return;
    hil_writer_close(file->writer);
    hil_text_free(&file->values);
    hil_text_free(&file->tensors);
    hil_free(file->size);
    hil_free(file);
}

static hil_status put_u32(hil_text *out, uint32_t value)
{
    return hil_text_add(out, &value, sizeof value);
}

static hil_status put_u64(hil_text *out, uint64_t value)
{
    return hil_text_add(out, &value, sizeof value);
}

static hil_status put_text(hil_text *out, const char *text, size_t size)
{
    HIL_TRY(put_u64(out, size));
    return hil_text_add(out, text, size);
}

static hil_status put_key(hil_gguf *file, const char *key, uint32_t type)
{
    ++file->value_count;
    HIL_TRY(put_text(&file->values, key, strlen(key)));
    return put_u32(&file->values, type);
}

hil_status hil_gguf_set_text(hil_gguf *file, const char *key, const char *text, size_t size)
{
    HIL_TRY(put_key(file, key, VALUE_TEXT));
    return put_text(&file->values, text, size);
}

hil_status hil_gguf_set_u32(hil_gguf *file, const char *key, int64_t value)
{
    assert(value >= 0 && value <= UINT32_MAX);
    HIL_TRY(put_key(file, key, VALUE_U32));
    return put_u32(&file->values, (uint32_t)value);
}

hil_status hil_gguf_set_f32(hil_gguf *file, const char *key, double value)
{
    HIL_TRY(put_key(file, key, VALUE_F32));
    return hil_gguf_add_f32(file, (float)value);
}

hil_status hil_gguf_set_bool(hil_gguf *file, const char *key, bool value)
{
    char byte = value;
    HIL_TRY(put_key(file, key, VALUE_BOOL));
    return hil_text_add(&file->values, &byte, 1);
}

hil_status hil_gguf_set_array(hil_gguf *file, const char *key, hil_gguf_item item, size_t count)
{
    HIL_TRY(put_key(file, key, VALUE_ARRAY));
    HIL_TRY(put_u32(&file->values, (uint32_t)item));
    return put_u64(&file->values, count);
}

hil_status hil_gguf_add_i32(hil_gguf *file, int32_t value)
{
    return hil_text_add(&file->values, &value, sizeof value);
}

hil_status hil_gguf_add_f32(hil_gguf *file, float value)
{
    return hil_text_add(&file->values, &value, sizeof value);
}

hil_status hil_gguf_add_text(hil_gguf *file, const char *text, size_t size)
{
    return put_text(&file->values, text, size);
}

hil_status hil_gguf_declare(hil_gguf *file, const char *name, hil_gguf_type type,
                            const hil_shape *shape)
{
    hil_text *out = &file->tensors;
    assert(type != HIL_GGUF_Q8_0 || hil_shape_cols(shape) % HIL_GGUF_BLOCK == 0);
    HIL_TRY(put_text(out, name, strlen(name)));
    HIL_TRY(put_u32(out, (uint32_t)shape->ndim));
    for (int i = shape->ndim; i-- > 0;) HIL_TRY(put_u64(out, (uint64_t)shape->dim[i]));
    HIL_TRY(put_u32(out, (uint32_t)type));
    HIL_TRY(put_u64(out, file->data));
    HIL_TRY(HIL_GROW(&file->size, &file->capacity, file->count + 1));
    file->size[file->count] = hil_gguf_type_bytes(type, hil_shape_count(shape));
    file->data += aligned(file->size[file->count++]);
    return HIL_OK;
}

static size_t header_bytes(const hil_gguf *file)
{
    return 24 + file->values.size + file->tensors.size;
}

size_t hil_gguf_count(const hil_gguf *file)
{
    return file->count;
}

uint64_t hil_gguf_bytes(const hil_gguf *file)
{
    return aligned(header_bytes(file)) + file->data;
}

/* Zeros up to the next multiple of the alignment after `size`. */
static hil_status pad(hil_gguf *file, size_t size)
{
    static const char zeros[ALIGNMENT];
    return hil_writer_add(file->writer, zeros, aligned(size) - size);
}

hil_status hil_gguf_begin(hil_gguf *file)
{
    struct {
        char magic[4];
        uint32_t version;
        uint64_t tensors, values;
    } head = {{'G', 'G', 'U', 'F'}, VERSION, file->count, file->value_count};
    HIL_TRY(hil_writer_add(file->writer, &head, sizeof head));
    HIL_TRY(hil_writer_add(file->writer, file->values.data, file->values.size));
    HIL_TRY(hil_writer_add(file->writer, file->tensors.data, file->tensors.size));
    return pad(file, header_bytes(file));
}

hil_status hil_gguf_data(hil_gguf *file, const void *bytes, size_t size)
{
    assert(file->next < file->count && size <= file->size[file->next] - file->written);
    HIL_TRY(hil_writer_add(file->writer, bytes, size));
    file->written += size;
    if (file->written < file->size[file->next]) return HIL_OK;
    ++file->next;
    file->written = 0;
    return pad(file, file->size[file->next - 1]);
}

hil_status hil_gguf_commit(hil_gguf *file)
{
    assert(file->next == file->count);
    return hil_writer_commit(file->writer);
}
