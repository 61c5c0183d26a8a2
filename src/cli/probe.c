/* probe.c - hilbert probe. */
#include "cli/command.h"
#include "cli/progress.h"
#include "hilbert/probe.h"

#include <stdlib.h>

#define ROW(name, kind, field, ...) HIL_ROW(name, kind, hil_probe_options, field, __VA_ARGS__)

static const hil_option options[] = {
    ROW("disk", DISK, memory.disks, "PATH", "a folder on a drive to measure; may be repeated",
        .group = "Options"),
    ROW("io", CHOICE, memory.io, "auto|uring|threads", "the I/O engine"),
    ROW("threads", WHOLE, threads, "N", "CPU threads", .initial = "all",
        .range = &hil_range_threads),
    ROW("device", TEXT, device.name, "auto|cpu|cuda|cuda:N",
        "what to measure; auto: a GPU where there is one"),
    ROW("again", ON, again, NULL, "measure again what is known already"),
    ROW("describe", ON, describe, NULL, "print a description that plan --cluster reads"),
    ROW("json", ON, json, NULL, "print one JSON object"),
};

const char *hil_command_probe_cache(char path[HIL_PATH_MAX])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int size;
    if (cache && *cache == '/')
        size = snprintf(path, HIL_PATH_MAX, "%s/hilbert/probe.json", cache);
    else if (home && *home == '/')
        size = snprintf(path, HIL_PATH_MAX, "%s/.cache/hilbert/probe.json", home);
    else
        return NULL;
    return size < HIL_PATH_MAX ? path : NULL;
}

static int run(int argc, char **argv)
{
    hil_probe_options values;
    hil_parsed parsed;
    int code = 0;
    hil_probe_defaults(&values);
    char path[HIL_PATH_MAX], prefixes[HIL_PATH_MAX];
    if (!hil_command_begin(&hil_command_probe, argc, argv, &values, &parsed, &code)) return code;
    values.cache = hil_command_probe_cache(path);
    values.device.prefixes = hil_command_prefixes(prefixes);
    hil_progress progress;
    hil_progress_begin(&progress, stderr, HIL_VERBOSITY_NORMAL);
    hil_status status = hil_probe(&values, &progress.hooks, stdout);
    hil_progress_end(&progress);
    code = status == HIL_OK ? hil_command_flush() : hil_command_fail(status);
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_probe = {
    .name = "probe",
    .summary = "Measures the speeds that plans are made with, once per machine and drive.",
    .usage = "[--disk PATH] [options]",
    .example = "  hilbert probe --disk /mnt/nvme\n",
    .option = options,
    .count = sizeof options / sizeof *options,
    .run = run,
};
