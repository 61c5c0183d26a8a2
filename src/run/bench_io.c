/* bench_io.c - measures the I/O engine and compares it with fio. */
#include "hilbert/run.h"

#include "base/clock.h"
#include "base/text.h"
#include "run/fio.h"
#include "base/sized.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { REPEATS = 5, PEERS = 2 };

static const char *const peers[PEERS] = {"libaio", "io_uring"};

typedef struct bench {
    const hil_bench_io_options *options;
    const hil_observer *observer;
    hil_bench_io_result *result;
    uint64_t size;
    char file[64]; /* path in /proc by which fio opens the unnamed file */
    int done, total;
    bool has_fio;
} bench;

static void fill_random(char *bytes, size_t size)
{
    uint64_t state = 0x9e3779b97f4a7c15u, *word = (uint64_t *)(void *)bytes;
    for (size_t i = 0; i < size / sizeof *word; ++i) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word[i] = state;
    }
}

/* Two requests alternate, each of `depth` blocks, so that at least that many are always in flight.
 */
static hil_status one_pass(const bench *b, hil_io_file *file, char *const buffer[2], size_t bytes,
                           bool write)
{
    hil_io_request *request[2] = {NULL, NULL};
    hil_status status = HIL_OK;
    size_t turn = 0;
    for (uint64_t at = 0; at < b->size && status == HIL_OK; at += bytes, turn ^= 1) {
        size_t size = b->size - at < bytes ? (size_t)(b->size - at) : bytes;
        if (request[turn]) status = hil_io_wait(request[turn]);
        request[turn] = NULL;
        if (status == HIL_OK)
            status = write ? hil_io_write_start(file, at, buffer[turn], size, &request[turn])
                           : hil_io_read_start(file, at, buffer[turn], size, &request[turn]);
    }
    for (int i = 0; i < 2; ++i) {
        hil_status last = request[i] ? hil_io_wait(request[i]) : HIL_OK;
        if (status == HIL_OK) status = last;
    }
    return status;
}

static hil_status measure_own(const bench *b, size_t block, int depth, bool write, double *gbps)
{
    size_t bytes = block * (size_t)depth;
    hil_io_options options;
    hil_io *io = NULL;
    hil_io_file *file = NULL;
    void *memory;
    hil_io_defaults(&options);
    options.engine = b->options->engine;
    options.depth = depth;
    options.split = block;
    options.buffer_bytes = 2 * bytes;
    hil_status status = HIL_OK;
    HIL_TRY_DONE(hil_io_create(&io, &options));
    HIL_TRY_DONE(hil_io_open(io, b->file, HIL_IO_READ | HIL_IO_WRITE, &file));
    HIL_TRY_DONE(hil_io_buffer_alloc(io, 2 * bytes, &memory));
    char *const buffer[2] = {memory, (char *)memory + bytes};
    fill_random(memory, 2 * bytes);
    double start = hil_clock_now();
    HIL_TRY_DONE(one_pass(b, file, buffer, bytes, write));
    *gbps = 1e-9 * (double)b->size / (hil_clock_now() - start);
    b->result->engine = hil_io_engine(io);
    b->result->direct = hil_io_is_direct(file);
    b->result->registered = hil_io_buffers_registered(io);
done:
    hil_io_close(file);
    hil_io_destroy(io);
    return status;
}

static hil_status measure_fio(const bench *b, const hil_bench_io_cell *cell, bool write,
                              const char *engine, double *gbps)
{
    hil_fio_job job = {.file = b->file,
                       .engine = engine,
                       .write = write,
                       .direct = b->result->direct,
                       .block = cell->block,
                       .depth = cell->depth,
                       .size = b->size};
    return hil_fio_run(&job, gbps);
}

static void tell(bench *b)
{
    const hil_observer *observer = b->observer;
    if (observer && observer->progress)
        observer->progress(observer->context, "measuring", (uint64_t)++b->done, (uint64_t)b->total);
}

static hil_status fill_grid(bench *b)
{
    static const size_t blocks[] = {128 << 10, 1 << 20, 4 << 20};
    static const int depths[] = {1, 4, 16, 32};
    hil_bench_io_speed *best = &b->result->best;
    for (size_t i = 0; i < HIL_BENCH_IO_CELLS; ++i) {
        hil_bench_io_cell *cell = &b->result->cell[i];
        *cell = (hil_bench_io_cell){.block = blocks[i / 4], .depth = depths[i % 4]};
        for (int write = 0; write < 2; ++write) {
            double *own = write ? &cell->own.write : &cell->own.read;
            double *fio = write ? &cell->fio.write : &cell->fio.read;
            double *most = write ? &best->write : &best->read;
            HIL_TRY(measure_own(b, cell->block, cell->depth, write, own));
            HIL_TRY(measure_fio(b, cell, write, peers[0], fio));
            *most = fmax(*most, *own);
            b->has_fio |= !isnan(*fio);
            tell(b);
        }
    }
    return HIL_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    if (count == 0) return 0;
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

/* Repeats the cell in which fio is fastest, alternating with each engine of fio that works. */
static hil_status compare_with_fio(bench *b, bool write)
{
    const hil_bench_io_cell *cell = b->result->cell;
    double *most = write ? &b->result->best.write : &b->result->best.read;
    for (int i = 1; i < HIL_BENCH_IO_CELLS; ++i) {
        const hil_bench_io_cell *other = &b->result->cell[i];
        double now = write ? cell->fio.write : cell->fio.read;
        double more = write ? other->fio.write : other->fio.read;
        if (isnan(now) || more > now) cell = other;
    }
    double own[REPEATS], fio[PEERS][REPEATS], peer = 0;
    int count[PEERS] = {0};
    for (int i = 0; i < REPEATS; ++i) {
        HIL_TRY(measure_own(b, cell->block, cell->depth, write, &own[i]));
        *most = fmax(*most, own[i]);
        for (int p = 0; p < PEERS; ++p) {
            double speed;
            HIL_TRY(measure_fio(b, cell, write, peers[p], &speed));
            if (!isnan(speed)) fio[p][count[p]++] = speed;
        }
        tell(b);
    }
    for (int p = 0; p < PEERS; ++p) peer = fmax(peer, median(fio[p], count[p]));
    double ratio = peer > 0 ? median(own, REPEATS) / peer : NAN;
    *(write ? &b->result->ratio.write : &b->result->ratio.read) = ratio;
    return HIL_OK;
}

void hil_bench_io_defaults_sized(hil_bench_io_options *options, size_t size)
{
    const hil_bench_io_options defaults = {.file_size = (uint64_t)1 << 30};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

hil_status hil_bench_io(const hil_bench_io_options *options, const hil_observer *observer,
                        hil_bench_io_result *result)
{
    hil_bench_io_options own;
    bench b = {.options = &own, .observer = observer, .result = result};
    hil_io_options holder;
    hil_io *io = NULL;
    hil_io_file *file = NULL;
    double filled;
    hil_status status = HIL_OK;
    *result = (hil_bench_io_result){.ratio = {NAN, NAN}};
    HIL_TRY_DONE(HIL_SIZED_TAKE(hil_bench_io, &own, options));
    b.size = own.file_size & ~(uint64_t)(HIL_IO_ALIGN - 1);
    if (b.size == 0) return hil_fail(HIL_ERR_USAGE, "the file to measure with has no bytes");
    b.total = 2 * (HIL_BENCH_IO_CELLS + REPEATS);
    hil_io_defaults(&holder);
    holder.engine = HIL_IO_THREADS;
    holder.depth = 1;
    HIL_TRY_DONE(hil_io_create(&io, &holder));
    HIL_TRY_DONE(hil_io_open_scratch(io, own.path, b.size, &file));
    snprintf(b.file, sizeof b.file, "/proc/%d/fd/%d", (int)getpid(), hil_io_descriptor(file));
    HIL_TRY_DONE(measure_own(&b, 4 << 20, 8, true, &filled));
    HIL_TRY_DONE(hil_io_flush(file));
    HIL_TRY_DONE(fill_grid(&b));
    for (int write = 0; write < 2 && b.has_fio; ++write) HIL_TRY_DONE(compare_with_fio(&b, write));
done:
    hil_io_close(file);
    hil_io_destroy(io);
    return status;
}
