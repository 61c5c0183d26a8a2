/* history.c - reads run.json and metrics.jsonl. */
#include "report/history.h"

#include "io/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MOST 1000000000000000 /* of --steps, too */

static hil_status find_or_add(hil_history *h, const char *name, hil_series **out)
{
    for (size_t i = 0; i < h->count; ++i) {
        *out = &h->series[i];
        if (strcmp((*out)->name, name) == 0) return HIL_OK;
    }
    HIL_TRY(HIL_GROW(&h->series, &h->capacity, h->count + 1));
    *out = &h->series[h->count];
    **out = (hil_series){0};
    HIL_TRY(hil_text_copy(name, &(*out)->name));
    ++h->count;
    return HIL_OK;
}

static hil_status visit_numbers(json_t *object, const char *outer, hil_history_number *visit,
                                void *context)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        char name[256];
        snprintf(name, sizeof name, "%s%s%s", outer, *outer ? "." : "", key);
        if (json_is_object(value) && !*outer) HIL_TRY(visit_numbers(value, key, visit, context));
        if (json_is_number(value) && strcmp(name, "step") != 0)
            HIL_TRY(visit(context, name, json_number_value(value)));
    }
    return HIL_OK;
}

hil_status hil_history_numbers(json_t *object, hil_history_number *visit, void *context)
{
    return visit_numbers(object, "", visit, context);
}

static hil_status add_number(void *context, const char *name, double value)
{
    hil_history *h = context;
    hil_series *series;
    HIL_TRY(find_or_add(h, name, &series));
    return hil_series_add(series, h->step, value);
}

hil_status hil_history_parse(const char *line, size_t size, const char *what, json_t **out,
                             int64_t *step)
{
    *step = -1;
    HIL_TRY(hil_json_parse(line, size, what, out));
    hil_status status = hil_json_int(*out, "step", what, step);
    if (status == HIL_OK && (*step < 0 || *step > STEPS_MOST))
        status = hil_fail(HIL_ERR_INPUT, "%s has no step, or one that makes no sense", what);
    if (status == HIL_OK) return HIL_OK;
    json_decref(*out);
    return status;
}

static hil_status add_sample(hil_history *h, json_t *object)
{
    if (!json_is_string(json_object_get(object, "sample"))) return HIL_OK;
    if (!h->samples) h->samples = json_array();
    if (json_array_append(h->samples, object) != 0)
        return hil_fail(HIL_ERR_MEMORY, "no memory for the samples of a run");
    if (json_array_size(h->samples) > HIL_HISTORY_SAMPLES) json_array_remove(h->samples, 0);
    return HIL_OK;
}

hil_status hil_history_add(hil_history *h, json_t *object, int64_t step)
{
    if (step < h->step)
        return hil_fail(HIL_ERR_INPUT, "metrics.jsonl: step %lld comes after step %lld",
                        (long long)step, (long long)h->step);
    h->step = step;
    HIL_TRY(add_sample(h, object));
    return hil_history_numbers(object, add_number, h);
}

static hil_status each_line(FILE *file, const char *path, hil_history_visit *visit, void *context)
{
    char *line = NULL, what[HIL_PATH_MAX + 32];
    size_t room = 0;
    hil_status status = HIL_OK;
    for (int64_t number = 1; status == HIL_OK; ++number) {
        ssize_t size = getline(&line, &room, file);
        if (size <= 0 || line[size - 1] != '\n') break;
        snprintf(what, sizeof what, "%s line %lld", path, (long long)number);
        status = visit(context, line, (size_t)size - 1, what);
    }
    if (status == HIL_OK && ferror(file))
        status = hil_fail(HIL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    free(line);
    return status;
}

hil_status hil_history_each(const char *folder, hil_history_visit *visit, void *context)
{
    char path[HIL_PATH_MAX];
    HIL_TRY(hil_path_join(path, folder, "metrics.jsonl"));
    FILE *file = fopen(path, "re");
    if (!file && errno == ENOENT)
        return hil_fail(HIL_ERR_INPUT, "%s is not the output folder of a run: it has no %s", folder,
                        "metrics.jsonl");
    if (!file) return hil_fail(HIL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    hil_status status = each_line(file, path, visit, context);
    fclose(file);
    return status;
}

static hil_status add_line(void *context, const char *line, size_t size, const char *what)
{
    json_t *object;
    int64_t step;
    HIL_TRY(hil_history_parse(line, size, what, &object, &step));
    hil_status status = hil_history_add(context, object, step);
    json_decref(object);
    return status;
}

hil_status hil_history_read_metrics(hil_history *h, const char *folder)
{
    HIL_TRY(hil_text_copy(folder, &h->name));
    return hil_history_each(folder, add_line, h);
}

hil_status hil_history_read(hil_history *h, const char *folder)
{
    HIL_TRY(hil_file_parse(folder, "run.json", &h->about));
    return hil_history_read_metrics(h, folder);
}

void hil_history_free(hil_history *h)
{
    for (size_t i = 0; i < h->count; ++i) hil_series_free(&h->series[i]);
    hil_free(h->series);
    hil_free(h->name);
    json_decref(h->about);
    json_decref(h->samples);
    *h = (hil_history){0};
}
