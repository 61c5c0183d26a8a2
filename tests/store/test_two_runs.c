/* Two processes keep all states on disk in one folder at the same time and do not disturb each
   other. The folder is empty after the end, a failure, or kill -9 at any time. Swap files have no
   name and cannot be opened by others. */
#include "io/io_faulty.h"
#include "runs.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* soak: --full */

enum { STEPS = 3 };

static int names(void)
{
    int count = -2;
    DIR *list = opendir(folder);
    CHECK(list != NULL);
    while (readdir(list)) ++count;
    closedir(list);
    return count;
}

/* Counts open files in the folder. */
static int check_descriptors(void)
{
    char place[PATH_MAX], name[300], at[PATH_MAX];
    int found = 0;
    CHECK(realpath(folder, place) != NULL);
    DIR *list = opendir("/proc/self/fd");
    CHECK(list != NULL);
    for (struct dirent *entry; (entry = readdir(list));) {
        snprintf(name, sizeof name, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(name, at, sizeof at - 1);
        if (length < 0) continue;
        at[length] = 0;
        if (strncmp(at, place, strlen(place)) != 0) continue;
        struct stat info;
        CHECK_INT(stat(name, &info), 0);
        CHECK_INT(info.st_nlink, 0);
        CHECK_INT(info.st_mode & 07777, 0600);
        ++found;
    }
    closedir(list);
    return found;
}

/* One child process; each has different bytes. */
static void run(int number)
{
    hil_dtype dtype = number % 2 ? HIL_BF16 : HIL_F32;
    int64_t count;
    rig r;
    alarm(60);
    float *expected = runs_expected(dtype, STEPS, &count);
    float *got = malloc((size_t)count * sizeof *got);
    CHECK(got != NULL);
    runs_create(&r, dtype, EVERYTHING_ON_DISK);
    CHECK_OK(rig_open(&r, 2, number % 2 ? HIL_IO_THREADS : HIL_IO_AUTO));
    CHECK(check_descriptors() >= 2);
    CHECK_OK(runs_go(&r, STEPS, got));
    runs_same(got, expected, count);
    CHECK_INT(names(), 0);
    rig_close(&r);
    free(expected);
    free(got);
}

/* Exits without closing anything. */
static void fail(int number)
{
    rig r;
    double norm;
    hil_io_fail_at(300 + number, EIO);
    runs_create(&r, HIL_BF16, EVERYTHING_ON_DISK);
    hil_status status = rig_open(&r, 2, HIL_IO_AUTO);
    while (status == HIL_OK) status = rig_step(&r, -1, &norm);
    CHECK_FAILS(status, HIL_ERR_IO, "Input/output error");
}

static void run_for_ever(int number)
{
    rig r;
    double norm;
    runs_create(&r, number % 2 ? HIL_BF16 : HIL_F32, EVERYTHING_ON_DISK);
    CHECK_OK(rig_open(&r, 2, HIL_IO_AUTO));
    for (;;) CHECK_OK(rig_step(&r, -1, &norm));
}

static pid_t begin(void (*work)(int), int number)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child) return child;
    work(number);
    fflush(NULL);
    _exit(0);
}

static void check_end(pid_t child, int signal)
{
    int status;
    CHECK_INT(waitpid(child, &status, 0), child);
    if (signal)
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    else
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void both(void (*work)(int))
{
    pid_t first = begin(work, 0), second = begin(work, 1);
    check_end(first, 0);
    check_end(second, 0);
    CHECK_INT(names(), 0);
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    fixture_open();
    both(run);
    both(fail);
    pid_t other = begin(run_for_ever, 0);
    for (int i = 0; i < (full ? 1000 : 60); ++i) {
        pid_t child = begin(run_for_ever, i);
        usleep(2000 + (unsigned)i * 7919 % 20000);
        CHECK_INT(kill(child, SIGKILL), 0);
        check_end(child, SIGKILL);
    }
    CHECK_INT(kill(other, SIGKILL), 0);
    check_end(other, SIGKILL);
    CHECK_INT(names(), 0);
    fixture_close();
    return 0;
}
