/* inspect.c - hilbert inspect. */
#include "cli/command.h"
#include "hilbert/inspect.h"

typedef struct inspect_values {
    const char *path;
    bool json;
} inspect_values;

static const hil_option options[] = {
    HIL_ROW("json", ON, inspect_values, json, NULL, "print one JSON object", .group = "Options"),
};

static int run(int argc, char **argv)
{
    inspect_values values = {0};
    hil_parsed parsed;
    int code = 0;
    if (!hil_command_begin(&hil_command_inspect, argc, argv, &values, &parsed, &code)) return code;
    hil_status status = hil_inspect(values.path, values.json, stdout);
    code = status == HIL_OK ? hil_command_flush() : hil_command_fail(status);
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_inspect = {
    .name = "inspect",
    .summary = "Lists the tensors of a model folder, a checkpoint, a .safetensors or .bin file.",
    .usage = "DIR|FILE [--json]",
    .example = "  hilbert inspect tuned\n",
    .option = options,
    .count = sizeof options / sizeof *options,
    .operand = {{.name = "folder or file", .offset = offsetof(inspect_values, path)}},
    .run = run,
};
