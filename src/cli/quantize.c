/* quantize.c - hilbert quantize. */
#include "cli/command.h"
#include "cli/progress.h"

#define ROW(name, kind, field, ...) HIL_ROW(name, kind, hil_quantize_options, field, __VA_ARGS__)

static const hil_option options[] = {
    ROW("base-dtype", WORD, base_dtype, "nf4|int8|fp8", "bits of the blocks' matrices",
        .group = "Options"),
    ROW("threads", WHOLE, threads, "N", "CPU threads", .initial = "all",
        .range = &hil_range_threads),
    ROW("overwrite", ON, overwrite, NULL, "replace a model that OUT holds"),
};

static int run(int argc, char **argv)
{
    hil_quantize_options values;
    hil_parsed parsed;
    hil_progress progress;
    hil_quantize_result result;
    char bytes[32];
    int code = 0;
    hil_quantize_defaults(&values);
    if (!hil_command_begin(&hil_command_quantize, argc, argv, &values, &parsed, &code)) return code;
    hil_command_catch_signals(NULL);
    values.stop = &hil_command_stop;
    hil_progress_begin(&progress, stderr, HIL_VERBOSITY_NORMAL);
    hil_status status = hil_quantize(&values, &progress.hooks, &result);
    hil_progress_end(&progress);
    if (status == HIL_OK) {
        printf("%s: %lld matrices in %s, %s\n", values.out, (long long)result.matrices,
               result.dtype, hil_text_bytes(bytes, result.bytes));
        code = hil_command_flush();
    } else {
        code = status == HIL_ERR_INTERRUPTED ? hil_command_stopped() : hil_command_fail(status);
    }
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_quantize = {
    .name = "quantize",
    .summary = "Writes a model folder whose weights are in fewer bits.",
    .usage = "MODEL OUT [options]",
    .example = "  hilbert quantize Llama-3.1-8B Llama-3.1-8B-nf4\n",
    .option = options,
    .count = sizeof options / sizeof *options,
    .operand = {{.name = "model folder", .offset = offsetof(hil_quantize_options, model)},
                {.name = "folder to write", .offset = offsetof(hil_quantize_options, out)}},
    .run = run,
};
