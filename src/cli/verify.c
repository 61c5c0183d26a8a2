/* verify.c - hilbert verify. */
#include "cli/command.h"
#include "cli/progress.h"
#include "hilbert/checkpoint.h"

typedef struct verify_values {
    const char *path;
    bool json;
} verify_values;

static const hil_option options[] = {
    HIL_ROW("json", ON, verify_values, json, NULL, "print one JSON object", .group = "Options"),
};

static int run(int argc, char **argv)
{
    verify_values values = {0};
    hil_parsed parsed;
    int code = 0;
    if (!hil_command_begin(&hil_command_verify, argc, argv, &values, &parsed, &code)) return code;
    hil_progress progress;
    hil_progress_begin(&progress, stderr, HIL_VERBOSITY_NORMAL);
    hil_status status =
        hil_checkpoint_verify_path(values.path, values.json, &progress.hooks, stdout);
    hil_progress_end(&progress);
    code = status == HIL_OK ? hil_command_flush() : hil_command_fail(status);
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_verify = {
    .name = "verify",
    .summary = "Reads every byte of checkpoints and checks every checksum.",
    .usage = "CHECKPOINT [--json]",
    .example = "  hilbert verify run\n"
               "  hilbert verify run/checkpoints/step-2000\n",
    .option = options,
    .count = sizeof options / sizeof *options,
    .operand = {{.name = "checkpoint", .offset = offsetof(verify_values, path)}},
    .run = run,
};
