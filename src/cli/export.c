/* export.c - hilbert export. */
#include "cli/command.h"
#include "cli/progress.h"
#include "hilbert/checkpoint.h"

#define ROW(name, kind, field, ...) HIL_ROW(name, kind, hil_export_options, field, __VA_ARGS__)

static const hil_option options[] = {
    ROW("gguf", ON, gguf, NULL, "write the file OUT for llama.cpp", .group = "Options"),
    ROW("dtype", WORD, dtype, "fp32|bf16|fp16|f16|q8_0", "type of the weights",
        .initial = "what the model's config.json says"),
    ROW("shard-size", SIZE, shard_size, "SIZE", "the most bytes of weights in one file",
        .initial = "5 GB", .range = &hil_range_budget),
    ROW("from-deepspeed", ON, deepspeed, NULL, "the checkpoint is one of DeepSpeed"),
    ROW("model", TEXT, model, "DIR", "config and tokenizer for --from-deepspeed",
        .initial = "none"),
    ROW("overwrite", ON, overwrite, NULL, "replace a model that OUT holds, or is"),
};

static int run(int argc, char **argv)
{
    hil_export_options values;
    hil_parsed parsed;
    int code = 0;
    hil_export_defaults(&values);
    if (!hil_command_begin(&hil_command_export, argc, argv, &values, &parsed, &code)) return code;
    hil_progress progress;
    hil_export_result result;
    char bytes[32];
    hil_command_catch_signals(NULL);
    values.stop = &hil_command_stop;
    hil_progress_begin(&progress, stderr, HIL_VERBOSITY_NORMAL);
    hil_status status = hil_checkpoint_export(&values, &progress.hooks, &result);
    hil_progress_end(&progress);
    if (status == HIL_ERR_INTERRUPTED) {
        code = 128 + hil_command_stop;
    } else if (status != HIL_OK) {
        code = hil_command_fail(status);
    } else {
        printf("%s: ", values.out);
        if (result.step >= 0) printf("step %lld, ", (long long)result.step);
        printf("%lld tensors in %s, %s\n", (long long)result.tensors, result.dtype,
               hil_text_bytes(bytes, result.bytes));
        code = hil_command_flush();
    }
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_export = {
    .name = "export",
    .summary = "Writes a Hugging Face model folder, or a GGUF file, from a checkpoint.",
    .usage = "CHECKPOINT|MODEL OUT [options]",
    .example = "  hilbert export run model --dtype bf16\n"
               "  hilbert export run/checkpoints/step-2000 model-2000\n"
               "  hilbert export --from-deepspeed run model --model Llama-3.2-1B\n"
               "  hilbert export run model.gguf --gguf --dtype q8_0\n",
    .option = options,
    .count = sizeof options / sizeof *options,
    .operand = {{.name = "checkpoint", .offset = offsetof(hil_export_options, checkpoint)},
                {.name = "folder or file for the model",
                 .offset = offsetof(hil_export_options, out)}},
    .run = run,
};
