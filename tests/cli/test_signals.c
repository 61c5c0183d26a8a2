/* The first signal asks to stop, the second ends the program with its own number. */
#include "cli/command.h"
#include "check.h"

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

int main(void)
{
    check(SIGINT, SIGINT);
    check(SIGINT, SIGTERM);
    check(SIGTERM, SIGINT);
    signal(SIGINT, SIG_IGN); /* as a shell does for what it runs in the background */
    check(SIGINT, SIGINT);
    return 0;
}
