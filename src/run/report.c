/* report.c - hilbert report: the page of one run or several. */
#include "hilbert/run.h"

#include "base/sized.h"
#include "report/csv.h"
#include "report/html.h"

void hil_report_defaults_sized(hil_report_options *options, size_t size)
{
    const hil_report_options defaults = {0};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

static hil_status choose_path(const hil_report_options *o, char path[HIL_PATH_MAX])
{
    if (!o->out && o->run_count == 1) return hil_path_join(path, o->runs[0], "report.html");
    snprintf(path, HIL_PATH_MAX, "%s", o->out ? o->out : "report.html");
    return HIL_OK;
}

static hil_status write_page(const hil_report_options *o, hil_history *history, char *path,
                             size_t room)
{
    char file[HIL_PATH_MAX];
    HIL_TRY(choose_path(o, file));
    for (size_t i = 0; i < o->run_count; ++i) HIL_TRY(hil_history_read(&history[i], o->runs[i]));
    HIL_TRY(hil_html_write(history, o->run_count, file));
    snprintf(path, room, "%s", file);
    return HIL_OK;
}

hil_status hil_report(const hil_report_options *options, char *path, size_t room)
{
    hil_report_options own;
    hil_history *history;
    HIL_TRY(HIL_SIZED_TAKE(hil_report, &own, options));
    if (!own.run_count) return hil_fail(HIL_ERR_USAGE, "a report needs the folder of a run");
    HIL_TRY(HIL_ALLOC(own.run_count, &history));
    hil_status status = write_page(&own, history, path, room);
    for (size_t i = 0; i < own.run_count; ++i) hil_history_free(&history[i]);
    hil_free(history);
    return status;
}

hil_status hil_report_csv(const char *folder, FILE *out)
{
    return hil_csv_write(folder, out);
}
