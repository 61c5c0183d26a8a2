/* `export --overwrite`, or a run that has only its model left to write, is killed at the entry or
   return of one system call: the folder holds the old model, the new one, or does not load. The
   same command again completes the new one. */
/* soak: --full */
#include "campaign/training.h"
#include "format/model_sum.h"

#include <signal.h>
#include <unistd.h>

enum { EXPORTS, RUNS, WAYS };
enum { OLD, NEW, NONE };

static long counts[WAYS][TRACE_KINDS];
static uint64_t old_sum, new_sum;

typedef struct blow {
    int kind;
    long n;
    bool at_return, hit;
} blow;

static void command_of(campaign_case *c, int way, campaign_command *command)
{
    training_plan plan = {.resume = true, .steps = TRAINING_STEPS, .save_every = 1, .keep = 2};
    if (way == RUNS) {
        training_command(c, &plan, command);
        return;
    }
    command_begin(command, "export");
    command_add(command, "%s/reference", c->work);
    command_add(command, "%s/run", c->folder);
    command_words(command, "--overwrite");
}

/* case/run: the old model, and for a run its checkpoints. */
static void make_folder(campaign_case *c, int way)
{
    char path[CAMPAIGN_PATH], old[CAMPAIGN_PATH], reference[CAMPAIGN_PATH];
    campaign_tool(c, "rm", "-rf", campaign_path(c->folder, "run", path), (char *)NULL);
    campaign_tool(c, "cp", "-r", campaign_path(c->work, "old", old), path, (char *)NULL);
    if (way == EXPORTS) return;
    campaign_path(c->work, "reference/checkpoints", reference);
    campaign_tool(c, "cp", "-r", reference, path, (char *)NULL);
    campaign_path(c->work, "reference/metrics.jsonl", reference);
    campaign_tool(c, "cp", reference, path, (char *)NULL);
}

static int state_of(campaign_case *c)
{
    char path[CAMPAIGN_PATH], config[CAMPAIGN_PATH];
    campaign_path(c->folder, "run", path);
    if (access(campaign_path(path, "config.json", config), F_OK) != 0) return NONE;
    uint64_t sum = model_sum(path);
    if (sum != old_sum && sum != new_sum) campaign_wrong(c, "the folder holds parts of two models");
    return sum == old_sum ? OLD : NEW;
}

static void finish(campaign_case *c, const campaign_command *command)
{
    int code = campaign_run(c, command, TRAINING_SECONDS);
    if (code != 0) campaign_wrong(c, "again: %d: %s", code, campaign_said(c));
    if (state_of(c) != NEW) campaign_wrong(c, "again: not the new model");
    campaign_check_left(c);
}

static trace_action only_count(trace *t, const trace_stop *stop)
{
    (void)t, (void)stop;
    return TRACE_GO;
}

static void prepare(campaign_case *c)
{
    char path[CAMPAIGN_PATH];
    campaign_command command;
    training_prepare(c);
    command_begin(&command, "export");
    command_add(&command, "%s/reference/checkpoints/step-%d", c->work, TRAINING_STEPS - 1);
    command_add(&command, "%s/old", c->work);
    command_words(&command, "--dtype fp16 --shard-size 16K");
    if (campaign_run(c, &command, TRAINING_SECONDS) != 0) campaign_wrong(c, "%s", campaign_said(c));
    command_free(&command);
    campaign_write(c, campaign_path(c->work, "old/tokenizer.json", path), "old", 3);
    old_sum = model_sum(campaign_path(c->work, "old", path));
    new_sum = model_sum(campaign_path(c->work, "reference", path));
    for (int way = 0; way < WAYS; ++way) {
        trace t = {.stop = only_count};
        make_folder(c, way);
        command_of(c, way, &command);
        int code = trace_run(c, &command, &t, TRAINING_SECONDS);
        if (code != 0) campaign_wrong(c, "a traced run gives %d: %s", code, campaign_said(c));
        if (state_of(c) != NEW) campaign_wrong(c, "a traced run gives another model");
        memcpy(counts[way], t.count, sizeof t.count);
        command_free(&command);
    }
}

static trace_action strike(trace *t, const trace_stop *stop)
{
    blow *b = t->context;
    if (b->hit || stop->kind != b->kind || stop->n != b->n) return TRACE_GO;
    if (b->at_return && !stop->exit) return TRACE_EXIT;
    b->hit = true;
    kill(stop->process, SIGKILL);
    return TRACE_GO;
}

/* Tries calls that change files first, in order; then random ones. */
static void choose(campaign_case *c, int way, blow *b)
{
    static const int changing[] = {7, 8, 6, 9, 4}; /* rename, unlink, fsync, mkdir, open */
    long at = c->index / WAYS;
    b->at_return = campaign_random(c, 2);
    for (size_t i = 0; i < sizeof changing / sizeof *changing; ++i) {
        b->kind = changing[i];
        b->n = at + 1;
        if (at < counts[way][changing[i]]) return;
        at -= counts[way][changing[i]];
    }
    b->kind = trace_choose(c, counts[way], &b->n);
}

static int run(campaign_case *c)
{
    blow b = {0};
    trace t = {.stop = strike, .context = &b};
    int way = c->index % WAYS;
    campaign_command command;
    choose(c, way, &b);
    snprintf(c->details, sizeof c->details, "%s, killed at the %s of %s %ld",
             way == EXPORTS ? "export" : "train", b.at_return ? "return" : "entry",
             trace_kind_name[b.kind], b.n);
    make_folder(c, way);
    command_of(c, way, &command);
    int code = trace_run(c, &command, &t, TRAINING_SECONDS);
    if (code != 0 && code != CAMPAIGN_SIGNALLED + SIGKILL)
        campaign_wrong(c, "gives %d: %s", code, campaign_said(c));
    int state = state_of(c);
    finish(c, &command);
    command_free(&command);
    return state;
}

int main(int argc, char **argv)
{
    static const char *const outcomes[] = {"old model", "new model", "does not load", NULL};
    static const campaign exports = {"killed exports", "mixtures", outcomes, 400, 40, prepare, run};
    return campaign_main(&exports, argc, argv);
}
