/* Ten steps equal five, a save, a resume and five more; what must not be resumed is refused. */
#include "copy.h"
#include "job.h"

typedef struct notes {
    char text[4096];
} notes;

static void take_note(void *context, const char *line)
{
    notes *all = context;
    size_t used = strlen(all->text);
    snprintf(all->text + used, sizeof all->text - used, "%s\n", line);
}

static notes run(const hil_train_options *options)
{
    notes all = {""};
    hil_observer observer = {.context = &all, .note = take_note};
    hil_train_result result;
    CHECK_OK(hil_train(options, &observer, &result));
    CHECK_INT(result.steps, options->steps);
    return all;
}

/* Options under which the tenth step lies in the middle of an epoch. */
static hil_train_options shuffled(job_place *place, const char *model, const char *out)
{
    hil_train_options options = job_options(place, model, out);
    options.shuffle = true;
    options.batch = 3;
    options.micro_batch = 2;
    options.eval_fraction = 0.25;
    options.eval_every = 2;
    options.steps = 10;
    return options;
}

static void check_split(job_place *place, const char *model, const char *dtype, bool examples)
{
    char whole[JOB_PATH], parts[JOB_PATH], name[64];
    snprintf(name, sizeof name, "whole-%s-%s", model, dtype);
    hil_train_options options = shuffled(place, model, job_path(place, whole, name));
    options.dtype = dtype;
    if (examples) job_examples(place, &options);
    run(&options);
    snprintf(name, sizeof name, "parts-%s-%s", model, dtype);
    options.out = job_path(place, parts, name);
    options.resume = true;
    options.steps = 4;
    notes said = run(&options);
    CHECK(strstr(said.text, "starting afresh") != NULL);
    options.steps = 10;
    options.threads = 2;
    said = run(&options);
    CHECK(strstr(said.text, "resuming after step 4") != NULL);
    if (!job_same(whole, parts)) check_die(name, __LINE__, "differs from the run in one go");
    /* Nothing is left to do, and nothing changes. */
    run(&options);
    if (!job_same(whole, parts)) check_die(name, __LINE__, "changed when it was over");
}

/* The last evaluation is only at the end: extending a run must not repeat it. */
static void check_extended(job_place *place)
{
    char whole[JOB_PATH], parts[JOB_PATH];
    double step[32];
    hil_train_options options = job_options(place, "llama", job_path(place, whole, "long"));
    options.steps = 8;
    options.save_every = 3;
    run(&options);
    options.out = job_path(place, parts, "extended");
    options.steps = 5;
    run(&options);
    options.resume = true;
    options.steps = 8;
    run(&options);
    CHECK(job_same(whole, parts));
    CHECK_INT(job_metrics(parts, "step", step, 32), 8);
    for (int s = 0; s < 8; ++s) CHECK(step[s] == s + 1);
    options.steps = 7;
    hil_train_result result;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "--steps 7");
}

static void refuse(const hil_train_options *options, const char *words)
{
    hil_train_result result;
    CHECK_FAILS(hil_train(options, NULL, &result), HIL_ERR_USAGE, words);
}

static void check_contradictions(job_place *place)
{
    char out[JOB_PATH];
    hil_train_options first = shuffled(place, "qwen2", job_path(place, out, "contradicted"));
    first.steps = 2;
    run(&first);
    first.resume = true;
    first.steps = 3;
#define REFUSE(name, field, value)                                                                 \
    do {                                                                                           \
        hil_train_options options = first;                                                         \
        options.field = value;                                                                     \
        refuse(&options, name);                                                                    \
    } while (0)
    REFUSE("--seq 32, not 16", seq, 16);
    REFUSE("--batch 3, not 4", batch, 4);
    REFUSE("--micro-batch 2, not 1", micro_batch, 1);
    REFUSE("--lr", lr, 2e-3);
    REFUSE("--weight-decay", weight_decay, 0.2);
    REFUSE("--clip", clip, 0);
    REFUSE("--beta1", beta1, 0.8);
    REFUSE("--beta2", beta2, 0.99);
    REFUSE("--eps", eps, 1e-6);
    REFUSE("--schedule", schedule, HIL_SCHEDULE_LINEAR);
    REFUSE("--warmup", warmup, 1);
    REFUSE("--dtype", dtype, "bf16");
    REFUSE("--seed", seed, 7);
    REFUSE("--no-shuffle", shuffle, false);
    REFUSE("--eval-fraction", eval_fraction, 0.5);
    REFUSE("--tile-size", tile_size, 1000);
    REFUSE("--train-on", train_on, "all");
    const char *twice[] = {place->tokens, place->tokens};
    hil_train_options options = first;
    options.data = twice;
    options.data_count = 2;
    refuse(&options, "the data");
    const char *other[] = {HIL_TESTS "/golden/models/mistral/tokens.npy"}; /* of the same length */
    options.data = other;
    options.data_count = 1;
    refuse(&options, "data of checksum");
    /* The same data under another name is the same data. */
    char copy[JOB_PATH];
    CHECK_OK(copy_file(place->tokens, job_path(place, copy, "copy.npy")));
    other[0] = copy;
    run(&options);
    first.steps = 4;
    run(&first);
}

int main(void)
{
    job_place place;
    job_begin(&place);
    check_split(&place, "qwen3", "fp32", false);
    check_split(&place, "gpt2", "bf16", false);
    check_split(&place, "llama", "bf16", true);
    check_extended(&place);
    check_contradictions(&place);
    job_end(&place);
    return 0;
}
