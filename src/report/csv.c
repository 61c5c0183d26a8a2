/* csv.c - reads metrics.jsonl twice: for its columns, then for its rows. */
#include "report/csv.h"

#include "report/history.h"

#include <math.h>
#include <string.h>

typedef struct csv_table {
    char **name;
    double *value; /* of the present row; NaN: empty */
    size_t count, capacity;
    int64_t step; /* of the present row; -1: none yet */
    FILE *out;
} csv_table;

static size_t find(const csv_table *t, const char *name)
{
    size_t i = 0;
    while (i < t->count && strcmp(t->name[i], name) != 0) ++i;
    return i;
}

static hil_status add_column(void *context, const char *name, double value)
{
    csv_table *t = context;
    (void)value;
    if (find(t, name) < t->count) return HIL_OK;
    HIL_TRY(HIL_GROW(&t->name, &t->capacity, t->count + 1));
    HIL_TRY(hil_text_copy(name, &t->name[t->count]));
    ++t->count;
    return HIL_OK;
}

static hil_status set_value(void *context, const char *name, double value)
{
    csv_table *t = context;
    size_t i = find(t, name);
    if (i < t->count) t->value[i] = value; /* a line may have been added since the first reading */
    return HIL_OK;
}

static void print_row(csv_table *t)
{
    if (t->step < 0) return;
    fprintf(t->out, "%lld", (long long)t->step);
    for (size_t i = 0; i < t->count; ++i) {
        if (isnan(t->value[i]))
            fputc(',', t->out);
        else
            fprintf(t->out, ",%.17g", t->value[i]);
        t->value[i] = NAN;
    }
    fputc('\n', t->out);
}

static hil_status take_line(csv_table *t, const char *line, size_t size, const char *what)
{
    json_t *object;
    int64_t step;
    HIL_TRY(hil_history_parse(line, size, what, &object, &step));
    if (t->value && step != t->step) {
        print_row(t);
        t->step = step;
    }
    hil_status status = hil_history_numbers(object, t->value ? set_value : add_column, t);
    json_decref(object);
    return status;
}

static hil_status visit(void *context, const char *line, size_t size, const char *what)
{
    return take_line(context, line, size, what);
}

/* A name as a field: in quotes if it has a comma or a quote. */
static void print_name(FILE *out, const char *name)
{
    bool plain = !strpbrk(name, ",\"\r\n");
    fputs(plain ? "," : ",\"", out);
    for (; *name; ++name) {
        if (*name == '"') fputc('"', out);
        fputc(*name, out);
    }
    if (!plain) fputc('"', out);
}

static hil_status write_table(csv_table *t, const char *folder)
{
    HIL_TRY(hil_history_each(folder, visit, t));
    HIL_TRY(HIL_ALLOC(t->count + 1, &t->value));
    for (size_t i = 0; i < t->count; ++i) t->value[i] = NAN;
    fputs("step", t->out);
    for (size_t i = 0; i < t->count; ++i) print_name(t->out, t->name[i]);
    fputc('\n', t->out);
    HIL_TRY(hil_history_each(folder, visit, t));
    print_row(t);
    return ferror(t->out) ? hil_fail(HIL_ERR_IO, "cannot write the table") : HIL_OK;
}

hil_status hil_csv_write(const char *folder, FILE *out)
{
    csv_table table = {.step = -1, .out = out};
    hil_status status = write_table(&table, folder);
    for (size_t i = 0; i < table.count; ++i) hil_free(table.name[i]);
    hil_free(table.name);
    hil_free(table.value);
    return status;
}
