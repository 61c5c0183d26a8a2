/* program.c - starts the programs of a case, and checks what must hold after each. */
#include "campaign/campaign.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void command_begin(campaign_command *command, const char *name)
{
    *command = (campaign_command){0};
    command_add(command, "%s", getenv("HILBERT"));
    if (name) command_add(command, "%s", name);
}

void command_add(campaign_command *command, const char *format, ...)
{
    va_list list;
    CHECK(command->count < CAMPAIGN_ARGUMENTS - 1);
    va_start(list, format);
    CHECK(vasprintf(&command->argument[command->count++], format, list) >= 0);
    va_end(list);
    command->argument[command->count] = NULL;
}

void command_words(campaign_command *command, const char *words)
{
    while (*words) {
        size_t size = strcspn(words, " ");
        if (size) command_add(command, "%.*s", (int)size, words);
        words += size + (words[size] == ' ');
    }
}

void command_free(campaign_command *command)
{
    for (size_t i = 0; i < command->count; ++i) free(command->argument[i]);
    *command = (campaign_command){0};
}

const char *command_text(const campaign_command *command, char *text, size_t size)
{
    size_t at = 0;
    text[0] = 0;
    for (size_t i = 1; i < command->count && at < size; ++i)
        at += (size_t)snprintf(text + at, size - at, "%s'%.60s'", i > 1 ? " " : "",
                               command->argument[i]);
    return text;
}

static void limit(void)
{
    struct rlimit files = {64 << 20, 64 << 20}, memory = {(rlim_t)8 << 30, (rlim_t)8 << 30};
    if (setrlimit(RLIMIT_FSIZE, &files) != 0) _exit(126);
    if (!CHECK_SLOW && setrlimit(RLIMIT_AS, &memory) != 0) _exit(126);
}

void campaign_become(campaign_case *c, const campaign_command *command)
{
    char out[CAMPAIGN_PATH], err[CAMPAIGN_PATH];
    int flags = O_WRONLY | O_CREAT | O_TRUNC;
    int in = open("/dev/null", O_RDONLY);
    int to = open(campaign_path(c->folder, "out", out), flags, 0644);
    int also = open(campaign_path(c->folder, "err", err), flags, 0644);
    if (in < 0 || to < 0 || also < 0 || chdir(c->folder) != 0) _exit(126);
    if (dup2(in, 0) != 0 || dup2(to, 1) != 1 || dup2(also, 2) != 2) _exit(126);
    if (in > 2) close(in);
    if (to > 2) close(to);
    if (also > 2) close(also);
    if (command->limited) limit();
    execv(command->argument[0], command->argument);
    _exit(127);
}

pid_t campaign_start(campaign_case *c, const campaign_command *command)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) campaign_wrong(c, "cannot fork: %s", strerror(errno));
    if (pid == 0) campaign_become(c, command);
    return pid;
}

int campaign_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : CAMPAIGN_SIGNALLED + WTERMSIG(status);
}

int campaign_wait(pid_t pid, double seconds)
{
    double end = campaign_now() + seconds;
    for (;;) {
        int status = 0;
        pid_t got = waitpid(pid, &status, WNOHANG);
        CHECK(got >= 0);
        if (got == pid) return campaign_code(status);
        if (campaign_now() > end) return -1;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

int campaign_end(campaign_case *c, pid_t pid, double seconds)
{
    int code = campaign_wait(pid, seconds);
    if (code >= 0) return code;
    kill(pid, SIGKILL);
    campaign_wait(pid, 10);
    campaign_wrong(c, "still running after %.0f s: %s", seconds, campaign_said(c));
}

int campaign_run(campaign_case *c, const campaign_command *command, double seconds)
{
    return campaign_end(c, campaign_start(c, command), seconds);
}

int campaign_try(campaign_case *c, const campaign_command *command, double seconds,
                 bool *interrupted)
{
    pid_t pid = campaign_start(c, command);
    int code = campaign_wait(pid, seconds);
    *interrupted = code < 0;
    if (code < 0) {
        kill(pid, SIGINT);
        code = campaign_end(c, pid, 60);
        if (code == CAMPAIGN_SIGNALLED + SIGINT) code = 128 + SIGINT;
    }
    campaign_check_end(c, code);
    return code;
}

char *campaign_path(const char *folder, const char *name, char path[CAMPAIGN_PATH])
{
    CHECK((size_t)snprintf(path, CAMPAIGN_PATH, "%s/%s", folder, name) < CAMPAIGN_PATH);
    return path;
}

const char *campaign_golden(const char *name, char path[CAMPAIGN_PATH])
{
    const char *tests = getenv("TESTS");
    char golden[CAMPAIGN_PATH];
    return campaign_path(campaign_path(tests ? tests : HIL_TESTS, "golden", golden), name, path);
}

char *campaign_read(const char *path, size_t *size)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return NULL;
    CHECK(fstat(fd, &info) == 0);
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return NULL;
    }
    char *bytes = malloc((size_t)info.st_size + 1);
    CHECK(bytes != NULL);
    size_t at = 0;
    while (at < (size_t)info.st_size) {
        ssize_t got = read(fd, bytes + at, (size_t)info.st_size - at);
        if (got <= 0) break;
        at += (size_t)got;
    }
    close(fd);
    bytes[at] = 0;
    if (size) *size = at;
    return bytes;
}

void campaign_write(campaign_case *c, const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file || (size && fwrite(bytes, size, 1, file) != 1) || fclose(file) != 0)
        campaign_wrong(c, "the test cannot write %s: %s", path, strerror(errno));
}

const char *campaign_said(campaign_case *c)
{
    static char tail[1200];
    char path[CAMPAIGN_PATH];
    size_t size = 0;
    char *text = campaign_read(campaign_path(c->folder, "err", path), &size);
    size_t from = size > sizeof tail - 1 ? size - (sizeof tail - 1) : 0;
    snprintf(tail, sizeof tail, "%s", text ? text + from : "(nothing)");
    free(text);
    return tail;
}

void campaign_tool(campaign_case *c, const char *tool, ...)
{
    char *argument[16] = {(char *)(uintptr_t)tool};
    va_list list;
    int status = 0;
    va_start(list, tool);
    for (size_t i = 1; i < 15 && (argument[i] = va_arg(list, char *)); ++i) continue;
    va_end(list);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        execvp(tool, argument);
        _exit(127);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    if (status != 0) campaign_wrong(c, "%s %s failed", tool, argument[1]);
}

/* Counts hilbert's own lines; *last: the last line is one. */
static int own_lines(const char *text, bool *last)
{
    int count = 0;
    *last = false;
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        if (*line == '\n' && *++line == 0) break;
        *last = strncmp(line, "hilbert: ", 9) == 0;
        count += *last;
    }
    return count;
}

void campaign_check_end(campaign_case *c, int code)
{
    char path[CAMPAIGN_PATH];
    char *text = campaign_read(campaign_path(c->folder, "err", path), NULL);
    bool last = false;
    if (!text) campaign_wrong(c, "no stderr");
    if (strstr(text, "Sanitizer") || strstr(text, "runtime error:"))
        campaign_wrong(c, "a sanitizer's report: %s", text);
    int lines = own_lines(text, &last);
    bool stopped = code == 128 + SIGINT || code == 128 + SIGTERM;
    if (code != 0 && code != 1 && code != 2 && !stopped)
        campaign_wrong(c, "ended with %s %d: %s", code > 255 ? "signal" : "exit code",
                       code > 255 ? code - CAMPAIGN_SIGNALLED : code, campaign_said(c));
    if ((code == 1 || code == 2) && (lines != 1 || !last))
        campaign_wrong(c, "exit code %d with %d lines of its own%s: %s", code, lines,
                       last ? "" : ", and not as the last", campaign_said(c));
    free(text);
}

static char left[CAMPAIGN_PATH];

static int look_for_temporary(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info, (void)type;
    if (at->level > 0 && strstr(path + at->base, "tmp"))
        snprintf(left, sizeof left, "%.500s", path);
    return 0;
}

void campaign_check_left(campaign_case *c)
{
    left[0] = 0;
    nftw(c->folder, look_for_temporary, 16, FTW_PHYS);
    if (left[0]) campaign_wrong(c, "left behind: %s", left);
}
