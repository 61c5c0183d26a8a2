/* table.c - chooses the columns of a table that records have, and reads its rows. */
#include "data/table.h"

#include "data/separated.h"
#include "data/file_type.h"
#include "data/jsonl.h"
#include "format/arrow/arrow.h"
#include "format/parquet/parquet.h"

#include <stdio.h>
#include <string.h>

static const hil_row_source *const sources[] = {
    [HIL_DATA_CSV] = &hil_separated_row_source,
    [HIL_DATA_TSV] = &hil_separated_row_source,
    [HIL_DATA_PARQUET] = &hil_parquet_row_source,
    [HIL_DATA_ARROW] = &hil_arrow_row_source,
};

struct hil_table {
    const hil_row_source *source;
    void *file;
    char *path;
    hil_record_rules rules;
    json_t *object; /* the row, from which `record` borrows */
    hil_record record;
};

/* Sets the format by the names of the columns, as if they were the keys of an object. */
static hil_status detect(hil_table *table)
{
    json_t *keys = json_object();
    const char *key;
    hil_status status = HIL_OK;
    for (size_t at = 0; status == HIL_OK && (key = table->source->key(table->file, &at));)
        if (json_object_set_new(keys, key, json_true()) != 0)
            status = hil_fail(HIL_ERR_MEMORY, "out of memory: a schema");
    if (status == HIL_OK) status = hil_record_detect(&table->rules, keys);
    json_decref(keys);
    return status;
}

/* Puts the place before the message of a failure; `row` 0 is the whole file. */
static hil_status name_place(const hil_table *table, int64_t row, hil_status status)
{
    const char *unit = table->source->unit;
    char message[900];
    if (status != HIL_ERR_INPUT) return status;
    snprintf(message, sizeof message, "%s", hil_status_message());
    if (row) return hil_fail(status, "%s %s %lld: %s", table->path, unit, (long long)row, message);
    return hil_fail(status, "%s: %s", table->path, message);
}

static hil_status select_columns(hil_table *table)
{
    HIL_TRY(name_place(table, 0, detect(table)));
    const char *const *keys = hil_record_keys(table->rules.format);
    size_t count = 0;
    while (keys[count]) ++count;
    return table->source->select(table->file, keys, count, HIL_JSONL_LINE_MAX);
}

hil_status hil_table_open(hil_table **out, const char *path, const hil_record_rules *rules)
{
    *out = NULL;
    hil_table *table = NULL;
    hil_file_type type;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &table));
    HIL_TRY_DONE(hil_file_type_read(&type, path));
    table->source = sources[type.kind];
    table->rules = *rules;
    table->rules.rename = table->source->rename;
    HIL_TRY_DONE(hil_text_copy(path, &table->path));
    HIL_TRY_DONE(table->source->open(&table->file, path));
    HIL_TRY_DONE(select_columns(table));
    *out = table;
    table = NULL;
done:
    hil_table_close(table);
    return status;
}

static void forget_row(hil_table *table)
{
    hil_record_free(&table->record);
    json_decref(table->object);
    table->object = NULL;
}

void hil_table_close(hil_table *table)
{
    if (!table) return;
    forget_row(table);
    if (table->file) table->source->close(table->file);
    hil_free(table->path);
    hil_free(table);
}

double hil_table_done(const hil_table *table)
{
    return table->source->done(table->file);
}

const char *hil_table_unit(const hil_table *table)
{
    return table->source->unit;
}

hil_status hil_table_next(hil_table *table, const hil_record **record, int64_t *number)
{
    *record = NULL;
    forget_row(table);
    HIL_TRY(table->source->next(table->file, &table->object));
    *number = table->source->number(table->file);
    if (!table->object) return HIL_OK;
    HIL_TRY(
        name_place(table, *number, hil_record_read(&table->rules, table->object, &table->record)));
    *record = &table->record;
    return HIL_OK;
}
