/* file.c - whole files on POSIX calls. */
#include "io/file.h"

#include "io/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)1 << 20)
#define STREAM_MOST ((size_t)1 << 30)

static hil_status fail_path(const char *verb, const char *path)
{
    return hil_fail(HIL_ERR_IO, "cannot %s %s: %s", verb, path, strerror(errno));
}

hil_status hil_bytes_read(hil_bytes *bytes, const char *path)
{
    *bytes = (hil_bytes){0};
    hil_reader *reader = NULL;
    size_t got;
    hil_status status;
    HIL_TRY_DONE(hil_reader_open(&reader, path));
    size_t size = (size_t)hil_reader_size(reader);
    HIL_TRY_DONE(HIL_ALLOC(size + 1, &bytes->data));
    HIL_TRY_DONE(hil_reader_read(reader, 0, bytes->data, size, &got));
    if (got < size)
        HIL_TRY_DONE(hil_fail(HIL_ERR_IO, "%s was cut short while it was being read", path));
    bytes->size = size;
done:
    hil_reader_close(reader);
    if (status != HIL_OK) hil_bytes_free(bytes);
    return status;
}

static hil_status read_to_end(hil_text *text, int fd, const char *path)
{
    char piece[1 << 14];
    for (;;) {
        ssize_t got = read(fd, piece, sizeof piece);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_path("read", path);
        if (got == 0) return hil_text_add(text, "", 0);
        if (text->size + (size_t)got > STREAM_MOST)
            return hil_fail(HIL_ERR_INPUT, "%s does not end within 1 GiB", path);
        HIL_TRY(hil_text_add(text, piece, (size_t)got));
    }
}

hil_status hil_bytes_read_stream(hil_bytes *bytes, const char *path)
{
    struct stat info;
    hil_text text = {0};
    *bytes = (hil_bytes){0};
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode)) return hil_bytes_read(bytes, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_path("open", path);
    hil_status status = read_to_end(&text, fd, path);
    close(fd);
    if (status == HIL_OK)
        *bytes = (hil_bytes){text.data, text.size};
    else
        hil_text_free(&text);
    return status;
}

void hil_bytes_free(hil_bytes *bytes)
{
    hil_free(bytes->data);
    *bytes = (hil_bytes){0};
}

bool hil_file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

hil_status hil_file_parse(const char *folder, const char *name, json_t **out)
{
    char path[HIL_PATH_MAX];
    hil_bytes bytes;
    *out = NULL;
    HIL_TRY(hil_path_join(path, folder, name));
    if (!hil_file_exists(path)) return HIL_OK;
    HIL_TRY(hil_bytes_read(&bytes, path));
    hil_status status = hil_json_parse(bytes.data, bytes.size, path, out);
    hil_bytes_free(&bytes);
    return status;
}

/* Makes the name of a new folder durable. */
static hil_status sync_parent(const char *path)
{
    char parent[HIL_PATH_MAX];
    HIL_TRY(hil_path_join(parent, path, ".."));
    return hil_dir_sync(parent);
}

hil_status hil_dir_create(const char *path)
{
    char part[HIL_PATH_MAX];
    size_t size = strlen(path);
    if (size == 0 || size >= sizeof part)
        return hil_fail(HIL_ERR_INPUT, "bad folder name: %.80s", path);
    for (size_t i = 1; i <= size; ++i) {
        if (path[i] != '/' && path[i] != 0) continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0777) == 0)
            HIL_TRY(sync_parent(part));
        else if (errno != EEXIST)
            return fail_path("create folder", part);
    }
    struct stat info;
    if (stat(path, &info) != 0) return fail_path("inspect", path);
    if (!S_ISDIR(info.st_mode)) return hil_fail(HIL_ERR_INPUT, "%s is not a folder", path);
    return HIL_OK;
}

/* Cuts off the last part of the path; returns the new length. */
static size_t cut_last_part(char *path, size_t size)
{
    while (size && path[size - 1] != '/') --size;
    while (size && path[size - 1] == '/') --size;
    path[size] = 0;
    return size;
}

size_t hil_dir_existing(const char *path)
{
    char part[HIL_PATH_MAX];
    size_t size = strlen(path);
    if (size >= sizeof part) return size;
    memcpy(part, path, size + 1);
    while (size && !hil_file_exists(part)) size = cut_last_part(part, size);
    return size;
}

void hil_dir_uncreate(const char *path, size_t existing)
{
    char part[HIL_PATH_MAX];
    size_t size = strlen(path);
    if (size >= sizeof part) return;
    memcpy(part, path, size + 1);
    while (size > existing && (rmdir(part) == 0 || errno == ENOENT))
        size = cut_last_part(part, size);
}

hil_status hil_dir_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail_path("open folder", path);
    hil_status status = fsync(fd) == 0 ? HIL_OK : fail_path("sync folder", path);
    close(fd);
    return status;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

hil_status hil_file_remove_tree(const char *path)
{
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT) return HIL_OK;
    return fail_path("remove", path);
}

/* The next name but "." and "..", or NULL after the last. Fails if readdir fails. */
static hil_status next_name(DIR *dir, const char *path, const char **name)
{
    struct dirent *entry;
    do {
        errno = 0;
        entry = readdir(dir);
        if (!entry && errno != 0) return fail_path("list", path);
    } while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    *name = entry ? entry->d_name : NULL;
    return HIL_OK;
}

hil_status hil_dir_each(const char *path, hil_dir_missing missing, hil_dir_visit visit,
                        void *context)
{
    const char *name = NULL;
    DIR *dir = opendir(path);
    if (!dir && errno == ENOENT && missing == HIL_MISSING_IS_EMPTY) return HIL_OK;
    if (!dir) return fail_path("open", path);
    hil_status status = next_name(dir, path, &name);
    while (status == HIL_OK && name) {
        status = visit(context, path, name);
        if (status == HIL_OK) status = next_name(dir, path, &name);
    }
    closedir(dir);
    return status;
}

struct removal {
    bool (*matches)(const char *name);
};

static hil_status remove_one(void *context, const char *folder, const char *name)
{
    const struct removal *removal = context;
    char path[HIL_PATH_MAX];
    if (!removal->matches(name)) return HIL_OK;
    HIL_TRY(hil_path_join(path, folder, name));
    return hil_file_remove_tree(path);
}

hil_status hil_dir_remove_matching(const char *path, bool (*matches)(const char *name))
{
    struct removal removal = {matches};
    return hil_dir_each(path, HIL_MISSING_IS_EMPTY, remove_one, &removal);
}

hil_status hil_dir_free_bytes(const char *path, uint64_t *out)
{
    char part[HIL_PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return hil_fail(HIL_ERR_INPUT, "path too long: %.80s...", path);
    while (!hil_file_exists(part) && strcmp(part, ".") != 0 && strcmp(part, "/") != 0) {
        char *slash = strrchr(part, '/');
        if (!slash) {
            memcpy(part, ".", 2);
        } else if (slash == part) {
            part[1] = 0;
        } else {
            *slash = 0;
        }
    }
    struct statvfs info;
    if (statvfs(part, &info) != 0) return fail_path("inspect", part);
    *out = (uint64_t)info.f_bavail * info.f_frsize;
    return HIL_OK;
}

/* If the file system has no O_TMPFILE, the file is created with a name and unlinked at once. */
hil_status hil_file_open_nameless(const char *folder, int *fd)
{
    char path[HIL_PATH_MAX];
    HIL_TRY(hil_path_join(path, folder, ".hilbert-XXXXXX"));
    *fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*fd >= 0) return HIL_OK;
    *fd = mkostemp(path, O_CLOEXEC);
    if (*fd < 0)
        return hil_fail(HIL_ERR_IO, "cannot create a file in %s: %s", folder, strerror(errno));
    unlink(path);
    return HIL_OK;
}

struct hil_writer {
    char path[HIL_PATH_MAX];
    char temporary[HIL_PATH_MAX];
    int fd;
    size_t used;
    char *buffer;
};

hil_status hil_writer_open(hil_writer **out, const char *path)
{
    *out = NULL;
    hil_writer *writer = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &writer));
    writer->fd = -1;
    HIL_TRY_DONE(HIL_ALLOC(BUFFER_BYTES, &writer->buffer));
    snprintf(writer->path, sizeof writer->path, "%s", path);
    HIL_TRY_DONE(hil_temporary_name(writer->temporary, path));
    writer->fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (writer->fd < 0) HIL_TRY_DONE(fail_path("create", writer->path));
    *out = writer;
    writer = NULL;
done:
    if (writer) writer->temporary[0] = 0;
    hil_writer_close(writer);
    return status;
}

hil_status hil_writer_open_nameless(hil_writer **out, const char *folder)
{
    *out = NULL;
    hil_writer *writer = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &writer));
    writer->fd = -1;
    snprintf(writer->path, sizeof writer->path, "a file in %s", folder);
    HIL_TRY_DONE(HIL_ALLOC(BUFFER_BYTES, &writer->buffer));
    HIL_TRY_DONE(hil_file_open_nameless(folder, &writer->fd));
    *out = writer;
    writer = NULL;
done:
    hil_writer_close(writer);
    return status;
}

static hil_status write_fully(hil_writer *writer, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t done = write(writer->fd, bytes, size);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return fail_path("write", writer->path);
        bytes += done;
        size -= (size_t)done;
    }
    return HIL_OK;
}

static hil_status flush_buffer(hil_writer *writer)
{
    HIL_TRY(write_fully(writer, writer->buffer, writer->used));
    writer->used = 0;
    return HIL_OK;
}

hil_status hil_writer_take(hil_writer *writer, int *fd)
{
    assert(!writer->temporary[0]);
    HIL_TRY(flush_buffer(writer));
    *fd = writer->fd;
    writer->fd = -1;
    return HIL_OK;
}

hil_status hil_writer_add(hil_writer *writer, const void *bytes, size_t size)
{
    if (size > BUFFER_BYTES - writer->used) HIL_TRY(flush_buffer(writer));
    if (size >= BUFFER_BYTES) return write_fully(writer, bytes, size);
    memcpy(writer->buffer + writer->used, bytes, size);
    writer->used += size;
    return HIL_OK;
}

hil_status hil_writer_commit(hil_writer *writer)
{
    HIL_TRY(flush_buffer(writer));
    if (fsync(writer->fd) != 0) return fail_path("sync", writer->path);
    int fd = writer->fd;
    writer->fd = -1;
    if (close(fd) != 0) return fail_path("close", writer->path);
    if (rename(writer->temporary, writer->path) != 0) return fail_path("rename to", writer->path);
    writer->temporary[0] = 0;
    return HIL_OK;
}

void hil_writer_close(hil_writer *writer)
{
    if (!writer) return;
    if (writer->fd >= 0) close(writer->fd);
    if (writer->temporary[0] && writer->path[0]) unlink(writer->temporary);
    hil_free(writer->buffer);
    hil_free(writer);
}

hil_status hil_file_write(const char *path, const void *bytes, size_t size)
{
    hil_writer *writer;
    HIL_TRY(hil_writer_open(&writer, path));
    hil_status status = hil_writer_add(writer, bytes, size);
    if (status == HIL_OK) status = hil_writer_commit(writer);
    hil_writer_close(writer);
    return status;
}

hil_status hil_file_replace(const char *path, const void *bytes, size_t size)
{
    char name[HIL_PATH_MAX];
    HIL_TRY(hil_temporary_name(name, path));
    FILE *file = fopen(name, "we");
    if (!file) return hil_fail(HIL_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    bool whole = fwrite(bytes, 1, size, file) == size;
    whole = fclose(file) == 0 && whole;
    if (whole && rename(name, path) == 0) return HIL_OK;
    hil_status status = hil_fail(HIL_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    unlink(name);
    return status;
}
