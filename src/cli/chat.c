/* chat.c - hilbert chat: reads messages line by line and writes the model's replies. */
#include "cli/command.h"
#include "cli/progress.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROW(name, kind, field, ...) HIL_ROW(name, kind, hil_generate_options, field, __VA_ARGS__)

static const hil_option options[] = {
    ROW("model", TEXT, model, "DIR", "model folder with a chat template", .group = "Options",
        .required = true),
    HIL_ADAPTER_ROW(hil_generate_options, adapter),
    ROW("system", TEXT, system, "TEXT", "the system message", .initial = "none"),
    ROW("context", WHOLE, context, "N", "tokens of the longest conversation",
        .initial = "the model's, at most 4096", .range = &hil_range_count),
    ROW("max-tokens", WHOLE, max_tokens, "N", "longest reply", .range = &hil_range_count),
    HIL_SAMPLING_ROWS,
    ROW("dtype", WORD, dtype, "bf16|fp32|fp16", "precision of the computation",
        .initial = "what the model's config.json says"),
    HIL_BASE_DTYPE_ROW(hil_generate_options, base_dtype),
    ROW("threads", WHOLE, threads, "N", "CPU threads", .initial = "all",
        .range = &hil_range_threads),
    HIL_MEMORY_ROWS(hil_generate_options, , .group = NULL),
};

static const char help_text[] =
    "/reset         forget the conversation, but not the system message\n"
    "/system TEXT   begin anew with this system message; without TEXT: none\n"
    "/help          this list\n"
    "/quit          leave, as does the end of the input\n"
    "Ctrl-C         stop a reply; at the prompt: leave\n";

static int write_text(void *context, const char *text, size_t size)
{
    hil_progress_end(context);
    return fwrite(text, 1, size, stdout) != size || fflush(stdout) != 0;
}

typedef struct talk {
    hil_chat *chat;
    bool terminal; /* a person types */
    char *line;
    size_t capacity;
} talk;

/* Reads a line without its end. While it waits, SIGINT ends the program. */
static bool read_line(talk *t)
{
    signal(SIGINT, SIG_DFL); /* before the prompt, which says that Ctrl-C now leaves */
    if (t->terminal) fputs("> ", stdout);
    fflush(stdout);
    ssize_t size = hil_command_stop ? -1 : getline(&t->line, &t->capacity, stdin);
    hil_command_catch_signals(NULL);
    if (size < 0) return false;
    while (size > 0 && (t->line[size - 1] == '\n' || t->line[size - 1] == '\r'))
        t->line[--size] = 0;
    return true;
}

/* Prints a failure that leaves the conversation usable; the caller continues. */
static int report(const talk *t, hil_status status)
{
    bool lasting = status != HIL_ERR_INPUT && status != HIL_ERR_BUDGET;
    int code = hil_command_fail(status);
    return lasting || !t->terminal ? code : 0;
}

static int say(talk *t)
{
    hil_generate_result result;
    hil_status status = hil_chat_say(t->chat, t->line, &result);
    if (status != HIL_OK) return report(t, status);
    fputc('\n', stdout);
    int code = hil_command_flush();
    if (code) return code;
    if (hil_command_stop && (!t->terminal || hil_command_stop != SIGINT))
        return hil_command_stopped();
    if (t->terminal && result.end == HIL_GENERATE_LENGTH)
        fprintf(stderr, "(the reply ends here: --max-tokens, or the context is full)\n");
    hil_command_stop = 0;
    return 0;
}

/* Carries out a line that begins with a slash; *quit: it was /quit. */
static int run_command(talk *t, bool *quit)
{
    const char *line = t->line;
    size_t word = strcspn(line, " \t");
    const char *rest = line + word + strspn(line + word, " \t");
    hil_status status = HIL_OK;
    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0)
        *quit = true;
    else if (strcmp(line, "/help") == 0)
        fputs(help_text, stderr);
    else if (strcmp(line, "/reset") == 0)
        status = hil_chat_reset(t->chat);
    else if (word == strlen("/system") && strncmp(line, "/system", word) == 0)
        status = hil_chat_set_system(t->chat, rest);
    else
        status = hil_fail(HIL_ERR_INPUT, "%.*s is no command: /reset, /system TEXT, /help, /quit",
                          (int)(word < 40 ? word : 40), line);
    return status == HIL_OK ? 0 : report(t, status);
}

static int converse(talk *t)
{
    int code = 0;
    bool quit = false;
    while (code == 0 && !quit && read_line(t)) {
        if (!t->line[strspn(t->line, " \t")]) continue;
        code = t->line[0] == '/' ? run_command(t, &quit) : say(t);
    }
    if (code == 0 && !quit && t->terminal) fputc('\n', stdout);
    return code || !hil_command_stop ? code : hil_command_stopped();
}

static int run(int argc, char **argv)
{
    hil_generate_options values = {0};
    char prefixes[HIL_PATH_MAX];
    hil_chat_defaults(&values);
    values.device.prefixes = hil_command_prefixes(prefixes);
    hil_parsed parsed;
    int code = 0;
    if (!hil_command_begin(&hil_command_chat, argc, argv, &values, &parsed, &code)) return code;
    talk t = {.terminal = isatty(STDIN_FILENO) == 1};
    hil_progress progress;
    hil_command_catch_signals(NULL);
    values.stop = &hil_command_stop;
    values.write = write_text;
    values.write_context = &progress;
    hil_progress_begin(&progress, stderr, HIL_VERBOSITY_NORMAL);
    hil_status status = hil_chat_open(&t.chat, &values, &progress.hooks);
    hil_progress_end(&progress);
    if (status == HIL_ERR_INTERRUPTED)
        code = hil_command_stopped();
    else
        code = status == HIL_OK ? converse(&t) : hil_command_fail(status);
    hil_chat_close(t.chat);
    free(t.line);
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_chat = {
    .name = "chat",
    .summary = "Talks to a model: each line is a message, and the reply appears as it is computed.",
    .usage = "--model DIR [options]",
    .example = "  hilbert chat --model tuned --system \"Answer briefly.\" --temperature 0.7\n",
    .option = options,
    .count = sizeof options / sizeof *options,
    .run = run,
};
