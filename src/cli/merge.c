/* merge.c - hilbert merge. */
#include "cli/command.h"
#include "cli/progress.h"

#define ROW(name, kind, field, ...) HIL_ROW(name, kind, hil_merge_options, field, __VA_ARGS__)

static const hil_option options[] = {
    ROW("dtype", WORD, dtype, "fp32|bf16|fp16", "precision of the weights", .group = "Options",
        .initial = "the model's"),
    ROW("overwrite", ON, overwrite, NULL, "replace a model that OUT holds"),
};

static int run(int argc, char **argv)
{
    hil_merge_options values;
    hil_parsed parsed;
    hil_progress progress;
    hil_merge_result result;
    int code = 0;
    hil_merge_defaults(&values);
    if (!hil_command_begin(&hil_command_merge, argc, argv, &values, &parsed, &code)) return code;
    hil_command_catch_signals(NULL);
    values.stop = &hil_command_stop;
    hil_progress_begin(&progress, stderr, HIL_VERBOSITY_NORMAL);
    hil_status status = hil_merge(&values, &progress.hooks, &result);
    hil_progress_end(&progress);
    if (status == HIL_OK) {
        printf("%s: %lld tensors in %s, the adapter is in %lld of them\n", values.out,
               (long long)result.tensors, result.dtype, (long long)result.merged);
        code = hil_command_flush();
    } else {
        code = status == HIL_ERR_INTERRUPTED ? hil_command_stopped() : hil_command_fail(status);
    }
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_merge = {
    .name = "merge",
    .summary = "Writes a model folder whose weights contain an adapter.",
    .usage = "MODEL ADAPTER OUT [options]",
    .example = "  hilbert merge Llama-3.2-1B tuned merged --dtype bf16\n",
    .option = options,
    .count = sizeof options / sizeof *options,
    .operand = {{.name = "model folder", .offset = offsetof(hil_merge_options, model)},
                {.name = "adapter folder", .offset = offsetof(hil_merge_options, adapter)},
                {.name = "folder to write", .offset = offsetof(hil_merge_options, out)}},
    .run = run,
};
