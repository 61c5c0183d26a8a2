/* Files of a running job (swap, token cache, checkpoints) change: it reports that, or no longer
   needs the bytes; never wrong bits. */
/* soak: --full */
#include "campaign/training.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ATTEMPTS = 100, MOST_FILES = 64 };
enum { NOTICED, HARMLESS }; /* outcomes */

static long counts[TRAINING_PLACES][TRACE_KINDS];

typedef enum target { SWAP, TOKENS, CHECKPOINT, TARGETS } target;
static const char *const target_name[TARGETS] = {"swap", "tokens", "checkpoint"};
/* A part of the path of the open file. */
static const char *const target_part[TARGETS] = {"/swap/", "/cache/tokens-", "/checkpoints/"};

typedef struct damage {
    campaign_case *c;
    target target;
    int kind;
    long n;
    bool hit;
} damage;

static void prepare(campaign_case *c)
{
    training_prepare_counts(c, TRAINING_DISK, counts);
}

/* Changes some bytes, or a whole page of them. */
static bool damage_file(campaign_case *c, const char *path)
{
    unsigned char page[4096];
    struct stat info;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return false;
    CHECK(fstat(fd, &info) == 0);
    uint64_t size = (uint64_t)info.st_size;
    size_t changes = size ? 1 + (size_t)campaign_random(c, 64) : 0;
    for (size_t i = 0; i < changes; ++i) {
        off_t at = (off_t)campaign_random(c, size);
        if (campaign_random(c, 8) == 0) at -= at % 4096;
        ssize_t got = pread(fd, page, at % 4096 ? 1 : sizeof page, at);
        if (got <= 0) continue;
        for (ssize_t k = 0; k < got; ++k) page[k] ^= (unsigned char)(1 + campaign_random(c, 255));
        if (pwrite(fd, page, (size_t)got, at) != got) campaign_wrong(c, "cannot change %s", path);
    }
    close(fd);
    return changes > 0;
}

/* Finds an open file of the process that is a target. */
static bool find_open(damage *d, pid_t process, char found[CAMPAIGN_PATH])
{
    char folder[64], path[CAMPAIGN_PATH], link[CAMPAIGN_PATH];
    const struct dirent *entry;
    size_t files = 0;
    snprintf(folder, sizeof folder, "/proc/%d/fd", (int)process);
    DIR *all = opendir(folder);
    while (all && (entry = readdir(all))) {
        ssize_t size = readlink(campaign_path(folder, entry->d_name, path), link, sizeof link - 1);
        if (size <= 0) continue;
        link[size] = 0;
        if (!strstr(link, d->c->folder) || !strstr(link, target_part[d->target])) continue;
        if (campaign_random(d->c, ++files) == 0) snprintf(found, CAMPAIGN_PATH, "%s", path);
    }
    if (all) closedir(all);
    return files > 0;
}

/* Changes a file at the chosen call, or at the first later one that finds such a file open. */
static trace_action change(trace *t, const trace_stop *stop)
{
    damage *d = t->context;
    char path[CAMPAIGN_PATH];
    if (d->hit || t->count[d->kind] < d->n) return TRACE_GO;
    d->hit = find_open(d, stop->process, path) && damage_file(d->c, path);
    return TRACE_GO;
}

/* A successful run has the right bits; its checkpoints are whole or reported as damaged. */
static int check_finished(campaign_case *c)
{
    campaign_command command;
    training_check_same(c, true);
    command_begin(&command, "verify");
    command_add(&command, "%s/run", c->folder);
    int code = campaign_run(c, &command, TRAINING_SECONDS);
    campaign_check_end(c, code);
    command_free(&command);
    return code == 0 ? HARMLESS : NOTICED;
}

/* A failed run resumes from a whole checkpoint, or reports that there is none. */
static int check_ended(campaign_case *c)
{
    campaign_command command;
    training_plan plan = training_random(c, true);
    const char *said = campaign_said(c);
    if (!strstr(said, "damaged") && !strstr(said, "checksum") && !strstr(said, "vanished"))
        campaign_wrong(c, "the line does not say that something is damaged: %s", said);
    training_command(c, &plan, &command);
    int code = campaign_run(c, &command, TRAINING_SECONDS);
    campaign_check_end(c, code);
    if (code == 0) training_check_same(c, true);
    command_free(&command);
    return NOTICED;
}

static int run(campaign_case *c)
{
    for (int i = 0; i < ATTEMPTS; ++i) {
        training_plan plan = training_random(c, false);
        damage d = {.c = c, .target = campaign_random(c, 4) ? SWAP : (target)(c->index % TARGETS)};
        trace t = {.stop = change, .context = &d};
        if (plan.place == TRAINING_PLAIN) plan.place = TRAINING_DISK_THREADS;
        d.kind = trace_choose(c, counts[plan.place], &d.n);
        snprintf(c->details, sizeof c->details, "%s changed from %s %ld on, place %d",
                 target_name[d.target], trace_kind_name[d.kind], d.n, (int)plan.place);
        training_clear(c);
        int code = training_trace(c, &plan, &t);
        if (d.hit) return code == 0 ? check_finished(c) : check_ended(c);
        if (code != 0) campaign_wrong(c, "an undisturbed run gives %d: %s", code, campaign_said(c));
    }
    campaign_wrong(c, "nothing was changed in %d attempts", ATTEMPTS);
}

int main(int argc, char **argv)
{
    static const char *const outcomes[] = {"noticed", "harmless", NULL};
    static const campaign live = {"live corruptions", "wrong bits", outcomes, 100, 8, prepare, run};
    return campaign_main(&live, argc, argv);
}
