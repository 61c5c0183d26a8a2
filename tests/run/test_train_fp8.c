/* --dtype fp8: losses near PyTorch's with its own float8 types and near bf16's on text; adapters;
   what it refuses. That placements change no bit is in test_equality.c. */
#include "hilbert/plan.h"
#include "job.h"

static void losses_of(job_place *place, const char *model, const char *dtype, double *out)
{
    char folder[JOB_PATH], name[64];
    snprintf(name, sizeof name, "golden-%s-%s", model, dtype);
    hil_train_options options = job_options(place, model, job_path(place, folder, name));
    options.dtype = dtype;
    options.micro_batch = GOLDEN_BATCH; /* one scale for the whole batch, as in PyTorch */
    job_train(&options);
    CHECK_INT(job_metrics(folder, "loss", out, GOLDEN_STEPS), GOLDEN_STEPS);
}

/* tools/golden_fp8.py */
static void check_golden(job_place *place)
{
    static const char *const models[] = {"llama", "qwen3", "llama_bias"};
    hil_safetensors *file;
    CHECK_OK(hil_safetensors_open(&file, HIL_TESTS "/golden/fp8.safetensors"));
    for (size_t i = 0; i < sizeof models / sizeof *models; ++i) {
        char key[64];
        int64_t count;
        double ours[GOLDEN_STEPS], half[GOLDEN_STEPS], far = 0, from_half = 0;
        snprintf(key, sizeof key, "loss.%s", models[i]);
        float *theirs = golden_floats(file, key, &count);
        CHECK_INT(count, GOLDEN_STEPS);
        losses_of(place, models[i], "fp8", ours);
        losses_of(place, models[i], "bf16", half);
        for (int s = 0; s < GOLDEN_STEPS; ++s) {
            far = fmax(far, fabs(ours[s] - (double)theirs[s]) / ours[s]);
            from_half = fmax(from_half, fabs(ours[s] - half[s]) / ours[s]);
        }
        printf("%s: within %.1e of PyTorch's losses, %.1e of bf16's\n", models[i], far, from_half);
        CHECK(far < 5e-3);
        CHECK(from_half > 0 && from_half < 3e-2);
        hil_free(theirs);
    }
    hil_safetensors_close(file);
}

/* The bytes of a text as tokens. */
static void write_tokens(job_place *place)
{
    char header[128], folder[JOB_PATH];
    hil_bytes text;
    CHECK_OK(hil_bytes_read(&text, HIL_TESTS "/../LICENSE"));
    FILE *file = fopen(job_path(place, folder, "text.npy"), "wb");
    CHECK(file != NULL);
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    int length = snprintf(header + 10, sizeof header - 10,
                          "{'descr': '<u2', 'fortran_order': False, 'shape': (%zu,), }", text.size);
    header[10 + length] = ' ';
    header[127] = '\n';
    CHECK(fwrite(header, 1, sizeof header, file) == sizeof header);
    for (size_t i = 0; i < text.size; ++i)
        CHECK(fputc(text.data[i], file) != EOF && fputc(0, file) != EOF);
    CHECK(fclose(file) == 0);
    memcpy(place->tokens, folder, sizeof folder);
    hil_bytes_free(&text);
}

enum { TEXT_STEPS = 250, LAST = 50 };

/* The mean loss of the last steps on text. */
static double loss_on_text(job_place *place, const char *dtype)
{
    char folder[JOB_PATH];
    double loss[TEXT_STEPS], mean = 0;
    hil_train_options options = job_options(place, "llama3", job_path(place, folder, dtype));
    write_tokens(place);
    options.steps = TEXT_STEPS;
    options.dtype = dtype;
    options.shuffle = true;
    options.lr = 3e-3;
    options.micro_batch = GOLDEN_BATCH;
    job_train(&options);
    CHECK_INT(job_metrics(folder, "loss", loss, TEXT_STEPS), TEXT_STEPS);
    for (int s = TEXT_STEPS - LAST; s < TEXT_STEPS; ++s) mean += loss[s] / LAST;
    CHECK(mean < 0.6 * loss[0]);
    return mean;
}

static void check_loss_on_text(job_place *place)
{
    double half = loss_on_text(place, "bf16"), eight = loss_on_text(place, "fp8");
    printf("on text: bf16 %.4f, fp8 %.4f\n", half, eight);
    CHECK_NEAR(eight, half, 5e-3 * half);
}

/* An adapter on a base in bf16, whose products are in 8 bits; the adapter's own are not. */
static void check_adapter(job_place *place)
{
    double loss[2][GOLDEN_STEPS];
    for (int i = 0; i < 2; ++i) {
        char folder[JOB_PATH];
        hil_train_options options =
            job_options(place, "llama", job_path(place, folder, i ? "lora-fp8" : "lora-bf16"));
        options.dtype = i ? "fp8" : "bf16";
        options.adapter.source = "lora";
        job_train(&options);
        CHECK_INT(job_metrics(folder, "loss", loss[i], GOLDEN_STEPS), GOLDEN_STEPS);
    }
    for (int s = 0; s < GOLDEN_STEPS; ++s) CHECK_NEAR(loss[1][s], loss[0][s], 2e-2 * loss[0][s]);
    CHECK(loss[1][0] != loss[0][0]);
}

/* A plan for a GPU with products in 8 bits; without them it is refused as training on it is. */
static void check_plan(job_place *place)
{
    char out[JOB_PATH];
    hil_plan_options form;
    hil_plan_report *report;
    hil_train_options options = job_options(place, "llama", job_path(place, out, "planned"));
    hil_plan_defaults(&form);
    options.dtype = "fp8";
    CHECK_OK(hil_plan_open(&report, &options, &form, NULL));
    CHECK(report->fits);
    CHECK_TEXT(report->dtype, "fp8");
    hil_plan_close(report);
    form.gpu = "H200";
    CHECK_OK(hil_plan_open(&report, &options, &form, NULL));
    CHECK(report->fits);
    CHECK_TEXT(report->dtype, "fp8");
    hil_plan_close(report);
    form.gpu = "A100 80GB";
    CHECK_FAILS(hil_plan_open(&report, &options, &form, NULL), HIL_ERR_USAGE,
                "NVIDIA A100 80GB has no products in 8 bits");
}

static void check_refused(job_place *place)
{
    char out[JOB_PATH];
    hil_train_result result;
    hil_train_options options = job_options(place, "llama", job_path(place, out, "refused"));
    options.dtype = "fp8";
    options.adapter.source = "lora";
    options.base_dtype = "nf4";
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE,
                "is kept in nf4, and products in fp8 need weights in bf16");
    options = job_options(place, "llama", job_path(place, out, "golden-llama-fp8"));
    options.dtype = "bf16";
    options.micro_batch = GOLDEN_BATCH;
    options.resume = true;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE,
                "started with --dtype \"fp8\", not \"bf16\"");
}

int main(void)
{
    job_place place;
    job_begin(&place);
    check_golden(&place);
    check_refused(&place);
    check_plan(&place);
    check_adapter(&place);
    check_loss_on_text(&place);
    job_end(&place);
    return 0;
}
