/* test_heartbeat.c - ranks as processes that are killed, stopped, fail or end: which messages the
   others get, and when. */
/* soak: --full */
#include "check.h"

#include "base/clock.h"
#include "comm/comm_engine.h"
#include "comm/heartbeat.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, LOST = 7, FAILED = 8 };

/* Memory that the processes of one job share. */
typedef struct job {
    const char *name;
    int rank;         /* the rank that is disturbed; -1: all */
    pid_t pid[RANKS]; /* set by the parent */
    double ended_at[RANKS];
    int code[RANKS]; /* exit code, or 256 + signal; -1: still runs */
    pthread_barrier_t barrier;
    unsigned char cards[RANKS][8192];
    int messages[RANKS], silent[RANKS]; /* calls of `lost` with and without a message */
    char text[RANKS][1200];
    atomic_int go, up[RANKS];
} job;

static double begun_at;

static double now(void)
{
    return hil_clock_now() - begun_at;
}

static void nap(double seconds)
{
    poll(NULL, 0, (int)(seconds * 1000));
}

static hil_status gather(hil_comm *comm, hil_channel channel, const void *slice, void *whole,
                         size_t bytes)
{
    job *shared = comm->state;
    (void)channel;
    CHECK(bytes <= sizeof shared->cards[0]);
    memcpy(shared->cards[comm->rank], slice, bytes);
    pthread_barrier_wait(&shared->barrier);
    for (int i = 0; i < RANKS; ++i)
        memcpy((char *)whole + (size_t)i * bytes, shared->cards[i], bytes);
    pthread_barrier_wait(&shared->barrier);
    return HIL_OK;
}

static const hil_comm_engine engine = {.name = "shared", .gather = gather};

typedef struct rank {
    hil_comm comm;
    hil_heartbeat *heartbeat;
} rank;

static void on_lost(void *context, const char *message)
{
    rank *me = context;
    job *shared = me->comm.state;
    int r = me->comm.rank;
    if (message) {
        ++shared->messages[r];
        snprintf(shared->text[r], sizeof shared->text[r], "%s", message);
    } else {
        ++shared->silent[r];
    }
    _exit(LOST);
}

static atomic_int failed;

static void on_failed(void *context, hil_status status, const char *message)
{
    rank *me = context;
    job *shared = me->comm.state;
    CHECK_INT(status, HIL_ERR_BUDGET);
    snprintf(shared->text[me->comm.rank], sizeof shared->text[0], "%s", message);
    failed = 1;
}

/* A rank that cannot open a socket: all ranks fail with its message. */
static _Noreturn void refuse(job *shared, rank *me)
{
    struct rlimit none = {3, 3};
    if (me->comm.rank == shared->rank) CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    hil_heartbeat_options options = {.failed = on_failed};
    CHECK(hil_heartbeat_start(&me->heartbeat, &me->comm, &options) != HIL_OK);
    snprintf(shared->text[me->comm.rank], sizeof shared->text[0], "%s", hil_status_message());
    _exit(FAILED);
}

static _Noreturn void live(job *shared, int number)
{
    rank me = {.comm = {.engine = &engine,
                        .state = shared,
                        .rank = number,
                        .size = RANKS,
                        .local_rank = number,
                        .local_size = RANKS}};
    if (strcmp(shared->name, "refuse") == 0) refuse(shared, &me);
    CHECK_OK(hil_heartbeat_start(
        &me.heartbeat, &me.comm,
        &(hil_heartbeat_options){
            .lost = on_lost, .lost_context = &me, .failed = on_failed, .failed_context = &me}));
    char doing[100];
    snprintf(doing, sizeof doing, "step %d, forward", number + 10);
    hil_heartbeat_set_activity(me.heartbeat, doing);
    nap(0.6); /* so that all ranks have received it */
    shared->up[number] = 1;
    bool stuck = strcmp(shared->name, "stuck") == 0, late = strcmp(shared->name, "late") == 0;
    bool fails = strcmp(shared->name, "fail") == 0 || stuck;
    while (!shared->go && !failed) nap(0.01);
    if (fails && number == (stuck ? RANKS - 1 : shared->rank))
        hil_heartbeat_fail(me.heartbeat, HIL_ERR_BUDGET, "no room on disk");
    while ((fails || shared->go == 1) && !failed) nap(0.01);
    while (stuck && number == shared->rank) nap(1);
    if (late && number == shared->rank) nap(1.5);
    hil_heartbeat_stop(me.heartbeat);
    _exit(failed ? FAILED : 0);
}

static job *start(const char *name, int number)
{
    job *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pthread_barrierattr_t across;
    pthread_barrierattr_init(&across);
    pthread_barrierattr_setpshared(&across, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &across, RANKS);
    shared->name = name;
    shared->rank = number;
    for (int i = 0; i < RANKS; ++i) {
        shared->code[i] = -1;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) live(shared, i);
        shared->pid[i] = pid;
    }
    return shared;
}

static int running(job *shared)
{
    int count = 0;
    for (int i = 0; i < RANKS; ++i) {
        int status;
        if (shared->code[i] < 0 && waitpid(shared->pid[i], &status, WNOHANG) == shared->pid[i]) {
            shared->code[i] = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
            shared->ended_at[i] = now();
        }
        count += shared->code[i] < 0;
    }
    return count;
}

/* Waits until only `left` processes of the job run. */
static void wait_for(job *shared, int left, double seconds)
{
    for (double until = now() + seconds; running(shared) > left; nap(0.005)) {
        if (now() < until) continue;
        for (int i = 0; i < RANKS; ++i)
            if (shared->code[i] < 0) kill(shared->pid[i], SIGKILL);
        fprintf(stderr, "%s of rank %d: ranks still run after %.0f s\n", shared->name, shared->rank,
                seconds);
        exit(1);
    }
}

/* All others ended by `lost`, and one of them printed the words. */
static void check_lost(job *shared, const char *words)
{
    char name[40];
    int messages = 0, speaker = -1;
    for (int i = 0; i < RANKS; ++i) {
        if (i != shared->rank) CHECK_INT(shared->code[i], LOST);
        if (i != shared->rank) CHECK_INT(shared->messages[i] + shared->silent[i], 1);
        messages += i != shared->rank && shared->messages[i];
        if (i != shared->rank && shared->messages[i]) speaker = i;
    }
    CHECK_INT(messages, 1);
    CHECK_INT(speaker, shared->rank == 0 ? 1 : 0);
    snprintf(name, sizeof name, "rank %d on ", shared->rank);
    CHECK(strstr(shared->text[speaker], name) == shared->text[speaker]);
    CHECK(strstr(shared->text[speaker], words));
    snprintf(name, sizeof name, "step %d, forward", shared->rank + 10);
    CHECK(strstr(shared->text[speaker], name));
}

static void check_killed(job *shared)
{
    kill(shared->pid[shared->rank], SIGKILL);
    wait_for(shared, 0, 4);
    check_lost(shared, "is gone");
}

static void check_stopped(job *shared)
{
    double stopped_at = now();
    kill(shared->pid[shared->rank], SIGSTOP);
    wait_for(shared, 1, 9);
    for (int i = 0; i < RANKS; ++i)
        if (i != shared->rank) CHECK(shared->ended_at[i] - stopped_at > HIL_HEARTBEAT_SILENCE - 1);
    check_lost(shared, "has not answered for ");
    kill(shared->pid[shared->rank], SIGCONT);
    wait_for(shared, 0, 4);
    CHECK_INT(shared->code[shared->rank], LOST);
    CHECK_INT(shared->messages[shared->rank],
              0); /* it received the others' message, so it prints none */
}

static void check_failed(job *shared)
{
    char words[100];
    wait_for(shared, 0, 4);
    for (int i = 0; i < RANKS; ++i) {
        CHECK_INT(shared->code[i], FAILED);
        CHECK_INT(shared->messages[i] + shared->silent[i], 0);
        snprintf(words, sizeof words, "rank %d on ", shared->rank);
        CHECK(strstr(shared->text[i], words) == shared->text[i]);
        CHECK(strstr(shared->text[i], "no room on disk"));
    }
}

/* A rank that does not stop after the failure of another is ended. */
static void check_stuck(job *shared)
{
    wait_for(shared, 0, 15);
    for (int i = 1; i < RANKS; ++i) {
        CHECK_INT(shared->code[i], i == shared->rank || shared->rank == 0 ? LOST : FAILED);
        CHECK_INT(shared->messages[i], 0);
    }
    CHECK_INT(shared->code[0], shared->rank == 0 ? LOST : FAILED);
    CHECK_INT(shared->messages[0], shared->rank == 0);
    CHECK(strstr(shared->text[0], "no room on disk"));
}

static void check_refused(job *shared)
{
    char words[100];
    wait_for(shared, 0, 50);
    for (int i = 0; i < RANKS; ++i) {
        CHECK_INT(shared->code[i], FAILED);
        snprintf(words, sizeof words, "rank %d on ", shared->rank);
        if (shared->rank != 0) CHECK(strstr(shared->text[i], words) == shared->text[i]);
        CHECK(strstr(shared->text[i], "Too many open files"));
    }
}

/* No rank is lost, and none ends before the last has called stop. */
static void check_late(job *shared)
{
    double from = now();
    shared->go = 2;
    wait_for(shared, 0, 4);
    for (int i = 0; i < RANKS; ++i) {
        CHECK_INT(shared->code[i], 0);
        CHECK(shared->ended_at[i] - from > 1.4);
    }
}

/* A job that was stopped as a whole continues. */
static void check_paused(job *shared)
{
    for (int i = 0; i < RANKS; ++i) kill(shared->pid[i], SIGSTOP);
    nap(HIL_HEARTBEAT_SILENCE + 1);
    for (int i = 0; i < RANKS; ++i) kill(shared->pid[i], SIGCONT);
    nap(1);
    CHECK_INT(running(shared), RANKS);
    shared->go = 2;
    wait_for(shared, 0, 4);
    for (int i = 0; i < RANKS; ++i) CHECK_INT(shared->code[i], 0);
}

static void run(const char *name, int number, void (*check)(job *))
{
    job *shared = start(name, number);
    for (int i = 0; i < RANKS; ++i)
        while (!shared->up[i] && running(shared) == RANKS) nap(0.01);
    shared->go = 1;
    check(shared);
    munmap(shared, sizeof *shared);
}

typedef struct scenario {
    const char *name;
    int rank;
    void (*check)(job *);
} scenario;

int main(int argc, char **argv)
{
    static const scenario all[] = {
        {"kill", 0, check_killed},  {"kill", 2, check_killed},   {"kill", 3, check_killed},
        {"stop", 0, check_stopped}, {"stop", 1, check_stopped},  {"stop", 3, check_stopped},
        {"fail", 0, check_failed},  {"fail", 2, check_failed},   {"late", 0, check_late},
        {"late", 3, check_late},    {"pause", -1, check_paused}, {"stuck", 0, check_stuck},
        {"stuck", 1, check_stuck},
    };
    enum { MOST = sizeof all / sizeof *all, LONG = 2 };
    pid_t child[MOST];
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    int scenarios = full ? MOST : MOST - LONG;
    int code = 0, rounds = full ? 5 : 1;
    begun_at = hil_clock_now();
    run("refuse", 0, check_refused);
    if (full) run("refuse", 2, check_refused); /* takes as long as ranks keep trying */
    while (rounds--) {                         /* in parallel: they mostly wait */
        for (int i = 0; i < scenarios; ++i)
            if ((child[i] = fork()) == 0) {
                run(all[i].name, all[i].rank, all[i].check);
                exit(0);
            }
        for (int i = 0; i < scenarios; ++i) {
            int status = 0;
            CHECK(child[i] > 0 && waitpid(child[i], &status, 0) == child[i]);
            if (status == 0) continue;
            fprintf(stderr, "%s of rank %d\n", all[i].name, all[i].rank);
            code = 1;
        }
    }
    return code;
}
