/* Of a model with images the text model alone is used, and is what a run saves: the logits are
   those that transformers gives for text. */
#include "job.h"

#include "base/json.h"
#include "hilbert/plan.h"

/* Whether the text contains the words. */
static void check_words(const char *folder, const char *file, const char *words)
{
    char path[JOB_PATH];
    hil_bytes bytes;
    hil_text text = {0};
    CHECK_OK(hil_path_join(path, folder, file));
    CHECK_OK(hil_bytes_read(&bytes, path));
    CHECK_OK(hil_text_add(&text, bytes.data, bytes.size));
    if (!strstr(text.data, words)) check_die(path, 0, words);
    hil_text_free(&text);
    hil_bytes_free(&bytes);
}

static void keep_note(void *context, const char *note)
{
    char *kept = context;
    if (strstr(note, "text model")) snprintf(kept, 400, "%s", note);
}

/* The note of a run names what it leaves out. */
static void check_note(const char *folder, const char *words)
{
    char kept[400] = "";
    hil_observer observer = {.context = kept, .note = keep_note};
    hil_source source;
    hil_model *model;
    hil_trainer *trainer;
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.training = false;
    CHECK_OK(hil_source_open(&source, folder));
    CHECK_OK(hil_source_load(&source, &options, &observer, &model, &trainer));
    if (!strstr(kept, words)) check_die(kept, 0, words);
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
    hil_source_close(&source);
}

/* So does that of a plan. */
static void check_plan_note(job_place *place, const char *folder, const char *words)
{
    char kept[400] = "";
    hil_observer observer = {.context = kept, .note = keep_note};
    hil_plan_report *report;
    hil_plan_options form;
    hil_train_options options = job_options(place, "gemma3", NULL);
    options.model = folder;
    hil_plan_defaults(&form);
    CHECK_OK(hil_plan_open(&report, &options, &form, &observer));
    if (!strstr(kept, words)) check_die(kept, 0, words);
    hil_plan_close(report);
}

static void check_model(job_place *place, const char *name, const char *type, const char *note)
{
    char out[JOB_PATH], *folder = golden_path(name, NULL);
    double error = job_logits_error(folder, name, "logits");
    printf("%s: logits %.2g", name, error);
    CHECK(error < 1e-5);
    check_note(folder, note);
    check_plan_note(place, folder, note);
    hil_train_options options = job_options(place, "gemma3", job_path(place, out, name));
    options.model = folder;
    options.steps = 1;
    options.lr = 0;
    job_train(&options);
    error = job_logits_error(out, name, "logits");
    printf(", saved %.2g\n", error);
    CHECK(error < 1e-5);
    check_words(out, "config.json", type);
    hil_safetensors *file;
    CHECK_OK(hil_safetensors_open_folder(&file, out));
    for (size_t i = 0; i < hil_safetensors_count(file); ++i) {
        const char *tensor = hil_safetensors_at(file, i)->name;
        CHECK(strncmp(tensor, "model.", 6) == 0 || strcmp(tensor, "lm_head.weight") == 0);
        CHECK(!strstr(tensor, "language_model") && !strstr(tensor, "vision"));
    }
    hil_safetensors_close(file);
    hil_free(folder);
}

/* The config of a text model beside tensors that have the names of the whole. */
static void check_wrapped(job_place *place, const char *name)
{
    char out[JOB_PATH], folder[JOB_PATH], from[JOB_PATH], to[JOB_PATH];
    char *weights = golden_path(name, "model.safetensors");
    CHECK_OK(hil_dir_create(job_path(place, folder, "wrapped")));
    CHECK_OK(hil_path_join(from, job_path(place, out, name), "config.json"));
    CHECK_OK(hil_path_join(to, folder, "config.json"));
    CHECK(symlink(from, to) == 0);
    CHECK_OK(hil_path_join(to, folder, "model.safetensors"));
    CHECK(symlink(weights, to) == 0);
    CHECK(job_logits_error(folder, name, "logits") < 1e-5);
    hil_free(weights);
}

/* Experts in MXFP4 are read and expanded; what is saved is a folder without them, with the tensors
   of one that never had them. */
static void check_packed(job_place *place)
{
    char out[JOB_PATH], *folder = golden_path("gpt_oss_mxfp4", NULL);
    char *plain = golden_path("gpt_oss", NULL);
    hil_safetensors *saved, *like;
    double error = job_logits_error(folder, "gpt_oss_mxfp4", "logits");
    printf("gpt_oss_mxfp4: logits %.2g", error);
    CHECK(error < 1e-5);
    hil_train_options options = job_options(place, "gpt_oss", job_path(place, out, "mxfp4"));
    options.model = folder;
    options.steps = 1;
    options.lr = 0;
    options.save_dtype = "fp32";
    job_train(&options);
    error = job_logits_error(out, "gpt_oss_mxfp4", "logits");
    printf(", saved %.2g\n", error);
    CHECK(error < 1e-5);
    CHECK_OK(hil_safetensors_open_folder(&saved, out));
    CHECK_OK(hil_safetensors_open_folder(&like, plain));
    CHECK_INT(hil_safetensors_count(saved), hil_safetensors_count(like));
    for (size_t i = 0; i < hil_safetensors_count(like); ++i) {
        char one[64], other[64];
        const hil_entry *entry = hil_safetensors_at(like, i);
        const hil_entry *own = hil_safetensors_find(saved, entry->name);
        CHECK(own);
        CHECK_TEXT(hil_entry_shape_text(own, one), hil_entry_shape_text(entry, other));
    }
    hil_safetensors_close(saved);
    hil_safetensors_close(like);
    hil_free(folder);
    hil_free(plain);
}

int main(void)
{
    job_place place;
    job_begin(&place);
    check_model(&place, "gemma3_images", "\"model_type\": \"gemma3_text\"",
                "is a gemma3: only its text model (gemma3_text) is used, without vision");
    check_model(&place, "mistral3_images", "\"model_type\": \"mistral\"", "(mistral)");
    check_model(&place, "qwen2_5_vl_images", "\"model_type\": \"qwen2\"", "(qwen2)");
    check_model(&place, "gemma4_images", "\"model_type\": \"gemma4_text\"", "(gemma4_text)");
    check_model(&place, "qwen3_5_moe_images", "\"model_type\": \"qwen3_5_moe_text\"",
                "(qwen3_5_moe_text)");
    check_model(&place, "llama4_images", "\"model_type\": \"llama4_text\"", "(llama4_text)");
    check_wrapped(&place, "qwen3_5_moe_images");
    check_packed(&place);
    job_end(&place);
    return 0;
}
