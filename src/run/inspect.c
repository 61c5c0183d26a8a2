/* inspect.c - reads the contents of a model folder, checkpoint folder, .safetensors or .bin file.
 */
#include "hilbert/inspect.h"
#include "base/alloc.h"
#include "base/json.h"
#include "format/checkpoint_manifest.h"
#include "model/arch.h"
#include "format/safetensors.h"
#include "format/torch_weights.h"

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
    int listed; /* files whose tensors are listed; of a checkpoint only the master weights */
};

/* States of a checkpoint, one file each. Some may be missing: frozen parameters have no moments,
   and some optimizers have only one. */
enum { STATES = 3 };
static const char *const states[STATES] = {"master", "moment1", "moment2"};

/* An inspection and the memory that it points to. */
struct inspected {
    hil_inspection data; /* first, so that it has the address of the struct */
    struct source source;
    hil_manifest manifest;
    hil_inspected_tensor *tensor;
    hil_inspected_state state[STATES];
    hil_inspected_file *file;
    hil_inspected_run run;
    hil_inspected_config config;
    char *options, *run_error, *config_error;
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
    snprintf(name, sizeof name, "%s.safetensors", states[0]);
    return hil_path_join(path, folder, name) == HIL_OK && hil_file_exists(path);
}

static hil_status open_checkpoint(struct source *source)
{
    char path[HIL_PATH_MAX], name[32];
    for (int i = 0; i < STATES; ++i) {
        snprintf(name, sizeof name, "%s.safetensors", states[i]);
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

/* Opens the checkpoint of `step`. */
static hil_status open_step(struct source *source, int64_t step)
{
    char path[HIL_PATH_MAX];
    HIL_TRY(hil_step_path(path, source->path, step));
    memcpy(source->path, path, sizeof path);
    return open_checkpoint(source);
}

/* Finds the newest checkpoint of a folder of checkpoints, or of a run that has not written its
   model yet; -1 if there is none. */
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

/* Opens every .safetensors file of a folder without a model's file names, such as a checkpoint. */
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

/* Whether the file's first 8 bytes can be the length of a safetensors header. */
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
    if (hil_text_ends_with(path, ".bin") || hil_text_ends_with(path, ".pt"))
        return hil_torch_weights_open(&source->file[0], path);
    hil_status status = hil_safetensors_open(&source->file[0], path);
    if (status != HIL_ERR_INPUT || hil_text_ends_with(path, ".safetensors")) return status;
    if (!hil_text_ends_with(path, ".json") && !hil_text_ends_with(path, ".txt") &&
        has_header(path, size))
        return status;
    return hil_fail(status, "%s is not a safetensors file; give one, or a model folder", path);
}

static hil_status open_source(struct source *source, const char *path)
{
    struct stat info = {0};
    if (snprintf(source->path, sizeof source->path, "%s", path) >= (int)sizeof source->path)
        return hil_fail(HIL_ERR_INPUT, "path too long: %.80s...", path);
    source->folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (source->folder) {
        if (is_checkpoint(path)) return open_checkpoint(source);
        if (!hil_safetensors_in_folder(path)) return open_all(source);
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

static hil_status list_tensors(struct inspected *x)
{
    const struct source *source = &x->source;
    size_t count = 0;
    for (int f = 0; f < source->listed; ++f) count += hil_safetensors_count(source->file[f]);
    HIL_TRY(HIL_ALLOC(count, &x->tensor));
    for (int f = 0; f < source->listed; ++f)
        for (size_t i = 0; i < hil_safetensors_count(source->file[f]); ++i) {
            const hil_entry *entry = hil_safetensors_at(source->file[f], i);
            int64_t elements = elements_of(entry);
            x->tensor[x->data.tensors++] = (hil_inspected_tensor){
                entry->name, entry->dtype, entry->ndim, entry->dim, elements, entry->bytes};
            x->data.parameters += elements;
        }
    x->data.tensor = x->tensor;
    return HIL_OK;
}

static void count_bytes(struct inspected *x)
{
    for (int f = 0; f < x->source.count; ++f) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < hil_safetensors_count(x->source.file[f]); ++i)
            bytes += hil_safetensors_at(x->source.file[f], i)->bytes;
        x->data.bytes += bytes;
        if (x->source.checkpoint) x->state[f] = (hil_inspected_state){states[f], bytes};
    }
    x->data.state = x->state;
    x->data.states = x->source.checkpoint ? (size_t)x->source.count : 0;
}

static int64_t state_int(const hil_manifest *m, const char *key, int64_t missing)
{
    const json_t *value = json_object_get(json_object_get(m->root, "state"), key);
    return json_is_integer(value) ? json_integer_value(value) : missing;
}

/* A damaged manifest gives an error line, not a failure. */
static hil_status read_run(struct inspected *x)
{
    hil_manifest *m = &x->manifest;
    if (!x->source.checkpoint) return HIL_OK;
    hil_status status = hil_manifest_open(m, x->source.path);
    if (status == HIL_ERR_INPUT) {
        HIL_TRY(hil_text_copy(hil_status_message(), &x->run_error));
        x->data.run_error = x->run_error;
        return HIL_OK;
    }
    HIL_TRY(status);
    HIL_TRY(HIL_ALLOC(m->files, &x->file));
    for (size_t i = 0; i < m->files; ++i)
        x->file[i] = (hil_inspected_file){m->file[i].name, m->file[i].size, m->file[i].pieces};
    const json_t *options = json_object_get(json_object_get(m->root, "state"), "options");
    if (options) x->options = json_dumps(options, JSON_COMPACT);
    if (options && !x->options) return hil_fail(HIL_ERR_MEMORY, "no memory for the run's options");
    x->run = (hil_inspected_run){.step = m->step,
                                 .tokens = state_int(m, "tokens", 0),
                                 .ranks = state_int(m, "ranks", 1),
                                 .bytes = m->bytes,
                                 .file = x->file,
                                 .files = m->files,
                                 .options = x->options};
    x->data.run = &x->run;
    return HIL_OK;
}

/* A config.json that hilbert cannot use gives an error line, not a failure. */
static hil_status read_config(struct inspected *x)
{
    char path[HIL_PATH_MAX];
    hil_config c;
    if (!x->source.folder) return HIL_OK;
    HIL_TRY(hil_path_join(path, x->source.path, "config.json"));
    if (!hil_file_exists(path)) return HIL_OK;
    hil_status status = hil_config_open(&c, path);
    if (status == HIL_ERR_INPUT) {
        HIL_TRY(hil_text_copy(hil_status_message(), &x->config_error));
        x->data.config_error = x->config_error;
        return HIL_OK;
    }
    HIL_TRY(status);
    x->config = (hil_inspected_config){.model_type = c.arch->name,
                                       .layers = c.layers,
                                       .hidden = c.hidden,
                                       .intermediate = c.intermediate,
                                       .heads = c.heads,
                                       .kv_heads = c.kv_heads,
                                       .head_dim = hil_config_key_dim(&c),
                                       .vocab = c.vocab,
                                       .max_positions = hil_config_longest(&c),
                                       .tied = c.tied};
    x->data.config = &x->config;
    return HIL_OK;
}

hil_status hil_inspect_open(hil_inspection **out, const char *path)
{
    struct inspected *x = NULL;
    hil_status status;
    *out = NULL;
    HIL_TRY_DONE(HIL_ALLOC(1, &x));
    HIL_TRY_DONE(open_source(&x->source, path));
    HIL_TRY_DONE(list_tensors(x));
    count_bytes(x);
    HIL_TRY_DONE(read_run(x));
    HIL_TRY_DONE(read_config(x));
    *out = &x->data;
    x = NULL;
done:
    hil_inspect_close((hil_inspection *)x);
    return status;
}

void hil_inspect_close(hil_inspection *inspection)
{
    struct inspected *x = (struct inspected *)inspection;
    if (!x) return;
    for (int i = 0; i < x->source.count; ++i) hil_safetensors_close(x->source.file[i]);
    hil_manifest_close(&x->manifest);
    hil_free(x->tensor);
    hil_free(x->file);
    hil_free(x->run_error);
    hil_free(x->config_error);
    free(x->options);
    hil_free(x);
}
