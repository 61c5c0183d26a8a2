/* io_fixture.h - a folder on a disk, bytes that encode their offset, and both engines. */
#ifndef HIL_TESTS_IO_FIXTURE_H
#define HIL_TESTS_IO_FIXTURE_H

#include "check.h"
#include "hilbert/io.h"
#include "io/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

static char folder[64];
static char path[128];

static pid_t owner; /* children do not remove the folder */

static inline void fixture_clean(void)
{
    if (folder[0] && getpid() == owner) (void)!hil_file_remove_tree(folder);
}

/* In the current folder: /tmp may be in memory. */
static inline void fixture_open(void)
{
    snprintf(folder, sizeof folder, "hilbert-io-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
    owner = getpid();
    CHECK(atexit(fixture_clean) == 0);
    snprintf(path, sizeof path, "%s/file", folder);
}

static inline void fixture_close(void)
{
    CHECK_OK(hil_file_remove_tree(folder));
    folder[0] = 0;
}

/* The byte of a test file at `offset`, in its `round`-th version. */
static inline char byte_at(uint64_t offset, unsigned round)
{
    uint64_t mixed = (offset + round * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    return (char)(mixed >> 56);
}

static inline void fill(char *bytes, uint64_t offset, size_t size, unsigned round)
{
    for (size_t i = 0; i < size; ++i) bytes[i] = byte_at(offset + i, round);
}

static inline void expect(const char *bytes, uint64_t offset, size_t size, unsigned round)
{
    for (size_t i = 0; i < size; ++i)
        if (bytes[i] != byte_at(offset + i, round)) CHECK_INT(offset + i, -1);
}

/* Reads the file without the engine and checks its bytes. */
static inline void expect_file(const char *name, uint64_t offset, size_t size, unsigned round)
{
    FILE *file = fopen(name, "rb");
    char *bytes = malloc(size);
    CHECK(file && bytes && fseek(file, (long)offset, SEEK_SET) == 0);
    CHECK_INT(fread(bytes, 1, size, file), size);
    expect(bytes, offset, size, round);
    fclose(file);
    free(bytes);
}

static inline void make_file(const char *name, size_t size, unsigned round)
{
    int fd = open(name, O_WRONLY | O_CREAT, 0600); /* no O_TRUNC: some file systems then sync */
    char *bytes = malloc(size);
    CHECK(fd >= 0 && bytes);
    fill(bytes, 0, size, round);
    CHECK_INT(pwrite(fd, bytes, size, 0), size);
    CHECK_INT(ftruncate(fd, (off_t)size), 0);
    CHECK_INT(close(fd), 0);
    free(bytes);
}

static inline hil_io *make_io(hil_io_kind engine, int depth, size_t split)
{
    hil_io_options options;
    hil_io *io;
    hil_io_defaults(&options);
    options.engine = engine;
    options.depth = depth;
    options.split = split;
    options.buffer_bytes = 8 * MIB;
    CHECK_OK(hil_io_create(&io, &options));
    return io;
}

/* Runs the test with every engine that works here; threads always do. */
static inline void with_engines(void (*test)(hil_io_kind engine))
{
    hil_io_options options;
    hil_io *io;
    hil_io_defaults(&options);
    options.engine = HIL_IO_URING;
    if (hil_io_create(&io, &options) == HIL_OK) {
        hil_io_destroy(io);
        test(HIL_IO_URING);
    }
    test(HIL_IO_THREADS);
}

static inline int open_descriptors(void)
{
    int count = 0;
    DIR *list = opendir("/proc/self/fd");
    CHECK(list != NULL);
    while (readdir(list)) ++count;
    closedir(list);
    return count;
}

#endif
