/* ranged_file.c - writes ranges of a file with O_DIRECT where possible, else through the page
   cache. */
#include "io/ranged_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOCK ((size_t)4096)             /* alignment of file offsets for O_DIRECT */
#define SECTOR 512                       /* alignment of memory for O_DIRECT */
#define DIRECT_LEAST ((size_t)128 << 10) /* smaller writes use the page cache */

static hil_status fail_path(const char *verb, const char *path)
{
    return hil_fail(HIL_ERR_IO, "cannot %s %s: %s", verb, path, strerror(errno));
}

static hil_status open_as(hil_ranged *file, const char *path, int flags, const char *verb)
{
    snprintf(file->path, sizeof file->path, "%s", path);
    file->fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0666);
    if (file->fd < 0) return fail_path(verb, path);
    file->direct = open(path, O_WRONLY | O_CLOEXEC | O_DIRECT);
    file->open = true;
    return file->direct < 0 && errno != EINVAL ? fail_path("open", path) : HIL_OK;
}

hil_status hil_ranged_open(hil_ranged *file, const char *path)
{
    return open_as(file, path, 0, "open");
}

hil_status hil_ranged_create(hil_ranged *file, const char *path, uint64_t bytes)
{
    HIL_TRY(open_as(file, path, O_CREAT | O_EXCL, "create"));
    if (fallocate(file->fd, 0, 0, (off_t)bytes) == 0) return HIL_OK;
    if (errno != EOPNOTSUPP && errno != ENOSYS) return fail_path("write", path);
    return ftruncate(file->fd, (off_t)bytes) == 0 ? HIL_OK : fail_path("write", path);
}

static hil_status write_cached(const hil_ranged *file, const char *from, size_t size,
                               uint64_t offset)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pwrite(file->fd, from + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_path("write", file->path);
        done += (size_t)n;
    }
    /* Starts write-back now, so that the sync at the end has little left to do. */
    if (size) (void)!sync_file_range(file->fd, (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE);
    return HIL_OK;
}

/* Writes whole blocks with O_DIRECT, as many as it can: *done bytes. The copy into the page cache
   would cost more processor time than all the rest of a save. */
static hil_status write_direct(hil_ranged *file, const char *from, size_t size, uint64_t offset,
                               size_t *done)
{
    *done = 0;
    if (file->direct < 0 || (uintptr_t)from % SECTOR || offset % BLOCK) return HIL_OK;
    while (size - *done >= BLOCK) {
        size_t whole = (size - *done) / BLOCK * BLOCK;
        ssize_t n = pwrite(file->direct, from + *done, whole, (off_t)(offset + *done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno != EINVAL) return fail_path("write", file->path);
        if (n > 0) *done += (size_t)n;
        if (n == (ssize_t)whole) continue;
        close(file->direct); /* the drive requires another alignment */
        file->direct = -1;
        return HIL_OK;
    }
    return HIL_OK;
}

hil_status hil_ranged_write(hil_ranged *file, const void *bytes, size_t size, uint64_t offset)
{
    const char *from = bytes;
    size_t head = (BLOCK - offset % BLOCK) % BLOCK, done = 0;
    if (size >= DIRECT_LEAST) {
        HIL_TRY(write_cached(file, from, head, offset));
        HIL_TRY(write_direct(file, from + head, size - head, offset + head, &done));
        done += head;
    }
    return write_cached(file, from + done, size - done, offset + done);
}

hil_status hil_ranged_close(hil_ranged *file, bool sync)
{
    if (sync && fsync(file->fd) != 0) return fail_path("sync", file->path);
    int fd = file->fd;
    if (file->direct >= 0) close(file->direct);
    file->open = false;
    return close(fd) == 0 ? HIL_OK : fail_path("close", file->path);
}

void hil_ranged_abandon(hil_ranged *file)
{
    if (!file->open) return;
    if (file->direct >= 0) close(file->direct);
    close(file->fd);
    file->open = false;
}
