/* train.c - hilbert train. */
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/launch.h"
#include "cli/train_options.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define STOP_WORDS "hilbert: finishing this step and saving; a second Ctrl-C stops at once\n"

/* Prints `text` as one word of a shell command. */
static void print_quoted(FILE *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789/._-+=:,@%";
    if (*text && strspn(text, plain) == strlen(text)) {
        fputs(text, out);
        return;
    }
    fputc('\'', out);
    for (; *text; ++text) {
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
    }
    fputc('\'', out);
}

/* Prints how many examples were truncated or left out. */
static void print_examples(FILE *out, const hil_examples *e)
{
    char a[32], b[32];
    if (e->cut)
        fprintf(out, "%s of %s examples were longer than a window: their ends were cut off\n",
                hil_progress_count(a, e->cut), hil_progress_count(b, e->count));
    if (e->left_out)
        fprintf(out, "%s of %s examples were left out, with nothing to learn\n",
                hil_progress_count(a, e->left_out), hil_progress_count(b, e->count));
}

/* Prints where the model or the adapter is, and a command that tries it. */
static void print_trial(FILE *out, const hil_train_options *run, const hil_train_result *result)
{
    const char *tokenizer = result->tokenizer;
    bool adapter = run->adapter.source != NULL;
    fprintf(out, "%s in %s", adapter ? "adapter" : "model", run->out);
    if (!tokenizer) { /* trained on ids: generate cannot take text */
        fputc('\n', out);
        return;
    }
    bool bytes = strcmp(tokenizer, "bytes") == 0, chat = result->conversations && !bytes;
    bool on_path = !strchr(program_invocation_name, '/');
    fputs("; try it:\n  ", out);
    print_quoted(out, on_path ? "hilbert" : program_invocation_name);
    fprintf(out, " %s --model ", chat ? "chat" : "generate");
    print_quoted(out, adapter ? run->model : run->out);
    if (adapter) fputs(" --adapter ", out);
    if (adapter) print_quoted(out, run->out);
    if (adapter && run->base_dtype) fprintf(out, " --base-dtype %s", run->base_dtype);
    if (bytes) fputs(" --tokenizer bytes", out);
    fputs(chat ? "\n" : " --prompt \"Once upon a time\"\n", out);
}

/* Prints what this process did; after --resume that is less than the whole run. */
static void print_summary(const hil_progress *progress, const hil_train_options *run,
                          const hil_train_result *result)
{
    FILE *out = progress->out;
    char a[32], b[32], c[32], d[32];
    int64_t tokens = result->steps ? result->tokens / result->steps * progress->steps : 0;
    if (progress->steps == 0) {
        fprintf(out, "all %s steps were done before\n", hil_progress_count(a, result->steps));
    } else {
        fprintf(out, "%s step%s", hil_progress_count(a, progress->steps),
                progress->steps == 1 ? "" : "s");
        if (result->steps > progress->steps)
            fprintf(out, " (%s in all)", hil_progress_count(a, result->steps));
        fprintf(out, ", loss %.4f -> %.4f", result->first_loss, result->last_loss);
        if (!isnan(result->eval_loss)) fprintf(out, ", eval loss %.4f", result->eval_loss);
        if (result->best_step >= 0)
            fprintf(out, ", lowest %.4f after step %lld", result->best_loss,
                    (long long)result->best_step);
        if (result->stopped_early) fputs(", stopped by --patience", out);
        fprintf(out, "\n%s tokens", hil_progress_count(a, tokens));
        if (result->examples.count) /* in plain text nearly all tokens are learned */
            fprintf(out, " (%.3g%% learned)", 100 * (double)result->learned / (double)tokens);
        fprintf(out, " in %s, %s tokens/s, peak memory %s", hil_progress_time(b, result->seconds),
                hil_progress_count(c, llround(result->tokens_per_second)),
                hil_text_bytes(d, result->peak_bytes));
        if (result->ranks > 1) fprintf(out, " in the first of %d ranks", result->ranks);
        fputc('\n', out);
        print_examples(out, &result->examples);
        hil_progress_account(progress, result);
    }
    if (!run->keep) {
        fputs("nothing is saved: --keep 0\n", out);
        return;
    }
    print_trial(out, run, result);
}

static int train(hil_train_values *values, hil_parsed *parsed)
{
    hil_status status = hil_train_values_merge(values, parsed, hil_launch_ranks());
    if (status == HIL_OK) status = hil_launch_open(&values->run.comm, &hil_command_train, values);
    if (status != HIL_OK) return hil_launch_close(values->run.comm, hil_command_fail(status));
    signal(SIGPIPE, SIG_IGN); /* a closed pipe after the log does not end the run */
    bool quiet = values->quiet || !hil_launch_first();
    hil_progress progress;
    hil_progress_begin(&progress, stderr, quiet ? HIL_VERBOSITY_QUIET : HIL_VERBOSITY_NORMAL);
    hil_command_catch_signals(!hil_launch_first() ? NULL
                              : progress.live     ? "\n" STOP_WORDS
                                                  : STOP_WORDS);
    values->run.stop = &hil_command_stop;
    char cache[HIL_PATH_MAX], prefixes[HIL_PATH_MAX];
    values->run.device.prefixes = hil_command_prefixes(prefixes);
    values->run.probe_cache = hil_command_probe_cache(cache);
    hil_command_report_sizes(parsed, &progress.hooks);
    hil_train_values_report(values, &progress.hooks);
    hil_train_result result = {.eval_loss = NAN};
    status = hil_train(&values->run, &progress.hooks, &result);
    hil_command_catch_signals(NULL); /* prints nothing: mpirun signals ranks while the job ends */
    hil_progress_end(&progress);
    int code = 0;
    if (status != HIL_OK)
        code = hil_command_fail(status);
    else if (!quiet)
        print_summary(&progress, &values->run, &result);
    if (status == HIL_ERR_INTERRUPTED) code = hil_command_stopped();
    return hil_launch_close(values->run.comm, code);
}

/* The command line as a shell takes it, for the report; NULL: out of memory. The caller frees it.
 */
static char *quote_command(int argc, char **argv)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    fputs("hilbert train", out);
    for (int i = 0; i < argc; ++i) {
        fputc(' ', out);
        print_quoted(out, argv[i]);
    }
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

static int run(int argc, char **argv)
{
    hil_train_values values = {0};
    hil_train_defaults(&values.run);
    hil_parsed parsed;
    int code = 0;
    if (!hil_command_begin(&hil_command_train, argc, argv, &values, &parsed, &code)) return code;
    char *command = quote_command(argc, argv);
    values.run.command = command;
    code = train(&values, &parsed);
    free(command);
    hil_deepspeed_free(&values.deepspeed);
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_train = {
    .name = "train",
    .summary = "Trains a Hugging Face model on text and writes a Hugging Face model folder.",
    .usage = "--model DIR|config.json --data PATH[,PATH...] --out DIR [options]",
    .example = "  hilbert train --model gpt2 --data book.txt --out tuned --epochs 2 --lr 1e-5\n"
               "  mpirun -n 4 hilbert train --model gpt2 --data book.txt --out tuned --batch 32\n",
    .option = hil_train_rows,
    .count = HIL_TRAIN_ROWS,
    .ranks = true,
    .run = run,
};
