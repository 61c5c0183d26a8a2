/* inspect.c - what is in a model folder, a checkpoint folder or a .safetensors file. */
#include "hilbert/run.h"
#include "base/alloc.h"
#include "base/json.h"
#include "format/checkpoint_manifest.h"
#include "format/config.h"
#include "format/safetensors.h"
#include "run/inspect.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILES_MAX 4096

/* One path, opened as one or several files. */
struct source {
    char path[HIL_PATH_MAX];
    bool folder, checkpoint;
    hil_safetensors *file[FILES_MAX];
    int count;
    int listed; /* files whose tensors are listed: of a checkpoint only the master weights */
};

/* The files of a checkpoint. Frozen parameters have no moments, and a rule may need fewer. */
enum { STATES = 3 };
static const struct {
    const char *name, *what;
} states[STATES] = {
    {"master", "weights, fp32"},
    {"moment1", "first moments, of the same shapes"},
    {"moment2", "second moments, of the same shapes"},
};

struct totals {
    int64_t tensors, parameters; /* of the listed files */
    int64_t bytes;               /* of all */
};

static int is_safetensors(const struct dirent *entry)
{
    return hil_text_ends_with(entry->d_name, ".safetensors");
}

static bool is_checkpoint(const char *folder)
{
    char path[HIL_PATH_MAX], name[32];
    if (hil_path_join(path, folder, "manifest.json") != HIL_OK || !hil_file_exists(path))
        return false;
    snprintf(name, sizeof name, "%s.safetensors", states[0].name);
    return hil_path_join(path, folder, name) == HIL_OK && hil_file_exists(path);
}

static hil_status open_checkpoint(struct source *source)
{
    char path[HIL_PATH_MAX], name[32];
    for (int i = 0; i < STATES; ++i) {
        snprintf(name, sizeof name, "%s.safetensors", states[i].name);
        HIL_TRY(hil_path_join(path, source->path, name));
        if (i > 0 && !hil_file_exists(path)) break;
        HIL_TRY(hil_safetensors_open(&source->file[i], path));
        source->count = i + 1;
    }
    source->listed = 1;
    source->checkpoint = true;
    return HIL_OK;
}

/* The number of the newest checkpoint in `folder`, or -1. */
static hil_status newest_step(const char *folder, int64_t *step)
{
    int64_t *steps;
    size_t count;
    hil_status status = hil_steps_list(folder, &steps, &count);
    *step = status == HIL_OK && count ? steps[0] : -1;
    hil_free(steps);
    return status;
}

/* The newest of a folder of checkpoints. */
static hil_status open_step(struct source *source, int64_t step)
{
    char path[HIL_PATH_MAX];
    HIL_TRY(hil_step_path(path, source->path, step));
    memcpy(source->path, path, sizeof path);
    return open_checkpoint(source);
}

/* The newest checkpoint in the folder, or in that of a run that has not written its model yet; -1:
   there is none. */
static hil_status find_step(struct source *source, int64_t *step)
{
    char inner[HIL_PATH_MAX];
    HIL_TRY(newest_step(source->path, step));
    if (*step >= 0) return HIL_OK;
    HIL_TRY(hil_path_join(inner, source->path, "checkpoints"));
    HIL_TRY(newest_step(inner, step));
    if (*step >= 0) memcpy(source->path, inner, sizeof inner);
    return HIL_OK;
}

/* A folder without a model's file names, such as a checkpoint: every .safetensors file in it. */
static hil_status open_all(struct source *source)
{
    struct dirent **names;
    int count = scandir(source->path, &names, is_safetensors, alphasort);
    if (count < 0) return hil_fail(HIL_ERR_IO, "cannot list %s: %s", source->path, strerror(errno));
    hil_status status = HIL_OK;
    int64_t step = -1;
    if (count == 0) HIL_TRY_DONE(find_step(source, &step));
    if (step >= 0) HIL_TRY_DONE(open_step(source, step));
    if (step >= 0) goto done;
    if (count == 0 || count > FILES_MAX)
        HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT, "%s holds %s .safetensors files", source->path,
                              count ? "too many" : "no"));
    for (int i = 0; i < count; ++i) {
        char path[HIL_PATH_MAX];
        HIL_TRY_DONE(hil_path_join(path, source->path, names[i]->d_name));
        HIL_TRY_DONE(hil_safetensors_open(&source->file[source->count], path));
        ++source->count;
    }
    source->listed = source->count;
done:
    for (int i = 0; i < count; ++i) free(names[i]);
    free(names);
    return status;
}

/* Whether the length at the beginning of the file can be that of a header in it. */
static bool has_header(const char *path, off_t size)
{
    unsigned char bytes[8] = {0};
    uint64_t length = 0;
    FILE *file = fopen(path, "rb");
    bool whole = file && fread(bytes, 1, sizeof bytes, file) == sizeof bytes;
    if (file) fclose(file);
    for (int i = 7; i >= 0; --i) length = length << 8 | bytes[i];
    return whole && length <= (uint64_t)size - sizeof bytes;
}

static hil_status open_file(struct source *source, off_t size)
{
    const char *path = source->path;
    hil_status status = hil_safetensors_open(&source->file[0], path);
    if (status != HIL_ERR_INPUT || hil_text_ends_with(path, ".safetensors")) return status;
    if (!hil_text_ends_with(path, ".json") && !hil_text_ends_with(path, ".txt") &&
        has_header(path, size))
        return status;
    return hil_fail(status, "%s is not a safetensors file; give one, or a model folder", path);
}

static hil_status open_source(struct source *source, const char *path)
{
    char single[HIL_PATH_MAX], index[HIL_PATH_MAX];
    struct stat info = {0};
    if (snprintf(source->path, sizeof source->path, "%s", path) >= (int)sizeof source->path)
        return hil_fail(HIL_ERR_INPUT, "path too long: %.80s...", path);
    source->folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (source->folder) {
        if (is_checkpoint(path)) return open_checkpoint(source);
        HIL_TRY(hil_path_join(single, path, "model.safetensors"));
        HIL_TRY(hil_path_join(index, path, "model.safetensors.index.json"));
        if (!hil_file_exists(single) && !hil_file_exists(index)) return open_all(source);
        HIL_TRY(hil_safetensors_open_folder(&source->file[0], path));
    } else {
        HIL_TRY(open_file(source, info.st_size));
    }
    source->count = source->listed = 1;
    return HIL_OK;
}

static int64_t elements_of(const hil_entry *entry)
{
    int64_t count = 1;
    for (int i = 0; i < entry->ndim; ++i) count *= entry->dim[i];
    return count;
}

static int64_t bytes_of(hil_safetensors *file)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < hil_safetensors_count(file); ++i)
        bytes += (int64_t)hil_safetensors_at(file, i)->bytes;
    return bytes;
}

static int64_t all_bytes(const struct source *source)
{
    int64_t bytes = 0;
    for (int i = 0; i < source->count; ++i) bytes += bytes_of(source->file[i]);
    return bytes;
}

static void add_totals(struct totals *totals, const hil_entry *entry)
{
    ++totals->tensors;
    totals->parameters += elements_of(entry);
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
    for (int f = 0; f < source->listed; ++f) {
        for (size_t i = 0; i < hil_safetensors_count(source->file[f]); ++i) {
            const hil_entry *entry = hil_safetensors_at(source->file[f], i);
            print_shape(shape, sizeof shape, entry);
            if ((int)strlen(entry->name) > width) width = (int)strlen(entry->name);
            if ((int)strlen(shape) > shape_width) shape_width = (int)strlen(shape);
        }
    }
    fprintf(out, "%-*s  %-7s  %-*s  %13s\n", width, "name", "dtype", shape_width, "shape",
            "elements");
    for (int f = 0; f < source->listed; ++f) {
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

/* Of a checkpoint: the bytes of each of its files. */
static hil_status add_states(const struct source *source, json_t *root)
{
    if (!source->checkpoint) return HIL_OK;
    json_t *object = json_object();
    for (int i = 0; i < source->count; ++i) {
        json_t *bytes = json_integer(bytes_of(source->file[i]));
        if (json_object_set_new(object, states[i].name, bytes) != 0) {
            json_decref(object);
            return no_memory();
        }
    }
    return json_object_set_new(root, "states", object) == 0 ? HIL_OK : no_memory();
}

static hil_status print_json(const struct source *source, FILE *out)
{
    hil_status status = HIL_OK;
    struct totals totals = {.bytes = all_bytes(source)};
    json_t *list = json_array(), *root = json_object();
    if (!list || !root || json_object_set(root, "tensors", list) != 0) HIL_TRY_DONE(no_memory());
    for (int f = 0; f < source->listed; ++f) {
        for (size_t i = 0; i < hil_safetensors_count(source->file[f]); ++i) {
            const hil_entry *entry = hil_safetensors_at(source->file[f], i);
            HIL_TRY_DONE(add_entry(list, entry));
            add_totals(&totals, entry);
        }
    }
    HIL_TRY_DONE(add_states(source, root));
    if (source->checkpoint) HIL_TRY_DONE(hil_inspect_manifest_add(source->path, root));
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
    struct totals totals = {.bytes = all_bytes(source)};
    char bytes[32];
    print_table(source, &totals, out);
    fprintf(out, "%lld tensor%s, %lld parameters, %lld bytes (%s)\n", (long long)totals.tensors,
            totals.tensors == 1 ? "" : "s", (long long)totals.parameters, (long long)totals.bytes,
            hil_text_bytes(bytes, (uint64_t)totals.bytes));
    for (int i = 0; source->checkpoint && i < source->count; ++i) {
        uint64_t size = (uint64_t)bytes_of(source->file[i]);
        fprintf(out, "%s.safetensors: %s, %s\n", states[i].name, states[i].what,
                hil_text_bytes(bytes, size));
    }
    if (source->checkpoint) HIL_TRY(hil_inspect_manifest_print(source->path, out));
    return print_config(source, out);
}

hil_status hil_inspect(const char *path, bool json, FILE *out)
{
    hil_status status;
    struct source *source = NULL;
    HIL_TRY_DONE(HIL_ALLOC(1, &source));
    HIL_TRY_DONE(open_source(source, path));
    if (json)
        HIL_TRY_DONE(print_json(source, out));
    else
        HIL_TRY_DONE(print_text(source, out));
    if (fflush(out) != 0 || ferror(out))
        HIL_TRY_DONE(hil_fail(HIL_ERR_IO, "cannot write the output: %s", strerror(errno)));
done:
    for (int i = 0; source && i < source->count; ++i) hil_safetensors_close(source->file[i]);
    hil_free(source);
    return status;
}
