/* Many requests at once: one wait for all, several threads on one file, no leak, no allocation. */
#include "base/alloc.h"
#include "io_fixture.h"

#include <pthread.h>

#define FILE_BYTES (8 * MIB)

static void submit_then_wait_all(hil_io_kind engine)
{
    hil_io *io = make_io(engine, 8, 16 * KIB);
    hil_io_file *file, *copy;
    void *bytes;
    make_file(path, FILE_BYTES / 2, 3);
    CHECK_OK(hil_io_buffer_alloc(io, FILE_BYTES, &bytes));
    CHECK_OK(hil_io_open(io, path, HIL_IO_READ, &file));
    for (size_t at = 0; at < FILE_BYTES / 2; at += 20 * KIB) {
        size_t size = FILE_BYTES / 2 - at < 20 * KIB ? FILE_BYTES / 2 - at : 20 * KIB;
        CHECK_OK(hil_io_read_start(file, at, (char *)bytes + at, size, NULL));
    }
    CHECK_OK(hil_io_wait_all(io));
    expect(bytes, 0, FILE_BYTES / 2, 3);
    hil_io_close(file);

    /* More requests than there are slots, of mixed sizes, into a second file. */
    snprintf(path + strlen(folder), sizeof path - strlen(folder), "/copy");
    CHECK_OK(hil_io_open(io, path, HIL_IO_READ | HIL_IO_WRITE | HIL_IO_CREATE, &copy));
    for (size_t at = 0, i = 0; at < FILE_BYTES / 2; ++i) {
        size_t size = (size_t)512 << (i % 7);
        CHECK_OK(hil_io_write_start(copy, at, (char *)bytes + at, size, NULL));
        at += size;
    }
    hil_io_close(copy);
    CHECK_OK(hil_io_wait_all(io));
    expect_file(path, 0, FILE_BYTES / 2, 3);
    CHECK_INT(remove(path), 0);
    snprintf(path + strlen(folder), sizeof path - strlen(folder), "/file");
    hil_io_buffer_free(io, bytes);
    hil_io_destroy(io);
}

typedef struct reader {
    hil_io_file *file;
    pthread_t thread;
    unsigned seed;
} reader;

static void *read_around(void *argument)
{
    reader *r = argument;
    char *bytes = aligned_alloc(HIL_IO_ALIGN, 128 * KIB);
    CHECK(bytes != NULL);
    for (int i = 0; i < 60; ++i) {
        r->seed = r->seed * 1664525u + 1013904223u;
        size_t offset = (r->seed >> 8) % (FILE_BYTES - 128 * KIB),
               size = 1 + (r->seed >> 4) % 100000;
        if (i % 2) offset &= ~(size_t)4095;
        memset(bytes, 0, 128 * KIB);
        CHECK_OK(hil_io_read(r->file, offset, bytes, size));
        expect(bytes, offset, size, 4);
    }
    free(bytes);
    return NULL;
}

static void threads_on_one_file(hil_io_kind engine)
{
    hil_io *io = make_io(engine, 4, 32 * KIB);
    reader readers[6];
    hil_io_file *file;
    make_file(path, FILE_BYTES, 4);
    CHECK_OK(hil_io_open(io, path, HIL_IO_READ, &file));
    for (unsigned i = 0; i < 6; ++i) {
        readers[i] = (reader){.file = file, .seed = i + 1};
        CHECK_INT(pthread_create(&readers[i].thread, NULL, read_around, &readers[i]), 0);
    }
    for (int i = 0; i < 6; ++i) pthread_join(readers[i].thread, NULL);
    hil_io_close(file);
    hil_io_destroy(io);
}

static void thousands_of_opens(hil_io_kind engine)
{
    hil_io *io = make_io(engine, 2, 4096);
    hil_io_file *file;
    char *bytes = aligned_alloc(HIL_IO_ALIGN, HIL_IO_ALIGN);
    make_file(path, 10000, 5);
    int before = open_descriptors();
    for (int i = 0; i < 3000; ++i) {
        CHECK_OK(hil_io_open(io, path, HIL_IO_READ, &file));
        if (i % 100 == 0) CHECK_OK(hil_io_read(file, 4096, bytes, 4096));
        hil_io_close(file);
        CHECK(hil_io_open(io, "none/such", HIL_IO_READ, &file) != HIL_OK);
    }
    CHECK_INT(open_descriptors(), before);
    expect(bytes, 4096, 4096, 5);
    /* More files at once than an engine registers. */
    hil_io_file *many[100];
    for (int i = 0; i < 100; ++i) CHECK_OK(hil_io_open(io, path, HIL_IO_READ, &many[i]));
    for (int i = 0; i < 100; ++i) {
        memset(bytes, 0, HIL_IO_ALIGN);
        CHECK_OK(hil_io_read(many[i], 4096, bytes, 4096));
        expect(bytes, 4096, 4096, 5);
        hil_io_close(many[i]);
    }
    CHECK_INT(open_descriptors(), before);
    free(bytes);
    hil_io_destroy(io);
}

/* Handles: as many as there are slots, then a clear error instead of an endless wait. */
static void slots(hil_io_kind engine)
{
    hil_io_options options;
    hil_io_request *request[4], *more;
    hil_io_file *file;
    hil_io *io;
    static char bytes[100][4096];
    hil_io_defaults(&options);
    options.engine = engine;
    options.requests = 4;
    CHECK_OK(hil_io_create(&io, &options));
    make_file(path, FILE_BYTES, 6);
    CHECK_OK(hil_io_open(io, path, HIL_IO_READ, &file));
    for (int i = 0; i < 4; ++i)
        CHECK_OK(hil_io_read_start(file, (uint64_t)i * 4096, bytes[i], 4096, &request[i]));
    CHECK_FAILS(hil_io_read_start(file, 0, bytes[0], 4096, &more), HIL_ERR_USAGE,
                "all 4 I/O requests are finished");
    CHECK_OK(hil_io_wait(request[2]));
    CHECK_OK(hil_io_read_start(file, 4096, bytes[2], 4096, &more));
    CHECK_OK(hil_io_wait(more));
    expect(bytes[2], 4096, 4096, 6);
    CHECK_OK(hil_io_wait(request[0]));
    CHECK_OK(hil_io_wait(request[1]));
    CHECK_OK(hil_io_wait(request[3]));
    expect(bytes[3], 3 * 4096, 4096, 6);
    for (int i = 0; i < 100; ++i) /* without handles, start waits for a slot */
        CHECK_OK(hil_io_read_start(file, (uint64_t)i * 4096, bytes[i], 4096, NULL));
    CHECK_OK(hil_io_wait_all(io));
    for (int i = 0; i < 100; ++i) expect(bytes[i], (uint64_t)i * 4096, 4096, 6);
    hil_io_close(file);
    hil_io_destroy(io);
}

static void steady_state(hil_io_kind engine)
{
    hil_io *io = make_io(engine, 8, 64 * KIB);
    hil_io_file *file;
    hil_io_request *request[16];
    void *bytes;
    CHECK_OK(hil_io_open_scratch(io, folder, FILE_BYTES, &file));
    CHECK_OK(hil_io_buffer_alloc(io, MIB, &bytes));
    hil_io_buffer_free(io, bytes);
    long before = hil_alloc_count();
    for (int round = 0; round < 20; ++round) {
        CHECK_OK(hil_io_buffer_alloc(io, MIB, &bytes));
        for (size_t i = 0; i < 16; ++i) {
            char *at = (char *)bytes + i * 64 * KIB;
            fill(at, i * 100 * KIB, 64 * KIB, 7);
            CHECK_OK(hil_io_write_start(file, i * 100 * KIB, at, 64 * KIB, &request[i]));
        }
        for (size_t i = 0; i < 16; ++i) CHECK_OK(hil_io_wait(request[i]));
        for (size_t i = 0; i < 16; ++i)
            CHECK_OK(hil_io_read_start(file, i * 100 * KIB, (char *)bytes + i * 64 * KIB, 64 * KIB,
                                       NULL));
        CHECK_OK(hil_io_wait_all(io));
        for (size_t i = 0; i < 16; ++i)
            expect((char *)bytes + i * 64 * KIB, i * 100 * KIB, 64 * KIB, 7);
        hil_io_buffer_free(io, bytes);
    }
    CHECK_INT(hil_alloc_count() - before, 0);
    hil_io_close(file);
    hil_io_destroy(io);
}

int main(void)
{
    fixture_open();
    with_engines(submit_then_wait_all);
    with_engines(threads_on_one_file);
    with_engines(thousands_of_opens);
    with_engines(slots);
    with_engines(steady_state);
    fixture_close();
    return 0;
}
