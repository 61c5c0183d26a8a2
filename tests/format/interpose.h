/* interpose.h - intercepts the library's file calls: see before() and after().

   The definitions here override those of the C library, in this program only. */
#ifndef HIL_TESTS_INTERPOSE_H
#define HIL_TESTS_INTERPOSE_H

#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum call_kind {
    CALL_OPEN,
    CALL_CLOSE,
    CALL_WRITE,
    CALL_FSYNC,
    CALL_RENAME,
    CALL_RESIZE,
    CALL_UNLINK,
    CALL_MKDIR,
    CALL_KINDS
} call_kind;

typedef struct call {
    call_kind kind;
    const char *path, *to;
    int fd, flags;
    const void *data;
    size_t size;
    off_t offset; /* of a write; -1: at the file position */
} call;

/* Defined by the test. before(): 0 makes the call, an errno fails it, CALL_SKIP skips it with
   success. after(): only if the call was made and succeeded. A lock serialises the calls. */
#define CALL_SKIP (-1)
static int before(const call *c);
static void after(const call *c, long result);

static pthread_mutex_t call_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int calls_unseen; /* the test's own calls */
static __thread int call_rank;    /* rank of this thread */

#define REAL(name) ((__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name))

/* `expr` is the real call. */
#define PASS(c, expr)                                                                              \
    do {                                                                                           \
        if (calls_unseen) return (expr);                                                           \
        pthread_mutex_lock(&call_lock);                                                            \
        ++calls_unseen;                                                                            \
        int verdict_ = before(c);                                                                  \
        __typeof__(expr) result_ = verdict_ == 0 ? (expr) : verdict_ == CALL_SKIP ? 0 : -1;        \
        int error_ = verdict_ > 0 ? verdict_ : errno;                                              \
        if (verdict_ == 0 && result_ >= 0) after(c, result_);                                      \
        --calls_unseen;                                                                            \
        pthread_mutex_unlock(&call_lock);                                                          \
        errno = error_;                                                                            \
        return result_;                                                                            \
    } while (0)

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    call c = {.kind = CALL_OPEN, .path = path, .flags = flags};
    PASS(&c, REAL(open)(path, flags, mode));
}

int openat(int dir, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    CHECK(calls_unseen || dir == AT_FDCWD);
    call c = {.kind = CALL_OPEN, .path = path, .flags = flags};
    PASS(&c, REAL(openat)(dir, path, flags, mode));
}

int creat(const char *path, mode_t mode)
{
    return open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

int close(int fd)
{
    call c = {.kind = CALL_CLOSE, .fd = fd};
    PASS(&c, REAL(close)(fd));
}

ssize_t write(int fd, const void *data, size_t size)
{
    call c = {.kind = CALL_WRITE, .fd = fd, .data = data, .size = size, .offset = -1};
    PASS(&c, REAL(write)(fd, data, size));
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    call c = {.kind = CALL_WRITE, .fd = fd, .data = data, .size = size, .offset = offset};
    PASS(&c, REAL(pwrite)(fd, data, size, offset));
}

/* Power losses are simulated, so nothing is really synced: that would take minutes. */
int fsync(int fd)
{
    call c = {.kind = CALL_FSYNC, .fd = fd};
    PASS(&c, 0);
}

int fdatasync(int fd)
{
    return fsync(fd);
}

int sync_file_range(int fd, off_t offset, off_t size, unsigned flags)
{
    (void)fd, (void)offset, (void)size, (void)flags;
    return 0;
}

int rename(const char *from, const char *to)
{
    call c = {.kind = CALL_RENAME, .path = from, .to = to};
    PASS(&c, REAL(rename)(from, to));
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    CHECK(calls_unseen || (from_dir == AT_FDCWD && to_dir == AT_FDCWD));
    call c = {.kind = CALL_RENAME, .path = from, .to = to};
    PASS(&c, REAL(renameat)(from_dir, from, to_dir, to));
}

int ftruncate(int fd, off_t size)
{
    call c = {.kind = CALL_RESIZE, .fd = fd, .size = (size_t)size};
    PASS(&c, REAL(ftruncate)(fd, size));
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    call c = {.kind = CALL_RESIZE, .fd = fd, .size = (size_t)(offset + size)};
    PASS(&c, REAL(fallocate)(fd, mode, offset, size));
}

int unlink(const char *path)
{
    call c = {.kind = CALL_UNLINK, .path = path};
    PASS(&c, REAL(unlink)(path));
}

int remove(const char *path)
{
    call c = {.kind = CALL_UNLINK, .path = path};
    PASS(&c, REAL(remove)(path));
}

int mkdir(const char *path, mode_t mode)
{
    call c = {.kind = CALL_MKDIR, .path = path};
    PASS(&c, REAL(mkdir)(path, mode));
}

#endif
