/* table.c - chooses the columns of a Parquet file that records have, and reads its rows. */
#include "data/table.h"

#include "data/jsonl.h"
#include "format/parquet/parquet.h"

#include <stdio.h>
#include <string.h>

#define RENAME                                                                                     \
    "pandas renames columns: python3 -c \"import pandas; pandas.read_parquet('FILE.parquet')."     \
    "rename(columns={'question': 'prompt', 'answer': 'completion'}).to_parquet('NEW.parquet')\""

struct hil_table {
    hil_parquet *file;
    char *path;
    hil_record_rules rules;
    int64_t row;
    json_t *object; /* the row, from which `record` borrows */
    hil_record record;
};

/* Sets the format by the names of the columns, as if they were the keys of an object. */
static hil_status detect(hil_table *table)
{
    json_t *keys = json_object();
    const char *key;
    hil_status status = HIL_OK;
    for (size_t at = 0; status == HIL_OK && (key = hil_parquet_key(table->file, &at));)
        if (json_object_set_new(keys, key, json_null()) != 0)
            status = hil_fail(HIL_ERR_MEMORY, "out of memory: a schema");
    if (status == HIL_OK) status = hil_record_detect(&table->rules, keys);
    json_decref(keys);
    return status;
}

/* Puts the place before the message of a failure; `row` 0 is the whole file. */
static hil_status name_place(const hil_table *table, int64_t row, hil_status status)
{
    char message[900];
    if (status != HIL_ERR_INPUT) return status;
    snprintf(message, sizeof message, "%s", hil_status_message());
    if (row) return hil_fail(status, "%s row %lld: %s", table->path, (long long)row, message);
    return hil_fail(status, "%s: %s", table->path, message);
}

static hil_status select_columns(hil_table *table)
{
    HIL_TRY(name_place(table, 0, detect(table)));
    const char *const *keys = hil_record_keys(table->rules.format);
    size_t count = 0;
    while (keys[count]) ++count;
    return hil_parquet_select(table->file, keys, count, HIL_JSONL_LINE_MAX);
}

hil_status hil_table_open(hil_table **out, const char *path, const hil_record_rules *rules)
{
    *out = NULL;
    hil_table *table = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &table));
    table->rules = *rules;
    table->rules.rename = RENAME;
    HIL_TRY_DONE(hil_text_copy(path, &table->path));
    HIL_TRY_DONE(hil_parquet_open(&table->file, path));
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
    hil_parquet_close(table->file);
    hil_free(table->path);
    hil_free(table);
}

int64_t hil_table_rows(const hil_table *table)
{
    return hil_parquet_rows(table->file);
}

hil_status hil_table_next(hil_table *table, const hil_record **record)
{
    *record = NULL;
    forget_row(table);
    HIL_TRY(hil_parquet_next(table->file, &table->object));
    if (!table->object) return HIL_OK;
    ++table->row;
    HIL_TRY(name_place(table, table->row,
                       hil_record_read(&table->rules, table->object, &table->record)));
    *record = &table->record;
    return HIL_OK;
}
