/* bench.c - hilbert bench io. */
#include "cli/command.h"
#include "cli/progress.h"

#include <math.h>
#include <string.h>

typedef struct bench_values {
    const char *what;
    hil_bench_io_options run;
    bool json;
} bench_values;

#define ROW(name, kind, field, ...) HIL_ROW(name, kind, bench_values, field, __VA_ARGS__)

static const hil_range sizes = {1 << 20, 0x1p50, "a size of 1M or more"};

static const hil_option options[] = {
    ROW("path", TEXT, run.path, "DIR", "a folder on the drive", .group = "Options",
        .required = true),
    ROW("size", SIZE, run.file_size, "SIZE", "bytes of the file that is read and written",
        .range = &sizes),
    ROW("io", CHOICE, run.engine, "auto|uring|threads", "the I/O engine"),
    ROW("json", ON, json, NULL, "print one JSON object"),
};

/* Prints a number as JSON; null if it is missing. */
static void print_json(const char *name, double value, const char *after)
{
    if (isnan(value))
        printf("\"%s\": null%s", name, after);
    else
        printf("\"%s\": %.4f%s", name, value, after);
}

static void print_object(const hil_bench_io_result *result)
{
    printf("{\"engine\": \"%s\", \"direct\": %s, \"registered\": %s, ", result->engine,
           result->direct ? "true" : "false", result->registered ? "true" : "false");
    print_json("read_gbps", result->best.read, ", ");
    print_json("write_gbps", result->best.write, ", ");
    print_json("read_ratio_to_fio", result->ratio.read, ", ");
    print_json("write_ratio_to_fio", result->ratio.write, ", \"grid\": [");
    for (int i = 0; i < HIL_BENCH_IO_CELLS; ++i) {
        const hil_bench_io_cell *cell = &result->cell[i];
        printf("%s{\"block\": %zu, \"depth\": %d, ", i ? ", " : "", cell->block, cell->depth);
        print_json("read_gbps", cell->own.read, ", ");
        print_json("write_gbps", cell->own.write, ", ");
        print_json("fio_read_gbps", cell->fio.read, ", ");
        print_json("fio_write_gbps", cell->fio.write, "}");
    }
    printf("]}\n");
}

static void print_speed(double own, double fio)
{
    if (isnan(fio))
        printf("  %7.2f %7s %6s", own, "-", "-");
    else
        printf("  %7.2f %7.2f %6.2f", own, fio, own / fio);
}

static void print_table(const hil_bench_io_result *result)
{
    char block[32];
    printf("engine %s, %s, buffers %sregistered; GB/s\n\n", result->engine,
           result->direct ? "bypassing the page cache" : "through the page cache",
           result->registered ? "" : "not ");
    printf("%10s %6s  %7s %7s %6s  %7s %7s %6s\n", "block", "depth", "read", "fio", "ratio",
           "write", "fio", "ratio");
    for (int i = 0; i < HIL_BENCH_IO_CELLS; ++i) {
        const hil_bench_io_cell *cell = &result->cell[i];
        printf("%10s %6d", hil_text_bytes(block, cell->block), cell->depth);
        print_speed(cell->own.read, cell->fio.read);
        print_speed(cell->own.write, cell->fio.write);
        putchar('\n');
    }
    printf("\nbest: read %.2f GB/s, write %.2f GB/s\n", result->best.read, result->best.write);
    if (isnan(result->ratio.read))
        printf("fio is not installed: nothing to compare with\n");
    else
        printf("against fio's best, repeated in turn: read %.2f, write %.2f\n", result->ratio.read,
               result->ratio.write);
}

static int run(int argc, char **argv)
{
    bench_values values = {0};
    hil_bench_io_defaults(&values.run);
    hil_parsed parsed;
    int code = 0;
    if (!hil_command_begin(&hil_command_bench, argc, argv, &values, &parsed, &code)) return code;
    hil_progress progress;
    hil_bench_io_result result;
    hil_status status = HIL_OK;
    if (strcmp(values.what, "io") != 0)
        status = hil_fail(HIL_ERR_USAGE, "bench measures io, not '%s'", values.what);
    if (status == HIL_OK) {
        hil_progress_begin(&progress, stderr, HIL_VERBOSITY_NORMAL);
        status = hil_bench_io(&values.run, &progress.hooks, &result);
        hil_progress_end(&progress);
    }
    if (status != HIL_OK) {
        code = hil_command_fail(status);
    } else {
        if (values.json)
            print_object(&result);
        else
            print_table(&result);
        code = hil_command_flush();
    }
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_bench = {
    .name = "bench",
    .summary = "Measures the speed of a drive, and fio's where that is installed.",
    .usage = "io --path DIR [options]",
    .example = "  hilbert bench io --path /mnt/nvme\n",
    .option = options,
    .count = sizeof options / sizeof *options,
    .operand = {{.name = "thing to measure (io)", .offset = offsetof(bench_values, what)}},
    .run = run,
};
