/* tokenize.c - hilbert tokenize. */
#include "cli/command.h"
#include "hilbert/run.h"

#define ROW(name, kind, field, ...) HIL_ROW(name, kind, hil_tokenize_options, field, __VA_ARGS__)

static const hil_option options[] = {
    ROW("model", TEXT, model, "DIR|tokenizer.json", "folder with a tokenizer.json, or the file",
        .group = "Options", .required = true),
    ROW("file", TEXT, file, "F", "what to read (text also as .gz or .zst)",
        .initial = "standard input"),
    ROW("special", ON, special, NULL, "add the post-processor's tokens; decoding: keep them"),
    ROW("decode", ON, decode, NULL, "read a JSON array of ids and write text"),
    ROW("messages", TEXT, messages, "F", "a conversation for the model's chat template, as JSON"),
    ROW("render", ON, render, NULL, "with --messages: write the rendered text"),
    ROW("generation-prompt", ON, generation_prompt, NULL,
        "with --messages: end where the model's answer begins"),
    ROW("show-mask", ON, show_mask, NULL, "with --messages: each token, and which are learned"),
    HIL_RECORD_ROWS(hil_tokenize_options, ),
};

static int run(int argc, char **argv)
{
    hil_tokenize_options values;
    hil_parsed parsed;
    int code = 0;
    hil_tokenize_defaults(&values);
    if (!hil_command_begin(&hil_command_tokenize, argc, argv, &values, &parsed, &code)) return code;
    hil_status status = hil_tokenize(&values, stdin, stdout);
    code = status == HIL_OK ? hil_command_flush() : hil_command_fail(status);
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_tokenize = {
    .name = "tokenize",
    .summary = "Turns text or a conversation into one JSON array of token ids, or ids into text.",
    .usage = "--model DIR [--file F] [--decode] | --messages F [--render | --show-mask]",
    .example =
        "  echo 'Hello, world' | hilbert tokenize --model gpt2\n"
        "  echo '[15496, 11, 995]' | hilbert tokenize --model gpt2 --decode\n"
        "  hilbert tokenize --model Qwen3-0.6B --messages chat.json --render\n"
        "  head -n 1 chat.jsonl | hilbert tokenize --model M --messages /dev/stdin --show-mask\n",
    .option = options,
    .count = sizeof options / sizeof *options,
    .run = run,
};
