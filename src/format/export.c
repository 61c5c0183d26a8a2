/* export.c - writes a model folder's weights, in one file or in shards. */
#include "format/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARD_BYTES ((size_t)5000000000)
#define SINGLE "model.safetensors"
#define INDEX "model.safetensors.index.json"
#define NAME_BYTES 64

/* Tensors [first, last) of the list, shard `number` (from 0) of `total`. */
typedef struct shard {
    size_t first, last;
    size_t number, total;
} shard;

static size_t tensor_bytes(const hil_export_tensor *tensor)
{
    return (size_t)hil_shape_count(&tensor->shape) * hil_dtype_size(tensor->dtype);
}

/* The end of the shard that begins with tensor `first`: as many tensors as fit, at least one. */
static size_t shard_end(const hil_export *export, size_t first)
{
    size_t most = export->shard_bytes ? export->shard_bytes : SHARD_BYTES, used = 0;
    size_t last = first;
    if (export->single) return export->count;
    while (last < export->count) {
        size_t bytes = tensor_bytes(&export->tensor[last]);
        if (last > first && (bytes > most || used > most - bytes)) break;
        used += bytes;
        ++last;
        if (used > most) break;
    }
    return last;
}

static size_t count_shards(const hil_export *export)
{
    size_t total = 0;
    for (size_t first = 0; first < export->count; first = shard_end(export, first)) ++total;
    return total ? total : 1;
}

static void shard_name(const hil_export *export, const shard *s, char out[NAME_BYTES])
{
    if (s->total == 1)
        snprintf(out, NAME_BYTES, "%s", export->single ? export->single : SINGLE);
    else
        snprintf(out, NAME_BYTES, "model-%05zu-of-%05zu.safetensors", s->number + 1, s->total);
}

static hil_status declare(const hil_export *export, const shard *s, hil_safetensors_writer *file)
{
    HIL_TRY(hil_safetensors_writer_metadata(file, "format", "pt"));
    for (size_t i = s->first; i < s->last; ++i) {
        const hil_export_tensor *tensor = &export->tensor[i];
        HIL_TRY(hil_safetensors_writer_declare(file, tensor->name, tensor->dtype, &tensor->shape));
    }
    return HIL_OK;
}

static hil_status write_data(const hil_export *export, const shard *s, hil_safetensors_writer *file,
                             void *buffer)
{
    HIL_TRY(declare(export, s, file));
    HIL_TRY(hil_safetensors_writer_begin(file));
    while (hil_safetensors_writer_next(file)) {
        size_t i = s->first + hil_safetensors_writer_next_index(file);
        size_t bytes = tensor_bytes(&export->tensor[i]);
        for (size_t at = 0, size; at < bytes; at += size) {
            size = bytes - at < HIL_EXPORT_PIECE ? bytes - at : HIL_EXPORT_PIECE;
            HIL_TRY(export->read(export->context, i, at, &size, buffer));
            HIL_TRY(hil_safetensors_writer_data(file, buffer, size));
        }
    }
    return hil_safetensors_writer_commit(file);
}

static hil_status write_shard(const hil_export *export, const shard *s, const char *folder,
                              void *buffer)
{
    char name[NAME_BYTES], path[HIL_PATH_MAX];
    hil_safetensors_writer *file;
    shard_name(export, s, name);
    HIL_TRY(hil_path_join(path, folder, name));
    HIL_TRY(hil_safetensors_writer_create(&file, path));
    hil_status status = write_data(export, s, file, buffer);
    hil_safetensors_writer_destroy(file);
    return status;
}

/* A tensor's name and its file, for the index. */
typedef struct placed {
    const char *name;
    shard place;
} placed;

static int compare_name(const void *left, const void *right)
{
    return strcmp(((const placed *)left)->name, ((const placed *)right)->name);
}

/* Every tensor with its shard, sorted by name. */
static hil_status place_tensors(const hil_export *export, size_t total, placed **out)
{
    HIL_TRY(HIL_ALLOC(export->count, out));
    shard s = {.total = total};
    for (; s.first < export->count; s.first = s.last, ++s.number) {
        s.last = shard_end(export, s.first);
        for (size_t i = s.first; i < s.last; ++i) (*out)[i] = (placed){export->tensor[i].name, s};
    }
    qsort(*out, export->count, sizeof **out, compare_name);
    return HIL_OK;
}

/* The index as transformers writes it. */
static hil_status make_index(const hil_export *export, size_t total, hil_text *text)
{
    uint64_t bytes = 0, parameters = 0;
    placed *tensor = NULL;
    hil_status status;
    HIL_TRY_DONE(place_tensors(export, total, &tensor));
    for (size_t i = 0; i < export->count; ++i) {
        bytes += tensor_bytes(&export->tensor[i]);
        parameters += (uint64_t)hil_shape_count(&export->tensor[i].shape);
    }
    HIL_TRY_DONE(hil_text_print(text,
                                "{\n  \"metadata\": {\n    \"total_parameters\": %llu,\n"
                                "    \"total_size\": %llu\n  },\n  \"weight_map\": {\n",
                                (unsigned long long)parameters, (unsigned long long)bytes));
    for (size_t i = 0; i < export->count; ++i) {
        char name[NAME_BYTES];
        shard_name(export, &tensor[i].place, name);
        HIL_TRY_DONE(hil_text_print(text, i ? ",\n    " : "    "));
        HIL_TRY_DONE(hil_text_quote(text, tensor[i].name));
        HIL_TRY_DONE(hil_text_print(text, ": \"%s\"", name));
    }
    status = hil_text_print(text, "\n  }\n}\n");
done:
    hil_free(tensor);
    return status;
}

static hil_status write_index(const hil_export *export, size_t total, const char *folder)
{
    char path[HIL_PATH_MAX];
    hil_text text = {0};
    HIL_TRY(hil_path_join(path, folder, INDEX));
    hil_status status = make_index(export, total, &text);
    if (status == HIL_OK) status = hil_file_write(path, text.data, text.size);
    hil_text_free(&text);
    return status;
}

hil_status hil_export_write(const hil_export *export, const char *folder)
{
    void *buffer = NULL;
    size_t total = count_shards(export);
    hil_status status;
    HIL_TRY_DONE(hil_alloc(HIL_EXPORT_PIECE, 1, &buffer));
    shard s = {.total = total};
    for (; s.number < total; s.first = s.last, ++s.number) {
        s.last = shard_end(export, s.first);
        HIL_TRY_DONE(write_shard(export, &s, folder, buffer));
    }
    if (total > 1) status = write_index(export, total, folder);
done:
    hil_free(buffer);
    return status;
}

hil_status hil_export_bytes(const hil_export *export, uint64_t *out)
{
    hil_text text = {0};
    size_t total = count_shards(export);
    shard s = {.total = total};
    *out = 0;
    for (; s.number < total; s.first = s.last, ++s.number) {
        uint64_t bytes = 0;
        hil_safetensors_writer *file;
        s.last = shard_end(export, s.first);
        HIL_TRY(hil_safetensors_writer_create(&file, NULL));
        hil_status declared = declare(export, &s, file);
        if (declared == HIL_OK) declared = hil_safetensors_writer_bytes(file, &bytes);
        hil_safetensors_writer_destroy(file);
        HIL_TRY(declared);
        *out += bytes;
    }
    if (total == 1) return HIL_OK;
    hil_status status = make_index(export, total, &text);
    *out += text.size;
    hil_text_free(&text);
    return status;
}
