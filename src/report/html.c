/* html.c - puts the numbers of runs, as JSON, into the page of page.html. */
#include "report/html.h"

#include "hilbert/version.h"

#include "io/file.h"
#include "report/page_html.h" /* generated: hil_html_page, the bytes of page.html */

#include <stdlib.h>
#include <string.h>

/* Where page.html has the place for the numbers. */
#define PLACE "{{data}}"

/* Adds a JSON value. "<" occurs only in strings, and as "\u003c" it cannot end the page's script.
   Takes ownership. */
static hil_status add_value(hil_text *out, json_t *value)
{
    char *text =
        value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    hil_status status =
        text ? HIL_OK : hil_fail(HIL_ERR_MEMORY, "no memory for the report of a run");
    for (const char *at = text; status == HIL_OK && *at;) {
        size_t size = strcspn(at, "<");
        status = hil_text_add(out, at, size);
        at += size;
        if (status == HIL_OK && *at) status = hil_text_add(out, "\\u003c", 6);
        if (*at) ++at;
    }
    free(text);
    json_decref(value);
    return status;
}

/* "name":[[steps],[values],mean of all,latest] */
static hil_status add_series(hil_text *out, const hil_series *s, hil_point *point)
{
    size_t count = hil_series_points(s, point);
    HIL_TRY(add_value(out, json_string(s->name)));
    HIL_TRY(hil_text_print(out, ":[["));
    for (size_t i = 0; i < count; ++i)
        HIL_TRY(hil_text_print(out, "%s%lld", i ? "," : "", (long long)point[i].step));
    HIL_TRY(hil_text_print(out, "],["));
    for (size_t i = 0; i < count; ++i)
        HIL_TRY(hil_text_print(out, "%s%.9g", i ? "," : "", point[i].value));
    return hil_text_print(out, "],%.9g,%.9g]", s->added ? s->sum / (double)s->added : 0,
                          s->last.value);
}

static hil_status add_run(hil_text *out, const hil_history *run, hil_point *point)
{
    HIL_TRY(hil_text_print(out, "{\"name\":"));
    HIL_TRY(add_value(out, json_string(run->name)));
    HIL_TRY(hil_text_print(out, ",\"step\":%lld,\"about\":", (long long)run->step));
    HIL_TRY(add_value(out, run->about ? json_incref(run->about) : json_object()));
    HIL_TRY(hil_text_print(out, ",\"samples\":"));
    HIL_TRY(add_value(out, run->samples ? json_incref(run->samples) : json_array()));
    HIL_TRY(hil_text_print(out, ",\"curves\":{"));
    for (size_t i = 0; i < run->count; ++i) {
        if (i) HIL_TRY(hil_text_print(out, ",\n"));
        HIL_TRY(add_series(out, &run->series[i], point));
    }
    return hil_text_print(out, "}}");
}

static hil_status add_page(hil_text *out, const hil_history *run, size_t count, hil_point *point)
{
    const char *page = (const char *)hil_html_page, *end = page + sizeof hil_html_page;
    const char *place = memmem(page, sizeof hil_html_page, PLACE, strlen(PLACE));
    HIL_TRY(hil_text_add(out, page, (size_t)(place - page)));
    HIL_TRY(hil_text_print(out, "{\"version\":\"%s\",\"runs\":[", hil_version()));
    for (size_t i = 0; i < count; ++i) {
        if (i) HIL_TRY(hil_text_print(out, ",\n"));
        HIL_TRY(add_run(out, &run[i], point));
    }
    HIL_TRY(hil_text_print(out, "]}"));
    place += strlen(PLACE);
    return hil_text_add(out, place, (size_t)(end - place));
}

hil_status hil_html_write(const hil_history *run, size_t count, const char *path)
{
    hil_text page = {0};
    hil_point *point;
    HIL_TRY(HIL_ALLOC(HIL_SERIES_ROOM, &point));
    hil_status status = add_page(&page, run, count, point);
    if (status == HIL_OK) status = hil_file_replace(path, page.data, page.size);
    hil_free(point);
    hil_text_free(&page);
    return status;
}
