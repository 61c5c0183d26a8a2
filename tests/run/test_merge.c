/* merge gives the weights of PEFT's merge within 1e-6, the loss of the model with the adapter, and
   the same bytes again. */
#include "format/same_bytes.h"
#include "job.h"

#include "format/safetensors.h"

static const char merged[] = "merged.";

/* Compares every weight of PEFT's merge that the golden file has. */
static double worst_error(const char *adapter, const char *folder)
{
    char path[JOB_PATH];
    hil_safetensors *golden, *own;
    double worst = 0;
    int64_t found = 0;
    CHECK_OK(hil_path_join(path, adapter, "golden.safetensors"));
    CHECK_OK(hil_safetensors_open(&golden, path));
    CHECK_OK(hil_safetensors_open_folder(&own, folder));
    for (size_t i = 0; i < hil_safetensors_count(golden); ++i) {
        const char *name = hil_safetensors_at(golden, i)->name;
        int64_t count;
        if (strncmp(name, merged, sizeof merged - 1) != 0) continue;
        float *got = golden_floats(own, name + sizeof merged - 1, &count);
        worst = fmax(worst, golden_compare(golden, name, got, count));
        hil_free(got);
        ++found;
    }
    CHECK(found > 0);
    hil_safetensors_close(golden);
    hil_safetensors_close(own);
    return worst;
}

static double loss_of(const job_place *place, const char *model, const char *adapter)
{
    hil_eval_options options;
    hil_eval_result result;
    hil_eval_defaults(&options);
    options.model = model;
    options.adapter = adapter;
    options.data = place->data;
    options.data_count = 1;
    options.seq = GOLDEN_SEQ;
    options.threads = 1;
    CHECK_OK(hil_eval(&options, NULL, &result));
    return result.loss;
}

static void check(job_place *place, const char *base, const char *name)
{
    char adapter[JOB_PATH], out[JOB_PATH], again[JOB_PATH], left[JOB_PATH], right[JOB_PATH];
    hil_merge_options options;
    hil_merge_result result;
    CHECK_OK(hil_path_join(adapter, HIL_TESTS "/golden/adapters", name));
    (void)job_options(place, base, NULL);
    hil_merge_defaults(&options);
    options.model = place->model;
    options.adapter = adapter;
    options.out = job_path(place, out, name);
    CHECK_OK(hil_merge(&options, NULL, &result));
    double error = worst_error(adapter, out);
    double difference = loss_of(place, out, NULL) - loss_of(place, place->model, adapter);
    printf("%s: weights %.2g, loss %.2g, %lld tensors changed\n", name, error, difference,
           (long long)result.merged);
    CHECK(error <= 1e-6);
    CHECK(fabs(difference) < 1e-5);
    CHECK_FAILS(hil_merge(&options, NULL, &result), HIL_ERR_USAGE, "--overwrite");
    options.out = job_path(place, again, "again");
    options.overwrite = true;
    CHECK_OK(hil_merge(&options, NULL, &result));
    CHECK_OK(hil_path_join(left, out, "model.safetensors"));
    CHECK_OK(hil_path_join(right, again, "model.safetensors"));
    check_same_bytes(left, right);
}

int main(void)
{
    static const char *const rows[][2] = {{"gpt2", "gpt2_lora"},
                                          {"gpt2", "gpt2_dora"},
                                          {"llama", "llama_lora"},
                                          {"llama", "llama_dora"},
                                          {"qwen2", "qwen2_rslora"},
                                          {"qwen3", "qwen3_dora"},
                                          {"qwen2", "patterns"},
                                          {"llama_bias", "expression"},
                                          {"mistral", "layers"},
                                          {"gpt2_untied", "saved"},
                                          {"qwen3_moe", "experts"},
                                          {"mixtral", "experts_all"},
                                          {"mixtral", "experts_only"},
                                          {"gpt_oss", "experts_alternating"},
                                          {"qwen3_5", "linear_attention"},
                                          {"qwen3_next", "linear_attention_fused"},
                                          {"qwen3_next", "linear_attention_all"},
                                          {"granitemoehybrid", "state_space"},
                                          {"nemotron_h_moe", "state_space_renamed"},
                                          {"deepseek_v3", "beside_experts"},
                                          {"llama4", "experts_swapped"},
                                          {"gemma4_moe", "experts_router"},
                                          {"gemma4", "inputs"},
                                          {"lfm2", "convolution"}};
    job_place place;
    job_begin(&place);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) check(&place, rows[i][0], rows[i][1]);
    job_end(&place);
    return 0;
}
