/* shards.c - opens the weights of a model folder: model.safetensors, or shards with an index. */
#include "format/safetensors_file.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#define SINGLE "model.safetensors"
#define INDEX "model.safetensors.index.json"

static int compare_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The distinct file names of the weight map, sorted, borrowed from it. */
static hil_status list_files(json_t *weights, const char *what, const char **name, size_t *count)
{
    const char *tensor;
    json_t *file;
    size_t n = 0;
    json_object_foreach(weights, tensor, file)
    {
        if (!json_is_string(file))
            return hil_fail(HIL_ERR_INPUT, "%s: tensor \"%.200s\" has no file name", what, tensor);
        const char *plain = json_string_value(file);
        if (!hil_path_is_plain(plain))
            return hil_fail(HIL_ERR_INPUT,
                            "%s: tensor \"%.200s\" is said to be in \"%.200s\", which is not a "
                            "file of this folder",
                            what, tensor, plain);
        name[n++] = plain;
    }
    qsort(name, n, sizeof *name, compare_text);
    *count = 0;
    for (size_t i = 0; i < n; ++i)
        if (*count == 0 || strcmp(name[*count - 1], name[i]) != 0) name[(*count)++] = name[i];
    return HIL_OK;
}

static hil_status open_shards(hil_safetensors *all, const char *folder, const char **name,
                              size_t count)
{
    char path[HIL_PATH_MAX];
    HIL_TRY(HIL_ALLOC(count, &all->shard));
    for (size_t i = 0; i < count; ++i) {
        HIL_TRY(hil_path_join(path, folder, name[i]));
        if (!hil_file_exists(path))
            return hil_fail(HIL_ERR_INPUT,
                            "%s: missing, although " INDEX " names it; download the model again",
                            path);
        HIL_TRY(hil_safetensors_open(&all->shard[i], path));
        ++all->shards;
    }
    return HIL_OK;
}

static int compare_offset(const void *left, const void *right)
{
    const hil_entry *a = left, *b = right;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Copies the entries that the weight map names, shard by shard. */
static hil_status collect(hil_safetensors *all, json_t *weights, const char **name,
                          const char *what)
{
    const char *tensor;
    json_t *file;
    size_t *start = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(json_object_size(weights), &all->entry));
    HIL_TRY_DONE(HIL_ALLOC(all->shards + 1, &start));
    json_object_foreach(weights, tensor, file)
    {
        const char *wanted = json_string_value(file);
        const char **at = bsearch(&wanted, name, all->shards, sizeof *name, compare_text);
        ++start[at - name + 1];
    }
    for (size_t i = 0; i < all->shards; ++i) start[i + 1] += start[i];
    json_object_foreach(weights, tensor, file)
    {
        const char *wanted = json_string_value(file);
        const char **at = bsearch(&wanted, name, all->shards, sizeof *name, compare_text);
        const hil_entry *entry = hil_safetensors_find(all->shard[at - name], tensor);
        if (!entry)
            HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT, "%s: tensor \"%.200s\" is not in %.200s", what,
                                  tensor, wanted));
        all->entry[start[at - name]++] = *entry;
    }
    all->count = json_object_size(weights);
    for (size_t i = 0, begin = 0; i < all->shards; begin = start[i++])
        qsort(all->entry + begin, start[i] - begin, sizeof *all->entry, compare_offset);
    status = hil_safetensors_index(all);
done:
    hil_free(start);
    return status;
}

static hil_status read_index(hil_safetensors *all, const char *folder, json_t *index,
                             const char *what)
{
    json_t *weights = json_object_get(index, "weight_map");
    const char **name = NULL;
    size_t count = 0;
    if (!json_is_object(weights) || json_object_size(weights) == 0)
        return hil_fail(HIL_ERR_INPUT, "%s: no weight_map", what);
    HIL_TRY(HIL_ALLOC(json_object_size(weights), &name));
    hil_status status = list_files(weights, what, name, &count);
    if (status == HIL_OK) status = open_shards(all, folder, name, count);
    if (status == HIL_OK) status = collect(all, weights, name, what);
    hil_free(name);
    return status;
}

static hil_status open_index(hil_safetensors **out, const char *folder, const char *path)
{
    hil_bytes content;
    json_t *index = NULL;
    hil_safetensors *all = NULL;
    HIL_TRY(hil_bytes_read(&content, path));
    hil_status status = hil_json_parse(content.data, content.size, path, &index);
    if (status == HIL_OK) status = HIL_ALLOC(1, &all);
    if (status == HIL_OK) status = read_index(all, folder, index, path);
    if (status == HIL_OK)
        *out = all;
    else
        hil_safetensors_close(all);
    json_decref(index);
    hil_bytes_free(&content);
    return status;
}

/* Fails with the reason why a folder has neither file. */
static hil_status no_weights(const char *folder)
{
    static const char *const pickled[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};
    char path[HIL_PATH_MAX];
    if (!hil_file_exists(folder)) return hil_fail(HIL_ERR_INPUT, "%s: no such folder", folder);
    for (size_t i = 0; i < sizeof pickled / sizeof *pickled; ++i) {
        HIL_TRY(hil_path_join(path, folder, pickled[i]));
        if (hil_file_exists(path))
            return hil_fail(HIL_ERR_INPUT,
                            "%s: only pickled weights (%s), which are not read; convert them with "
                            "transformers: "
                            "AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(NEW)",
                            folder, pickled[i]);
    }
    return hil_fail(HIL_ERR_INPUT, "%s: no weights: neither " SINGLE " nor " INDEX " is there",
                    folder);
}

hil_status hil_safetensors_open_folder(hil_safetensors **out, const char *folder)
{
    char path[HIL_PATH_MAX];
    *out = NULL;
    HIL_TRY(hil_path_join(path, folder, SINGLE));
    if (hil_file_exists(path)) return hil_safetensors_open(out, path);
    HIL_TRY(hil_path_join(path, folder, INDEX));
    if (hil_file_exists(path)) return open_index(out, folder, path);
    return no_weights(folder);
}
