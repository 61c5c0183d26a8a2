/* safetensors_write.c - writes one file, with the same bytes as the reference implementation. */
#include "format/safetensors.h"

#include "text/unicode/unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name of a dtype, and its order in the file: larger alignment first. */
static const struct {
    const char *name;
    int rank;
} kinds[] = {[HIL_F32] = {"F32", 0}, [HIL_I32] = {"I32", 1},      [HIL_BF16] = {"BF16", 2},
             [HIL_F16] = {"F16", 3}, [HIL_E4M3] = {"F8_E4M3", 4}, [HIL_I8] = {"I8", 5},
             [HIL_U8] = {"U8", 6}};

typedef struct declared {
    char *name;
    hil_dtype dtype;
    hil_shape shape;
    size_t bytes;
    size_t index;
    bool ragged; /* its size is not a multiple of `block` */
} declared;

struct hil_safetensors_writer {
    hil_writer *writer;
    char *path;
    declared *tensor;
    size_t count, capacity;
    hil_text metadata; /* "key":"value",... */
    bool begun;
    size_t next;  /* the tensor whose data comes next, */
    size_t done;  /* and how much of it is written */
    size_t block; /* in which the data begins; 0: of 8 bytes */
};

hil_status hil_safetensors_writer_create(hil_safetensors_writer **out, const char *path)
{
    *out = NULL;
    hil_safetensors_writer *file = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &file));
    HIL_TRY_DONE(hil_text_copy(path ? path : "weights", &file->path));
    if (path) HIL_TRY_DONE(hil_writer_open(&file->writer, path));
    *out = file;
    file = NULL;
done:
    hil_safetensors_writer_destroy(file);
    return status;
}

void hil_safetensors_writer_destroy(hil_safetensors_writer *file)
{
    if (!file) return;
    hil_writer_close(file->writer);
    for (size_t i = 0; i < file->count; ++i) hil_free(file->tensor[i].name);
    hil_free(file->tensor);
    hil_text_free(&file->metadata);
    hil_free(file->path);
    hil_free(file);
}

static hil_status count_bytes(const hil_safetensors_writer *file, const declared *tensor,
                              size_t *out)
{
    size_t bytes = hil_dtype_size(tensor->dtype);
    for (int i = 0; i < tensor->shape.ndim; ++i)
        if (tensor->shape.dim[i] < 0 ||
            __builtin_mul_overflow(bytes, (size_t)tensor->shape.dim[i], &bytes))
            return hil_fail(HIL_ERR_USAGE, "%s: tensor \"%.200s\" has an impossible shape",
                            file->path, tensor->name);
    *out = bytes;
    return HIL_OK;
}

hil_status hil_safetensors_writer_declare(hil_safetensors_writer *file, const char *name,
                                          hil_dtype dtype, const hil_shape *shape)
{
    assert(!file->begun);
    size_t bad;
    if (hil_utf8_check(name, strlen(name), &bad) != strlen(name))
        return hil_fail(HIL_ERR_USAGE, "%s: a tensor's name is not UTF-8", file->path);
    HIL_TRY(HIL_GROW(&file->tensor, &file->capacity, file->count + 1));
    declared *tensor = &file->tensor[file->count];
    *tensor = (declared){.dtype = dtype, .shape = *shape, .index = file->count};
    HIL_TRY(hil_text_copy(name, &tensor->name));
    ++file->count;
    return count_bytes(file, tensor, &tensor->bytes);
}

hil_status hil_safetensors_writer_metadata(hil_safetensors_writer *file, const char *key,
                                           const char *value)
{
    assert(!file->begun);
    hil_text *text = &file->metadata;
    if (text->size) HIL_TRY(hil_text_add(text, ",", 1));
    HIL_TRY(hil_text_quote(text, key));
    HIL_TRY(hil_text_add(text, ":", 1));
    return hil_text_quote(text, value);
}

static int compare_place(const void *left, const void *right)
{
    const declared *a = left, *b = right;
    if (a->dtype != b->dtype) return kinds[a->dtype].rank < kinds[b->dtype].rank ? -1 : 1;
    if (a->ragged != b->ragged) return a->ragged ? 1 : -1;
    if (a->ragged && a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static hil_status add_tensor(hil_text *header, const declared *tensor, size_t begin, size_t end)
{
    HIL_TRY(hil_text_quote(header, tensor->name));
    HIL_TRY(hil_text_print(header, ":{\"dtype\":\"%s\",\"shape\":[", kinds[tensor->dtype].name));
    for (int i = 0; i < tensor->shape.ndim; ++i)
        HIL_TRY(hil_text_print(header, i ? ",%lld" : "%lld", (long long)tensor->shape.dim[i]));
    return hil_text_print(header, "],\"data_offsets\":[%zu,%zu]}", begin, end);
}

/* Sorts the tensors and makes the padded header; *data is the number of bytes after it. */
static hil_status make_header(const hil_safetensors_writer *file, hil_text *header, size_t *data)
{
    size_t at = 0;
    if (file->count) qsort(file->tensor, file->count, sizeof *file->tensor, compare_place);
    HIL_TRY(hil_text_add(header, "{", 1));
    if (file->metadata.size)
        HIL_TRY(hil_text_print(header, "\"__metadata__\":{%s}", file->metadata.data));
    for (size_t i = 0; i < file->count; ++i) {
        const declared *tensor = &file->tensor[i];
        size_t end;
        if (__builtin_add_overflow(at, tensor->bytes, &end))
            return hil_fail(HIL_ERR_USAGE, "%s: too large for one file", file->path);
        if (header->size > 1) HIL_TRY(hil_text_add(header, ",", 1));
        HIL_TRY(add_tensor(header, tensor, at, end));
        at = end;
    }
    HIL_TRY(hil_text_add(header, "}", 1));
    size_t block = file->block ? file->block : 8;
    while ((8 + header->size) % block) HIL_TRY(hil_text_add(header, " ", 1));
    if (header->size > 100000000)
        return hil_fail(HIL_ERR_USAGE, "%s: too many tensors for one file", file->path);
    *data = at;
    return HIL_OK;
}

hil_status hil_safetensors_writer_bytes(const hil_safetensors_writer *file, uint64_t *out)
{
    hil_text header = {0};
    size_t data = 0;
    hil_status status = make_header(file, &header, &data);
    *out = 8 + (uint64_t)header.size + data;
    hil_text_free(&header);
    return status;
}

static void skip_finished(hil_safetensors_writer *file)
{
    while (file->next < file->count && file->done == file->tensor[file->next].bytes) {
        ++file->next;
        file->done = 0;
    }
}

static int compare_name(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static hil_status check_names(const hil_safetensors_writer *file)
{
    const char **name = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(file->count, &name));
    for (size_t i = 0; i < file->count; ++i) name[i] = file->tensor[i].name;
    if (file->count) qsort(name, file->count, sizeof *name, compare_name);
    for (size_t i = 1; i < file->count; ++i)
        if (strcmp(name[i - 1], name[i]) == 0)
            HIL_TRY_DONE(hil_fail(HIL_ERR_USAGE, "%s: tensor \"%.200s\" is declared twice",
                                  file->path, name[i]));
done:
    hil_free(name);
    return status;
}

/* Makes the length and the header. */
static hil_status make_front(const hil_safetensors_writer *file, hil_text *front, size_t *data)
{
    hil_text header = {0};
    unsigned char length[8];
    hil_status status = HIL_OK;
    HIL_TRY_DONE(check_names(file));
    HIL_TRY_DONE(make_header(file, &header, data));
    for (int i = 0; i < 8; ++i) length[i] = (unsigned char)((uint64_t)header.size >> (8 * i));
    HIL_TRY_DONE(hil_text_add(front, length, sizeof length));
    HIL_TRY_DONE(hil_text_add(front, header.data, header.size));
done:
    hil_text_free(&header);
    return status;
}

hil_status hil_safetensors_writer_begin(hil_safetensors_writer *file)
{
    assert(!file->begun && file->writer);
    hil_text front = {0};
    size_t data;
    hil_status status = HIL_OK;
    HIL_TRY_DONE(make_front(file, &front, &data));
    HIL_TRY_DONE(hil_writer_add(file->writer, front.data, front.size));
    file->begun = true;
    skip_finished(file);
done:
    hil_text_free(&front);
    return status;
}

hil_status hil_safetensors_writer_place(hil_safetensors_writer *file, hil_safetensors_layout *out)
{
    assert(!file->begun);
    size_t data;
    file->block = out->block;
    for (size_t i = 0; i < file->count; ++i)
        file->tensor[i].ragged = file->tensor[i].bytes % out->block != 0;
    HIL_TRY(make_front(file, &out->header, &data));
    uint64_t at = out->header.size;
    for (size_t i = 0; i < file->count; ++i) {
        out->offset[file->tensor[i].index] = at;
        at += file->tensor[i].bytes;
    }
    out->bytes = at;
    return HIL_OK;
}

const char *hil_safetensors_writer_next(const hil_safetensors_writer *file)
{
    assert(file->begun);
    return file->next < file->count ? file->tensor[file->next].name : NULL;
}

size_t hil_safetensors_writer_next_index(const hil_safetensors_writer *file)
{
    assert(file->begun && file->next < file->count);
    return file->tensor[file->next].index;
}

hil_status hil_safetensors_writer_data(hil_safetensors_writer *file, const void *bytes, size_t size)
{
    assert(file->begun && (size == 0 || file->next < file->count));
    if (size == 0) return HIL_OK;
    assert(size <= file->tensor[file->next].bytes - file->done);
    HIL_TRY(hil_writer_add(file->writer, bytes, size));
    file->done += size;
    skip_finished(file);
    return HIL_OK;
}

hil_status hil_safetensors_writer_commit(hil_safetensors_writer *file)
{
    if (!file->begun || file->next < file->count)
        return hil_fail(HIL_ERR_USAGE, "%s: tensor \"%.200s\" was not written whole", file->path,
                        file->begun ? file->tensor[file->next].name : "");
    return hil_writer_commit(file->writer);
}
