/* job.h - runs of the program's jobs on the golden models, in a temporary folder. */
#ifndef HIL_TESTS_JOB_H
#define HIL_TESTS_JOB_H

#include "base/json.h"
#include "hilbert/run.h"
#include "io/file.h"
#include "../model/model_golden.h"
#include "run/model_source.h"

#include <unistd.h>

#define JOB_PATH HIL_PATH_MAX

/* Paths of one test; `data` is what options.data points to. */
typedef struct job_place {
    char folder[64];
    char model[JOB_PATH], tokens[JOB_PATH], weighted[2][JOB_PATH + 8];
    const char *data[2];
} job_place;

static char job_folder[64]; /* removed however the test ends */

static inline void job_clean(void)
{
    if (job_folder[0]) (void)!hil_file_remove_tree(job_folder);
}

static inline void job_begin(job_place *place)
{
    memset(place, 0, sizeof *place);
    snprintf(place->folder, sizeof place->folder, "/tmp/hilbert-job-XXXXXX");
    CHECK(mkdtemp(place->folder) != NULL);
    memcpy(job_folder, place->folder, sizeof place->folder);
    CHECK(atexit(job_clean) == 0);
}

static inline void job_end(job_place *place)
{
    CHECK_OK(hil_file_remove_tree(place->folder));
    job_folder[0] = 0;
}

/* A path in the test's folder. */
static inline const char *job_path(const job_place *place, char out[JOB_PATH], const char *name)
{
    CHECK_OK(hil_path_join(out, place->folder, name));
    return out;
}

/* Options that train a golden model on its own stream as PyTorch did; `out` is borrowed. */
static inline hil_train_options job_options(job_place *place, const char *model, const char *out)
{
    hil_train_options options;
    CHECK_OK(hil_path_join(place->model, HIL_TESTS "/golden/models", model));
    CHECK_OK(hil_path_join(place->tokens, place->model, "tokens.npy"));
    place->data[0] = place->tokens;
    hil_train_defaults(&options);
    options.model = place->model;
    options.data = place->data;
    options.data_count = 1;
    options.out = out;
    options.seq = GOLDEN_SEQ;
    options.batch = GOLDEN_BATCH;
    options.steps = GOLDEN_STEPS;
    options.lr = 1e-3;
    options.schedule = HIL_SCHEDULE_CONSTANT;
    options.dtype = "fp32";
    options.shuffle = false;
    options.threads = 1;
    return options;
}

/* The place's model with a chat template beside it. */
static inline void job_chat_model(job_place *place)
{
    static const char *const names[] = {"config.json", "model.safetensors"};
    static const char text[] = "{% for m in messages %}{{ m.role[0] }}{{ m.content }};{% endfor %}"
                               "{% if add_generation_prompt %}a{% endif %}";
    char folder[JOB_PATH], from[JOB_PATH], to[JOB_PATH];
    job_path(place, folder, strrchr(place->model, '/') + 1);
    CHECK_OK(hil_dir_create(folder));
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        CHECK_OK(hil_path_join(from, place->model, names[i]));
        CHECK_OK(hil_path_join(to, folder, names[i]));
        CHECK(hil_file_exists(to) || symlink(from, to) == 0);
    }
    CHECK_OK(hil_path_join(to, folder, "chat_template.jinja"));
    if (!hil_file_exists(to)) CHECK_OK(hil_file_write(to, text, sizeof text - 1));
    memcpy(place->model, folder, sizeof folder);
}

/* Trains on prompts with completions and on conversations instead, in shares: some share a window,
   some are longer than one. */
static inline void job_examples(job_place *place, hil_train_options *options)
{
    char path[JOB_PATH];
    FILE *file = fopen(job_path(place, path, "examples.jsonl"), "w");
    CHECK(file != NULL);
    for (int i = 0; i < 60; ++i)
        fprintf(file, "{\"prompt\": \"%0*d\", \"completion\": \"%0*d\"}\n", 1 + i * 7 % 13, i,
                i * 5 % 23, i * i);
    CHECK(fclose(file) == 0);
    snprintf(place->weighted[0], sizeof place->weighted[0], "%s:0.6", path);
    file = fopen(job_path(place, path, "chat.jsonl"), "w");
    CHECK(file != NULL);
    for (int i = 0; i < 20; ++i)
        fprintf(file,
                "{\"messages\": [{\"role\": \"user\", \"content\": \"%d\"}, {\"role\": "
                "\"assistant\", \"content\": \"%0*d\"}]}\n",
                i, i * 5 % 13, i * i);
    CHECK(fclose(file) == 0);
    snprintf(place->weighted[1], sizeof place->weighted[1], "%s:0.4", path);
    job_chat_model(place);
    place->data[0] = place->weighted[0];
    place->data[1] = place->weighted[1];
    options->data_count = 2;
    options->tokenizer = "bytes";
}

/* Trains on pairs of answers instead, with kto also on single ones, of which several share a
   window, and some are cut off: an adapter, or with losses that need no reference the whole model.
 */
static inline void job_pairs(job_place *place, hil_train_options *options, const char *loss)
{
    FILE *file = fopen(
        job_path(place, place->tokens, strcmp(loss, "kto") ? "pairs.jsonl" : "judged.jsonl"), "w");
    CHECK(file != NULL);
    bool single = strcmp(loss, "kto") == 0;
    for (int i = 0; i < 60; ++i)
        if (single && i % 3)
            fprintf(file, "{\"prompt\": \"%0*d\", \"completion\": \"%0*d\", \"label\": %s}\n",
                    1 + i * 7 % 5, i, i * 5 % 9, i * i, i % 5 < 3 ? "true" : "false");
        else
            fprintf(file, "{\"prompt\": \"%0*d\", \"chosen\": \"%0*d\", \"rejected\": \"%0*d\"}\n",
                    1 + i * 7 % 5, i, i * 5 % 9, i * i, i * 3 % 17, i * i + 1);
    CHECK(fclose(file) == 0);
    options->tokenizer = "bytes";
    options->loss = loss;
    if (strcmp(loss, "cpo") == 0 || strcmp(loss, "simpo") == 0 || strcmp(loss, "orpo") == 0) return;
    options->adapter.source = "lora";
    options->adapter.rank = 3;
    options->adapter.dropout = 0.1;
    options->lr = 1e-2;
}

/* Trains all parameters, with a reference that is computed before. */
static inline void job_whole(hil_train_options *options)
{
    options->adapter = (hil_adapter_choice){.dropout = -1};
    options->lr = 1e-3;
}

/* An evaluation of the place's model on its data. */
static inline hil_eval_options job_eval_options(job_place *place)
{
    hil_eval_options options;
    hil_eval_defaults(&options);
    options.model = place->model;
    options.data = place->data;
    options.data_count = 1;
    options.seq = GOLDEN_SEQ;
    options.threads = 1;
    return options;
}

static inline hil_train_result job_train(const hil_train_options *options)
{
    hil_train_result result;
    CHECK_OK(hil_train(options, NULL, &result));
    return result;
}

/* The values of `key` in OUT/metrics.jsonl, line after line; returns how many lines have it. */
static inline int job_metrics(const char *out, const char *key, double *values, int room)
{
    char path[JOB_PATH];
    hil_bytes map;
    int count = 0;
    CHECK_OK(hil_path_join(path, out, "metrics.jsonl"));
    CHECK_OK(hil_bytes_read(&map, path));
    for (size_t at = 0; at < map.size;) {
        const char *end = memchr(map.data + at, '\n', map.size - at);
        CHECK(end != NULL);
        json_t *line;
        CHECK_OK(hil_json_parse(map.data + at, (size_t)(end - map.data) - at, path, &line));
        const json_t *value = json_object_get(line, key);
        if (value) {
            CHECK(count < room);
            values[count++] = json_number_value(value);
        }
        json_decref(line);
        at = (size_t)(end - map.data) + 1;
    }
    hil_bytes_free(&map);
    return count;
}

static inline bool job_same_file(const char *a, const char *b)
{
    hil_bytes x, y;
    CHECK_OK(hil_bytes_read(&x, a));
    CHECK_OK(hil_bytes_read(&y, b));
    bool same = x.size == y.size && memcmp(x.data, y.data, x.size) == 0;
    hil_bytes_free(&x);
    hil_bytes_free(&y);
    return same;
}

/* Two runs gave the same weights, or adapters, and the same losses and norms, bit for bit. */
static inline bool job_same(const char *a, const char *b)
{
    static const char *const keys[] = {"step", "loss", "grad_norm", "lr", "tokens", "eval_loss"};
    char x[JOB_PATH], y[JOB_PATH];
    CHECK_OK(hil_path_join(x, a, "adapter_model.safetensors"));
    const char *name = hil_file_exists(x) ? "adapter_model.safetensors" : "model.safetensors";
    CHECK_OK(hil_path_join(x, a, name));
    CHECK_OK(hil_path_join(y, b, name));
    bool same = job_same_file(x, y);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i) {
        double of_a[256], of_b[256];
        int count = job_metrics(a, keys[i], of_a, 256);
        same = same && count == job_metrics(b, keys[i], of_b, 256) &&
               memcmp(of_a, of_b, (size_t)count * sizeof *of_a) == 0;
    }
    return same;
}

/* Logits of a folder's model, compared with a golden file's tensor `key`. */
static inline double job_logits_error(const char *folder, const char *golden, const char *key)
{
    hil_source source;
    hil_model *model;
    hil_trainer *trainer;
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.training = false;
    options.threads = 1;
    CHECK_OK(hil_source_open(&source, folder));
    CHECK_OK(hil_source_load(&source, &options, NULL, &model, &trainer));
    hil_safetensors *file = golden_open(golden);
    int64_t count, tokens_count;
    float *expected = golden_floats(file, key, &count), *logits;
    int32_t *tokens = golden_ints(file, "tokens", &tokens_count);
    int64_t sequences = count / hil_engine_vocab(trainer->engine) / GOLDEN_SEQ;
    hil_batch batch = {.sequences = sequences, .length = GOLDEN_SEQ, .token = tokens};
    CHECK_OK(HIL_ALLOC(count, &logits));
    CHECK_OK(hil_trainer_logits(trainer, &batch, logits));
    double error = golden_error(logits, expected, count);
    hil_free(logits);
    hil_free(expected);
    hil_free(tokens);
    hil_safetensors_close(file);
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
    hil_source_close(&source);
    return error;
}

#endif
