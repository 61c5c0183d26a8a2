/* Adapters of experts in PEFT's folders are written again as they were read; what PEFT does not
   have either is refused. */
#include "job.h"

#include "format/safetensors.h"

static void check_again(job_place *place, const char *base, const char *name)
{
    char adapter[JOB_PATH], out[JOB_PATH], path[JOB_PATH];
    hil_train_options options = job_options(place, base, job_path(place, out, name));
    hil_safetensors *theirs, *own;
    CHECK_OK(hil_path_join(adapter, HIL_TESTS "/golden/adapters", name));
    options.adapter.source = adapter;
    options.steps = 1;
    options.lr = 1e-30; /* changes no bit */
    job_train(&options);
    CHECK_OK(hil_path_join(path, adapter, "adapter_model.safetensors"));
    CHECK_OK(hil_safetensors_open(&theirs, path));
    CHECK_OK(hil_path_join(path, out, "adapter_model.safetensors"));
    CHECK_OK(hil_safetensors_open(&own, path));
    CHECK_INT(hil_safetensors_count(own), hil_safetensors_count(theirs));
    for (size_t i = 0; i < hil_safetensors_count(theirs); ++i) {
        const hil_entry *entry = hil_safetensors_at(theirs, i);
        const hil_entry *other = hil_safetensors_find(own, entry->name);
        int64_t count;
        CHECK(other != NULL && other->ndim == 2);
        CHECK(other->dim[0] == entry->dim[0] && other->dim[1] == entry->dim[1]);
        float *got = golden_floats(own, entry->name, &count);
        CHECK(golden_compare(theirs, entry->name, got, count) == 0);
        hil_free(got);
    }
    hil_safetensors_close(theirs);
    hil_safetensors_close(own);
}

/* adapter_config.json of an adapter for all linear layers has the one name, and not the other. */
static void check_targets(job_place *place, const char *model, bool dora, const char *name,
                          const char *other)
{
    char out[JOB_PATH], path[JOB_PATH];
    hil_bytes config;
    hil_train_options options = job_options(place, model, job_path(place, out, "targets"));
    options.overwrite = true;
    options.adapter.source = "lora";
    options.adapter.dora = dora;
    options.steps = 1;
    job_train(&options);
    CHECK_OK(hil_path_join(path, out, "adapter_config.json"));
    CHECK_OK(hil_bytes_read(&config, path));
    CHECK(strstr(config.data, name) != NULL && strstr(config.data, other) == NULL);
    hil_bytes_free(&config);
}

/* Linear layers that PEFT would take for experts are listed by their weights; modules have their
   names in memory. */
static void check_names(job_place *place)
{
    static const char *const named[] = {"down_proj"};
    char out[JOB_PATH];
    hil_train_result result;
    check_targets(place, "deepseek_v3", false, "\"down_proj.weight\"", "\"down_proj\"");
    check_targets(place, "deepseek_v3", true, "kv_b_proj", "down_proj");
    check_targets(place, "lfm3", false, "\"g_proj\"", "gate_proj");
    hil_train_options options = job_options(place, "deepseek_v3", job_path(place, out, "named"));
    options.adapter.source = "lora";
    options.adapter.dora = true;
    options.adapter.target = named;
    options.adapter.targets = 1;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "takes this name for experts");
}

static void check_refused(job_place *place)
{
    static const char *const experts[] = {"q_proj", "*experts*"}, *const wrong[] = {"experts.w1"};
    char out[JOB_PATH];
    hil_train_options options = job_options(place, "mixtral", job_path(place, out, "refused"));
    hil_train_result result;
    options.adapter.source = "lora";
    options.adapter.target = experts;
    options.adapter.targets = 2;
    options.adapter.dora = true;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "neither DoRA nor dropout");
    options.adapter.dora = false;
    options.adapter.dropout = 0.1;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "neither DoRA nor dropout");
    options.adapter.dropout = 0;
    options.adapter.target = wrong;
    options.adapter.targets = 1;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "experts.w1");
    /* The layers of one model are not those of another. */
    options = job_options(place, "llama", out);
    options.adapter.source = HIL_TESTS "/golden/adapters/experts_only";
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_INPUT, "target_parameters");
}

int main(void)
{
    job_place place;
    job_begin(&place);
    check_again(&place, "qwen3_moe", "experts");
    check_again(&place, "mixtral", "experts_all");
    check_again(&place, "mixtral", "experts_only");
    check_again(&place, "gpt_oss", "experts_alternating");
    check_again(&place, "llama4", "experts_swapped");
    check_again(&place, "nemotron_h_moe", "state_space_renamed");
    check_again(&place, "deepseek_v3", "beside_experts");
    check_names(&place);
    check_refused(&place);
    job_end(&place);
    return 0;
}
