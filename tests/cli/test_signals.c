/* The first signal asks to stop, the second ends the program with its own number. A lost rank ends
   the program at once, even if no process reads its message. */
#include "cli/command.h"
#include "check.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int child(int first, int second)
{
    hil_command_catch_signals(NULL);
    if (hil_command_stop != 0) return 1;
    raise(first);
    if (hil_command_stop != first) return 2;
    raise(second);
    return 3;
}

static void check(int first, int second)
{
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) _exit(child(first, second));
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 128 + second);
}

/* Checks what a child that lost a rank prints; `full`: into a full pipe that no process reads. */
static void check_lost(const char *message, bool full, const char *printed)
{
    int status, ends[2];
    char line[200] = "", fill[4096] = "";
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    while (full && write(ends[1], fill, sizeof fill) > 0) continue;
    CHECK(fcntl(ends[1], F_SETFL, 0) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        flockfile(stderr);
        alarm(5);
        hil_command_lost(NULL, message);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 3);
    if (!full && read(ends[0], line, sizeof line - 1) < 0) line[0] = 0;
    CHECK_TEXT(line, printed);
    close(ends[0]);
    close(ends[1]);
}

/* After a signal the launcher has time to kill this process before it prints. */
static void check_ended(void)
{
    int status, ends[2];
    char line[200] = "";
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        hil_command_catch_signals(NULL);
        raise(SIGTERM);
        hil_command_lost(NULL, "rank 0 is gone");
    }
    usleep(500000);
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status));
    close(ends[1]);
    CHECK(read(ends[0], line, sizeof line - 1) == 0);
    close(ends[0]);
}

int main(void)
{
    check_ended();
    check_lost("rank 1 is gone", false, "hilbert: rank 1 is gone\n");
    check_lost(NULL, false, "");
    check_lost("rank 1 is gone", true, "");
    check(SIGINT, SIGINT);
    check(SIGINT, SIGTERM);
    check(SIGTERM, SIGINT);
    check(SIGUSR1, SIGTERM);
    signal(SIGINT, SIG_IGN); /* as a shell does for background jobs */
    check(SIGINT, SIGINT);
    return 0;
}
