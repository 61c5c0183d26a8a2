/* model_source.c - opens model folders. */
#include "run/model_source.h"

#include "base/note.h"
#include "base/hash.h"
#include "base/json.h"
#include "format/stacked.h"
#include "format/weights.h"
#include "io/file.h"
#include "store/store.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_SEQ 1024
#define MICRO_TOKENS_LEAST 64
#define MICRO_TOKENS_MOST 4096
#define MICRO_TOKENS_GPU 8192 /* fewer leave a GPU idle between kernels */

/* The folder of a file, or the path itself without slashes at its end. */
static hil_status set_folder(hil_source *s, const char *path)
{
    if (snprintf(s->folder, sizeof s->folder, "%s", path) >= (int)sizeof s->folder)
        return hil_fail(HIL_ERR_INPUT, "path too long: %.80s...", path);
    char *slash = s->bare ? strrchr(s->folder, '/') : NULL;
    if (slash && slash > s->folder) *slash = 0;
    if (s->bare && !slash) snprintf(s->folder, sizeof s->folder, ".");
    for (size_t n = strlen(s->folder); n > 1 && s->folder[n - 1] == '/'; --n) s->folder[n - 1] = 0;
    return HIL_OK;
}

/* Keys of config.json that only tools use, and those that say how text begins and ends. */
static const char *const notes[] = {"dtype",         "torch_dtype",   "transformers_version",
                                    "_name_or_path", "architectures", "bos_token_id",
                                    "eos_token_id",  "pad_token_id",  "use_cache"};
enum { OF_TOOLS = 5, NOTES = sizeof notes / sizeof *notes };

/* Hashes config.json so that spaces, key order and the first `without` of the notes do not matter.
 */
static hil_status key_config(const hil_source *s, size_t without, uint64_t *key)
{
    const hil_bytes *file = &s->files.file[HIL_SIDECAR_CONFIG];
    json_t *config;
    HIL_TRY(hil_json_parse(file->data, file->size, s->config_path, &config));
    for (size_t i = 0; i < without; ++i) json_object_del(config, notes[i]);
    char *text = json_dumps(config, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(config);
    if (!text) return hil_fail(HIL_ERR_MEMORY, "out of memory: %s", s->config_path);
    *key = hil_hash(0, text, strlen(text));
    free(text);
    return HIL_OK;
}

/* "gpt2" or "Qwen/Qwen3-0.6B": a model on the Hub, not a file of this machine. */
static bool is_hub_name(const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789._-/";
    const char *slash = strchr(path, '/');
    if (!*path || strspn(path, plain) != strlen(path) || strchr("./-", path[0])) return false;
    if (slash && (!slash[1] || slash != strrchr(path, '/'))) return false;
    return !hil_text_ends_with(path, ".json") && !hil_text_ends_with(path, ".safetensors");
}

static hil_status no_model(const char *path)
{
    const char *name = strrchr(path, '/');
    if (!is_hub_name(path))
        return hil_fail(HIL_ERR_INPUT, "%s: no such model folder or config.json", path);
    name = name ? name + 1 : path;
    return hil_fail(HIL_ERR_INPUT,
                    "%s: no such model folder or config.json; to download it from the Hugging Face "
                    "Hub (pip install huggingface_hub): hf download %s%s --local-dir %s, and give "
                    "that folder, %s",
                    path, name == path ? "OWNER/" : "", path, name, name);
}

/* Fails if `path` is a weights file instead of the model folder. */
static hil_status refuse_weights(const char *path)
{
    static const char *const names[] = {".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (hil_text_ends_with(path, names[i]))
            return hil_fail(HIL_ERR_USAGE,
                            "%s is a file of weights: give the folder that holds "
                            "config.json, tokenizer.json and *.safetensors (docs/models.md)",
                            path);
    return HIL_OK;
}

/* Fails if the folder is that of an adapter, without a model. */
static hil_status refuse_adapter(const char *folder)
{
    char adapter[HIL_PATH_MAX], config[HIL_PATH_MAX];
    HIL_TRY(hil_path_join(adapter, folder, HIL_PEFT_CONFIG));
    HIL_TRY(hil_path_join(config, folder, hil_sidecar_file_name(HIL_SIDECAR_CONFIG)));
    if (hil_file_exists(config) || !hil_file_exists(adapter)) return HIL_OK;
    return hil_fail(
        HIL_ERR_USAGE,
        "%s is the folder of an adapter: give the model it was trained on with --model, "
        "and --adapter %s",
        folder, folder);
}

hil_status hil_source_open(hil_source *s, const char *path)
{
    *s = (hil_source){.eot = -1};
    struct stat info;
    if (stat(path, &info) != 0) return no_model(path);
    s->bare = !S_ISDIR(info.st_mode);
    HIL_TRY(set_folder(s, path));
    HIL_TRY(s->bare ? refuse_weights(path) : refuse_adapter(path));
    if (s->bare)
        snprintf(s->config_path, sizeof s->config_path, "%s", path);
    else
        HIL_TRY(hil_path_join(s->config_path, s->folder, "config.json"));
    HIL_TRY(hil_config_read(&s->config, path, &s->files.file[HIL_SIDECAR_CONFIG],
                            &s->files.file[HIL_SIDECAR_GENERATION]));
    HIL_TRY(key_config(s, OF_TOOLS, &s->config_key));
    return hil_source_open_tokenizer(s);
}

bool hil_source_has_weights(const hil_source *s)
{
    return hil_safetensors_in_folder(s->folder);
}

hil_status hil_source_need_weights(const hil_source *s, const char *command)
{
    if (!s->bare) return HIL_OK;
    if (hil_source_has_weights(s))
        return hil_fail(HIL_ERR_USAGE,
                        "%s is a config alone, without weights: %s needs the folder: --model %s",
                        s->config_path, command, s->folder);
    return hil_fail(HIL_ERR_USAGE,
                    "%s is a config alone, without weights: %s needs a model folder, such as the "
                    "--out of train",
                    s->config_path, command);
}

void hil_source_close(hil_source *s)
{
    hil_tokenizer_close(s->tokenizer);
    s->tokenizer = NULL;
    hil_sidecar_files_free(&s->files);
    hil_peft_close(&s->adapter);
}

hil_status hil_source_keep(hil_source *s)
{
    HIL_TRY(hil_sidecar_files_read(&s->files, s->folder));
    return hil_source_keep_adapter(s);
}

static hil_status load_weights(hil_source *s, hil_trainer *t)
{
    hil_safetensors *file;
    HIL_TRY(hil_stacked_open(&file, s->folder, &s->config));
    hil_status status = hil_weights_load(t->model->store, t->pool, file);
    if (status == HIL_OK && (s->adapter.root || s->loss))
        status = hil_weights_digest(file, &s->base_key);
    hil_safetensors_close(file);
    return status;
}

hil_status hil_source_fill_base(hil_source *s, hil_trainer *t, uint64_t seed)
{
    return s->bare ? hil_store_initialise(t->model->store, seed) : load_weights(s, t);
}

hil_status hil_source_fill(hil_source *s, hil_trainer *t, uint64_t seed)
{
    HIL_TRY(hil_source_fill_base(s, t, seed));
    return hil_source_fill_adapter(s, t, seed);
}

/* Opens the model of --reference for `s`. */
static hil_status open_reference(const hil_source *s, const char *folder, hil_source *other)
{
    uint64_t mine, its;
    HIL_TRY(hil_source_open(other, folder));
    if (other->bare)
        return hil_fail(HIL_ERR_USAGE, "--reference %s: give the folder of a model", folder);
    HIL_TRY(key_config(s, NOTES, &mine));
    HIL_TRY(key_config(other, NOTES, &its));
    if (mine == its) return HIL_OK;
    return hil_fail(
        HIL_ERR_INPUT,
        "--reference %s: its config.json differs from %s; the reference must be a model "
        "of the same shape",
        folder, s->config_path);
}

hil_status hil_source_check_reference(const hil_source *s, const char *folder)
{
    hil_source other = {0};
    hil_status status = open_reference(s, folder, &other);
    hil_source_close(&other);
    return status;
}

hil_status hil_source_reference(const hil_source *s, const char *folder, hil_trainer *t,
                                uint64_t *key)
{
    hil_source other = {0};
    hil_safetensors *file = NULL;
    hil_status status;
    HIL_TRY_DONE(open_reference(s, folder, &other));
    HIL_TRY_DONE(hil_stacked_open(&file, folder, &other.config));
    HIL_TRY_DONE(hil_weights_digest(file, key));
    if (t) status = hil_weights_load(t->model->store, t->pool, file);
done:
    hil_safetensors_close(file);
    hil_source_close(&other);
    return status;
}

void hil_source_note_text(const hil_source *s, const hil_observer *observer)
{
    if (!s->config.whole[0]) return;
    hil_note(observer, "%s is a %s: only its text model (%s) is used, without %s", s->folder,
             s->config.whole, s->config.arch->name,
             s->config.left_out[0] ? s->config.left_out : "the rest");
}

hil_status hil_source_load(hil_source *s, const hil_trainer_options *options,
                           const hil_observer *observer, hil_model **model, hil_trainer **trainer)
{
    *trainer = NULL;
    hil_status status;
    hil_source_note_text(s, observer);
    HIL_TRY_DONE(hil_source_build(s, model));
    HIL_TRY_DONE(hil_trainer_open(trainer, *model, options, observer));
    hil_comm_set_activity(options->comm, s->bare ? "making the weights" : "reading the weights");
    HIL_TRY_DONE(hil_ranks_agree(options->comm, hil_source_fill(s, *trainer, options->seed)));
    return HIL_OK;
done:
    hil_trainer_destroy(*trainer);
    hil_model_destroy(*model);
    *trainer = NULL;
    *model = NULL;
    return status;
}

hil_status hil_source_seq(const hil_source *s, int64_t asked, int64_t *out)
{
    int64_t most = hil_config_longest(&s->config);
    const char *why = hil_config_longest_why(&s->config);
    if (asked == 0) asked = most < DEFAULT_SEQ ? most : DEFAULT_SEQ;
    if (asked < 2) return hil_fail(HIL_ERR_USAGE, "--seq %lld: at least 2", (long long)asked);
    if (asked > most)
        return hil_fail(HIL_ERR_USAGE, "--seq %lld is longer than the model allows (%s is %lld)%s",
                        (long long)asked, *why ? "index_topk" : "max_position_embeddings",
                        (long long)most, why);
    *out = asked;
    return HIL_OK;
}

int64_t hil_source_micro_batch(const hil_source *source, int64_t seq, int64_t batch, bool gpu)
{
    int64_t tokens = source->config.hidden;
    if (tokens < MICRO_TOKENS_LEAST) tokens = MICRO_TOKENS_LEAST;
    if (tokens > MICRO_TOKENS_MOST) tokens = MICRO_TOKENS_MOST;
    if (gpu) tokens = MICRO_TOKENS_GPU;
    int64_t sequences = tokens / seq > 1 ? tokens / seq : 1;
    return sequences < batch ? sequences : batch;
}

static hil_status report_tokens(void *context, uint64_t done, uint64_t total)
{
    const hil_source_files *files = context;
    const hil_observer *o = files->observer;
    if (o && o->progress) o->progress(o->context, "reading data", done, total);
    if (files->stop && *files->stop) return hil_fail(HIL_ERR_INTERRUPTED, "stopped before step 1");
    return HIL_OK;
}

static void note_files(void *context, const char *line)
{
    const hil_source_files *files = context;
    hil_note(files->observer, "%s", line);
}

/* Pairs of answers are never mixed with other records. */
static hil_status check_pairs(const hil_source *s, hil_dataset_options *o)
{
    if (!s->loss && o->format == HIL_FORMAT_PREFERENCE)
        return hil_fail(HIL_ERR_USAGE,
                        "--format preference is for losses that compare answers, as --loss dpo");
    if (!s->loss) return HIL_OK;
    bool single = strcmp(s->loss, "kto") == 0;
    if (o->format != HIL_FORMAT_AUTO && o->format != HIL_FORMAT_PREFERENCE)
        return hil_fail(HIL_ERR_USAGE, "--loss %s learns from %s: leave --format out", s->loss,
                        single ? "answers with labels, and from pairs of answers"
                               : "pairs of answers");
    if (o->answers == HIL_ANSWERS_ALL)
        return hil_fail(HIL_ERR_USAGE, "--loss %s compares answers alone, not --train-on all",
                        s->loss);
    o->format = single ? HIL_FORMAT_JUDGED : HIL_FORMAT_PREFERENCE;
    o->answers = HIL_ANSWERS_LAST;
    return HIL_OK;
}

hil_status hil_source_data(const hil_source *s, const hil_source_files *files, hil_dataset **out)
{
    const hil_bytes *tokenizer = &s->files.file[HIL_SIDECAR_TOKENIZER];
    hil_dataset_options options = {
        .tokenizer = s->tokenizer,
        .tokenizer_key = hil_hash(0, tokenizer->data, tokenizer->size),
        .vocab = s->config.vocab,
        .seq = files->seq,
        .eot = s->eot,
        .bos = s->config.bos,
        .stops = s->tokenizer ? s->config.eos_all : NULL,
        .chat = s->folder,
        .cache_dir = files->cache,
        .prepared = files->prepared,
        .prepared_path = files->prepared_path,
        .nameless = files->nameless,
        .progress = report_tokens,
        .note = note_files,
        .context = (void *)(uintptr_t)files,
    };
    HIL_TRY(hil_record_format_read(files->format, &options.format));
    HIL_TRY(hil_answers_read(files->train_on, &options.answers));
    HIL_TRY(check_pairs(s, &options));
    return hil_dataset_open(out, files->path, files->count, &options);
}

hil_examples hil_source_examples(const hil_dataset *data)
{
    const hil_packing *p = hil_dataset_packing(data);
    return (hil_examples){p->examples, p->cut, p->cut_tokens, p->left_out};
}

void hil_source_note_examples(const hil_dataset *data, const char *what,
                              const hil_observer *observer)
{
    const hil_packing *p = hil_dataset_packing(data);
    if (!p->examples) return;
    double all = (double)p->windows * (double)p->seq;
    hil_note(observer, "%s: %lld example%s in %lld window%s, %.3g%% learned, %.2g%% padding", what,
             (long long)p->examples, p->examples == 1 ? "" : "s", (long long)p->windows,
             p->windows == 1 ? "" : "s", 100 * (double)p->learned / all,
             100 * (double)p->padding / all);
    if (p->cut)
        hil_note(
            observer,
            "%s: %lld of %lld examples are longer than a window of %lld tokens: their ends are "
            "cut off, %lld tokens lost (a longer --seq keeps them)",
            what, (long long)p->cut, (long long)p->examples, (long long)p->seq,
            (long long)p->cut_tokens);
    if (p->left_out)
        hil_note(
            observer,
            "%s: %lld of %lld examples are left out, with nothing to learn: the prompt fills a "
            "window of %lld tokens, or there is no completion",
            what, (long long)p->left_out, (long long)p->examples, (long long)p->seq);
}
