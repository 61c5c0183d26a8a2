/* hilbert chat in a terminal: Ctrl-C stops a reply and the conversation goes on; the commands; at
   the prompt Ctrl-C leaves. */
#include "chat_model.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

typedef struct terminal {
    int fd;
    pid_t pid;
    char seen[1 << 20];
    size_t size, from; /* from: where the next wait begins to look */
} terminal;

static void open_terminal(terminal *t, const char *folder)
{
    t->size = t->from = 0;
    t->fd = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(t->fd >= 0 && grantpt(t->fd) == 0 && unlockpt(t->fd) == 0);
    const char *name = ptsname(t->fd), *program = getenv("HILBERT");
    t->pid = fork();
    CHECK(t->pid >= 0);
    if (t->pid) return;
    setsid();
    int slave = open(name, O_RDWR); /* becomes the controlling terminal */
    for (int i = 0; i < 3; ++i) dup2(slave, i);
    execl(program, program, "chat", "--model", folder, "--max-tokens", "60000", "--threads", "1",
          (char *)NULL);
    _exit(99);
}

/* Reads until `words` appear after what was seen by the wait before. */
static void wait_for(terminal *t, const char *words)
{
    for (;;) {
        t->seen[t->size] = 0;
        char *at = strstr(t->seen + t->from, words);
        if (at) {
            t->from = (size_t)(at - t->seen) + strlen(words);
            return;
        }
        struct pollfd ready = {.fd = t->fd, .events = POLLIN};
        CHECK(poll(&ready, 1, 60000) == 1);
        if (t->size + 4097 > sizeof t->seen) t->size = t->from = 0;
        ssize_t got = read(t->fd, t->seen + t->size, 4096);
        if (got <= 0) printf("no '%s' in: %.2000s\n", words, t->seen + t->from);
        CHECK(got > 0);
        for (ssize_t i = 0; i < got; ++i) /* the model may say NUL */
            if (!t->seen[t->size + (size_t)i]) t->seen[t->size + (size_t)i] = '?';
        t->size += (size_t)got;
    }
}

static void type(const terminal *t, const char *text)
{
    CHECK(write(t->fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static int close_terminal(terminal *t)
{
    int status;
    char rest[4096];
    struct pollfd ready = {.fd = t->fd, .events = POLLIN};
    while (poll(&ready, 1, 60000) == 1 && read(t->fd, rest, sizeof rest) > 0) continue;
    kill(t->pid, SIGKILL); /* if it still waits */
    CHECK(waitpid(t->pid, &status, 0) == t->pid);
    close(t->fd);
    return status;
}

int main(void)
{
    if (!getenv("HILBERT")) return CHECK_SKIP;
    job_place place;
    char folder[JOB_PATH];
    static terminal t;
    job_begin(&place);
    chat_model_make(&place, "model", 60000, folder);

    open_terminal(&t, folder);
    wait_for(&t, "> ");
    for (int i = 0; i < 2; ++i) {
        type(&t, "hello\n");
        wait_for(&t, "hello\r\n");
        struct pollfd begun = {.fd = t.fd, .events = POLLIN};
        CHECK(poll(&begun, 1, 60000) == 1);
        type(&t, "\003");
        wait_for(&t, "\r\n> ");
    }
    type(&t, "/system be brief\n");
    wait_for(&t, "\r\n> ");
    type(&t, "/help\n");
    wait_for(&t, "/reset  ");
    wait_for(&t, "> ");
    type(&t, "/nonsense\n");
    wait_for(&t, "/nonsense is no command");
    wait_for(&t, "> ");
    type(&t, "/quit\n");
    int status = close_terminal(&t);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);

    open_terminal(&t, folder);
    wait_for(&t, "> ");
    type(&t, "\003");
    status = close_terminal(&t);
    CHECK(WIFSIGNALED(status));
    CHECK_INT(WTERMSIG(status), SIGINT);
    job_end(&place);
    return 0;
}
