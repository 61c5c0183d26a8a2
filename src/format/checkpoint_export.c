/* checkpoint_export.c - a Hugging Face model folder from the files of a checkpoint. */
#include "format/checkpoint_export.h"

#include "base/alloc.h"
#include "model/config/config.h"
#include "format/deepspeed_checkpoint.h"
#include "format/export.h"
#include "format/sidecar_files.h"
#include "format/peft.h"
#include "format/stacked.h"
#include "format/safetensors.h"
#include "io/file.h"
#include "store/state.h"

#include <stdio.h>
#include <string.h>

/* Rows and columns transposed at once: a cache line of the target, some of the source. */
#define BAND 16
#define LINE 256

struct hil_checkpoint_model {
    char dir[HIL_PATH_MAX];
    hil_sidecar_files files;
    hil_config *config;
    hil_peft adapter; /* root is NULL: the checkpoint is one of a whole model */
    hil_text names;   /* of an adapter's tensors, each with a NUL */
    hil_manifest manifest;
    hil_safetensors *file; /* NULL: of DeepSpeed */
    hil_deepspeed_checkpoint *deepspeed;
    int64_t step;
    hil_export_tensor *tensor; /* in the order of the model; shapes as exported */
    const hil_entry **entry;
    bool *transposed; /* the exported file holds the transpose */
    size_t count;
    /* During hil_checkpoint_model_write. */
    const hil_checkpoint_watch *watch;
    float *piece; /* HIL_EXPORT_PIECE bytes of the smallest dtype, as fp32 */
};

void hil_checkpoint_model_close(hil_checkpoint_model *m)
{
    if (!m) return;
    hil_safetensors_close(m->file);
    hil_deepspeed_checkpoint_close(m->deepspeed);
    hil_manifest_close(&m->manifest);
    hil_sidecar_files_free(&m->files);
    hil_peft_close(&m->adapter);
    hil_text_free(&m->names);
    hil_free(m->tensor);
    hil_free(m->entry);
    hil_free(m->transposed);
    hil_free(m->piece);
    hil_free(m->config);
    hil_free(m);
}

/* `transposed` is a subset of `names`, in the same order. */
static hil_status read_tensors(hil_checkpoint_model *m, const json_t *names,
                               const json_t *transposed)
{
    size_t next = 0;
    for (size_t i = 0; i < m->count; ++i) {
        const char *name = json_string_value(json_array_get(names, i));
        const hil_entry *entry = name ? hil_safetensors_find(m->file, name) : NULL;
        hil_dtype dtype;
        if (!entry) return hil_fail(HIL_ERR_INPUT, "%s does not list its tensors", m->dir);
        HIL_TRY(hil_entry_dtype(entry, &dtype));
        HIL_TRY(hil_entry_shape(entry, &m->tensor[i].shape));
        m->tensor[i].name = entry->name;
        m->entry[i] = entry;
        const char *other = json_string_value(json_array_get(transposed, next));
        bool listed = other && strcmp(name, other) == 0;
        m->transposed[i] = listed || hil_stacked_transposed(m->config, name);
        hil_shape *shape = &m->tensor[i].shape;
        if (dtype != HIL_F32 || (m->transposed[i] && shape->ndim != 2))
            return hil_fail(HIL_ERR_INPUT,
                            "%s: tensor %s is not fp32, or not a matrix but transposed", m->dir,
                            name);
        if (!m->transposed[i]) continue;
        *shape = (hil_shape){2, {shape->dim[1], shape->dim[0]}};
        next += listed;
    }
    if (next != json_array_size(transposed) || m->count != hil_safetensors_count(m->file))
        return hil_fail(HIL_ERR_INPUT, "%s does not list its tensors", m->dir);
    return HIL_OK;
}

static hil_status read_adapter(hil_checkpoint_model *m)
{
    const hil_bytes *file = &m->files.file[HIL_SIDECAR_ADAPTER];
    char path[HIL_PATH_MAX];
    if (!file->data) return HIL_OK;
    HIL_TRY(hil_path_join(path, m->dir, HIL_PEFT_CONFIG));
    HIL_TRY(hil_peft_parse(&m->adapter, file->data, file->size, path));
    m->config->dtype = HIL_F32;
    return HIL_OK;
}

/* Gives the tensors of an adapter the names that PEFT's files have. */
static hil_status rename_tensors(hil_checkpoint_model *m)
{
    char name[HIL_PEFT_NAME];
    for (size_t i = 0; i < m->count; ++i) {
        hil_peft_tensor_name(&m->adapter, m->entry[i]->name, name);
        HIL_TRY(hil_text_add(&m->names, name, strlen(name) + 1));
    }
    const char *at = m->names.data;
    for (size_t i = 0; i < m->count; ++i, at += strlen(at) + 1) m->tensor[i].name = at;
    return HIL_OK;
}

/* Reads the files beside the weights; `known`: config.json is one of the checkpoint's. */
static hil_status read_files(hil_checkpoint_model *m, const char *dir, bool known)
{
    char path[HIL_PATH_MAX];
    HIL_TRY(hil_sidecar_files_read(&m->files, dir));
    const hil_bytes *file = &m->files.file[HIL_SIDECAR_CONFIG];
    HIL_TRY(hil_path_join(path, dir, hil_sidecar_file_name(HIL_SIDECAR_CONFIG)));
    if (!file->data || !known)
        return hil_fail(HIL_ERR_INPUT, "%s is missing: no model can be made of the checkpoint",
                        path);
    HIL_TRY(HIL_ALLOC(1, &m->config));
    return hil_config_parse(m->config, file->data, file->size, path);
}

static hil_status make_tensors(hil_checkpoint_model *m, size_t count)
{
    m->count = count;
    HIL_TRY(HIL_ALLOC(count, &m->tensor));
    HIL_TRY(HIL_ALLOC(count, &m->entry));
    return HIL_ALLOC(count, &m->transposed);
}

static hil_status open_model(hil_checkpoint_model *m, const char *dir)
{
    char path[HIL_PATH_MAX];
    HIL_TRY(hil_path_join(m->dir, dir, ""));
    m->dir[strlen(dir)] = 0;
    HIL_TRY(hil_manifest_open(&m->manifest, dir));
    m->step = m->manifest.step;
    HIL_TRY(hil_path_join(path, dir, hil_state_file[HIL_MASTER]));
    HIL_TRY(hil_safetensors_open(&m->file, path));
    HIL_TRY(read_files(m, dir,
                       hil_manifest_find(&m->manifest, hil_sidecar_file_name(HIL_SIDECAR_CONFIG)) !=
                           NULL));
    HIL_TRY(read_adapter(m));
    const json_t *names = json_object_get(m->manifest.root, "tensors");
    HIL_TRY(make_tensors(m, json_array_size(names)));
    HIL_TRY(read_tensors(m, names, json_object_get(m->manifest.root, "transposed")));
    return m->adapter.root ? rename_tensors(m) : HIL_OK;
}

static hil_status open_deepspeed(hil_checkpoint_model *m, const char *dir, const char *model)
{
    HIL_TRY(read_files(m, model, true));
    HIL_TRY(hil_deepspeed_checkpoint_open(&m->deepspeed, dir));
    m->step = hil_deepspeed_checkpoint_progress(m->deepspeed).steps;
    const hil_safetensors *file = hil_deepspeed_checkpoint_state(m->deepspeed, HIL_MASTER);
    HIL_TRY(make_tensors(m, hil_safetensors_count(file)));
    for (size_t i = 0; i < m->count; ++i) {
        m->entry[i] = hil_safetensors_at(file, i);
        m->tensor[i].name = m->entry[i]->name;
        HIL_TRY(hil_entry_shape(m->entry[i], &m->tensor[i].shape));
    }
    return HIL_OK;
}

/* `model` is NULL for a checkpoint of hilbert. */
static hil_status open_either(hil_checkpoint_model **out, const char *dir, const char *model)
{
    *out = NULL;
    hil_checkpoint_model *m;
    HIL_TRY(HIL_ALLOC(1, &m));
    hil_status status = model ? open_deepspeed(m, dir, model) : open_model(m, dir);
    if (status == HIL_OK)
        *out = m;
    else
        hil_checkpoint_model_close(m);
    return status;
}

hil_status hil_checkpoint_model_open(hil_checkpoint_model **out, const char *dir)
{
    return open_either(out, dir, NULL);
}

hil_status hil_checkpoint_model_open_deepspeed(hil_checkpoint_model **out, const char *dir,
                                               const char *model)
{
    return open_either(out, dir, model);
}

hil_dtype hil_checkpoint_model_dtype(const hil_checkpoint_model *m)
{
    return m->config->dtype;
}

int64_t hil_checkpoint_model_step(const hil_checkpoint_model *m)
{
    return m->step;
}

int64_t hil_checkpoint_model_tensors(const hil_checkpoint_model *m)
{
    return (int64_t)m->count;
}

/* Reads elements [first, first + count) of the transpose of a matrix (rows, cols), in which element
   (r, c) has index c * rows + r, into m->piece. */
static hil_status read_transposed(const hil_checkpoint_model *m, const hil_entry *entry,
                                  int64_t first, int64_t count)
{
    int64_t rows = entry->dim[0], cols = entry->dim[1];
    int64_t left = first / rows, right = (first + count - 1) / rows + 1;
    float line[BAND][LINE];
    for (int64_t row = 0; row < rows; row += BAND)
        for (int64_t column = left; column < right; column += LINE) {
            int64_t height = rows - row < BAND ? rows - row : BAND;
            int64_t width = right - column < LINE ? right - column : LINE;
            for (int64_t r = 0; r < height; ++r)
                HIL_TRY(hil_entry_read(entry, (size_t)((row + r) * cols + column) * 4, line[r],
                                       (size_t)width * 4));
            for (int64_t c = 0; c < width; ++c) {
                int64_t to = (column + c) * rows + row - first;
                for (int64_t r = 0; r < height; ++r)
                    if (to + r >= 0 && to + r < count) m->piece[to + r] = line[r][c];
            }
        }
    return HIL_OK;
}

static hil_status read_tensor(void *context, size_t i, size_t offset, size_t *size, void *out)
{
    hil_checkpoint_model *m = context;
    const hil_entry *entry = m->entry[i];
    hil_dtype dtype = m->tensor[i].dtype;
    size_t each = hil_dtype_size(dtype);
    int64_t first = (int64_t)(offset / each), count = (int64_t)(*size / each);
    if (m->transposed[i])
        HIL_TRY(read_transposed(m, entry, first, count));
    else
        HIL_TRY(hil_entry_read(entry, (size_t)first * 4, m->piece, (size_t)count * 4));
    uint16_t *half = out;
    if (dtype == HIL_BF16 && m->file) /* bit for bit the weights used in training */
        for (int64_t k = 0; k < count; ++k) half[k] = hil_bf16_high(m->piece[k]);
    else
        hil_dtype_from_f32(out, m->piece, dtype, count);
    return m->watch ? m->watch->read(m->watch->context, *size) : HIL_OK;
}

static hil_export as_export(hil_checkpoint_model *m, const hil_checkpoint_model_options *o)
{
    for (size_t i = 0; i < m->count; ++i) m->tensor[i].dtype = o->dtype;
    return (hil_export){.tensor = m->tensor,
                        .count = m->count,
                        .shard_bytes = o->shard_bytes,
                        .single = m->adapter.root ? HIL_PEFT_WEIGHTS : NULL,
                        .read = read_tensor,
                        .context = m};
}

hil_status hil_checkpoint_model_bytes(hil_checkpoint_model *m,
                                      const hil_checkpoint_model_options *o, uint64_t *out)
{
    hil_export export = as_export(m, o);
    return hil_export_bytes(&export, out);
}

static hil_status write_weights(hil_checkpoint_model *m, const hil_checkpoint_model_options *o,
                                const char *stage)
{
    hil_export plain = as_export(m, o);
    hil_stacked *stacked;
    const hil_peft *peft = m->adapter.root ? &m->adapter : NULL;
    HIL_TRY(hil_stacked_create(&stacked, &plain, m->config, peft));
    hil_status status = hil_export_write(hil_stacked_export(stacked), stage);
    hil_stacked_destroy(stacked);
    return status;
}

static hil_status write_into(hil_checkpoint_model *m, const hil_checkpoint_model_options *o,
                             const char *stage)
{
    HIL_TRY(write_weights(m, o, stage));
    if (m->adapter.root) {
        HIL_TRY(hil_sidecar_files_write_one(&m->files, HIL_SIDECAR_ADAPTER, stage));
    } else {
        HIL_TRY(hil_sidecar_files_write(&m->files, stage));
        HIL_TRY(hil_sidecar_files_write_config(&m->files, stage, o->dtype, HIL_QUANT_NONE));
    }
    return hil_install_finish(o->out, stage, o->replaced, o->lock);
}

hil_status hil_checkpoint_model_write(hil_checkpoint_model *m,
                                      const hil_checkpoint_model_options *o)
{
    char stage[HIL_PATH_MAX], kept[1024];
    m->watch = o->watch;
    if (!m->piece) HIL_TRY(HIL_ALLOC(HIL_EXPORT_PIECE / 2, &m->piece));
    HIL_TRY(hil_lock_check(o->lock));
    HIL_TRY(hil_install_begin(o->out, stage));
    hil_status status = write_into(m, o, stage);
    if (status == HIL_OK) return HIL_OK;
    snprintf(kept, sizeof kept, "%s", hil_status_message());
    (void)!hil_file_remove_tree(stage);
    return hil_fail(status, "%s", kept);
}
