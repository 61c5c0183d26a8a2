/* reader.c - positional reads; resumes short ones. */
#include "io/reader.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct hil_reader {
    char *path;
    uint64_t size;
    int fd;
};

/* Takes ownership of fd, also when it fails. */
static hil_status adopt(hil_reader **out, int fd, const char *path)
{
    *out = NULL;
    hil_reader *reader = NULL;
    hil_status status = HIL_OK;
    struct stat info;
    HIL_TRY_DONE(HIL_ALLOC(1, &reader));
    reader->fd = fd;
    fd = -1;
    HIL_TRY_DONE(hil_text_copy(path, &reader->path));
    if (fstat(reader->fd, &info) != 0)
        HIL_TRY_DONE(hil_fail(HIL_ERR_IO, "cannot open %s: %s", path, strerror(errno)));
    if (!S_ISREG(info.st_mode))
        HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT, "cannot read %s: not a regular file", path));
    reader->size = (uint64_t)info.st_size;
    *out = reader;
    reader = NULL;
done:
    if (fd >= 0) close(fd);
    hil_reader_close(reader);
    return status;
}

hil_status hil_reader_open(hil_reader **out, const char *path)
{
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return hil_fail(HIL_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    return adopt(out, fd, path);
}

hil_status hil_reader_adopt(hil_reader **out, int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), fd);
    return adopt(out, fd, path);
}

void hil_reader_close(hil_reader *reader)
{
    if (!reader) return;
    if (reader->fd >= 0) close(reader->fd);
    hil_free(reader->path);
    hil_free(reader);
}

uint64_t hil_reader_size(const hil_reader *reader)
{
    return reader->size;
}

const char *hil_reader_path(const hil_reader *reader)
{
    return reader->path;
}

hil_status hil_reader_read(const hil_reader *reader, uint64_t offset, void *bytes, size_t size,
                           size_t *got)
{
    *got = 0;
    while (*got < size) {
        ssize_t done = pread(reader->fd, (char *)bytes + *got, size - *got, (off_t)(offset + *got));
        if (done < 0 && errno == EINTR) continue;
        if (done < 0)
            return hil_fail(HIL_ERR_IO, "cannot read %s at byte %llu: %s", reader->path,
                            (unsigned long long)(offset + *got), strerror(errno));
        if (done == 0) break;
        *got += (size_t)done;
    }
    return HIL_OK;
}
