/* lock.c - one process at a time in a folder. The kernel drops the lock of a killed process. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

hil_status hil_lock_take(hil_lock *lock, const char *folder)
{
    char path[HIL_PATH_MAX];
    lock->fd = -1;
    HIL_TRY(hil_path_join(path, folder, ".lock"));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return hil_fail(HIL_ERR_IO, "cannot write in %s: %s", folder, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        hil_status status = errno == EWOULDBLOCK
                                ? hil_fail(HIL_ERR_USAGE, "%s is in use by another run", folder)
                                : hil_fail(HIL_ERR_IO, "cannot lock %s: %s", path, strerror(errno));
        close(fd);
        return status;
    }
    lock->fd = fd;
    return HIL_OK;
}

void hil_lock_drop(hil_lock *lock)
{
    if (lock->fd >= 0) close(lock->fd);
    lock->fd = -1;
}
