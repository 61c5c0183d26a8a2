/* The whole program trains every architecture as PyTorch does, and what it saves is that model. */
#include "copy.h"
#include "job.h"

static void check_losses(const char *out, const char *name)
{
    hil_safetensors *golden = golden_open(name);
    int64_t count;
    float *loss = golden_floats(golden, "loss_fp32", &count);
    float *norm = golden_floats(golden, "grad_norm", &count);
    double ours[GOLDEN_STEPS], norms[GOLDEN_STEPS];
    CHECK_INT(job_metrics(out, "loss", ours, GOLDEN_STEPS), GOLDEN_STEPS);
    CHECK_INT(job_metrics(out, "grad_norm", norms, GOLDEN_STEPS), GOLDEN_STEPS);
    for (int s = 0; s < GOLDEN_STEPS; ++s) {
        CHECK_NEAR(ours[s], (double)loss[s], 1e-4);
        CHECK_NEAR(norms[s], (double)norm[s], 1e-3 * (double)norm[s]);
    }
    if (hil_safetensors_find(golden, "aux_loss")) {
        float *auxiliary = golden_floats(golden, "aux_loss", &count);
        CHECK_INT(job_metrics(out, "aux_loss", ours, GOLDEN_STEPS), GOLDEN_STEPS);
        for (int s = 0; s < GOLDEN_STEPS; ++s) CHECK_NEAR(ours[s], (double)auxiliary[s], 1e-5);
        hil_free(auxiliary);
    }
    hil_free(loss);
    hil_free(norm);
    hil_safetensors_close(golden);
}

static void train_all(job_place *place)
{
    static const char *const models[] = {GOLDEN_MODELS, GOLDEN_FAMILIES};
    char out[JOB_PATH];
    for (size_t i = 0; i < sizeof models / sizeof *models; ++i) {
        hil_train_options options = job_options(place, models[i], job_path(place, out, models[i]));
        options.micro_batch = GOLDEN_BATCH; /* over which a mixture's auxiliary loss is taken */
        hil_train_result result = job_train(&options);
        CHECK_INT(result.steps, GOLDEN_STEPS);
        CHECK_INT(result.tokens, GOLDEN_STEPS * GOLDEN_BATCH * GOLDEN_SEQ);
        check_losses(out, models[i]);
        double error = job_logits_error(out, models[i], "logits_after");
        printf("%s: logits after training %.2g\n", models[i], error);
        CHECK(error < 1e-3); /* Adam makes a whole step of a gradient that is all rounding */
    }
}

/* The same weights in another file format give the same logits. */
static void check_file_formats(job_place *place)
{
    char to[JOB_PATH];
    CHECK(job_logits_error(HIL_TESTS "/golden/models/gpt2_hub", "gpt2", "logits") < 1e-5);
    CHECK(job_logits_error(HIL_TESTS "/golden/models/opt_hub", "opt", "logits") < 1e-5);
    CHECK(job_logits_error(HIL_TESTS "/golden/models/qwen2_window_sharded", "qwen2_window",
                           "logits") < 1e-5);
    CHECK_OK(hil_dir_create(job_path(place, to, "v4")));
    CHECK_OK(copy_file(HIL_TESTS "/golden/models/llama3/config_v4.json",
                       job_path(place, to, "v4/config.json")));
    CHECK_OK(copy_file(HIL_TESTS "/golden/models/llama3/model.safetensors",
                       job_path(place, to, "v4/model.safetensors")));
    CHECK(job_logits_error(job_path(place, to, "v4"), "llama3", "logits") < 1e-5);
}

/* Every number of one tensor is that of the other, rounded to the nearest with `bits` bits. */
static void check_rounded(const hil_entry *exact, const hil_entry *rounded, int bits)
{
    hil_dtype dtype;
    int64_t count = (int64_t)exact->bytes / 4;
    float *a, *b;
    CHECK_OK(HIL_ALLOC(count, &a));
    CHECK_OK(HIL_ALLOC(count, &b));
    CHECK_OK(hil_entry_dtype(rounded, &dtype));
    CHECK_INT(rounded->bytes, (size_t)count * hil_dtype_size(dtype));
    void *file;
    CHECK_OK(hil_alloc(rounded->bytes, 1, &file));
    CHECK_OK(hil_entry_read(exact, 0, a, exact->bytes));
    CHECK_OK(hil_entry_read(rounded, 0, file, rounded->bytes));
    hil_dtype_to_f32(b, file, dtype, count);
    hil_free(file);
    for (int64_t i = 0; i < count; ++i)
        CHECK_NEAR((double)b[i], (double)a[i], ldexp(fabs((double)a[i]), -bits) + 0x1p-25);
    hil_free(a);
    hil_free(b);
}

static void check_dtypes(job_place *place)
{
    static const struct {
        const char *name, *file, *config;
        int bits;
    } kinds[] = {{"fp32", "F32", "float32", 24},
                 {"bf16", "BF16", "bfloat16", 8},
                 {"fp16", "F16", "float16", 11}};
    char out[JOB_PATH], path[JOB_PATH];
    hil_safetensors *exact = NULL, *file;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
        hil_train_options options =
            job_options(place, "qwen3", job_path(place, out, kinds[i].name));
        options.save_dtype = kinds[i].name;
        options.steps = 2;
        job_train(&options);
        CHECK_OK(hil_path_join(path, out, "model.safetensors"));
        CHECK_OK(hil_safetensors_open(&file, path));
        for (size_t t = 0; t < hil_safetensors_count(file); ++t) {
            const hil_entry *entry = hil_safetensors_at(file, t);
            CHECK_TEXT(entry->dtype, kinds[i].file);
            if (exact)
                check_rounded(hil_safetensors_find(exact, entry->name), entry, kinds[i].bits);
        }
        json_error_t error;
        CHECK_OK(hil_path_join(path, out, "config.json"));
        json_t *config = json_load_file(path, 0, &error);
        CHECK_TEXT(json_string_value(json_object_get(config, "dtype")), kinds[i].config);
        json_decref(config);
        if (exact)
            hil_safetensors_close(file);
        else
            exact = file;
    }
    hil_safetensors_close(exact);
}

int main(void)
{
    job_place place;
    job_begin(&place);
    train_all(&place);
    check_file_formats(&place);
    check_dtypes(&place);
    job_end(&place);
    return 0;
}
