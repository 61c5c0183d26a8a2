/* For every n, the n-th operation fails: transient errors change nothing, others are one clear
   error, and nothing hangs or leaks. */
#include "base/alloc.h"
#include "io/io_faulty.h"
#include "io_fixture.h"

#include <errno.h>

#define FILE_BYTES (256 * KIB + 100)

static char bytes[FILE_BYTES + HIL_IO_ALIGN] __attribute__((aligned(HIL_IO_ALIGN)));

/* Writes a file in three requests, flushes it, reads it back; the first failure ends it. */
static hil_status small_run(hil_io *io)
{
    static const size_t cut[] = {0, 100 * KIB, 100 * KIB + 10, FILE_BYTES};
    hil_io_file *file = NULL;
    hil_io_request *request[3];
    hil_status status, ended[3];
    HIL_TRY_DONE(hil_io_open(io, path, HIL_IO_READ | HIL_IO_WRITE | HIL_IO_CREATE, &file));
    fill(bytes, 0, FILE_BYTES, 1);
    for (int i = 0; i < 3; ++i)
        CHECK_OK(
            hil_io_write_start(file, cut[i], bytes + cut[i], cut[i + 1] - cut[i], &request[i]));
    char message[200] = "";
    int failures = 0;
    for (int i = 0; i < 3; ++i) {
        ended[i] = hil_io_wait(request[i]);
        if (ended[i] == HIL_OK) continue;
        ++failures;
        status = ended[i];
        snprintf(message, sizeof message, "%s", hil_status_message());
    }
    CHECK(failures <= 1);
    if (failures) (void)!hil_fail(status, "%s", message);
    HIL_TRY_DONE(status);
    HIL_TRY_DONE(hil_io_flush(file));
    memset(bytes, 0, FILE_BYTES);
    for (size_t at = 0; at < FILE_BYTES; at += 50 * KIB) {
        size_t size = FILE_BYTES - at < 50 * KIB ? FILE_BYTES - at : 50 * KIB;
        CHECK_OK(hil_io_read_start(file, at, bytes + at, size, NULL));
    }
    HIL_TRY_DONE(hil_io_wait_all(io));
    CHECK_OK(hil_io_wait_all(io));
    expect(bytes, 0, FILE_BYTES, 1);
done:
    hil_io_close(file);
    return status;
}

static void every_operation(hil_io_kind engine, int error, const char *words)
{
    int before = open_descriptors();
    bool passing = error == 0 || error == EAGAIN || error == EINTR, reached = true;
    long n = 1, step = 1;
    if (CHECK_SLOW) n += error % 3, step = 3; /* other operations for other errors */
    for (; reached; n += step) {
        hil_io_counts counts;
        hil_io_fail_at(n, error);
        hil_io *io = make_io(engine, 3, 16 * KIB);
        hil_status status = small_run(io);
        reached = hil_io_fail_count() >= n;
        if (reached && !passing) {
            CHECK_FAILS(status, HIL_ERR_IO, words);
            CHECK(strstr(hil_status_message(), path) != NULL);
        } else {
            CHECK_OK(status);
            hil_io_count(io, &counts);
            CHECK_INT(counts.written_bytes, FILE_BYTES);
            CHECK_INT(counts.read_bytes, FILE_BYTES);
        }
        hil_io_destroy(io);
        CHECK_INT(remove(path), 0);
    }
    CHECK(n > 30);
    hil_io_fail_at(0, 0);
    CHECK_INT(open_descriptors(), before);
}

static void all_faults(hil_io_kind engine)
{
    every_operation(engine, 0, "");
    every_operation(engine, EAGAIN, "");
    every_operation(engine, EINTR, "");
    every_operation(engine, EIO, ": Input/output error");
    every_operation(engine, ENOSPC, ": No space left on device");
}

/* The message names the offset of the failed piece, whichever thread it failed on. */
static void words_at_wait(hil_io_kind engine)
{
    char words[256];
    hil_io_request *good, *bad;
    hil_io_file *file;
    make_file(path, MIB, 2);
    hil_io_fail_at(3, EIO);
    hil_io *io = make_io(engine, 1, 256 * KIB);
    CHECK_OK(hil_io_open(io, path, HIL_IO_READ, &file));
    char *all = aligned_alloc(HIL_IO_ALIGN, MIB);
    CHECK_OK(hil_io_read_start(file, 0, all, 512 * KIB, &good));
    CHECK_OK(hil_io_read_start(file, 512 * KIB, all + 512 * KIB, 512 * KIB, &bad));
    snprintf(words, sizeof words, "cannot read %s at 512.0 KiB: Input/output error", path);
    CHECK_FAILS(hil_io_wait(bad), HIL_ERR_IO, words);
    CHECK_OK(hil_io_wait(good));
    CHECK_OK(hil_io_read(file, 512 * KIB, all + 512 * KIB, 512 * KIB));
    expect(all, 0, MIB, 2);
    hil_io_close(file);
    hil_io_destroy(io);

    /* Without handles: the earliest failure, even when the file is closed by then. */
    hil_io_fail_at(2, ENOSPC);
    io = make_io(engine, 1, 256 * KIB);
    CHECK_OK(hil_io_open(io, path, HIL_IO_READ | HIL_IO_WRITE, &file));
    for (size_t i = 0; i < 4; ++i)
        CHECK_OK(hil_io_write_start(file, i * 256 * KIB, all, 256 * KIB, NULL));
    hil_io_close(file);
    snprintf(words, sizeof words, "cannot write %s at 256.0 KiB: No space left on device", path);
    CHECK_FAILS(hil_io_wait_all(io), HIL_ERR_IO, words);
    CHECK_OK(hil_io_wait_all(io));
    hil_io_destroy(io);
    hil_io_fail_at(0, 0);
    free(all);
}

/* A failed flush is not repeated: the next one fails the same way. */
static void flush_fails_for_good(hil_io_kind engine)
{
    hil_io_file *file;
    make_file(path, 4096, 2);
    hil_io_fail_at(1, EIO);
    hil_io *io = make_io(engine, 1, 4096);
    CHECK_OK(hil_io_open(io, path, HIL_IO_WRITE, &file));
    CHECK_FAILS(hil_io_flush(file), HIL_ERR_IO, "cannot flush");
    CHECK_FAILS(hil_io_flush(file), HIL_ERR_IO, "Input/output error");
    CHECK_INT(hil_io_fail_count(), 1);
    hil_io_close(file);
    hil_io_destroy(io);
    hil_io_fail_at(0, 0);
}

static void no_memory(hil_io_kind engine)
{
    hil_io_options options;
    hil_io *io = NULL;
    hil_io_file *file;
    int before = open_descriptors();
    hil_io_defaults(&options);
    options.engine = engine;
    options.buffer_bytes = MIB;
    make_file(path, 4096, 2);
    for (long n = 1;; ++n) {
        hil_alloc_fail_at(n);
        hil_status status = hil_io_create(&io, &options);
        if (status == HIL_OK) status = hil_io_open(io, path, HIL_IO_READ, &file);
        hil_alloc_fail_at(0);
        if (status == HIL_OK) hil_io_close(file);
        hil_io_destroy(io);
        CHECK_INT(open_descriptors(), before);
        if (status == HIL_OK) break;
        CHECK_FAILS(status, HIL_ERR_MEMORY, "out of memory");
        CHECK(n < 100);
    }
}

int main(void)
{
    fixture_open();
    with_engines(words_at_wait);
    with_engines(flush_fails_for_good);
    with_engines(no_memory);
    with_engines(all_faults);
    fixture_close();
    return 0;
}
