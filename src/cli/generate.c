/* generate.c - hilbert generate. */
#include "cli/command.h"
#include "hilbert/run.h"

#include <unistd.h>

#define ROW(name, kind, field, ...) HIL_ROW(name, kind, hil_generate_options, field, __VA_ARGS__)

static const hil_option options[] = {
    ROW("model", TEXT, model, "DIR", "model folder", .group = "Options", .required = true),
    ROW("prompt", TEXT, prompt, "TEXT", "text to continue, may be empty; this or --messages",
        .initial = "none", .empty = true, .rival = "messages"),
    ROW("messages", TEXT, messages, "F", "instead: a JSON conversation to reply to",
        .initial = "none"),
    HIL_ADAPTER_ROW(hil_generate_options, adapter),
    HIL_TOKENIZER_ROW(hil_generate_options, tokenizer),
    ROW("max-tokens", WHOLE, max_tokens, "N", "longest continuation", .range = &hil_range_index),
    HIL_SAMPLING_ROWS,
    ROW("dtype", WORD, dtype, "bf16|fp32|fp16", "precision of the computation"),
    HIL_BASE_DTYPE_ROW(hil_generate_options, base_dtype),
    ROW("threads", WHOLE, threads, "N", "CPU threads", .initial = "all",
        .range = &hil_range_threads),
    HIL_MEMORY_ROWS(hil_generate_options, , .group = NULL),
};

static int write_text(void *context, const char *text, size_t size)
{
    (void)context;
    return fwrite(text, 1, size, stdout) != size || fflush(stdout) != 0;
}

static int run(int argc, char **argv)
{
    hil_generate_options values = {0};
    char prefixes[HIL_PATH_MAX];
    hil_generate_defaults(&values);
    values.prompt = NULL;
    values.device.prefixes = hil_command_prefixes(prefixes);
    hil_parsed parsed;
    int code = 0;
    if (!hil_command_begin(&hil_command_generate, argc, argv, &values, &parsed, &code)) return code;
    hil_command_catch_signals(NULL);
    values.stop = &hil_command_stop;
    values.write = write_text;
    hil_generate_result result = {0};
    hil_status status = values.prompt || values.messages
                            ? hil_generate(&values, &result)
                            : hil_fail(HIL_ERR_USAGE, "generate needs --prompt or --messages");
    if (status != HIL_OK && status != HIL_ERR_INTERRUPTED) {
        code = hil_command_fail(status);
    } else {
        fputc('\n', stdout);
        code = hil_command_flush();
        if (code == 0 && hil_command_stop) code = 128 + hil_command_stop;
        if (code == 0 && isatty(STDERR_FILENO) == 1)
            fprintf(stderr, "%lld tokens after %lld, %.1f s, %.1f tokens/s\n",
                    (long long)result.tokens, (long long)result.prompt_tokens, result.seconds,
                    result.tokens_per_second);
    }
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_generate = {
    .name = "generate",
    .summary = "Continues a text with a model; the continuation appears as it is computed.",
    .usage = "--model DIR (--prompt TEXT | --messages F) [options]",
    .example = "  hilbert generate --model tuned --prompt \"Once upon a time\" --temperature 0\n"
               "  hilbert generate --model tuned --messages chat.json\n",
    .option = options,
    .count = sizeof options / sizeof *options,
    .run = run,
};
