/* shards.c - opens the weights of a model folder: one file, or shards with an index. */
#include "format/safetensors_file.h"

#include "base/json.h"
#include "format/torch_weights.h"

#include <stdlib.h>
#include <string.h>

/* The forms of weights; what comes first is taken, as by transformers. */
static const struct form {
    const char *single, *index;
    hil_status (*open)(hil_safetensors **out, const char *path);
} forms[] = {
    {"model.safetensors", "model.safetensors.index.json", hil_safetensors_open},
    {"pytorch_model.bin", "pytorch_model.bin.index.json", hil_torch_weights_open},
};
enum { FORMS = sizeof forms / sizeof *forms };

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

/* A folder that is being opened by its index. */
typedef struct indexed {
    const char *folder, *what; /* the index itself */
    const struct form *form;
} indexed;

static hil_status open_shards(hil_safetensors *all, const indexed *from, const char **name,
                              size_t count)
{
    char path[HIL_PATH_MAX];
    HIL_TRY(HIL_ALLOC(count, &all->shard));
    for (size_t i = 0; i < count; ++i) {
        HIL_TRY(hil_path_join(path, from->folder, name[i]));
        if (!hil_file_exists(path))
            return hil_fail(HIL_ERR_INPUT,
                            "%s: missing, although %s names it; download the model again", path,
                            from->form->index);
        HIL_TRY(from->form->open(&all->shard[i], path));
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

static hil_status read_index(hil_safetensors *all, const indexed *from, json_t *index)
{
    json_t *weights = json_object_get(index, "weight_map");
    const char **name = NULL;
    size_t count = 0;
    if (!json_is_object(weights) || json_object_size(weights) == 0)
        return hil_fail(HIL_ERR_INPUT, "%s: no weight_map", from->what);
    HIL_TRY(HIL_ALLOC(json_object_size(weights), &name));
    hil_status status = list_files(weights, from->what, name, &count);
    if (status == HIL_OK) status = open_shards(all, from, name, count);
    if (status == HIL_OK) status = collect(all, weights, name, from->what);
    hil_free(name);
    return status;
}

static hil_status open_index(hil_safetensors **out, const indexed *from)
{
    hil_bytes content;
    json_t *index = NULL;
    hil_safetensors *all = NULL;
    HIL_TRY(hil_bytes_read(&content, from->what));
    hil_status status = hil_json_parse(content.data, content.size, from->what, &index);
    if (status == HIL_OK) status = HIL_ALLOC(1, &all);
    if (status == HIL_OK) status = read_index(all, from, index);
    if (status == HIL_OK)
        *out = all;
    else
        hil_safetensors_close(all);
    json_decref(index);
    hil_bytes_free(&content);
    return status;
}

hil_status hil_safetensors_open_folder(hil_safetensors **out, const char *folder)
{
    char path[HIL_PATH_MAX];
    *out = NULL;
    for (int i = 0; i < FORMS; ++i) {
        HIL_TRY(hil_path_join(path, folder, forms[i].single));
        if (hil_file_exists(path)) return forms[i].open(out, path);
        HIL_TRY(hil_path_join(path, folder, forms[i].index));
        if (hil_file_exists(path)) return open_index(out, &(indexed){folder, path, &forms[i]});
    }
    if (!hil_file_exists(folder)) return hil_fail(HIL_ERR_INPUT, "%s: no such folder", folder);
    HIL_TRY(hil_path_join(path, folder, "quantize_config.json"));
    if (hil_file_exists(path))
        return hil_fail(HIL_ERR_INPUT,
                        "%s: weights of GPTQ in the form of old tools: rename them to "
                        "model.safetensors, and add the contents of quantize_config.json to "
                        "config.json as \"quantization_config\", with \"quant_method\": \"gptq\"",
                        folder);
    return hil_fail(HIL_ERR_INPUT,
                    "%s: no weights: neither model.safetensors nor pytorch_model.bin is there, nor "
                    "the .index.json of one of them",
                    folder);
}

bool hil_safetensors_in_folder(const char *folder)
{
    char path[HIL_PATH_MAX];
    for (int i = 0; i < 2 * FORMS; ++i) {
        const struct form *form = &forms[i / 2];
        const char *name = i % 2 ? form->index : form->single;
        if (hil_path_join(path, folder, name) == HIL_OK && hil_file_exists(path)) return true;
    }
    return false;
}
