/* inspect.c - what is in a model folder, a checkpoint folder or a .safetensors file. */
#include "hilbert/run.h"
#include "base/json.h"
#include "format/config.h"
#include "format/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILES_MAX 4096

/* One path, opened as one or several files. */
struct source {
    const char *path;
    bool folder;
    hil_safetensors *file[FILES_MAX];
    int count;
};

struct totals {
    int64_t tensors, parameters, bytes;
};

static int is_safetensors(const struct dirent *entry)
{
    size_t size = strlen(entry->d_name);
    return size > 12 && strcmp(entry->d_name + size - 12, ".safetensors") == 0;
}

/* A folder without a model's file names, such as a checkpoint: every .safetensors file in it. */
static hil_status open_all(struct source *source)
{
    struct dirent **names;
    int count = scandir(source->path, &names, is_safetensors, alphasort);
    if (count < 0) return hil_fail(HIL_ERR_IO, "cannot list %s: %s", source->path, strerror(errno));
    hil_status status = HIL_OK;
    if (count == 0 || count > FILES_MAX)
        HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT, "%s holds %s .safetensors files", source->path,
                              count ? "too many" : "no"));
    for (int i = 0; i < count; ++i) {
        char path[HIL_PATH_MAX];
        HIL_TRY_DONE(hil_path_join(path, source->path, names[i]->d_name));
        HIL_TRY_DONE(hil_safetensors_open(&source->file[source->count], path));
        ++source->count;
    }
done:
    for (int i = 0; i < count; ++i) free(names[i]);
    free(names);
    return status;
}

static hil_status open_source(struct source *source, const char *path)
{
    char single[HIL_PATH_MAX], index[HIL_PATH_MAX];
    struct stat info;
    source->path = path;
    source->folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (source->folder) {
        HIL_TRY(hil_path_join(single, path, "model.safetensors"));
        HIL_TRY(hil_path_join(index, path, "model.safetensors.index.json"));
        if (!hil_file_exists(single) && !hil_file_exists(index)) return open_all(source);
        HIL_TRY(hil_safetensors_open_folder(&source->file[0], path));
    } else {
        HIL_TRY(hil_safetensors_open(&source->file[0], path));
    }
    source->count = 1;
    return HIL_OK;
}

static int64_t elements_of(const hil_entry *entry)
{
    int64_t count = 1;
    for (int i = 0; i < entry->ndim; ++i) count *= entry->dim[i];
    return count;
}

static void add_totals(struct totals *totals, const hil_entry *entry)
{
    ++totals->tensors;
    totals->parameters += elements_of(entry);
    totals->bytes += (int64_t)entry->bytes;
}

static void print_shape(char *out, size_t size, const hil_entry *entry)
{
    size_t used = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < entry->ndim && used < size; ++i)
        used += (size_t)snprintf(out + used, size - used, i ? ", %lld" : "%lld",
                                 (long long)entry->dim[i]);
    if (used < size) snprintf(out + used, size - used, "]");
}

/* Names come from outside: control characters must not reach a terminal. */
static void print_name(FILE *out, const char *name, int width)
{
    int size = 0;
    for (; name[size]; ++size) {
        unsigned char c = (unsigned char)name[size];
        fputc(c < 0x20 || c == 0x7f ? '?' : c, out);
    }
    fprintf(out, "%*s", size < width ? width - size : 0, "");
}

static void print_table(const struct source *source, struct totals *totals, FILE *out)
{
    char shape[256];
    int width = 4, shape_width = 5;
    for (int f = 0; f < source->count; ++f) {
        for (size_t i = 0; i < hil_safetensors_count(source->file[f]); ++i) {
            const hil_entry *entry = hil_safetensors_at(source->file[f], i);
            print_shape(shape, sizeof shape, entry);
            if ((int)strlen(entry->name) > width) width = (int)strlen(entry->name);
            if ((int)strlen(shape) > shape_width) shape_width = (int)strlen(shape);
        }
    }
    fprintf(out, "%-*s  %-7s  %-*s  %13s\n", width, "name", "dtype", shape_width, "shape",
            "elements");
    for (int f = 0; f < source->count; ++f) {
        for (size_t i = 0; i < hil_safetensors_count(source->file[f]); ++i) {
            const hil_entry *entry = hil_safetensors_at(source->file[f], i);
            print_shape(shape, sizeof shape, entry);
            print_name(out, entry->name, width);
            fprintf(out, "  %-7s  %-*s  %13lld\n", entry->dtype, shape_width, shape,
                    (long long)elements_of(entry));
            add_totals(totals, entry);
        }
    }
}

enum config_state { CONFIG_MISSING, CONFIG_READ, CONFIG_REFUSED };

/* One that hilbert cannot use is worth a line (the last failure's), not a failure. */
static hil_status read_config(const struct source *source, hil_config *config,
                              enum config_state *state)
{
    char path[HIL_PATH_MAX];
    *state = CONFIG_MISSING;
    if (!source->folder) return HIL_OK;
    HIL_TRY(hil_path_join(path, source->path, "config.json"));
    if (!hil_file_exists(path)) return HIL_OK;
    hil_status status = hil_config_open(config, path);
    *state = status == HIL_OK ? CONFIG_READ : CONFIG_REFUSED;
    return status == HIL_ERR_INPUT ? HIL_OK : status;
}

static hil_status print_config(const struct source *source, FILE *out)
{
    hil_config config;
    enum config_state state;
    HIL_TRY(read_config(source, &config, &state));
    if (state == CONFIG_REFUSED) fprintf(out, "%s\n", hil_status_message());
    if (state != CONFIG_READ) return HIL_OK;
    fprintf(out,
            "%s: %lld layers, hidden %lld, intermediate %lld, %lld heads (%lld for keys and "
            "values) of %lld, vocabulary %lld, up to %lld tokens%s\n",
            hil_arch_name(config.arch), (long long)config.layers, (long long)config.hidden,
            (long long)config.intermediate, (long long)config.heads, (long long)config.kv_heads,
            (long long)config.head_dim, (long long)config.vocab, (long long)config.max_positions,
            config.tied ? ", tied embeddings" : "");
    return HIL_OK;
}

static hil_status no_memory(void)
{
    return hil_fail(HIL_ERR_MEMORY, "no memory for the list of tensors");
}

static hil_status add_config(const struct source *source, json_t *root)
{
    hil_config config;
    enum config_state state;
    HIL_TRY(read_config(source, &config, &state));
    if (state == CONFIG_MISSING) return HIL_OK;
    json_t *object;
    if (state == CONFIG_READ)
        object =
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "model_type",
                      hil_arch_name(config.arch), "layers", (json_int_t)config.layers, "hidden",
                      (json_int_t)config.hidden, "intermediate", (json_int_t)config.intermediate,
                      "heads", (json_int_t)config.heads, "kv_heads", (json_int_t)config.kv_heads,
                      "head_dim", (json_int_t)config.head_dim, "vocab", (json_int_t)config.vocab,
                      "max_positions", (json_int_t)config.max_positions, "tied", (int)config.tied);
    else
        object = json_pack("{s:s}", "error", hil_status_message());
    return json_object_set_new(root, "config", object) == 0 ? HIL_OK : no_memory();
}

static hil_status add_entry(json_t *list, const hil_entry *entry)
{
    json_t *shape = json_array();
    for (int i = 0; i < entry->ndim; ++i)
        if (json_array_append_new(shape, json_integer(entry->dim[i])) != 0) {
            json_decref(shape);
            return no_memory();
        }
    json_t *item = json_pack("{s:s, s:s, s:o, s:I, s:I}", "name", entry->name, "dtype",
                             entry->dtype, "shape", shape, "elements",
                             (json_int_t)elements_of(entry), "bytes", (json_int_t)entry->bytes);
    return json_array_append_new(list, item) == 0 ? HIL_OK : no_memory();
}

static hil_status print_json(const struct source *source, FILE *out)
{
    hil_status status = HIL_OK;
    struct totals totals = {0};
    json_t *list = json_array(), *root = json_object();
    if (!list || !root || json_object_set(root, "tensors", list) != 0) HIL_TRY_DONE(no_memory());
    for (int f = 0; f < source->count; ++f) {
        for (size_t i = 0; i < hil_safetensors_count(source->file[f]); ++i) {
            const hil_entry *entry = hil_safetensors_at(source->file[f], i);
            HIL_TRY_DONE(add_entry(list, entry));
            add_totals(&totals, entry);
        }
    }
    json_t *sum = json_pack("{s:I, s:I, s:I}", "tensors", (json_int_t)totals.tensors, "parameters",
                            (json_int_t)totals.parameters, "bytes", (json_int_t)totals.bytes);
    if (json_object_set_new(root, "total", sum) != 0) HIL_TRY_DONE(no_memory());
    HIL_TRY_DONE(add_config(source, root));
    json_dumpf(root, out, JSON_COMPACT);
    fputc('\n', out);
done:
    json_decref(list);
    json_decref(root);
    return status;
}

static hil_status print_text(const struct source *source, FILE *out)
{
    struct totals totals = {0};
    char bytes[32];
    print_table(source, &totals, out);
    fprintf(out, "%lld tensor%s, %lld parameters, %lld bytes (%s)\n", (long long)totals.tensors,
            totals.tensors == 1 ? "" : "s", (long long)totals.parameters, (long long)totals.bytes,
            hil_text_bytes(bytes, (uint64_t)totals.bytes));
    return print_config(source, out);
}

hil_status hil_inspect(const char *path, bool json, FILE *out)
{
    hil_status status = HIL_OK;
    struct source *source = NULL;
    HIL_TRY(HIL_ALLOC(1, &source));
    HIL_TRY_DONE(open_source(source, path));
    if (json)
        HIL_TRY_DONE(print_json(source, out));
    else
        HIL_TRY_DONE(print_text(source, out));
    if (fflush(out) != 0 || ferror(out))
        HIL_TRY_DONE(hil_fail(HIL_ERR_IO, "cannot write the output: %s", strerror(errno)));
done:
    for (int i = 0; i < source->count; ++i) hil_safetensors_close(source->file[i]);
    hil_free(source);
    return status;
}
