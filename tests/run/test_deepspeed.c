/* Checkpoints of DeepSpeed become model folders, and runs go on from them: the losses of the next
   steps are those that DeepSpeed had. */
#include "check.h"
#include "format/safetensors.h"
#include "hilbert/checkpoint.h"
#include "tensor/tensor.h"

#define GOLDEN HIL_TESTS "/golden/deepspeed/"
enum { MORE = 2 };

static char folder[] = "/tmp/hil-deepspeed-XXXXXX";

static void check_export(const char *name, const char *dtype, size_t tensors)
{
    char from[300], to[300], oracle_path[300];
    hil_export_options options;
    hil_export_result result;
    hil_safetensors *got, *oracle;
    snprintf(from, sizeof from, GOLDEN "%s", name);
    snprintf(to, sizeof to, "%s/%s-%s", folder, name, dtype);
    snprintf(oracle_path, sizeof oracle_path, GOLDEN "%s.safetensors", name);
    hil_export_defaults(&options);
    options.checkpoint = from;
    options.out = to;
    options.deepspeed = true;
    CHECK_FAILS(hil_checkpoint_export(&options, NULL, &result), HIL_ERR_USAGE, "needs --model");
    options.model = GOLDEN;
    options.dtype = dtype;
    CHECK_OK(hil_checkpoint_export(&options, NULL, &result));
    CHECK_INT(result.step, 3);
    CHECK_INT(result.tensors, tensors);
    CHECK_OK(hil_safetensors_open_folder(&got, to));
    CHECK_OK(hil_safetensors_open(&oracle, oracle_path));
    CHECK_INT(hil_safetensors_count(got), tensors);
    for (size_t i = 0; i < tensors; ++i) {
        const hil_entry *a = hil_safetensors_at(got, i), *b = hil_safetensors_find(oracle, a->name);
        CHECK(b);
        float x[256], y[256];
        uint16_t half[256], expected[256];
        CHECK(b->bytes <= sizeof y);
        CHECK_OK(hil_entry_read(b, 0, y, b->bytes));
        if (a->bytes == b->bytes) {
            CHECK_OK(hil_entry_read(a, 0, x, a->bytes));
            CHECK(memcmp(x, y, a->bytes) == 0);
            continue;
        }
        CHECK_OK(hil_entry_read(a, 0, half, a->bytes));
        hil_dtype_from_f32(expected, y, HIL_BF16, (int64_t)(b->bytes / 4));
        CHECK(memcmp(half, expected, a->bytes) == 0);
    }
    hil_safetensors_close(got);
    hil_safetensors_close(oracle);
}

static void note_loss(void *context, const hil_step_report *report)
{
    float *loss = context;
    CHECK(report->step > 3 && report->step <= 3 + MORE);
    loss[report->step - 4] = (float)report->loss;
}

static void options_for(hil_train_options *o, const char *model, const char *out, int ranks)
{
    static const char *const data[] = {GOLDEN "data.npy"};
    hil_train_defaults(o);
    o->model = model;
    o->data = data;
    o->data_count = 1;
    o->out = out;
    o->seq = 12;
    o->batch = 2 * ranks;
    o->steps = 3 + MORE;
    o->shuffle = false;
    o->dtype = "fp32";
    o->lr = 1e-2;
    o->weight_decay = 0;
    o->beta2 = 0.999;
    o->schedule = HIL_SCHEDULE_CONSTANT;
    o->threads = 1;
    o->device.name = "cpu";
}

/* The weights of the model folder are others than those of the checkpoint. */
static void check_resume(const char *name, int ranks, const char *model)
{
    char from[300], out[300], oracle_path[300];
    float expected[MORE], got[MORE] = {0};
    hil_train_options options;
    hil_train_result result;
    hil_safetensors *oracle;
    const hil_observer observer = {.step = note_loss, .context = got};
    snprintf(from, sizeof from, GOLDEN "%s", name);
    snprintf(out, sizeof out, "%s/run-%s", folder, name);
    snprintf(oracle_path, sizeof oracle_path, GOLDEN "%s.safetensors", name);
    CHECK_OK(hil_safetensors_open(&oracle, oracle_path));
    CHECK_OK(hil_entry_read(hil_safetensors_find(oracle, "losses"), 0, expected, sizeof expected));
    hil_safetensors_close(oracle);
    options_for(&options, model, out, ranks);
    options.resume_deepspeed = from;
    options.steps = 3;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "is at step 3");
    options.steps = 4; /* stops after one step; then --resume takes hilbert's own checkpoint */
    options.overwrite = true;
    CHECK_OK(hil_train(&options, &observer, &result));
    options.overwrite = false;
    options.resume = true;
    options.steps = 5;
    CHECK_OK(hil_train(&options, &observer, &result));
    CHECK_INT(result.steps, 5);
    for (int i = 0; i < MORE; ++i) CHECK_NEAR(got[i], expected[i], 2e-6 * fabsf(expected[i]));
}

/* The config with tied weights, as DeepSpeed's model had it. */
static const char *tied_model(void)
{
    static char path[300];
    char command[900];
    snprintf(path, sizeof path, "%s/tied.json", folder);
    snprintf(command, sizeof command,
             "sed 's/\"tie_word_embeddings\": false/\"tie_word_embeddings\": true/' '" GOLDEN
             "config.json' >'%s'",
             path);
    CHECK_INT(system(command), 0);
    return path;
}

int main(void)
{
    char command[300];
    CHECK(mkdtemp(folder));
    check_export("stage1-3", "fp32", 12);
    check_export("stage3-2", "fp32", 12);
    check_export("stage3-2", "bf16", 12);
    check_resume("stage1-1", 1, GOLDEN "config.json");
    check_resume("stage2-3", 3, GOLDEN "config.json");
    check_resume("stage3-1", 1, GOLDEN "config.json");
    check_resume("stage3-3", 3, tied_model());
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK_INT(system(command), 0);
    return 0;
}
