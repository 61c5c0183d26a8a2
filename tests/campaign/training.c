/* training.c - the run that campaigns disturb, compared with an undisturbed one. */
#include "campaign/training.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const model_files[] = {"config.json", "generation_config.json",
                                          "model.safetensors", "tokens.npy"};

void training_command(campaign_case *c, const training_plan *plan, campaign_command *command)
{
    command_begin(command, "train");
    command_add(command, "--model=%s/model", c->work);
    command_add(command, "--data=%s/tokens.npy", c->work);
    command_add(command, "--out=%s/run", c->folder);
    command_words(
        command,
        "--device cpu --eval-fraction 0.3 --eval-every 2 --seq 16 --batch 4 --micro-batch 2 "
        "--lr 1e-3 --schedule constant --threads 1");
    command_add(command, "--steps=%d", plan->steps);
    command_add(command, "--save-every=%d", plan->save_every);
    command_add(command, "--keep=%d", plan->keep);
    if (plan->resume) command_words(command, "--resume");
    if (plan->place == TRAINING_PLAIN) return;
    command_words(command, "--device-memory 300K --host-memory 200K");
    command_add(command, "--disk=%s/swap", c->folder);
    if (plan->place == TRAINING_DISK_THREADS) command_words(command, "--io threads");
}

training_plan training_random(campaign_case *c, bool resume)
{
    training_plan plan = {.resume = resume, .steps = TRAINING_STEPS};
    plan.place = (training_place)campaign_random(c, TRAINING_PLACES);
    plan.save_every = 1 + (int)campaign_random(c, 2);
    plan.keep = 1 + (int)campaign_random(c, 2);
    return plan;
}

static void make_swap(campaign_case *c)
{
    char path[CAMPAIGN_PATH];
    mkdir(campaign_path(c->folder, "swap", path), 0755);
}

/* Runs to the end, undisturbed. */
static void run_whole(campaign_case *c, training_place place)
{
    training_plan plan = {.place = place, .steps = TRAINING_STEPS, .save_every = 1, .keep = 2};
    campaign_command command;
    char path[CAMPAIGN_PATH];
    make_swap(c);
    campaign_tool(c, "rm", "-rf", campaign_path(c->folder, "run", path), (char *)NULL);
    training_command(c, &plan, &command);
    int code = campaign_run(c, &command, TRAINING_SECONDS);
    if (code != 0) campaign_wrong(c, "the undisturbed run gives %d: %s", code, campaign_said(c));
    command_free(&command);
}

void training_prepare(campaign_case *c)
{
    char from[CAMPAIGN_PATH], name[CAMPAIGN_PATH], path[CAMPAIGN_PATH], to[CAMPAIGN_PATH];
    CHECK(mkdir(campaign_path(c->work, "model", to), 0755) == 0);
    for (size_t i = 0; i < sizeof model_files / sizeof *model_files; ++i) {
        snprintf(name, sizeof name, "models/qwen3/%s", model_files[i]);
        campaign_tool(c, "cp", campaign_golden(name, from), i < 3 ? to : c->work, (char *)NULL);
    }
    run_whole(c, TRAINING_PLAIN);
    campaign_tool(c, "mv", campaign_path(c->work, "run", path),
                  campaign_path(c->work, "reference", to), (char *)NULL);
    for (int place = TRAINING_DISK; place < TRAINING_PLACES; ++place) {
        run_whole(c, (training_place)place); /* measures the drive if that is not cached yet */
        training_check_same(c, true);
    }
}

static trace_action only_count(trace *t, const trace_stop *stop)
{
    (void)t, (void)stop;
    return TRACE_GO;
}

void training_clear(campaign_case *c)
{
    char path[CAMPAIGN_PATH];
    campaign_tool(c, "rm", "-rf", campaign_path(c->folder, "run", path), (char *)NULL);
    campaign_tool(c, "rm", "-rf", campaign_path(c->folder, "swap", path), (char *)NULL);
    CHECK(mkdir(path, 0755) == 0);
}

int training_trace(campaign_case *c, const training_plan *plan, trace *t)
{
    campaign_command command;
    training_command(c, plan, &command);
    int code = trace_run(c, &command, t, TRAINING_SECONDS);
    command_free(&command);
    campaign_check_end(c, code);
    return code;
}

void training_count(campaign_case *c, training_place place, long count[TRACE_KINDS])
{
    training_plan plan = {.place = place, .steps = TRAINING_STEPS, .save_every = 1, .keep = 1};
    trace t = {.stop = only_count};
    training_clear(c);
    int code = training_trace(c, &plan, &t);
    if (code != 0) campaign_wrong(c, "a traced run gives %d: %s", code, campaign_said(c));
    training_check_same(c, true);
    memcpy(count, t.count, sizeof t.count);
}

void training_prepare_counts(campaign_case *c, training_place first,
                             long counts[TRAINING_PLACES][TRACE_KINDS])
{
    training_prepare(c);
    for (int place = (int)first; place < TRAINING_PLACES; ++place)
        training_count(c, (training_place)place, counts[place]);
}

/* metrics.jsonl without times and without the numbers that depend on placement. */
static char *numbers(const char *folder, const char *run)
{
    char path[CAMPAIGN_PATH], file[CAMPAIGN_PATH];
    campaign_path(campaign_path(folder, run, path), "metrics.jsonl", file);
    char *text = campaign_read(file, NULL), *to = text;
    for (const char *from = text; from && *from;) {
        const char *end = from + strcspn(from, "\n"), *cut = strstr(from, ", \"seconds\"");
        size_t size = (size_t)((cut && cut < end ? cut : end) - from);
        memmove(to, from, size);
        to += size;
        *to++ = '\n';
        from = *end ? end + 1 : end;
    }
    if (to) *to = 0;
    return text;
}

void training_check_same(campaign_case *c, bool metrics)
{
    char path[CAMPAIGN_PATH];
    size_t size = 0, expected = 0;
    const char *mine = "run/model.safetensors", *whole = "reference/model.safetensors";
    char *model = campaign_read(campaign_path(c->folder, mine, path), &size);
    char *other = campaign_read(campaign_path(c->work, whole, path), &expected);
    if (!model || !other || size != expected || memcmp(model, other, size) != 0)
        campaign_wrong(c, "wrong bits in the model");
    free(model);
    free(other);
    if (!metrics) return;
    model = numbers(c->folder, "run");
    other = numbers(c->work, "reference");
    if (!model || !other || strcmp(model, other) != 0)
        campaign_wrong(c, "wrong metrics: %s", model ? model : "none");
    free(model);
    free(other);
}

static void check_swap(campaign_case *c)
{
    char path[CAMPAIGN_PATH];
    DIR *folder = opendir(campaign_path(c->folder, "swap", path));
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        if (entry->d_name[0] != '.') campaign_wrong(c, "left on the drive: %s", entry->d_name);
    if (folder) closedir(folder);
}

void training_check_whole(campaign_case *c)
{
    campaign_command command;
    char path[CAMPAIGN_PATH];
    check_swap(c);
    bool saved = access(campaign_path(c->folder, "run/checkpoints/latest", path), F_OK) == 0;
    command_begin(&command, "verify");
    command_add(&command, "%s/run", c->folder);
    int code = campaign_run(c, &command, TRAINING_SECONDS);
    campaign_check_end(c, code);
    if (saved && code != 0) campaign_wrong(c, "verify: %s", campaign_said(c));
    command_free(&command);
}

void training_check_resume(campaign_case *c)
{
    training_plan plan = training_random(c, true);
    campaign_command command;
    make_swap(c);
    training_command(c, &plan, &command);
    int code = campaign_run(c, &command, TRAINING_SECONDS);
    if (code != 0) campaign_wrong(c, "--resume gives %d: %s", code, campaign_said(c));
    training_check_same(c, true);
    campaign_check_left(c);
    check_swap(c);
    command_free(&command);
}
