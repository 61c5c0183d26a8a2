/* Runs are ended by a signal, half of them at a random time and half at the entry or return of one
   system call, then resumed: the bits of an undisturbed run. */
/* soak: --full */
#include "campaign/training.h"

#include <signal.h>
#include <time.h>

enum { ATTEMPTS = 100 };

static long counts[TRAINING_PLACES][TRACE_KINDS];
static double took;

typedef struct blow {
    int kind, signal;
    long n;
    bool at_return, hit;
} blow;

static void prepare(campaign_case *c)
{
    training_prepare(c);
    for (int place = 0; place < TRAINING_PLACES; ++place) {
        double start = campaign_now();
        training_count(c, (training_place)place, counts[place]);
        if (campaign_now() - start > took) took = campaign_now() - start;
    }
}

static int random_signal(campaign_case *c)
{
    static const int signals[] = {SIGKILL, SIGKILL, SIGKILL, SIGTERM, SIGINT};
    return signals[campaign_random(c, 5)];
}

static trace_action strike(trace *t, const trace_stop *stop)
{
    blow *b = t->context;
    if (b->hit || stop->kind != b->kind || stop->n != b->n) return TRACE_GO;
    if (b->at_return && !stop->exit) return TRACE_EXIT;
    b->hit = true;
    kill(stop->process, b->signal);
    return TRACE_GO;
}

/* Kills a run at an exact call; false if the run ended before it. */
static bool kill_at_call(campaign_case *c, const training_plan *plan,
                         const campaign_command *command)
{
    blow b = {.signal = random_signal(c), .at_return = campaign_random(c, 2) == 1};
    trace t = {.stop = strike, .context = &b};
    b.kind = trace_choose(c, counts[plan->place], &b.n);
    snprintf(c->details, sizeof c->details, "signal %d at the %s of %s %ld, place %d", b.signal,
             b.at_return ? "return" : "entry", trace_kind_name[b.kind], b.n, (int)plan->place);
    int code = trace_run(c, command, &t, TRAINING_SECONDS);
    if (code == CAMPAIGN_SIGNALLED + b.signal) return true;
    campaign_check_end(c, code);
    return code != 0;
}

static bool kill_sometime(campaign_case *c, const campaign_command *command)
{
    int signal = random_signal(c), again = campaign_random(c, 8) == 0;
    uint64_t wait = campaign_random(c, (uint64_t)(took * 1e9));
    struct timespec pause = {(time_t)(wait / 1000000000), (long)(wait % 1000000000)};
    snprintf(c->details, sizeof c->details, "signal %d%s after %.3f s", signal,
             again ? " twice" : "", 1e-9 * (double)wait);
    pid_t pid = campaign_start(c, command);
    nanosleep(&pause, NULL);
    for (int i = 0; i <= again; ++i) kill(pid, signal);
    int code = campaign_end(c, pid, TRAINING_SECONDS);
    if (code == CAMPAIGN_SIGNALLED + signal) return true;
    campaign_check_end(c, code);
    return code != 0;
}

static void kill_once(campaign_case *c)
{
    char path[CAMPAIGN_PATH];
    for (int i = 0; i < ATTEMPTS; ++i) {
        training_plan plan = training_random(c, true);
        campaign_command command;
        training_command(c, &plan, &command);
        bool hit = c->index % 2 ? kill_at_call(c, &plan, &command) : kill_sometime(c, &command);
        command_free(&command);
        if (hit) return;
        training_check_same(c, true); /* the run ended before the signal */
        campaign_tool(c, "rm", "-rf", campaign_path(c->folder, "run", path), (char *)NULL);
    }
    campaign_wrong(c, "no kill hit in %d attempts", ATTEMPTS);
}

/* A third of them are killed a second time while they resume. */
static int run(campaign_case *c)
{
    training_clear(c);
    if (campaign_random(c, 3) == 0) kill_once(c);
    kill_once(c);
    training_check_whole(c);
    training_check_resume(c);
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const outcomes[] = {"resumed", NULL};
    static const campaign kills = {"kills", "wrong bits", outcomes, 1000, 12, prepare, run};
    return campaign_main(&kills, argc, argv);
}
