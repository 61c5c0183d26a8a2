/* export_gguf.c - a GGUF file from a checkpoint, or from a model folder. */
#include "run/checkpoints.h"

#include "base/alloc.h"
#include "base/note.h"
#include "format/checkpoint_manifest.h"
#include "format/gguf_model.h"
#include "format/sidecar_files.h"
#include "io/file.h"
#include "store/state.h"

#include <stdio.h>
#include <string.h>

typedef struct job {
    const hil_export_options *options;
    hil_export_result *result;
    hil_checkpoints_watch watch;
    char dir[HIL_PATH_MAX]; /* of the checkpoint, or the model folder */
    char name[HIL_PATH_MAX];
    hil_sidecar_files files;
    hil_config config;
    hil_gguf_model model;
    hil_safetensors *weights;
    hil_tokenizer *tokenizer;
} job;

static bool holds(const char *folder, const char *name)
{
    char path[HIL_PATH_MAX];
    return hil_path_join(path, folder, name) == HIL_OK && hil_file_exists(path);
}

/* A folder with checkpoints is one of a run, else it is a model's. */
static hil_status find_source(job *j)
{
    const char *path = j->options->checkpoint;
    char folder[HIL_PATH_MAX];
    hil_manifest manifest;
    bool one;
    if (holds(path, "adapter_config.json"))
        return hil_fail(HIL_ERR_USAGE,
                        "%s is an adapter: make a model of it first (hilbert merge MODEL %s OUT), "
                        "then export that",
                        path, path);
    j->model.masters = hil_checkpoints_at(path, folder, &one) == HIL_OK;
    if (!j->model.masters) {
        if (!holds(path, "config.json"))
            return hil_fail(HIL_ERR_INPUT, "%s holds neither a checkpoint nor a model", path);
        snprintf(j->dir, sizeof j->dir, "%s", path);
        j->result->step = -1;
        return hil_safetensors_open_folder(&j->weights, j->dir);
    }
    HIL_TRY(hil_checkpoints_find(path, &j->watch, j->dir));
    HIL_TRY(hil_manifest_open(&manifest, j->dir));
    j->result->step = manifest.step;
    hil_manifest_close(&manifest);
    HIL_TRY(hil_path_join(folder, j->dir, hil_state_file[HIL_MASTER]));
    return hil_safetensors_open(&j->weights, folder);
}

static hil_status read_files(job *j)
{
    HIL_TRY(hil_sidecar_files_read(&j->files, j->dir));
    const hil_bytes *file = j->files.file;
    if (!file[HIL_SIDECAR_CONFIG].data)
        return hil_fail(HIL_ERR_INPUT, "%s has no config.json: no model can be made of it", j->dir);
    HIL_TRY(hil_config_parse(&j->config, file[HIL_SIDECAR_CONFIG].data,
                             file[HIL_SIDECAR_CONFIG].size, j->dir));
    if (j->config.packing.method)
        return hil_fail(HIL_ERR_INPUT,
                        "%s has weights of GPTQ or AWQ, which no GGUF file is made of: take the "
                        "model that they were made of",
                        j->dir);
    j->model.tokenizer_config = &file[HIL_SIDECAR_TOKENIZER_CONFIG];
    j->model.chat_template = &file[HIL_SIDECAR_CHAT_TEMPLATE];
    file += HIL_SIDECAR_TOKENIZER;
    return file->data ? hil_tokenizer_parse(&j->tokenizer, file->data, file->size, j->dir) : HIL_OK;
}

static hil_status choose_type(job *j)
{
    static const struct {
        const char *word;
        hil_gguf_type type;
    } words[] = {{"fp32", HIL_GGUF_F32},
                 {"fp16", HIL_GGUF_F16},
                 {"f16", HIL_GGUF_F16},
                 {"bf16", HIL_GGUF_BF16},
                 {"q8_0", HIL_GGUF_Q8_0}};
    const char *word = j->options->dtype;
    if (!word) word = hil_dtype_name(j->config.dtype);
    for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
        if (strcmp(word, words[i].word) == 0) {
            j->model.type = words[i].type;
            j->result->dtype = hil_gguf_type_name(words[i].type);
            return HIL_OK;
        }
    return hil_fail(HIL_ERR_USAGE, "--dtype %s: --gguf takes fp32, fp16 (or f16), bf16 or q8_0",
                    word);
}

static hil_status begin(void *context, uint64_t total, size_t tensors)
{
    job *j = context;
    j->result->bytes = total;
    j->result->tensors = (int64_t)tensors;
    j->watch.what = "writing the file";
    j->watch.done = 0;
    j->watch.total = total;
    return hil_checkpoints_check_room(j->options->out, total);
}

static hil_status wrote(void *context, uint64_t bytes)
{
    job *j = context;
    return hil_checkpoints_watched(&j->watch, bytes);
}

static void note_differences(const job *j)
{
    const hil_observer *observer = j->watch.observer;
    if (!j->tokenizer)
        hil_note(observer, "%s has no tokenizer.json: the file holds no vocabulary", j->dir);
    for (int64_t n = 0; n < j->config.layers; ++n) {
        int64_t window = hil_config_window(&j->config, n);
        if (!window || window >= j->config.max_positions) continue;
        hil_note(observer,
                 "llama.cpp has no sliding attention for this architecture: beyond %lld tokens its "
                 "results differ",
                 (long long)window);
        return;
    }
}

/* The last part of the path that was given. */
static void set_name(job *j)
{
    snprintf(j->name, sizeof j->name, "%s", j->options->checkpoint);
    for (size_t n = strlen(j->name); n > 1 && j->name[n - 1] == '/'; --n) j->name[n - 1] = 0;
    const char *slash = strrchr(j->name, '/');
    j->model.name = slash && slash[1] ? slash + 1 : j->name;
}

static hil_status check_vocab(const job *j)
{
    if (!j->tokenizer || hil_tokenizer_vocab(j->tokenizer) <= j->config.vocab) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT,
                    "%s: tokenizer.json has %lld tokens, but the model's vocabulary (config.json) "
                    "has %lld",
                    j->dir, (long long)hil_tokenizer_vocab(j->tokenizer),
                    (long long)j->config.vocab);
}

static hil_status run_job(job *j)
{
    const char *out = j->options->out;
    if (!j->options->overwrite && hil_file_exists(out))
        return hil_fail(HIL_ERR_USAGE, "%s exists: choose another name or use --overwrite", out);
    HIL_TRY(find_source(j));
    HIL_TRY(read_files(j));
    HIL_TRY(check_vocab(j));
    HIL_TRY(choose_type(j));
    note_differences(j);
    set_name(j);
    j->model.config = &j->config;
    j->model.weights = j->weights;
    j->model.tokenizer = j->tokenizer;
    return hil_gguf_model_write(&j->model, out, &(hil_gguf_watch){wrote, begin, j});
}

hil_status hil_checkpoints_export_gguf(const hil_export_options *o, const hil_observer *observer,
                                       hil_export_result *result)
{
    job *j;
    *result = (hil_export_result){0};
    HIL_TRY(HIL_ALLOC(1, &j));
    j->options = o;
    j->result = result;
    j->watch = (hil_checkpoints_watch){observer, o->stop, "checking the checkpoint", 0, 0};
    hil_status status = run_job(j);
    hil_tokenizer_close(j->tokenizer);
    hil_safetensors_close(j->weights);
    hil_sidecar_files_free(&j->files);
    hil_free(j);
    return status;
}
