/* lock.c - locks a folder for one process. The kernel releases the lock of a killed process. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME ".lock"
/* An attempt fails when another process removes the lock file as it ends. */
#define ATTEMPTS 100

static bool leads_to(const char *path, int fd)
{
    struct stat named, held;
    return stat(path, &named) == 0 && fstat(fd, &held) == 0 && named.st_dev == held.st_dev &&
           named.st_ino == held.st_ino;
}

hil_status hil_lock_take(hil_lock *lock, const char *folder)
{
    lock->fd = -1;
    HIL_TRY(hil_path_join(lock->path, folder, NAME));
    for (int i = 0; i < ATTEMPTS; ++i) {
        int fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0) return hil_fail(HIL_ERR_IO, "cannot write in %s: %s", folder, strerror(errno));
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            bool busy = errno == EWOULDBLOCK;
            hil_status status =
                busy ? hil_fail(HIL_ERR_USAGE, "%s is in use by another run", folder)
                     : hil_fail(HIL_ERR_IO, "cannot lock %s: %s", lock->path, strerror(errno));
            close(fd);
            return status;
        }
        if (leads_to(lock->path, fd)) {
            lock->fd = fd;
            return HIL_OK;
        }
        close(fd);
    }
    return hil_fail(HIL_ERR_IO, "cannot lock %s: the file is not there, or cannot be inspected",
                    lock->path);
}

hil_status hil_lock_check(const hil_lock *lock)
{
    if (!lock || lock->fd < 0 || leads_to(lock->path, lock->fd)) return HIL_OK;
    size_t folder = strlen(lock->path) - strlen("/" NAME);
    return hil_fail(HIL_ERR_IO,
                    "%.*s was moved, replaced or removed while it was being written to; nothing "
                    "more is written there (a moved run continues with --resume in its new place)",
                    (int)folder, lock->path);
}

void hil_lock_drop(hil_lock *lock)
{
    struct stat info;
    if (lock->fd < 0) return;
    bool empty = fstat(lock->fd, &info) == 0 && info.st_size == 0; /* as we create it */
    if (empty && leads_to(lock->path, lock->fd)) unlink(lock->path);
    close(lock->fd);
    lock->fd = -1;
}
