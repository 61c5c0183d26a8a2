/* report.c - hilbert report. */
#include "cli/command.h"

typedef struct report_values {
    hil_report_options run;
    bool csv;
} report_values;

#define ROW(name, kind, field, ...) HIL_ROW(name, kind, report_values, field, __VA_ARGS__)

static const hil_option options[] = {
    ROW("out", TEXT, run.out, "FILE", "the page, an HTML file", .group = "Options",
        .initial = "report.html, of one run in its folder"),
    ROW("csv", ON, csv, NULL, "print a run's metrics as comma-separated values instead",
        .rival = "out"),
};

static hil_status report(const report_values *values)
{
    char path[HIL_PATH_MAX];
    if (values->csv && values->run.run_count > 1)
        return hil_fail(HIL_ERR_USAGE, "--csv prints one run: give one folder");
    if (values->csv) return hil_report_csv(values->run.runs[0], stdout);
    HIL_TRY(hil_report(&values->run, path, sizeof path));
    printf("%s\n", path);
    return HIL_OK;
}

static int run(int argc, char **argv)
{
    report_values values = {0};
    hil_report_defaults(&values.run);
    hil_parsed parsed;
    int code = 0;
    if (!hil_command_begin(&hil_command_report, argc, argv, &values, &parsed, &code)) return code;
    hil_status status = report(&values);
    code = status == HIL_OK ? hil_command_flush() : hil_command_fail(status);
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_report = {
    .name = "report",
    .summary = "Shows a run, or compares several, as a page with curves and numbers.",
    .usage = "OUT [OUT ...] [--out FILE] [--csv]",
    .example = "  hilbert report tuned\n"
               "  hilbert report first second --out compare.html\n"
               "  hilbert report tuned --csv > tuned.csv\n",
    .option = options,
    .count = sizeof options / sizeof *options,
    .operand = {{.name = "run's output folder",
                 .offset = offsetof(report_values, run.runs),
                 .many = true}},
    .run = run,
};
