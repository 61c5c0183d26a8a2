/* GGUF files are byte for byte those that the gguf package writes (tools/golden_gguf.py): of a
   model folder, and of a checkpoint with the same weights. What llama.cpp does not know is refused.
 */
#include "copy.h"
#include "format/same_bytes.h"
#include "job.h"

#include "hilbert/checkpoint.h"

#include <string.h>

typedef struct golden_file {
    const char *name, *dtype, *tokenizer;
} golden_file;

static const golden_file cases[] = {
    {"llama3_q8_0", "q8_0", "llama3"}, {"mistral_f16", "f16", "llama2"},
    {"qwen2_bf16", "bf16", "qwen2"},   {"qwen3_f32", "fp32", "qwen2"},
    {"gpt2_f16", "fp16", "gpt2"},
};

/* Copies a golden model with its tokenizer to the test's folder. */
static void copy_model(const job_place *place, const golden_file *c, char folder[JOB_PATH])
{
    static const char *const names[] = {"config.json", "tokenizer_config.json",
                                        "model.safetensors"};
    char from[JOB_PATH], to[JOB_PATH];
    CHECK_OK(hil_dir_create(job_path(place, folder, c->name)));
    for (int i = 0; i < 3; ++i) {
        snprintf(from, sizeof from, HIL_TESTS "/golden/gguf/%s/%s", c->name, names[i]);
        CHECK_OK(hil_path_join(to, folder, names[i]));
        CHECK_OK(copy_file(from, to));
    }
    snprintf(from, sizeof from, HIL_TESTS "/golden/tokenizers/%s/tokenizer.json", c->tokenizer);
    CHECK_OK(hil_path_join(to, folder, "tokenizer.json"));
    CHECK_OK(copy_file(from, to));
}

static void check_file(const char *path, const char *name)
{
    char golden[JOB_PATH];
    snprintf(golden, sizeof golden, HIL_TESTS "/golden/gguf/%s/model.gguf", name);
    check_same_bytes(path, golden);
}

/* The folder of a run that left the weights as they were; its last part is the model's name. */
static void train(job_place *place, const golden_file *c, const char *model, char out[JOB_PATH])
{
    char name[JOB_PATH];
    snprintf(name, sizeof name, "run/%s", c->name);
    hil_train_options options = job_options(place, "gpt2", job_path(place, out, name));
    options.model = model;
    options.steps = 1;
    options.lr = 0;
    options.save_every = 1;
    job_train(&options);
}

static void check_case(job_place *place, const golden_file *c)
{
    char model[JOB_PATH], run[JOB_PATH], path[JOB_PATH];
    hil_export_options options;
    hil_export_result result;
    copy_model(place, c, model);
    hil_export_defaults(&options);
    options.checkpoint = model;
    options.out = job_path(place, path, "out.gguf");
    options.dtype = c->dtype;
    options.gguf = true;
    options.overwrite = true;
    CHECK_OK(hil_checkpoint_export(&options, NULL, &result));
    CHECK_INT(result.step, -1);
    check_file(path, c->name);
    train(place, c, model, run);
    options.checkpoint = run;
    CHECK_OK(hil_checkpoint_export(&options, NULL, &result));
    CHECK_INT(result.step, 1);
    check_file(path, c->name);
    options.overwrite = false;
    CHECK_FAILS(hil_checkpoint_export(&options, NULL, &result), HIL_ERR_USAGE, "--overwrite");
}

static void write_config(const char *folder, const char *text)
{
    char path[JOB_PATH];
    CHECK_OK(hil_path_join(path, folder, "config.json"));
    CHECK_OK(hil_file_write(path, text, strlen(text)));
}

static void check_refusals(job_place *place)
{
    char path[JOB_PATH], model[JOB_PATH];
    hil_export_options options;
    hil_export_result result;
    hil_export_defaults(&options);
    options.gguf = true;
    options.overwrite = true;
    options.out = job_path(place, path, "refused.gguf");
    options.checkpoint = job_path(place, model, cases[4].name);
#define GPT2                                                                                       \
    "{\"model_type\": \"gpt2\", \"n_positions\": 32, \"n_embd\": 32, \"n_layer\": 2, \"n_head\": " \
    "4, "
    write_config(model, GPT2 "\"vocab_size\": 421, \"activation_function\": \"gelu\"}");
    CHECK_FAILS(hil_checkpoint_export(&options, NULL, &result), HIL_ERR_INPUT, "gelu_new");
    write_config(model, GPT2 "\"vocab_size\": 300}");
    CHECK_FAILS(hil_checkpoint_export(&options, NULL, &result), HIL_ERR_INPUT, "421 tokens");
    write_config(model, GPT2 "\"vocab_size\": 421, \"tie_word_embeddings\": false}");
    CHECK_FAILS(hil_checkpoint_export(&options, NULL, &result), HIL_ERR_INPUT, "lm_head.weight");
    write_config(model, GPT2 "\"vocab_size\": 421}");
    CHECK_OK(copy_file(HIL_TESTS "/golden/tokenizers/plain/tokenizer.json",
                       job_path(place, path, "gpt2_f16/tokenizer.json")));
    options.out = job_path(place, path, "refused.gguf");
    CHECK_FAILS(hil_checkpoint_export(&options, NULL, &result), HIL_ERR_INPUT, "into words");
    options.dtype = "int8";
    CHECK_FAILS(hil_checkpoint_export(&options, NULL, &result), HIL_ERR_USAGE, "q8_0");
    CHECK(!hil_file_exists(path));
    options.checkpoint = place->folder;
    CHECK_FAILS(hil_checkpoint_export(&options, NULL, &result), HIL_ERR_INPUT, "neither");
}

int main(void)
{
    job_place place;
    job_begin(&place);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) check_case(&place, &cases[i]);
    check_refusals(&place);
    job_end(&place);
    return 0;
}
