/* Bytes are equal over read and write, aligned and not, blocking and not, on both engines. */
#include "io_fixture.h"

#define PART (128 * KIB)
#define FILE_BYTES (3 * PART + 1234)

static const struct {
    size_t offset, size, address; /* address: distance from an aligned one */
} shapes[] = {
    {0, 4096, 0},
    {4096, PART, 0},
    {0, 3 * PART, 0},
    {PART, 2 * PART + 1234, 0},
    {1, 1, 1},
    {100, 50, 100},
    {100, 50, 0},
    {4000, 200, 4000},
    {1000, PART, 1000},
    {1000, PART, 3},
    {4096, 12345, 0},
    {4095, 4097, 4095},
    {512, PART + 512, 512},
    {3 * PART, 1234, 0},
    {0, FILE_BYTES, 0},
    {0, FILE_BYTES, 1},
    {4096, 4096, 512},
    {5, FILE_BYTES - 5, 5},
    {0, 0, 0},
};

static void transfer(hil_io_file *file, bool write, bool async, size_t i, char *bytes)
{
    uint64_t offset = shapes[i].offset;
    size_t size = shapes[i].size;
    if (!async) {
        CHECK_OK(write ? hil_io_write(file, offset, bytes, size)
                       : hil_io_read(file, offset, bytes, size));
        return;
    }
    hil_io_request *request;
    CHECK_OK(write ? hil_io_write_start(file, offset, bytes, size, &request)
                   : hil_io_read_start(file, offset, bytes, size, &request));
    while (!hil_io_is_done(request)) continue;
    CHECK_OK(hil_io_wait(request));
}

static void one_shape(hil_io *io, size_t i, bool write, bool async, char *bytes)
{
    unsigned round = write ? 2 : 1;
    size_t offset = shapes[i].offset, size = shapes[i].size;
    hil_io_file *file;
    CHECK_OK(hil_io_open(io, path, HIL_IO_READ | HIL_IO_WRITE, &file));
    CHECK_INT(hil_io_size(file), FILE_BYTES);
    char *at = bytes + shapes[i].address;
    memset(bytes, 'x', FILE_BYTES + 2 * HIL_IO_ALIGN);
    if (write) fill(at, offset, size, 2);
    transfer(file, write, async, i, at);
    if (write && i == 0) CHECK_OK(hil_io_flush(file));
    hil_io_close(file);
    expect(at, offset, size, round);
    for (size_t j = 0; j < shapes[i].address; ++j) CHECK_INT(bytes[j], 'x');
    for (size_t j = 0; j < 100; ++j) CHECK_INT(at[size + j], 'x');
    expect_file(path, 0, offset, 1);
    expect_file(path, offset, size, round);
    expect_file(path, offset + size, FILE_BYTES - offset - size, 1);
    if (write) make_file(path, FILE_BYTES, 1);
}

static void all_shapes(hil_io_kind engine)
{
    make_file(path, FILE_BYTES, 1);
    static const size_t split[] = {4096, 32 * KIB, PART * 4};
    for (size_t s = 0; s < sizeof split / sizeof *split; ++s) {
        hil_io *io = make_io(engine, 4, split[s]);
        void *bytes;
        CHECK_OK(hil_io_buffer_alloc(io, FILE_BYTES + 2 * HIL_IO_ALIGN, &bytes));
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
            for (int mode = 0; mode < 4; ++mode)
                if (!CHECK_SLOW || (i + (size_t)mode) % 3 == s)
                    one_shape(io, i, mode & 1, mode & 2, bytes);
        hil_io_buffer_free(io, bytes);
        hil_io_destroy(io);
    }
}

/* Only the unaligned ends of a request go through the page cache. */
static void unaligned_ends(hil_io_kind engine)
{
    hil_io *io = make_io(engine, 4, 64 * KIB);
    hil_io_file *file;
    hil_io_counts counts;
    void *bytes;
    make_file(path, PART, 1);
    CHECK_OK(hil_io_buffer_alloc(io, PART, &bytes));
    CHECK_OK(hil_io_open(io, path, HIL_IO_READ, &file));
    bool direct = hil_io_is_direct(file);
    CHECK_OK(hil_io_read(file, 0, bytes, PART));
    hil_io_count(io, &counts);
    CHECK_INT(counts.read_bytes, PART);
    CHECK_INT(counts.cached_bytes, 0);
    CHECK_OK(hil_io_read(file, 1000, (char *)bytes + 1000, 100 * KIB));
    hil_io_count(io, &counts);
    CHECK_INT(counts.read_bytes, PART + 100 * KIB);
    CHECK_INT(counts.cached_bytes, direct ? (4096 - 1000) + 1000 : 0);
    CHECK_INT(counts.written_bytes, 0);
    hil_io_close(file);
    hil_io_buffer_free(io, bytes);
    hil_io_destroy(io);
}

int main(void)
{
    fixture_open();
    with_engines(all_shapes);
    with_engines(unaligned_ends);
    fixture_close();
    return 0;
}
