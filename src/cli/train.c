/* train.c - hilbert train. */
#include "cli/command.h"
#include "cli/progress.h"

#include <math.h>
#include <signal.h>
#include <string.h>

#define STOP_WORDS "hilbert: finishing this step and saving; once more to stop at once\n"

typedef struct train_values {
    hil_train_options run;
    const char *config;
    bool quiet;
} train_values;

#define ROW(name, kind, field, ...) HIL_ROW(name, kind, train_values, field, __VA_ARGS__)

static const hil_option options[] = {
    ROW("model", TEXT, run.model, "DIR|config.json",
        "model folder, or a config alone to start from scratch", .group = "Input and output",
        .required = true),
    ROW("data", LIST, run.data, "PATH[,PATH...]", "text, .jsonl or .npy files; may be repeated",
        .required = true),
    ROW("out", TEXT, run.out, "DIR", "becomes the trained model folder", .required = true),
    ROW("resume", ON, run.resume, NULL, "continue from the newest checkpoint in --out",
        .rival = "overwrite"),
    ROW("overwrite", ON, run.overwrite, NULL, "replace a run that --out holds already",
        .rival = "resume"),
    ROW("config", CONFIG, config, "FILE.json", "options by name as a JSON object; flags win"),
    ROW("quiet", ON, quiet, NULL, "print nothing but errors"),
    ROW("steps", WHOLE, run.steps, "N", "optimizer steps", .group = "Length and shape",
        .initial = "from --epochs", .range = &hil_range_count, .rival = "epochs"),
    ROW("epochs", REAL, run.epochs, "X", "passes over the data", .initial = "1",
        .range = &hil_range_positive, .rival = "steps"),
    ROW("seq", WHOLE, run.seq, "N", "tokens per sequence",
        .initial = "the model's longest, at most 1024", .range = &hil_range_count),
    ROW("batch", WHOLE, run.batch, "N", "sequences per step, over everything",
        .range = &hil_range_count),
    ROW("micro-batch", WHOLE, run.micro_batch, "N", "sequences computed at once",
        .initial = "chosen by rule", .range = &hil_range_count),
    ROW("no-shuffle", OFF, run.shuffle, NULL, "take the windows in file order"),
    ROW("optimizer", WORD, run.optimizer, "adamw|lion|adamw8bit", "the update rule",
        .group = "Optimizer"),
    ROW("lr", REAL, run.lr, "X", "highest learning rate", .range = &hil_range_amount),
    ROW("schedule", CHOICE, run.schedule, "cosine|linear|constant",
        "learning rate after the warm-up"),
    ROW("warmup", WHOLE, run.warmup, "N", "steps that raise the rate from 0",
        .range = &hil_range_index),
    ROW("weight-decay", REAL, run.weight_decay, "X", "decay of everything but norms and biases",
        .range = &hil_range_amount),
    ROW("clip", REAL, run.clip, "X", "highest gradient norm, 0 for no limit",
        .range = &hil_range_amount),
    ROW("beta1", REAL, run.beta1, "X", "memory of the first moment", .range = &hil_range_below_one),
    ROW("beta2", REAL, run.beta2, "X", "memory of the second moment", .initial = "0.95, lion 0.99",
        .range = &hil_range_below_one),
    ROW("eps", REAL, run.eps, "X", "added to the root of the second moment",
        .range = &hil_range_positive),
    ROW("freeze", LIST, run.freeze, "PATTERN[,PATTERN...]",
        "parameters that stay as they are; may be repeated", .initial = "none"),
    ROW("dtype", WORD, run.dtype, "bf16|fp32|fp16", "precision of the computation",
        .group = "Numbers and machine"),
    ROW("save-dtype", WORD, run.save_dtype, "fp32|bf16|fp16", "precision of the saved weights",
        .initial = "the input's"),
    ROW("seed", SEED, run.seed, "N", "of initial weights, order and dropout"),
    ROW("threads", WHOLE, run.threads, "N", "CPU threads", .initial = "all",
        .range = &hil_range_threads),
    ROW("recompute", CHOICE, run.recompute, "none|all",
        "compute activations again instead of keeping them"),
    ROW("tile-size", SIZE, run.tile_size, "SIZE",
        "larger matrices are split; K, M, G, T are powers of 1024"),
    HIL_MEMORY_ROWS(train_values, run., .group = "Memory"),
    ROW("prefetch", CHOICE, run.prefetch, "off|on", "fetch ahead of use; off only to compare"),
    ROW("plan", TEXT, run.plan, "FILE", "follow this plan (of hilbert plan --json)",
        .initial = "chosen"),
    ROW("trace", TEXT, run.trace, "FILE", "write a timeline in Chrome trace format",
        .initial = "none"),
    ROW("eval-data", TEXT, run.eval_data, "PATH", "file to evaluate on",
        .group = "Evaluation and checkpoints", .initial = "none", .rival = "eval-fraction"),
    ROW("eval-fraction", REAL, run.eval_fraction, "X", "part of the data held out for evaluation",
        .range = &hil_range_below_one, .rival = "eval-data"),
    ROW("eval-every", WHOLE, run.eval_every, "N", "steps between evaluations",
        .initial = "at the end", .range = &hil_range_index),
    ROW("save-every", WHOLE, run.save_every, "N", "steps between checkpoints",
        .initial = "at the end", .range = &hil_range_index),
    ROW("keep", WHOLE, run.keep, "N", "checkpoints kept", .range = &hil_range_count),
};

/* `text` as one word of a shell command. */
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

/* What this start did; after --resume that is less than the whole run. */
static void print_summary(const hil_progress *progress, const char *model,
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
        fprintf(out, "\n%s tokens in %s, %s tokens/s, peak memory %s\n",
                hil_progress_count(a, tokens), hil_progress_time(b, result->seconds),
                hil_progress_count(c, llround(result->tokens_per_second)),
                hil_text_bytes(d, result->peak_bytes));
        hil_progress_account(progress, result);
    }
    fprintf(out, "model in %s; try it:\n  hilbert generate --model ", model);
    print_quoted(out, model);
    fputs(" --prompt \"Once upon a time\"\n", out);
}

static int run(int argc, char **argv)
{
    train_values values = {0};
    hil_train_defaults(&values.run);
    hil_parsed parsed;
    int code = 0;
    if (!hil_command_begin(&hil_command_train, argc, argv, &values, &parsed, &code)) return code;
    signal(SIGPIPE, SIG_IGN); /* a reader of the log that goes away is no reason to stop */
    hil_progress progress;
    hil_progress_begin(&progress, stderr, values.quiet ? HIL_TALK_QUIET : HIL_TALK_NORMAL);
    hil_command_catch_signals(progress.live ? "\n" STOP_WORDS : STOP_WORDS);
    values.run.stop = &hil_command_stop;
    hil_train_result result = {.eval_loss = NAN};
    hil_status status = hil_train(&values.run, &progress.hooks, &result);
    hil_progress_end(&progress);
    if (status == HIL_ERR_INTERRUPTED) {
        hil_command_fail(status);
        code = 128 + hil_command_stop;
    } else if (status != HIL_OK) {
        code = hil_command_fail(status);
    } else if (!values.quiet) {
        print_summary(&progress, values.run.out, &result);
    }
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_train = {
    .name = "train",
    .summary = "Trains a Hugging Face model on text and writes a Hugging Face model folder.",
    .usage = "--model DIR|config.json --data PATH[,PATH...] --out DIR [options]",
    .example = "  hilbert train --model gpt2 --data book.txt --out tuned --epochs 2 --lr 1e-5\n",
    .option = options,
    .count = sizeof options / sizeof *options,
    .run = run,
};
