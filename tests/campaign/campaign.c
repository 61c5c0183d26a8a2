/* campaign.c - runs the cases: seeds, processes, counts, and the summary at the end. */
#include "campaign/campaign.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OUTCOMES = 16, FIRST = 10, WRONG = 100, SKIP = 101, SHOWN = 20 };

typedef struct settings {
    int cases, jobs, only;
    uint64_t seed;
} settings;

static uint64_t campaign_seed; /* for messages */
static bool in_case;           /* false: still preparing */

double campaign_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* splitmix64 */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t campaign_random(campaign_case *c, uint64_t below)
{
    return below ? next(&c->state) % below : 0;
}

void campaign_wrong(campaign_case *c, const char *format, ...)
{
    char text[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "WRONG: case %d (--seed %llu --only %d): %s: %s\n", c->index,
            (unsigned long long)campaign_seed, c->index, c->details, text);
    _exit(WRONG);
}

void campaign_skip(const char *why)
{
    fprintf(stderr, "skipped: %s\n", why);
    _exit(in_case ? SKIP : CHECK_SKIP);
}

static long long number(const char *text, long long least)
{
    char *end;
    errno = 0;
    long long value = text ? strtoll(text, &end, 10) : 0;
    if (text && !errno && end != text && *end == 0 && value >= least) return value;
    fprintf(stderr, "usage: [--full] [--cases N] [--seed N] [--jobs N] [--only N]\n");
    exit(2);
}

static settings read_settings(const campaign *all, int argc, char **argv)
{
    const char *seed = getenv("SEED");
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    settings s = {.cases = all->sample, .jobs = 2, .only = -1, .seed = 1};
    if (seed) s.seed = (uint64_t)number(seed, 0);
    for (int i = 1; i < argc; ++i) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--full") == 0) {
            s.cases = all->full;
            s.jobs = cores > 1 ? (int)cores : 1;
            continue;
        }
        ++i;
        if (strcmp(argv[i - 1], "--cases") == 0)
            s.cases = (int)number(value, 1);
        else if (strcmp(argv[i - 1], "--seed") == 0)
            s.seed = (uint64_t)number(value, 0);
        else if (strcmp(argv[i - 1], "--jobs") == 0)
            s.jobs = (int)number(value, 1);
        else if (strcmp(argv[i - 1], "--only") == 0)
            s.only = (int)number(value, 0);
        else
            number(NULL, 0);
    }
    return s;
}

static campaign_case make_case(const char *work, int index)
{
    campaign_case c = {.index = index, .state = campaign_seed};
    next(&c.state);
    c.state ^= (uint64_t)(index + 1) * 0xD1342543DE82EF95u;
    next(&c.state);
    snprintf(c.work, sizeof c.work, "%s", work);
    snprintf(c.folder, sizeof c.folder, "%.480s/case-%d", work, index);
    snprintf(c.details, sizeof c.details, "at the start");
    return c;
}

static pid_t start_case(const campaign *all, const char *work, int index, bool keep)
{
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0) return pid;
    campaign_case c = make_case(work, index);
    CHECK(mkdir(c.folder, 0755) == 0);
    int outcome = all->run(&c);
    if (!keep) campaign_tool(&c, "rm", "-rf", c.folder, (char *)NULL);
    _exit(FIRST + outcome);
}

static void prepare(const campaign *all, const char *work)
{
    campaign_case c = make_case(work, -1);
    snprintf(c.folder, sizeof c.folder, "%s", work);
    if (all->prepare) all->prepare(&c);
    in_case = true;
}

typedef struct tally {
    int count[OUTCOMES], wrong, ended;
} tally;

static void take(tally *t, int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : WRONG;
    ++t->ended;
    if (code == SKIP) exit(CHECK_SKIP);
    if (code >= FIRST && code < FIRST + OUTCOMES)
        ++t->count[code - FIRST];
    else
        ++t->wrong;
    if (!WIFEXITED(status)) fprintf(stderr, "WRONG: a case died of signal %d\n", WTERMSIG(status));
}

static void say(const campaign *all, const settings *s, const tally *t, double seconds)
{
    printf("%d %s: ", t->ended, all->cases);
    for (int i = 0; all->outcomes[i]; ++i) printf("%d %s, ", t->count[i], all->outcomes[i]);
    printf("%d %s (seed %llu, %.0f s with %d at a time, %.2f s each)\n", t->wrong, all->wrong,
           (unsigned long long)s->seed, seconds, s->jobs, seconds * s->jobs / (t->ended + 1e-9));
}

int campaign_main(const campaign *all, int argc, char **argv)
{
    settings s = read_settings(all, argc, argv);
    char work[CAMPAIGN_PATH], shared[CAMPAIGN_PATH];
    const char *folder = getenv("TMPDIR");
    tally t = {0};
    int running = 0, begun = 0;
    if (!getenv("HILBERT")) {
        printf("HILBERT does not name the program\n");
        return CHECK_SKIP;
    }
    campaign_seed = s.seed;
    snprintf(work, sizeof work, "%.400s/campaign-XXXXXX", folder ? folder : "/tmp");
    CHECK(mkdtemp(work) != NULL);
    CHECK(realpath(work, shared) != NULL);
    prepare(all, shared);
    double start = campaign_now();
    if (s.only >= 0) s.cases = 1;
    while (t.ended < s.cases) {
        int status = 0;
        while (running < s.jobs && begun < s.cases && t.wrong < SHOWN) {
            start_case(all, shared, s.only >= 0 ? s.only : begun, s.only >= 0);
            ++begun, ++running;
        }
        if (!running) break;
        pid_t pid = wait(&status);
        CHECK(pid > 0);
        --running;
        take(&t, status);
    }
    say(all, &s, &t, campaign_now() - start);
    if (s.only >= 0) {
        printf("its files are in %s\n", shared);
    } else {
        campaign_case c = make_case(shared, -1);
        campaign_tool(&c, "rm", "-rf", shared, (char *)NULL);
    }
    return t.wrong || t.ended != s.cases ? 1 : 0;
}
