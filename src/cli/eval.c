/* eval.c - hilbert eval. */
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/launch.h"

#include <stdlib.h>

typedef struct eval_values {
    hil_eval_options run;
    bool json;
} eval_values;

#define ROW(name, kind, field, ...) HIL_ROW(name, kind, eval_values, field, __VA_ARGS__)

static const hil_option options[] = {
    ROW("model", TEXT, run.model, "DIR", "model folder", .group = "Options", .required = true,
        .per_rank = true),
    ROW("data", LIST, run.data, "PATH[,PATH...]",
        "text, .json(l), .parquet, .npy; folders, patterns", .initial = "none",
        .rival = "messages"),
    ROW("messages", TEXT, run.messages, "F", "instead of --data: a conversation, as JSON",
        .initial = "none"),
    HIL_ADAPTER_ROW(eval_values, run.adapter),
    HIL_TOKENIZER_ROW(eval_values, run.tokenizer),
    HIL_RECORD_ROWS(eval_values, run.),
    HIL_LOSS_ROWS(eval_values, run.),
    ROW("seq", WHOLE, run.seq, "N", "tokens per window",
        .initial = "the model's longest, at most 1024", .range = &hil_range_count),
    ROW("batch", WHOLE, run.batch, "N", "windows computed at once", .initial = "chosen by rule",
        .range = &hil_range_count),
    ROW("micro-batch", WHOLE, run.micro_batch, "N", "the same, by its name in training",
        .initial = "chosen by rule", .range = &hil_range_count, .rival = "batch"),
    ROW("dtype", WORD, run.dtype, "bf16|fp32|fp16", "precision of the computation"),
    HIL_BASE_DTYPE_ROW(eval_values, run.base_dtype),
    ROW("threads", WHOLE, run.threads, "N", "CPU threads", .initial = "all",
        .range = &hil_range_threads, .per_rank = true),
    HIL_MEMORY_ROWS(eval_values, run., .group = NULL),
    ROW("json", ON, json, NULL, "print one JSON object", .per_rank = true),
};

static void print_preferences(const hil_eval_result *r)
{
    hil_preference_value each[HIL_PREFERENCE_VALUES];
    int count = hil_preference_values(&r->preferences, each);
    printf("{\"loss\": %.17g, \"%s\": %lld, ", r->loss,
           r->preferences.kind == HIL_PREFER_KTO ? "answers" : "pairs",
           (long long)r->preferences.pairs);
    for (int i = 0; i < count; ++i) printf("\"%s\": %.17g, ", each[i].name, each[i].value);
}

/* There is no margin where all answers have the same label. */
static void print_judged(const hil_eval_result *r)
{
    const hil_preferences *p = &r->preferences;
    printf("loss %.6f, ", r->loss);
    if (p->chosen && p->rejected) printf("margin %.4f, ", p->reward_chosen - p->reward_rejected);
    printf("kl %.4f, %lld answers, first batch after %.2f s\n", p->kl, (long long)p->pairs,
           r->seconds_to_first_batch);
}

static int print_result(const hil_eval_result *result, bool json)
{
    const hil_preferences *p = &result->preferences;
    if (json && p->pairs) print_preferences(result);
    if (json && !p->pairs)
        printf("{\"loss\": %.17g, \"perplexity\": %.17g, ", result->loss, result->perplexity);
    if (json && result->aux_loss > 0) printf("\"aux_loss\": %.17g, ", result->aux_loss);
    if (json)
        printf("\"tokens\": %lld, "
               "\"learned_share\": %.6g, \"examples\": %lld, \"examples_cut\": %lld, "
               "\"examples_left_out\": %lld, \"seconds\": %.6f, "
               "\"seconds_to_first_batch\": %.6f}\n",
               (long long)result->tokens, result->learned_share, (long long)result->examples.count,
               (long long)result->examples.cut, (long long)result->examples.left_out,
               result->seconds, result->seconds_to_first_batch);
    else if (p->kind == HIL_PREFER_KTO)
        print_judged(result);
    else if (p->pairs)
        printf("loss %.6f, accuracy %.4f, margin %.4f, %lld pairs, first batch after %.2f s\n",
               result->loss, p->accuracy, p->reward_chosen - p->reward_rejected,
               (long long)p->pairs, result->seconds_to_first_batch);
    else
        printf("loss %.6f, perplexity %.4f, %lld tokens (%.3g%% of the data), first batch after "
               "%.2f s\n",
               result->loss, result->perplexity, (long long)result->tokens,
               100 * result->learned_share, result->seconds_to_first_batch);
    return hil_command_flush();
}

static int evaluate(eval_values *values, const hil_parsed *parsed)
{
    hil_status status = hil_launch_open(&values->run.comm, &hil_command_eval, values);
    if (status != HIL_OK) return hil_launch_close(values->run.comm, hil_command_fail(status));
    hil_progress progress;
    hil_eval_result result;
    hil_command_catch_signals(NULL);
    values->run.stop = &hil_command_stop;
    hil_progress_begin(&progress, stderr,
                       hil_launch_first() ? HIL_VERBOSITY_NORMAL : HIL_VERBOSITY_QUIET);
    hil_command_report_sizes(parsed, &progress.hooks);
    status = hil_eval(&values->run, &progress.hooks, &result);
    hil_progress_end(&progress);
    int code = status == HIL_OK                ? print_result(&result, values->json)
               : status == HIL_ERR_INTERRUPTED ? hil_command_stopped()
                                               : hil_command_fail(status);
    return hil_launch_close(values->run.comm, code);
}

static int run(int argc, char **argv)
{
    eval_values values = {0};
    hil_eval_defaults(&values.run);
    char prefixes[HIL_PATH_MAX];
    values.run.device.prefixes = hil_command_prefixes(prefixes);
    values.run.cache = getenv("TMPDIR");
    hil_parsed parsed;
    int code = 0;
    if (!hil_command_begin(&hil_command_eval, argc, argv, &values, &parsed, &code)) return code;
    code = evaluate(&values, &parsed);
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_eval = {
    .name = "eval",
    .summary = "Measures a model's loss and perplexity on text, window by window in file order.",
    .usage = "--model DIR (--data PATH[,PATH...] | --messages F) [options]",
    .example = "  hilbert eval --model tuned --data held-out.txt --seq 512\n",
    .option = options,
    .count = sizeof options / sizeof *options,
    .ranks = true,
    .run = run,
};
