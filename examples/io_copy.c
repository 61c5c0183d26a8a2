/* io_copy.c - copies a file with many reads and writes in flight: the I/O engine on its own.

   cc io_copy.c $(pkg-config --cflags --libs hilbert) -o io_copy && ./io_copy FROM TO

   Without arguments it makes a file of 64 MiB in the current folder, copies and compares it. */
#include <hilbert/io.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 8, PART_BYTES = 4 << 20 };

#define TRY(expr)                                                                                  \
    do {                                                                                           \
        hil_status status_ = (expr);                                                               \
        if (status_ != HIL_OK) return status_;                                                     \
    } while (0)

/* Each part of the memory is read into, then written from; all parts are under way at once. */
typedef struct part {
    void *bytes;
    uint64_t offset;
    size_t size;
    hil_io_request *request;
} part;

/* Reads the next part of the file, if there is more. */
static hil_status read_next(hil_io_file *from, part *p, uint64_t *next)
{
    uint64_t left = hil_io_size(from) - *next;
    p->offset = *next;
    p->size = left < PART_BYTES ? (size_t)left : PART_BYTES;
    *next += p->size;
    p->request = NULL;
    return p->size ? hil_io_read_start(from, p->offset, p->bytes, p->size, &p->request) : HIL_OK;
}

static hil_status copy(hil_io *io, hil_io_file *from, hil_io_file *to)
{
    part parts[PARTS] = {{0}};
    uint64_t next = 0;
    for (int i = 0; i < PARTS; ++i) {
        TRY(hil_io_buffer_alloc(io, PART_BYTES, &parts[i].bytes));
        TRY(read_next(from, &parts[i], &next));
    }
    for (int i = 0; parts[i].request; i = (i + 1) % PARTS) {
        part *p = &parts[i];
        TRY(hil_io_wait(p->request));
        TRY(hil_io_write_start(to, p->offset, p->bytes, p->size, &p->request));
        TRY(hil_io_wait(p->request)); /* while the other parts are read */
        TRY(read_next(from, p, &next));
    }
    for (int i = 0; i < PARTS; ++i) hil_io_buffer_free(io, parts[i].bytes);
    return hil_io_flush(to);
}

static hil_status copy_file(const char *from_path, const char *to_path)
{
    hil_io_options options;
    hil_io *io;
    hil_io_file *from, *to;
    hil_io_defaults(&options);
    options.buffer_bytes = (size_t)PARTS * PART_BYTES;
    TRY(hil_io_create(&io, &options));
    TRY(hil_io_open(io, from_path, HIL_IO_READ, &from));
    TRY(hil_io_open(io, to_path, HIL_IO_WRITE | HIL_IO_CREATE, &to));
    TRY(copy(io, from, to));
    hil_io_counts counts;
    hil_io_count(io, &counts);
    printf("%llu bytes with engine %s, %s, buffers %sregistered\n",
           (unsigned long long)counts.written_bytes, hil_io_engine(io),
           hil_io_is_direct(to) ? "past the page cache" : "through the page cache",
           hil_io_buffers_registered(io) ? "" : "not ");
    hil_io_close(to);
    hil_io_close(from);
    hil_io_destroy(io);
    return HIL_OK;
}

static int make_file(const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file) return 0;
    unsigned char line[1000];
    unsigned state = 1;
    for (int i = 0; i < 64 << 20; i += (int)sizeof line) {
        for (size_t j = 0; j < sizeof line; ++j) line[j] = (unsigned char)((state *= 69069) >> 24);
        if (fwrite(line, 1, sizeof line, file) != sizeof line) break;
    }
    return fclose(file) == 0;
}

static int same_bytes(const char *a_path, const char *b_path)
{
    FILE *a = fopen(a_path, "rb"), *b = fopen(b_path, "rb");
    static char a_bytes[1 << 16], b_bytes[1 << 16];
    size_t a_size, b_size;
    if (!a || !b) return 0;
    do {
        a_size = fread(a_bytes, 1, sizeof a_bytes, a);
        b_size = fread(b_bytes, 1, sizeof b_bytes, b);
    } while (a_size && a_size == b_size && memcmp(a_bytes, b_bytes, a_size) == 0);
    fclose(a);
    fclose(b);
    return a_size == 0 && b_size == 0;
}

int main(int argc, char **argv)
{
    const char *from = argc == 3 ? argv[1] : "io_copy.from";
    const char *to = argc == 3 ? argv[2] : "io_copy.to";
    if (argc != 3 && !make_file(from)) return EXIT_FAILURE;
    if (copy_file(from, to) != HIL_OK) {
        fprintf(stderr, "io_copy: %s\n", hil_status_message());
        return EXIT_FAILURE;
    }
    if (!same_bytes(from, to)) {
        fprintf(stderr, "io_copy: %s differs from %s\n", to, from);
        return EXIT_FAILURE;
    }
    if (argc != 3) remove(from), remove(to);
    return EXIT_SUCCESS;
}
