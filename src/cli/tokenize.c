/* tokenize.c - hilbert tokenize. */
#include "cli/command.h"
#include "hilbert/run.h"

#include <errno.h>
#include <string.h>

typedef struct tokenize_values {
    hil_tokenize_options run;
    const char *file;
} tokenize_values;

#define ROW(name, kind, field, ...) HIL_ROW(name, kind, tokenize_values, field, __VA_ARGS__)

static const hil_option options[] = {
    ROW("model", TEXT, run.model, "DIR|tokenizer.json", "folder with a tokenizer.json, or the file",
        .group = "Options", .required = true),
    ROW("file", TEXT, file, "F", "what to read", .initial = "standard input"),
    ROW("special", ON, run.special, NULL, "add the post-processor's tokens; decoding: keep them"),
    ROW("decode", ON, run.decode, NULL, "read a JSON array of ids and write text"),
};

static int run(int argc, char **argv)
{
    tokenize_values values = {0};
    hil_parsed parsed;
    int code = 0;
    if (!hil_command_begin(&hil_command_tokenize, argc, argv, &values, &parsed, &code)) return code;
    hil_status status = HIL_OK;
    FILE *in = values.file ? fopen(values.file, "rb") : stdin;
    if (in)
        status = hil_tokenize(&values.run, in, stdout);
    else
        status = hil_fail(HIL_ERR_IO, "cannot open %s: %s", values.file, strerror(errno));
    if (in && in != stdin) fclose(in);
    code = status == HIL_OK ? hil_command_flush() : hil_command_fail(status);
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_tokenize = {
    .name = "tokenize",
    .summary = "Turns text into one JSON array of token ids, or back.",
    .usage = "--model DIR [--file F] [--special] [--decode]",
    .example = "  echo 'Hello, world' | hilbert tokenize --model gpt2\n"
               "  echo '[15496, 11, 995]' | hilbert tokenize --model gpt2 --decode\n",
    .option = options,
    .count = sizeof options / sizeof *options,
    .run = run,
};
