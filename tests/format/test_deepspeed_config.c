/* ds_config.json: what is understood, with DeepSpeed's defaults, and what is refused by its key. */
#include "check.h"
#include "hilbert/deepspeed.h"
#include "io/file.h"

static hil_deepspeed_config parsed(const char *text)
{
    hil_deepspeed_config c = {.size = sizeof c};
    CHECK_OK(hil_deepspeed_parse(text, strlen(text), "ds.json", &c));
    return c;
}

static void refused(const char *text, const char *words)
{
    hil_deepspeed_config c = {.size = sizeof c};
    CHECK_FAILS(hil_deepspeed_parse(text, strlen(text), "ds.json", &c), HIL_ERR_USAGE, words);
    CHECK(!c.owner);
}

#define CHECK_NUMBER(number, expected, from)                                                       \
    do {                                                                                           \
        CHECK_NEAR((number).value, expected, 0);                                                   \
        CHECK_INT((number).origin, from);                                                          \
    } while (0)

static void check_defaults(void)
{
    hil_deepspeed_config c = parsed("{}");
    CHECK(!c.optimizer && !c.scheduler && c.disks == 0 && isnan(c.lr.value) && !*c.notes);
    CHECK_TEXT(c.dtype, "fp32");
    CHECK_INT(c.dtype_origin, HIL_DEEPSPEED_ABSENT);
    CHECK_NUMBER(c.clip, 1, HIL_DEEPSPEED_ABSENT);
    CHECK_NUMBER(c.stage, 0, HIL_DEEPSPEED_ABSENT);
    CHECK_INT(c.loss_scale.start, 65536);
    CHECK_INT(c.loss_scale.window, 1000);
    CHECK_INT(c.loss_scale.hysteresis, 2);
    hil_deepspeed_free(&c);
    c = parsed("{\"optimizer\": {\"type\": \"AdamW\"}}");
    CHECK_TEXT(c.optimizer, "adamw");
    CHECK_NUMBER(c.lr, 1e-3, HIL_DEEPSPEED_ABSENT);
    CHECK_NUMBER(c.beta1, 0.9, HIL_DEEPSPEED_ABSENT);
    CHECK_NUMBER(c.beta2, 0.999, HIL_DEEPSPEED_ABSENT);
    CHECK_NUMBER(c.eps, 1e-8, HIL_DEEPSPEED_ABSENT);
    CHECK_NUMBER(c.weight_decay, 0, HIL_DEEPSPEED_ABSENT);
    hil_deepspeed_free(&c);
    c = parsed("{\"optimizer\": {\"type\": \"Lion\", \"params\": {\"lr\": 2e-5}}}");
    CHECK_TEXT(c.optimizer, "lion");
    CHECK_NUMBER(c.lr, 2e-5, HIL_DEEPSPEED_GIVEN);
    CHECK_NUMBER(c.beta2, 0.99, HIL_DEEPSPEED_ABSENT);
    hil_deepspeed_free(&c);
    /* torch.optim.AdamW decays by 0.01 */
    c = parsed("{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"torch_adam\": true}}}");
    CHECK_NUMBER(c.weight_decay, 0.01, HIL_DEEPSPEED_ABSENT);
    hil_deepspeed_free(&c);
}

static void check_whole_file(void)
{
    hil_deepspeed_config c = parsed(
        "{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": \"auto\","
        " \"gradient_accumulation_steps\": 4, \"gradient_clipping\": 0.5, \"_comment\": \"x\","
        " \"optimizer\": {\"type\": \"adam\", \"params\": {\"lr\": \"auto\", \"betas\": [0.8, "
        "0.95],"
        "   \"eps\": 1e-6, \"weight_decay\": 3e-7, \"adam_w_mode\": true}},"
        " \"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_min_lr\": \"auto\","
        "   \"warmup_max_lr\": \"auto\", \"warmup_num_steps\": 7, \"total_num_steps\": \"auto\","
        "   \"warmup_type\": \"linear\"}},"
        " \"fp16\": {\"enabled\": true, \"loss_scale\": 0, \"initial_scale_power\": 32,"
        "   \"loss_scale_window\": 100, \"hysteresis\": 3, \"min_loss_scale\": 2},"
        " \"bf16\": {\"enabled\": false}, \"wall_clock_breakdown\": false,"
        " \"zero_optimization\": {\"stage\": 3, \"overlap_comm\": true, \"sub_group_size\": 1e9,"
        "   \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/a\"},"
        "   \"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/b\", \"max_in_cpu\": 1}}}");
    CHECK_NUMBER(c.batch, 32, HIL_DEEPSPEED_GIVEN);
    CHECK_INT(c.micro_batch.origin, HIL_DEEPSPEED_AUTO);
    CHECK_NUMBER(c.clip, 0.5, HIL_DEEPSPEED_GIVEN);
    CHECK_TEXT(c.optimizer, "adamw");
    CHECK_INT(c.lr.origin, HIL_DEEPSPEED_AUTO);
    CHECK_NUMBER(c.beta1, 0.8, HIL_DEEPSPEED_GIVEN);
    CHECK_NUMBER(c.beta2, 0.95, HIL_DEEPSPEED_GIVEN);
    CHECK_TEXT(c.dtype, "fp16");
    CHECK_INT(c.loss_scale.start, INT64_C(1) << 32);
    CHECK_INT(c.loss_scale.window, 100);
    CHECK_INT(c.loss_scale.hysteresis, 3);
    CHECK_INT(c.loss_scale.least, 2);
    CHECK_NUMBER(c.stage, 3, HIL_DEEPSPEED_GIVEN);
    CHECK_INT(c.disks, 2);
    CHECK_TEXT(c.disk[0], "/a");
    CHECK_TEXT(c.disk[1], "/b");
    CHECK_TEXT(c.optimizer_device, "nvme");
    CHECK_TEXT(c.notes, "ds.json: without effect here: wall_clock_breakdown, "
                        "zero_optimization.overlap_comm, zero_optimization.sub_group_size, "
                        "zero_optimization.offload_param.max_in_cpu");
    hil_curve curve = hil_deepspeed_curve(&c, 2e-4, 99);
    CHECK_INT(curve.kind, HIL_CURVE_WARMUP_DECAY);
    CHECK(curve.linear && curve.low == 0 && curve.high == 2e-4 && curve.warmup == 7);
    CHECK_INT(curve.total, 0);
    hil_deepspeed_batches b;
    CHECK_OK(hil_deepspeed_complete(&c, 2, &b));
    CHECK_INT(b.micro_batch, 4);
    CHECK_FAILS(hil_deepspeed_complete(&c, 3, &b), HIL_ERR_USAGE, "x 3 ranks");
    hil_deepspeed_free(&c);
}

static void check_batch(const char *text, int64_t ranks, int64_t batch, int64_t micro,
                        int64_t accumulation)
{
    hil_deepspeed_config c = parsed(text);
    hil_deepspeed_batches b;
    if (batch < 0) {
        CHECK_FAILS(hil_deepspeed_complete(&c, ranks, &b), HIL_ERR_USAGE, "train_batch_size");
    } else {
        CHECK_OK(hil_deepspeed_complete(&c, ranks, &b));
        CHECK_INT(b.batch, batch);
        CHECK_INT(b.micro_batch, micro);
        CHECK_INT(b.accumulation, accumulation);
    }
    hil_deepspeed_free(&c);
}

#define BATCH(b, m, a)                                                                             \
    "{\"train_batch_size\": " b ", \"train_micro_batch_size_per_gpu\": " m                         \
    ", \"gradient_accumulation_steps\": " a "}"

/* The cases of DeepSpeed's own tests, and "auto". */
static void check_batches(void)
{
    check_batch(BATCH("32", "16", "1"), 2, 32, 16, 1);
    check_batch(BATCH("33", "16", "1"), 2, -1, 0, 0);
    check_batch(BATCH("32", "17", "1"), 2, -1, 0, 0);
    check_batch(BATCH("32", "16", "null"), 2, 32, 16, 1);
    check_batch(BATCH("32", "8", "null"), 2, 32, 8, 2);
    check_batch(BATCH("33", "17", "null"), 2, -1, 0, 0);
    check_batch(BATCH("32", "18", "null"), 2, -1, 0, 0);
    check_batch(BATCH("32", "null", "2"), 2, 32, 8, 2);
    check_batch(BATCH("32", "null", "null"), 2, 32, 16, 1);
    check_batch(BATCH("33", "null", "null"), 2, -1, 0, 0);
    check_batch(BATCH("null", "4", "null"), 2, 8, 4, 1);
    check_batch(BATCH("null", "4", "3"), 2, 24, 4, 3);
    check_batch(BATCH("\"auto\"", "4", "\"auto\""), 2, 0, 4, 0);
    check_batch(BATCH("\"auto\"", "\"auto\"", "\"auto\""), 2, 0, 0, 0);
    check_batch(BATCH("32", "\"auto\"", "\"auto\""), 2, 32, 0, 0);
    check_batch(BATCH("32", "\"auto\"", "64"), 2, -1, 0, 0);
}

static void check_refused(void)
{
    refused("{\"optimizer\": {\"type\": \"OneBitAdam\", \"params\": {\"freeze_step\": 3}}}",
            "ds.json: optimizer.type \"OneBitAdam\" is not supported");
    refused("{\"optimizer\": {\"params\": {}}}", "optimizer has no type");
    refused("{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"adam_w_mode\": false, "
            "\"weight_decay\": 0.1}}}",
            "optimizer.params.adam_w_mode");
    refused("{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"bias_correction\": false}}}",
            "optimizer.params.bias_correction false");
    refused("{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": [0.9]}}}",
            "optimizer.params.betas must be two numbers");
    refused("{\"scheduler\": {\"type\": \"OneCycle\"}}", "scheduler.type \"OneCycle\"");
    refused("{\"scheduler\": {\"type\": \"WarmupDecayLR\"}}", "total_num_steps");
    refused("{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"total_num_steps\": 4}}}",
            "total_num_steps is not a parameter of WarmupLR");
    refused("{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}",
            "fp16.enabled and bf16.enabled contradict");
    refused("{\"fp16\": {\"loss_scale_window\": 0}}", "fp16.loss_scale_window must be from 1");
    refused("{\"bf16\": {\"bf16_master_weights_and_grads\": true}}", "bf16_master_weights");
    refused("{\"curriculum_learning\": {\"enabled\": true}}", "curriculum_learning.enabled true");
    refused("{\"compression_training\": {\"weight_quantization\": {\"shared_parameters\": "
            "{\"enabled\": true}}}}",
            "compression_training.weight_quantization.shared_parameters.enabled true");
    refused("{\"zero_optimization\": {\"zero_quantized_gradients\": true}}",
            "zero_optimization.zero_quantized_gradients true");
    refused("{\"zero_optimization\": {\"stage\": 4}}", "zero_optimization.stage must be from 0");
    refused("{\"zero_optimization\": {\"stagee\": 3}}", "did you mean zero_optimization.stage?");
    refused("{\"zero_optimization\": {\"offload_param\": {\"device\": \"disk\"}}}",
            "offload_param.device must be none, cpu or nvme");
    refused("{\"zero_optimization\": {\"offload_param\": {\"device\": \"nvme\"}}}", "nvme_path");
    refused("{\"tensor_parallel\": {\"autotp_size\": 2}}", "tensor_parallel.autotp_size 2");
    refused("{\"train_batch_size\": 0}", "train_batch_size must be from 1");
    refused("{\"train_batch_size\": \"8\"}", "train_batch_size must be a number or \"auto\"");
    refused("{\"gradient_allreduce_op\": \"sum\"}", "gradient_allreduce_op \"sum\"");
    refused("{\"optimiser\": {}}", "unknown key optimiser; did you mean optimizer");
    refused("[]", "the file must be a JSON object");
}

/* Forms that DeepSpeed also takes. */
static void check_accepted(void)
{
    static const char *const texts[] = {
        "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"adam_w_mode\": false}}}",
        "{\"zero_optimization\": true}",
        "{\"zero_optimization\": {\"cpu_offload\": true, \"stage\": 2}}",
        "{\"bfloat16\": {\"enabled\": true}}",
        "{\"curriculum_learning\": {\"enabled\": false, \"min_difficulty\": 8}}",
        "{\"compression_training\": {}}",
        "{\"tensor_parallel\": {\"autotp_size\": 1}}",
        "{\"fp16\": {\"enabled\": \"auto\"}, \"bf16\": {\"enabled\": \"auto\"}}",
        "{\"activation_checkpointing\": {\"partition_activations\": true}, \"aio\": {}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        hil_deepspeed_config c = parsed(texts[i]);
        if (i == 1) CHECK_NUMBER(c.stage, 1, HIL_DEEPSPEED_GIVEN);
        if (i == 2) CHECK_TEXT(c.optimizer_device, "cpu");
        if (i == 3) CHECK_TEXT(c.dtype, "bf16");
        if (i == 7) CHECK_INT(c.dtype_origin, HIL_DEEPSPEED_AUTO);
        hil_deepspeed_free(&c);
    }
}

/* A program with an older header gets what it knows. */
static void check_sizes(void)
{
    hil_deepspeed_config c = {.size = offsetof(hil_deepspeed_config, optimizer)};
    CHECK_OK(hil_deepspeed_parse("{}", 2, "x", &c));
    CHECK(!c.notes && c.owner);
    hil_deepspeed_free(&c);
    c.size = 0;
    CHECK_FAILS(hil_deepspeed_parse("{}", 2, "x", &c), HIL_ERR_USAGE, "has no size");
}

struct tally {
    int accepted, refused, invalid;
};

static hil_status try_file(void *context, const char *folder, const char *name)
{
    struct tally *tally = context;
    char path[HIL_PATH_MAX];
    hil_deepspeed_config c = {.size = sizeof c};
    if (!hil_text_ends_with(name, ".json")) return HIL_OK;
    HIL_TRY(hil_path_join(path, folder, name));
    hil_status status = hil_deepspeed_read(path, &c);
    if (status == HIL_OK) {
        ++tally->accepted;
        hil_deepspeed_free(&c);
    } else if (status == HIL_ERR_INPUT) {
        CHECK(strstr(hil_status_message(), "not valid JSON"));
        ++tally->invalid;
    } else {
        CHECK(strstr(hil_status_message(), "is not supported"));
        ++tally->refused;
    }
    return HIL_OK;
}

/* Real files, where they are at hand. */
static void check_real(void)
{
    static const char folder[] = HIL_TESTS "/../../shared/data/ds-configs";
    struct tally tally = {0};
    if (!hil_file_exists(folder)) return;
    CHECK_OK(hil_dir_each(folder, HIL_MISSING_FAILS, try_file, &tally));
    CHECK_INT(tally.accepted, 40);
    CHECK_INT(tally.refused, 27);
    CHECK_INT(tally.invalid, 4);
}

int main(void)
{
    check_defaults();
    check_whole_file();
    check_batches();
    check_refused();
    check_accepted();
    check_sizes();
    check_real();
    return 0;
}
