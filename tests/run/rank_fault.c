/* rank_fault.c - preloaded into one rank by test_rank_faults.sh. From the n-th call of one kind on
   a file whose path contains some words, calls fail; or that call blocks.

   FAULT="CALL WORDS N OFFSET ERRNO": CALL is create (open for writing), open, pread, pwrite or
   fsync; preads below OFFSET do not count; ERRNO 0 blocks: $FAULT_HELD is created, and the call
   continues once $FAULT_HELD.go exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    char call[16], words[256];
    long n, offset;
    int error;
} fault;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void parse(void)
{
    const char *text = getenv("FAULT");
    if (!text || sscanf(text, "%15s %255s %ld %ld %d", fault.call, fault.words, &fault.n,
                        &fault.offset, &fault.error) != 5)
        fault.n = -1;
}

static void hold(void)
{
    char go[4096];
    const char *held = getenv("FAULT_HELD");
    FILE *file = fopen(held, "w");
    if (file) fclose(file);
    snprintf(go, sizeof go, "%s.go", held);
    for (int i = 0; i < 3000 && access(go, F_OK) != 0; ++i)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
}

/* The error of this call, or 0. */
static int error_of(const char *call, const char *path, long offset)
{
    pthread_once(&once, parse);
    if (fault.n < 0 || strcmp(call, fault.call) != 0 || offset < fault.offset ||
        !strstr(path, fault.words))
        return 0;
    pthread_mutex_lock(&lock);
    long left = fault.n > 0 ? fault.n-- : 0;
    pthread_mutex_unlock(&lock);
    if (left > 1 || (left == 0 && !fault.error)) return 0;
    if (fault.error) return fault.error;
    hold();
    return 0;
}

static int strike_fd(const char *call, int fd, long offset)
{
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(name, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return error_of(call, path, offset);
}

#define FAIL_WITH(error)                                                                           \
    do {                                                                                           \
        int code = (error);                                                                        \
        if (code) {                                                                                \
            errno = code;                                                                          \
            return -1;                                                                             \
        }                                                                                          \
    } while (0)

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        int (*real)(const char *, int, ...) =                                                      \
            (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name);                              \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(args, int) : 0;               \
        va_end(args);                                                                              \
        FAIL_WITH(error_of((flags & O_ACCMODE) == O_RDONLY ? "open" : "create", path, 0));         \
        return real(path, flags, mode);                                                            \
    }
OPEN(open)
OPEN(open64)

#define PREAD(name)                                                                                \
    ssize_t name(int fd, void *bytes, size_t size, off_t at)                                       \
    {                                                                                              \
        ssize_t (*real)(int, void *, size_t, off_t) =                                              \
            (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, #name);                       \
        FAIL_WITH(strike_fd("pread", fd, (long)at));                                               \
        return real(fd, bytes, size, at);                                                          \
    }
PREAD(pread)
PREAD(pread64)

#define PWRITE(name)                                                                               \
    ssize_t name(int fd, const void *bytes, size_t size, off_t at)                                 \
    {                                                                                              \
        ssize_t (*real)(int, const void *, size_t, off_t) =                                        \
            (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, #name);                 \
        FAIL_WITH(strike_fd("pwrite", fd, 0));                                                     \
        return real(fd, bytes, size, at);                                                          \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

int fsync(int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    FAIL_WITH(strike_fd("fsync", fd, 0));
    return real(fd);
}
