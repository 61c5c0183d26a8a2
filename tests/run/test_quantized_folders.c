/* Folders that bitsandbytes and transformers quantized load as they are, with the loss that
   transformers computes; an original quantized while it is loaded has the same bits. Twenty steps
   of an adapter (LoRA, DoRA) on a base in nf4 have the losses of PEFT with bitsandbytes; other
   placements and a resumed run have the same bits. A new DoRA adapter begins with PEFT's norms.
   Weights in few bits are not trained themselves. */
#include "job.h"

#define FOLDERS HIL_TESTS "/golden/quantized/"

static float *golden_of(const char *folder, const char *key, int64_t *count)
{
    char path[JOB_PATH];
    hil_safetensors *file;
    snprintf(path, sizeof path, FOLDERS "%s/golden.safetensors", folder);
    CHECK_OK(hil_safetensors_open(&file, path));
    float *numbers = golden_floats(file, key, count);
    hil_safetensors_close(file);
    return numbers;
}

static double loss_of(job_place *place, const char *folder, const char *base_dtype)
{
    hil_eval_options options = job_eval_options(place);
    hil_eval_result result;
    options.model = folder;
    options.base_dtype = base_dtype;
    CHECK_OK(hil_eval(&options, NULL, &result));
    return result.loss;
}

static void check_folder(job_place *place, const char *base, const char *kind, double most)
{
    char name[64], path[JOB_PATH];
    int64_t count;
    snprintf(name, sizeof name, "%s_%s", base, kind);
    snprintf(path, sizeof path, FOLDERS "%s", name);
    (void)job_options(place, base, "");
    float *expected = golden_of(name, "loss", &count);
    double loss = loss_of(place, path, NULL);
    printf("%s: loss %.7f, transformers %.7f\n", name, loss, (double)expected[0]);
    CHECK_NEAR(loss, (double)expected[0], most);
    if (strcmp(kind, "plain") != 0) CHECK(loss == loss_of(place, place->model, kind));
    hil_free(expected);
}

static bool same_run(const char *a, const char *b)
{
    char x[JOB_PATH], y[JOB_PATH];
    double of_a[GOLDEN_STEPS], of_b[GOLDEN_STEPS];
    CHECK_OK(hil_path_join(x, a, "adapter_model.safetensors"));
    CHECK_OK(hil_path_join(y, b, "adapter_model.safetensors"));
    CHECK_INT(job_metrics(a, "loss", of_a, GOLDEN_STEPS), GOLDEN_STEPS);
    CHECK_INT(job_metrics(b, "loss", of_b, GOLDEN_STEPS), GOLDEN_STEPS);
    return job_same_file(x, y) && memcmp(of_a, of_b, sizeof of_a) == 0;
}

static void check_training(job_place *place, const char *base, const char *kind)
{
    char name[64], key[16], folder[JOB_PATH], adapter[JOB_PATH], out[JOB_PATH], other[JOB_PATH];
    double loss[GOLDEN_STEPS], worst = 0;
    int64_t count;
    snprintf(name, sizeof name, "%s_nf4", base);
    snprintf(folder, sizeof folder, FOLDERS "%s", name);
    snprintf(adapter, sizeof adapter, HIL_TESTS "/golden/adapters/%s_%s", base, kind);
    snprintf(key, sizeof key, "q%s", kind);
    hil_train_options options = job_options(place, base, job_path(place, out, name));
    options.overwrite = true;
    options.adapter.source = adapter;
    options.base_dtype = "nf4";
    options.micro_batch = 1;
    job_train(&options);
    CHECK_INT(job_metrics(out, "loss", loss, GOLDEN_STEPS), GOLDEN_STEPS);
    float *expected = golden_of(name, key, &count);
    CHECK_INT(count, GOLDEN_STEPS);
    for (int i = 0; i < GOLDEN_STEPS; ++i) worst = fmax(worst, fabs(loss[i] - (double)expected[i]));
    printf("%s: twenty steps of %s are %.2g from PEFT with bitsandbytes\n", name, kind, worst);
    CHECK(worst <= 1e-4);
    hil_free(expected);

    hil_disk_budget disk = {place->folder, 64 << 20};
    options.out = job_path(place, other, "placed");
    options.overwrite = true;
    options.model = folder; /* the codes that bitsandbytes wrote */
    options.base_dtype = NULL;
    options.memory.device = 170 << 10;
    options.memory.host = 200 << 10;
    options.memory.disks = &disk;
    options.memory.disk_count = 1;
    hil_train_result result = job_train(&options);
    CHECK(result.account.to_device_bytes > 0 && result.account.disk_read_bytes > 0);
    CHECK(same_run(out, other));

    options = job_options(place, base, job_path(place, other, "resumed"));
    options.adapter.source = adapter;
    options.base_dtype = "nf4";
    options.micro_batch = 1;
    options.steps = GOLDEN_STEPS / 2;
    options.overwrite = true;
    job_train(&options);
    options.overwrite = false;
    options.steps = GOLDEN_STEPS;
    options.resume = true;
    job_train(&options);
    CHECK(same_run(out, other));
    hil_train_result unused;
    options.base_dtype = "int8";
    CHECK_FAILS(hil_train(&options, NULL, &unused), HIL_ERR_USAGE, "base-dtype");
    options.adapter.source = NULL;
    CHECK_FAILS(hil_train(&options, NULL, &unused), HIL_ERR_USAGE, "--adapter lora");
    options.base_dtype = NULL;
    options.resume = false;
    options.model = folder;
    options.out = job_path(place, other, "whole");
    CHECK_FAILS(hil_train(&options, NULL, &unused), HIL_ERR_USAGE, "cannot be trained");
}

/* A step that changes nothing: the model is as it was, and the norms are those of PEFT. */
static void check_new_dora(job_place *place, const char *base, const char *layer)
{
    char name[64], out[JOB_PATH], path[JOB_PATH], key[160];
    double loss[1];
    int64_t count, rows;
    hil_safetensors *file;
    snprintf(name, sizeof name, "%s_nf4", base);
    hil_train_options options = job_options(place, base, job_path(place, out, "new"));
    options.adapter.source = "lora";
    options.adapter.dora = true;
    options.base_dtype = "nf4";
    options.steps = 1;
    options.lr = 1e-30;
    options.overwrite = true;
    options.tile_size = 2000; /* several tiles in a matrix */
    job_train(&options);
    CHECK_INT(job_metrics(out, "loss", loss, 1), 1);
    options.adapter.dora = false;
    options.out = job_path(place, path, "plain");
    job_train(&options);
    double plain[1];
    CHECK_INT(job_metrics(path, "loss", plain, 1), 1);
    CHECK_NEAR(loss[0], plain[0], 1e-6);
    CHECK_OK(hil_path_join(path, out, "adapter_model.safetensors"));
    CHECK_OK(hil_safetensors_open(&file, path));
    snprintf(key, sizeof key, "base_model.model.%s.lora_magnitude_vector", layer);
    float *own = golden_floats(file, key, &rows), *peft = golden_of(name, "magnitude", &count);
    CHECK_INT(rows, count);
    double worst = golden_error(own, peft, count);
    printf("%s: norms of a new adapter are %.2g from PEFT\n", name, worst);
    CHECK(worst <= 1e-6);
    hil_free(own);
    hil_free(peft);
    hil_safetensors_close(file);
}

int main(void)
{
    job_place place;
    job_begin(&place);
    check_folder(&place, "llama", "nf4", 1e-5);
    check_folder(&place, "llama", "plain", 1e-5);
    check_folder(&place, "llama", "fp8", 1e-5);
    check_folder(&place, "llama", "int8", 1e-3); /* it quantizes activations, too */
    check_folder(&place, "gpt2", "nf4", 1e-5);
    check_training(&place, "llama", "lora");
    check_training(&place, "llama", "dora");
    check_training(&place, "gpt2", "lora");
    check_training(&place, "gpt2", "dora");
    check_new_dora(&place, "llama", "model.layers.1.mlp.down_proj");
    check_new_dora(&place, "gpt2", "transformer.h.1.mlp.c_proj");
    job_end(&place);
    return 0;
}
