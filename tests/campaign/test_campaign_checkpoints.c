/* Checkpoints are damaged between two commands: --resume continues from the newest whole one or
   reports that there is none; never wrong bits. */
/* soak: --full */
#include "campaign/training.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEPS_BEFORE = 4, MOST_FILES = 32 };
enum { FROM_NEWEST, FROM_OLDER, FROM_START, REFUSED }; /* outcomes */

/* What the case has changed in its copy of the run. */
typedef struct state {
    bool touched[STEPS_BEFORE + 1]; /* a checkpoint, by its step: 2 or 4 */
    bool metrics;
} state;

/* work/template: a run that ended after step 4 with the checkpoints of steps 2 and 4. */
static void prepare(campaign_case *c)
{
    training_plan plan = {.steps = STEPS_BEFORE, .save_every = 2, .keep = 3};
    campaign_command command;
    char path[CAMPAIGN_PATH], to[CAMPAIGN_PATH];
    training_prepare(c);
    campaign_tool(c, "rm", "-rf", campaign_path(c->work, "run", path), (char *)NULL);
    training_command(c, &plan, &command);
    int code = campaign_run(c, &command, TRAINING_SECONDS);
    if (code != 0) campaign_wrong(c, "the template gives %d: %s", code, campaign_said(c));
    campaign_tool(c, "mv", campaign_path(c->work, "run", path),
                  campaign_path(c->work, "template", to), (char *)NULL);
    command_free(&command);
}

static char *checkpoint(campaign_case *c, int step, char path[CAMPAIGN_PATH])
{
    snprintf(path, CAMPAIGN_PATH, "%.400s/run/checkpoints/step-%d", c->folder, step);
    return path;
}

/* A random file of a checkpoint. */
static char *random_file(campaign_case *c, int step, char path[CAMPAIGN_PATH])
{
    char folder[CAMPAIGN_PATH], name[256] = "manifest.json";
    const struct dirent *entry;
    uint64_t seen = 0;
    DIR *all = opendir(checkpoint(c, step, folder));
    while (all && (entry = readdir(all)))
        if (entry->d_name[0] != '.' && campaign_random(c, ++seen) == 0)
            snprintf(name, sizeof name, "%s", entry->d_name);
    if (all) closedir(all);
    return campaign_path(folder, name, path);
}

static void flip(campaign_case *c, const char *path)
{
    size_t size = 0;
    char *bytes = campaign_read(path, &size);
    size_t flips = 1 + (size_t)campaign_random(c, 4);
    if (bytes && size) {
        for (size_t i = 0; i < flips; ++i)
            bytes[campaign_random(c, size)] ^= (char)(1 << campaign_random(c, 8));
        campaign_write(c, path, bytes, size);
    }
    free(bytes);
}

static void cut(campaign_case *c, const char *path)
{
    size_t size = 0;
    char *bytes = campaign_read(path, &size);
    size_t keep = campaign_random(c, 3) ? (size_t)campaign_random(c, size) : 0;
    if (bytes) campaign_write(c, path, bytes, keep);
    free(bytes);
}

static void grow(campaign_case *c, const char *path)
{
    struct stat info;
    FILE *file = stat(path, &info) == 0 && S_ISREG(info.st_mode) ? fopen(path, "ab") : NULL;
    if (!file) return;
    for (uint64_t i = 1 + campaign_random(c, 5000); i > 0; --i)
        fputc((int)campaign_random(c, 256), file);
    fclose(file);
}

/* Overwrites a file with that of the other checkpoint, or swaps both. */
static void exchange(campaign_case *c, const char *path, int other, bool both)
{
    char folder[CAMPAIGN_PATH], that[CAMPAIGN_PATH];
    size_t size = 0, sizes = 0;
    campaign_path(checkpoint(c, other, folder), strrchr(path, '/') + 1, that);
    char *mine = campaign_read(path, &size), *others = campaign_read(that, &sizes);
    if (mine && others) campaign_write(c, path, others, sizes);
    if (mine && others && both) campaign_write(c, that, mine, size);
    free(mine);
    free(others);
}

/* Replaces a file by something else. */
static void replace(campaign_case *c, const char *path)
{
    uint64_t what = campaign_random(c, 4);
    if (remove(path) != 0) return;
    int failed = 0; /* otherwise the file is missing */
    if (what == 0) failed = mkdir(path, 0755);
    if (what == 1) failed = symlink("nothing", path);
    if (what == 2) failed = mkfifo(path, 0644);
    CHECK(!failed);
}

/* Renames, removes or copies the folder itself. */
static void move_folder(campaign_case *c, int step, state *s)
{
    char from[CAMPAIGN_PATH], to[CAMPAIGN_PATH], folder[CAMPAIGN_PATH];
    static const char *const names[] = {"step-9", "step-3", "step-0", "step-04", "step-4x", "x"};
    campaign_path(campaign_path(c->folder, "run/checkpoints", folder), names[campaign_random(c, 6)],
                  to);
    checkpoint(c, step, from);
    if (access(from, F_OK) != 0) return;
    switch (campaign_random(c, 3)) {
    case 0:
        s->touched[step] = true;
        campaign_tool(c, "mv", from, to, (char *)NULL);
        break;
    case 1:
        s->touched[step] = true;
        campaign_tool(c, "rm", "-r", from, (char *)NULL);
        break;
    default:
        campaign_tool(c, "cp", "-r", from, to, (char *)NULL);
        break;
    }
}

/* Damages `latest`, or the file of metrics. */
static void damage_other_files(campaign_case *c, state *s)
{
    static const char *const texts[] = {"", "step-2\n", "step-9\n", "../x\n", "\xff\xfe", "step-4"};
    const char *text = texts[campaign_random(c, 6)];
    char path[CAMPAIGN_PATH];
    if (campaign_random(c, 3) == 0) {
        campaign_path(c->folder, "run/metrics.jsonl", path);
        s->metrics = true;
    } else {
        campaign_path(c->folder, "run/checkpoints/latest", path);
    }
    switch (campaign_random(c, 4)) {
    case 0:
        flip(c, path);
        break;
    case 1:
        cut(c, path);
        break;
    case 2:
        unlink(path);
        break;
    default:
        campaign_write(c, path, text, strlen(text));
        break;
    }
}

static void damage(campaign_case *c, state *s)
{
    char path[CAMPAIGN_PATH];
    int step = campaign_random(c, 4) ? 4 : 2, other = 6 - step;
    uint64_t how = campaign_random(c, 9);
    size_t used = strlen(c->details);
    snprintf(c->details + used, sizeof c->details - used, " %d of step %d", (int)how, step);
    if (how == 0) return move_folder(c, step, s);
    if (how == 1) return damage_other_files(c, s);
    if (how == 2) { /* an unknown file */
        char folder[CAMPAIGN_PATH];
        campaign_path(checkpoint(c, step, folder), "extra.safetensors", path);
        if (access(folder, F_OK) == 0) campaign_write(c, path, "extra", 5);
        return;
    }
    random_file(c, step, path);
    s->touched[step] = true;
    if (how == 3 || how == 4) flip(c, path);
    if (how == 5) cut(c, path);
    if (how == 6) grow(c, path);
    if (how == 7) replace(c, path);
    if (how == 8) {
        bool both = campaign_random(c, 2) == 1;
        s->touched[other] |= both;
        exchange(c, path, other, both);
    }
}

static int run(campaign_case *c)
{
    char from[CAMPAIGN_PATH], to[CAMPAIGN_PATH];
    state s = {0};
    training_plan plan = {.resume = true, .steps = TRAINING_STEPS, .save_every = 1, .keep = 1};
    campaign_command command;
    campaign_tool(c, "cp", "-r", campaign_path(c->work, "template", from),
                  campaign_path(c->folder, "run", to), (char *)NULL);
    CHECK(mkdir(campaign_path(c->folder, "swap", to), 0755) == 0);
    snprintf(c->details, sizeof c->details, "damage");
    for (uint64_t i = 1 + campaign_random(c, 3); i > 0; --i) damage(c, &s);

    command_begin(&command, "verify");
    command_add(&command, "%s/run", c->folder);
    campaign_check_end(c, campaign_run(c, &command, TRAINING_SECONDS));
    command_free(&command);

    plan.place = (training_place)campaign_random(c, TRAINING_PLACES);
    training_command(c, &plan, &command);
    int code = campaign_run(c, &command, TRAINING_SECONDS);
    campaign_check_end(c, code);
    command_free(&command);
    if (code == 0) {
        training_check_same(c, !s.metrics);
        campaign_check_left(c);
        if (strstr(campaign_said(c), "step 1/6")) return FROM_START;
        return strstr(campaign_said(c), "step 3/6") ? FROM_OLDER : FROM_NEWEST;
    }
    if (!s.metrics && (!s.touched[2] || !s.touched[4]))
        campaign_wrong(c, "a whole checkpoint was not used: %s", campaign_said(c));
    return REFUSED;
}

int main(int argc, char **argv)
{
    static const char *const outcomes[] = {"from the newest", "from an older one", "from the start",
                                           "refused", NULL};
    static const campaign damages = {
        "damaged checkpoints", "wrong bits", outcomes, 200, 12, prepare, run};
    return campaign_main(&damages, argc, argv);
}
