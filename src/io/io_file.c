/* io_file.c - opens files for the engine, with O_DIRECT if the file system supports it. */
#include "io/io.h"

#include "base/text.h"
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static hil_status cannot_open(const char *path)
{
    return hil_fail(HIL_ERR_IO, "cannot open %s: %s", path, strerror(errno));
}

/* Newer kernels accept O_DIRECT on tmpfs, where it has no effect. */
static bool is_memory_file_system(int fd)
{
    struct statfs info;
    if (fstatfs(fd, &info) != 0) return false;
    return info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC;
}

/* Opens the same file with O_DIRECT; -1 if that is refused. */
static int open_direct(const char *path, int mode, const struct stat *first, int fd)
{
    if (is_memory_file_system(fd)) return -1;
    int direct = open(path, mode | O_DIRECT | O_CLOEXEC);
    if (direct < 0) return -1;
    struct stat info;
    if (fstat(direct, &info) == 0 && info.st_dev == first->st_dev && info.st_ino == first->st_ino)
        return direct;
    close(direct); /* the name was replaced in between */
    return -1;
}

/* `again`: path to open the file a second time; `path` is for messages. Takes ownership of fd, also
   when it fails. */
static hil_status adopt(hil_io *io, const char *path, const char *again, int access, int fd,
                        hil_io_file **out)
{
    hil_io_file *file = NULL;
    struct stat info;
    hil_status status = HIL_OK;
    HIL_TRY_DONE(HIL_ALLOC(1, &file));
    *file =
        (hil_io_file){.access = access, .fd = fd, .direct_fd = -1, .slot = -1, .direct_slot = -1};
    fd = -1;
    HIL_TRY_DONE(hil_text_copy(path, &file->path));
    if (fstat(file->fd, &info) != 0) HIL_TRY_DONE(cannot_open(path));
    if (!S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode))
        HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT, "cannot use %s: not a regular file", path));
    file->size = (uint64_t)info.st_size;
    int flags = fcntl(file->fd, F_GETFL);
    fcntl(file->fd, F_SETFL, flags & ~O_NONBLOCK); /* which was for the open of a pipe */
    file->direct_fd = open_direct(again, flags & O_ACCMODE, &info, file->fd);
    file->direct = file->direct_fd >= 0;
    HIL_TRY_DONE(hil_io_drive_find(io, (uint64_t)info.st_dev, &file->drive));
    const hil_io_drive *drive = file->drive;
    file->slot = drive->backend->add_file(drive->engine, file->fd);
    if (file->direct) file->direct_slot = drive->backend->add_file(drive->engine, file->direct_fd);
    file->io = io;
    pthread_mutex_lock(&io->lock);
    ++io->files;
    pthread_mutex_unlock(&io->lock);
    *out = file;
    file = NULL;
done:
    if (fd >= 0) close(fd);
    hil_io_close(file);
    return status;
}

hil_status hil_io_open(hil_io *io, const char *path, int access, hil_io_file **out)
{
    static const int mode[] = {0, O_RDONLY, O_WRONLY, O_RDWR};
    *out = NULL;
    int transfers = access & (HIL_IO_READ | HIL_IO_WRITE);
    if (!transfers || ((access & HIL_IO_CREATE) && !(access & HIL_IO_WRITE)))
        return hil_fail(HIL_ERR_USAGE, "cannot open %s: neither for reading nor for writing", path);
    int flags = mode[transfers] | O_CLOEXEC | O_NONBLOCK;
    int fd = open(path, flags | (access & HIL_IO_CREATE ? O_CREAT : 0), 0600);
    if (fd < 0) return cannot_open(path);
    return adopt(io, path, path, access, fd, out);
}

static hil_status reserve(int fd, const char *folder, uint64_t size)
{
    int error = size > INT64_MAX ? EFBIG : EINTR;
    while (size && error == EINTR) error = fallocate(fd, 0, 0, (off_t)size) == 0 ? 0 : errno;
    if (error == EOPNOTSUPP) error = ftruncate(fd, (off_t)size) == 0 ? 0 : errno;
    if (!size || !error) return HIL_OK;
    char text[32];
    return hil_fail(HIL_ERR_IO, "cannot reserve %s in %s: %s", hil_text_bytes(text, size), folder,
                    strerror(error));
}

hil_status hil_io_open_scratch(hil_io *io, const char *folder, uint64_t size, hil_io_file **out)
{
    *out = NULL;
    char words[HIL_PATH_MAX + 32], again[64];
    int fd;
    HIL_TRY(hil_file_open_nameless(folder, &fd));
    hil_status status = reserve(fd, folder, size);
    if (status != HIL_OK) {
        close(fd);
        return status;
    }
    snprintf(words, sizeof words, "the swap file in %s", folder);
    snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
    return adopt(io, words, again, HIL_IO_READ | HIL_IO_WRITE, fd, out);
}

void hil_io_close(hil_io_file *file)
{
    if (!file) return;
    hil_io *io = file->io;
    if (io) {
        pthread_mutex_lock(&io->lock);
        while (file->busy) hil_io_sleep(io);
        assert(file->handles == 0);
        --io->files;
        pthread_mutex_unlock(&io->lock);
        file->drive->backend->drop_file(file->drive->engine, file->slot);
        file->drive->backend->drop_file(file->drive->engine, file->direct_slot);
    }
    if (file->direct_fd >= 0) close(file->direct_fd);
    if (file->fd >= 0) close(file->fd);
    hil_free(file->path);
    hil_free(file);
}

bool hil_io_is_direct(const hil_io_file *file)
{
    pthread_mutex_lock(&file->io->lock);
    bool direct = file->direct;
    pthread_mutex_unlock(&file->io->lock);
    return direct;
}

uint64_t hil_io_size(const hil_io_file *file)
{
    return file->size;
}

int hil_io_descriptor(const hil_io_file *file)
{
    return file->fd;
}
