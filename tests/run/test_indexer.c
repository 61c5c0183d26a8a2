/* An indexer that chooses keys is read and written as it is, adapters leave it out, and sequences
   in which it would choose are refused with the reason. */
#include "job.h"

#define WHY "beyond \"index_topk\" positions an indexer would choose"

static bool is_of_indexer(const char *name)
{
    return strstr(name, ".indexer.") != NULL;
}

/* Whether both tensors have the same bytes. */
static bool same_bytes(const hil_entry *a, const hil_entry *b)
{
    char *bytes[2];
    CHECK_INT(a->bytes, b->bytes);
    CHECK_OK(HIL_ALLOC(a->bytes, &bytes[0]));
    CHECK_OK(HIL_ALLOC(b->bytes, &bytes[1]));
    CHECK_OK(hil_entry_read(a, 0, bytes[0], a->bytes));
    CHECK_OK(hil_entry_read(b, 0, bytes[1], b->bytes));
    bool same = memcmp(bytes[0], bytes[1], a->bytes) == 0;
    hil_free(bytes[0]);
    hil_free(bytes[1]);
    return same;
}

static hil_safetensors *open_file(const char *folder, const char *name)
{
    char path[JOB_PATH];
    hil_safetensors *file;
    CHECK_OK(hil_path_join(path, folder, name));
    CHECK_OK(hil_safetensors_open(&file, path));
    return file;
}

/* `layers` have an indexer, of five tensors each. */
static void check_written(job_place *place, const char *model, int layers)
{
    char out[JOB_PATH];
    hil_train_options options = job_options(place, model, job_path(place, out, model));
    options.steps = 2;
    job_train(&options);
    hil_safetensors *before = open_file(place->model, "model.safetensors");
    hil_safetensors *after = open_file(out, "model.safetensors");
    int found = 0;
    CHECK_INT(hil_safetensors_count(before), hil_safetensors_count(after));
    for (size_t i = 0; i < hil_safetensors_count(before); ++i) {
        const hil_entry *entry = hil_safetensors_at(before, i);
        const hil_entry *written = hil_safetensors_find(after, entry->name);
        CHECK(written != NULL);
        bool fixed = is_of_indexer(entry->name) || strstr(entry->name, "e_score_correction_bias");
        CHECK_INT(same_bytes(entry, written), fixed);
        found += is_of_indexer(entry->name);
    }
    CHECK_INT(found, 5 * layers);
    hil_safetensors_close(before);
    hil_safetensors_close(after);
}

static void check_adapter(job_place *place)
{
    char out[JOB_PATH];
    hil_train_options options = job_options(place, "glm_moe_dsa", job_path(place, out, "adapter"));
    options.adapter.source = "lora";
    options.steps = 1;
    job_train(&options);
    hil_safetensors *file = open_file(out, "adapter_model.safetensors");
    CHECK(hil_safetensors_count(file) > 0);
    for (size_t i = 0; i < hil_safetensors_count(file); ++i)
        CHECK(!is_of_indexer(hil_safetensors_at(file, i)->name));
    hil_safetensors_close(file);
}

static void check_lengths(job_place *place)
{
    char out[JOB_PATH], prompt[82];
    hil_train_result result;
    hil_train_options options = job_options(place, "deepseek_v32", job_path(place, out, "longest"));
    options.steps = 1;
    options.seq = 80;
    job_train(&options);
    options.seq = 81;
    options.overwrite = true;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "(index_topk is 80): " WHY);

    hil_generate_options generate;
    hil_generate_result generated;
    hil_generate_defaults(&generate);
    memset(prompt, '0', 81);
    prompt[81] = 0;
    generate.model = place->model;
    generate.prompt = prompt;
    generate.tokenizer = "bytes";
    CHECK_FAILS(hil_generate(&generate, &generated), HIL_ERR_USAGE, "only 80 positions: " WHY);
    generate.prompt = prompt + 5;
    CHECK_OK(hil_generate(&generate, &generated));
    CHECK(generated.tokens > 0 && generated.tokens <= 4);
}

int main(void)
{
    job_place place;
    job_begin(&place);
    check_written(&place, "deepseek_v32", 2);
    check_written(&place, "glm_moe_dsa", 2);
    check_adapter(&place);
    check_lengths(&place);
    job_end(&place);
    return 0;
}
