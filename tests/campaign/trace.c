/* trace.c - the tracer: seccomp stops the program only at the calls in `calls`; ptrace reports the
   stops. */
#include "campaign/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const trace_kind_name[TRACE_KINDS] = {
    "write",          "pwrite",    "read",   "pread",      "open",
    "close",          "fsync",     "rename", "unlink",     "mkdir",
    "truncate",       "fallocate", "mmap",   "thread",     "io_uring_enter",
    "io_uring_setup", "list",      "stat",   "sync_range", "lock",
    "statfs",         "copy"};

#ifdef __x86_64__

static const struct {
    int number, kind;
} calls[] = {{SYS_write, 0},
             {SYS_writev, 0},
             {SYS_pwrite64, 1},
             {SYS_pwritev, 1},
             {SYS_read, 2},
             {SYS_pread64, 3},
             {SYS_preadv, 3},
             {SYS_openat, 4},
             {SYS_open, 4},
             {SYS_close, 5},
             {SYS_fsync, 6},
             {SYS_fdatasync, 6},
             {SYS_rename, 7},
             {SYS_renameat, 7},
             {SYS_renameat2, 7},
             {SYS_unlink, 8},
             {SYS_unlinkat, 8},
             {SYS_rmdir, 8},
             {SYS_mkdir, 9},
             {SYS_mkdirat, 9},
             {SYS_ftruncate, 10},
             {SYS_fallocate, 11},
             {SYS_mmap, 12},
             {SYS_clone3, 13},
             {SYS_io_uring_enter, 14},
             {SYS_io_uring_setup, 15},
             {SYS_getdents64, 16},
             {SYS_newfstatat, 17},
             {SYS_fstat, 17},
             {SYS_stat, 17},
             {SYS_statx, 17},
             {SYS_sync_file_range, 18},
             {SYS_flock, 19},
             {SYS_statfs, 20},
             {SYS_fstatfs, 20},
             {SYS_copy_file_range, 21},
             {SYS_sendfile, 21}};
enum { CALLS = sizeof calls / sizeof *calls, TASKS = 256 };

/* A task whose call is traced until it returns. */
typedef struct pending {
    pid_t task;
    trace_action action;
    trace_stop stop;
} pending;

typedef struct tracer {
    campaign_case *c;
    trace *t;
    pid_t process;
    bool executed,
        armed; /* exec has happened; the loader is done, as a file of the campaign was opened */
    pending pending[TASKS];
    int code; /* -1 until the process has ended */
} tracer;

static volatile sig_atomic_t too_long;
static void take_alarm(int signal)
{
    (void)signal;
    too_long = 1;
}

static void filter_calls(void)
{
    struct sock_filter code[2 * CALLS + 2];
    size_t n = 0;
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < CALLS; ++i) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                 (unsigned)calls[i].number, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        _exit(125);
}

static pid_t start(campaign_case *c, const campaign_command *command)
{
    int ready[2];
    char byte = 0;
    CHECK(pipe2(ready, O_CLOEXEC) == 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        if (read(ready[0], &byte, 1) != 1) _exit(125);
        setenv("ASAN_OPTIONS", "detect_leaks=0",
               1); /* the leak checker refuses to run under a tracer */
        filter_calls();
        campaign_become(c, command);
    }
    long options = PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                   PTRACE_O_TRACEEXEC | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD |
                   PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SEIZE, pid, NULL, options) != 0) {
        kill(pid, SIGKILL);
        campaign_skip("this machine refuses ptrace");
    }
    CHECK(write(ready[1], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static int kind_of(long number)
{
    for (size_t i = 0; i < CALLS; ++i)
        if (calls[i].number == number) return calls[i].kind;
    return -1;
}

/* Whether the path of an open is inside the campaign's folder. */
static bool opens_own(const tracer *r, pid_t task, const struct user_regs_struct *regs)
{
    char path[CAMPAIGN_PATH] = "";
    size_t size = strlen(r->c->work);
    uint64_t at = regs->orig_rax == SYS_open ? regs->rdi : regs->rsi;
    struct iovec to = {path, size}, from = {(void *)(uintptr_t)at, size};
    return process_vm_readv(task, &to, 1, &from, 1, 0) == (ssize_t)size &&
           strncmp(path, r->c->work, size) == 0;
}

/* Whether a descriptor is a file, not standard output or an eventfd, which cannot fail. */
static bool is_file(pid_t process, uint64_t fd)
{
    char path[64], link[8];
    snprintf(path, sizeof path, "/proc/%d/fd/%llu", (int)process, (unsigned long long)fd);
    return fd > 2 && readlink(path, link, sizeof link) > 0 && link[0] == '/';
}

static void set_registers(tracer *r, pid_t task, struct user_regs_struct *regs)
{
    if (ptrace(PTRACE_SETREGS, task, NULL, regs) != 0 && errno != ESRCH)
        campaign_wrong(r->c, "ptrace cannot set registers: %s", strerror(errno));
}

static pending *find_pending(tracer *r, pid_t task)
{
    for (int i = 0; i < TASKS; ++i)
        if (r->pending[i].task == task) return &r->pending[i];
    return NULL;
}

/* Handles a stop at a call; returns how to continue the task. */
static int at_call(tracer *r, pid_t task)
{
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, task, NULL, &regs) != 0) return PTRACE_CONT;
    int kind = kind_of((long)regs.orig_rax);
    if (kind < 0) return PTRACE_CONT;
    if (r->executed && !r->armed && kind == 4) r->armed = opens_own(r, task, &regs);
    bool by_descriptor = kind < 4 || kind == 5;
    if (!r->armed || (by_descriptor && !is_file(r->process, regs.rdi))) return PTRACE_CONT;
    trace_stop stop = {.process = r->process,
                       .task = task,
                       .kind = kind,
                       .n = ++r->t->count[kind],
                       .argument = {regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9}};
    trace_action action = r->t->stop(r->t, &stop);
    if (action == TRACE_FAIL) {
        regs.orig_rax = (unsigned long long)-1;
        regs.rax = (unsigned long long)-r->t->error;
        set_registers(r, task, &regs);
    } else if (action == TRACE_SHORT && regs.rdx > 1) {
        regs.rdx -= regs.rdx / 2;
        set_registers(r, task, &regs);
    } else if (action == TRACE_EXIT || action == TRACE_LATE) {
        pending *p = find_pending(r, 0);
        if (!p) return PTRACE_CONT;
        *p = (pending){task, action, stop};
        return PTRACE_SYSCALL;
    }
    return PTRACE_CONT;
}

static void at_return(tracer *r, pid_t task)
{
    struct user_regs_struct regs;
    pending *p = find_pending(r, task);
    if (!p) return;
    if (p->action == TRACE_LATE && ptrace(PTRACE_GETREGS, task, NULL, &regs) == 0) {
        regs.rax = (unsigned long long)-r->t->error;
        set_registers(r, task, &regs);
    } else if (p->action == TRACE_EXIT) {
        p->stop.exit = true;
        r->t->stop(r->t, &p->stop);
    }
    p->task = 0;
}

static void at_stop(tracer *r, pid_t task, int status)
{
    int event = status >> 16, signal = WSTOPSIG(status), go = PTRACE_CONT;
    long deliver = 0;
    if (event == PTRACE_EVENT_SECCOMP)
        go = at_call(r, task);
    else if (event == PTRACE_EVENT_EXEC)
        r->executed = true;
    else if (event == 0 && signal == (SIGTRAP | 0x80))
        at_return(r, task);
    else if (event == 0)
        deliver = signal;
    ptrace((enum __ptrace_request)go, task, NULL, deliver);
}

int trace_run(campaign_case *c, const campaign_command *command, trace *t, double seconds)
{
    static tracer r;
    struct sigaction alarmed = {.sa_handler = take_alarm};
    memset(t->count, 0, sizeof t->count);
    r = (tracer){.c = c, .t = t, .code = -1};
    r.process = start(c, command);
    too_long = 0;
    CHECK(sigaction(SIGALRM, &alarmed, NULL) == 0);
    alarm((unsigned)seconds);
    for (;;) {
        int status = 0;
        pid_t task = waitpid(-1, &status, __WALL);
        if (task < 0 && errno == ECHILD) break;
        if (too_long == 1) {
            too_long = 2;
            kill(r.process, SIGKILL);
        }
        if (task < 0) continue;
        if (WIFSTOPPED(status))
            at_stop(&r, task, status);
        else if (task == r.process)
            r.code = campaign_code(status);
    }
    alarm(0);
    if (too_long) campaign_wrong(c, "still running after %.0f s: %s", seconds, campaign_said(c));
    if (r.code == 125) campaign_skip("this machine refuses seccomp filters");
    return r.code;
}

#else

int trace_run(campaign_case *c, const campaign_command *command, trace *t, double seconds)
{
    (void)c, (void)command, (void)t, (void)seconds;
    campaign_skip("the tracer knows the registers of x86-64 only");
}

#endif

int trace_choose(campaign_case *c, const long count[TRACE_KINDS], long *n)
{
    int kinds[TRACE_KINDS], known = 0;
    for (int i = 0; i < TRACE_KINDS; ++i)
        if (count[i] > 0) kinds[known++] = i;
    if (!known) campaign_wrong(c, "no system calls were seen");
    int kind = kinds[campaign_random(c, (uint64_t)known)];
    *n = 1 + (long)campaign_random(c, (uint64_t)count[kind]);
    return kind;
}
