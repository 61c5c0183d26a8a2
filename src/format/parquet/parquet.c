/* parquet.c - footer, groups of rows, and the choice of columns. */
#include "format/parquet/parquet.h"

#include "format/parquet/parquet_row.h"

#include <string.h>

#define TAIL ((size_t)8) /* size of the footer, and "PAR1" */
#define FOOTER_MAX ((uint64_t)256 << 20)

struct hil_parquet {
    hil_parquet_source source;
    unsigned char *footer;
    int64_t rows;
    hil_parquet_schema schema;
    hil_thrift groups; /* the groups of rows that are still to be read, in the footer */
    size_t groups_left;
    int64_t group_rows; /* rows of this group that are still to be read */
    hil_parquet_column *column;
    size_t columns, *leaf; /* the numbers of the columns' leaves, rising */
    uint64_t unread;       /* bytes of the file that no column has had: what one has is its own */
    hil_parquet_row row;
};

static hil_status damaged(const hil_parquet *file, const char *why)
{
    return hil_fail(HIL_ERR_INPUT, "%s: damaged: %s; download the file again", file->source.what,
                    why);
}

/* Reads the footer, which is at the end of the file. */
static hil_status read_footer(hil_parquet *file, uint32_t *footer_size)
{
    unsigned char tail[TAIL];
    uint64_t size = file->source.size;
    if (size >= 4) HIL_TRY(hil_parquet_source_read(&file->source, 0, tail, 4));
    if (size < 4 || (memcmp(tail, "PAR1", 4) != 0 && memcmp(tail, "PARE", 4) != 0))
        return hil_fail(HIL_ERR_INPUT,
                        "%s is not a Parquet file, though its name ends with .parquet",
                        file->source.what);
    if (size < 4 + TAIL) return damaged(file, "the file is cut off");
    HIL_TRY(hil_parquet_source_read(&file->source, size - TAIL, tail, TAIL));
    if (memcmp(tail + 4, "PARE", 4) == 0)
        return hil_fail(HIL_ERR_INPUT, "%s is encrypted, which is not read", file->source.what);
    if (memcmp(tail + 4, "PAR1", 4) != 0) return damaged(file, "the file is cut off");
    *footer_size = hil_parquet_load32(tail);
    if (*footer_size > size - 4 - TAIL || *footer_size > FOOTER_MAX)
        return damaged(file, "the footer is not inside of the file");
    HIL_TRY(HIL_ALLOC(*footer_size, &file->footer));
    return hil_parquet_source_read(&file->source, size - TAIL - *footer_size, file->footer,
                                   *footer_size);
}

static void skip_groups(hil_parquet *file, hil_thrift *in, const hil_thrift_field *field)
{
    const hil_thrift_field group = {0, HIL_THRIFT_STRUCT};
    file->groups_left = hil_thrift_structures(in, field);
    file->groups = *in;
    for (size_t i = 0; i < file->groups_left && !in->bad; ++i) hil_thrift_skip(in, &group);
}

static hil_status parse_footer(hil_parquet *file)
{
    enum { SCHEMA = 2, ROWS = 3, GROUPS = 4, ENCRYPTION = 8 };
    uint32_t size = 0;
    HIL_TRY(read_footer(file, &size));
    hil_thrift in = {.at = file->footer, .end = file->footer + size};
    hil_thrift_field field = {0};
    while (hil_thrift_next(&in, &field)) {
        if (field.id == SCHEMA)
            HIL_TRY(hil_parquet_schema_read(&file->schema, &in, &field, file->source.what));
        else if (field.id == ROWS)
            file->rows = hil_thrift_integer(&in, &field);
        else if (field.id == GROUPS)
            skip_groups(file, &in, &field);
        else if (field.id == ENCRYPTION)
            return hil_fail(HIL_ERR_INPUT, "%s is encrypted, which is not read", file->source.what);
        else
            hil_thrift_skip(&in, &field);
    }
    if (in.bad || !file->schema.node || file->rows < 0)
        return damaged(file, "the footer is not valid");
    return HIL_OK;
}

/* `path` is NULL for a file in memory. */
static hil_status open_source(hil_parquet **out, const char *path, hil_parquet_source source)
{
    *out = NULL;
    hil_parquet *file = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &file));
    const char *what = source.what;
    file->source = source;
    file->source.what = NULL;
    HIL_TRY_DONE(hil_text_copy(what, &file->source.what));
    if (path) {
        HIL_TRY_DONE(hil_reader_open(&file->source.reader, path));
        file->source.size = hil_reader_size(file->source.reader);
    }
    file->unread = file->source.size;
    HIL_TRY_DONE(parse_footer(file));
    *out = file;
    file = NULL;
done:
    hil_parquet_close(file);
    return status;
}

hil_status hil_parquet_open(hil_parquet **out, const char *path)
{
    return open_source(out, path, (hil_parquet_source){.what = (char *)(uintptr_t)path});
}

hil_status hil_parquet_parse(hil_parquet **out, const char *bytes, size_t size, const char *what)
{
    return open_source(
        out, NULL,
        (hil_parquet_source){.memory = bytes, .size = size, .what = (char *)(uintptr_t)what});
}

void hil_parquet_close(hil_parquet *file)
{
    if (!file) return;
    for (size_t i = 0; i < file->columns; ++i) hil_parquet_column_free(&file->column[i]);
    hil_free(file->column);
    hil_free(file->leaf);
    hil_parquet_schema_free(&file->schema);
    hil_free(file->footer);
    hil_reader_close(file->source.reader);
    hil_free(file->source.what);
    hil_free(file);
}

int64_t hil_parquet_rows(const hil_parquet *file)
{
    return file->rows;
}

const char *hil_parquet_key(const hil_parquet *file, size_t *at)
{
    const hil_parquet_node *node = file->schema.node;
    size_t key = *at ? *at : 1;
    if (key >= node[0].end) return NULL;
    *at = node[key].end;
    return node[key].name;
}

/* Bytes are text only as a column of their own, as old writers have it: below, they are images. */
static bool is_readable(const hil_parquet_node *node, bool is_key)
{
    if (node->kind == HIL_PARQUET_OTHER || node->kind <= HIL_PARQUET_MAP) return false;
    return node->kind != HIL_PARQUET_BINARY || is_key;
}

static hil_status add_column(hil_parquet *file, const hil_parquet_node *node, const hil_text *path)
{
    hil_parquet_column *column = &file->column[file->columns];
    HIL_TRY(hil_text_copy(path->data, &column->path));
    column->source = &file->source;
    column->node = node;
    file->leaf[file->columns++] = node->leaf;
    return HIL_OK;
}

/* Adds the columns in and below a node. `path` is that of its parent, and stays as it is. */
static hil_status select_node(hil_parquet *file, size_t at, hil_text *path, bool is_key)
{
    hil_parquet_node *node = &file->schema.node[at];
    size_t size = path->size;
    HIL_TRY(hil_text_print(path, "%s%s", size ? "." : "", node->name));
    node->column_begin = file->columns;
    if (node->kind == HIL_PARQUET_MAP)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: column \"%s\" is a map, which is not read; make it a text of JSON, or "
                        "rename it",
                        file->source.what, path->data);
    if (is_readable(node, is_key)) HIL_TRY(add_column(file, node, path));
    for (size_t child = at + 1; child < node->end; child = file->schema.node[child].end)
        HIL_TRY(select_node(file, child, path, false));
    node->columns_end = file->columns;
    path->size = size;
    path->data[size] = 0;
    return HIL_OK;
}

static bool is_listed(const char *key, const char *const *keys, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

static hil_status select_keys(hil_parquet *file, const char *const *keys, size_t count,
                              hil_text *path)
{
    const hil_parquet_node *node = file->schema.node;
    for (size_t at = 1; at < node[0].end; at = node[at].end) {
        if (!is_listed(node[at].name, keys, count)) continue;
        for (size_t other = 1; other < at; other = node[other].end)
            if (strcmp(node[other].name, node[at].name) == 0)
                return hil_fail(HIL_ERR_INPUT, "%s has two columns \"%s\"", file->source.what,
                                node[at].name);
        HIL_TRY(select_node(file, at, path, true));
        if (node[at].column_begin == node[at].columns_end)
            return hil_fail(HIL_ERR_INPUT,
                            "%s: column \"%s\" holds neither text nor numbers, but dates, bytes or "
                            "the like",
                            file->source.what, node[at].name);
    }
    if (file->columns) return HIL_OK; /* each row takes something from the file */
    return hil_fail(HIL_ERR_INPUT, "%s has no column \"%s\"", file->source.what,
                    count ? keys[0] : "");
}

hil_status hil_parquet_select(hil_parquet *file, const char *const *keys, size_t count,
                              size_t row_max)
{
    hil_text path = {0};
    hil_status status;
    assert(!file->column);
    HIL_TRY_DONE(hil_text_add(&path, "", 0));
    HIL_TRY_DONE(HIL_ALLOC(file->schema.leaves, &file->column));
    HIL_TRY_DONE(HIL_ALLOC(file->schema.leaves, &file->leaf));
    HIL_TRY_DONE(select_keys(file, keys, count, &path));
    file->row = (hil_parquet_row){&file->schema, file->column, row_max, 0, 0};
done:
    hil_text_free(&path);
    return status;
}

static void read_numbers(hil_thrift *in, hil_parquet_chunk *chunk)
{
    enum { TYPE = 1, CODEC = 4, VALUES = 5, BYTES = 7, DATA = 9, DICTIONARY = 11, FIELDS };
    int64_t *slots[FIELDS] = {
        [TYPE] = &chunk->type,   [CODEC] = &chunk->codec,  [VALUES] = &chunk->values,
        [BYTES] = &chunk->bytes, [DATA] = &chunk->data_at, [DICTIONARY] = &chunk->dictionary_at};
    hil_thrift_integers(in, slots, FIELDS);
}

static hil_status begin_column(hil_parquet_column *column, hil_thrift *in)
{
    enum { PATH = 1, NUMBERS = 3, ENCRYPTION = 8 };
    hil_parquet_chunk chunk = {.codec = -1, .type = -1, .values = -1, .bytes = -1};
    hil_thrift_field field = {0};
    while (hil_thrift_next(in, &field)) {
        if (field.id == PATH)
            return hil_fail(HIL_ERR_INPUT,
                            "%s: column \"%s\" is in another file, which is not read",
                            column->source->what, column->path);
        if (field.id == ENCRYPTION)
            return hil_fail(HIL_ERR_INPUT, "%s: column \"%s\" is encrypted, which is not read",
                            column->source->what, column->path);
        if (field.id == NUMBERS && hil_thrift_enter(in, &field))
            read_numbers(in, &chunk);
        else
            hil_thrift_skip(in, &field);
    }
    return in->bad ? HIL_OK : hil_parquet_column_begin(column, &chunk);
}

/* Begins all columns with the chunks of a group, which are in the order of the leaves. */
static hil_status begin_columns(hil_parquet *file, hil_thrift *in, const hil_thrift_field *field)
{
    const hil_thrift_field chunk = {0, HIL_THRIFT_STRUCT};
    size_t count = hil_thrift_structures(in, field), next = 0;
    if (!in->bad && count != file->schema.leaves)
        return damaged(file, "a group of rows has not the columns of the schema");
    for (size_t i = 0; i < count && !in->bad; ++i) {
        if (next == file->columns || file->leaf[next] != i) {
            hil_thrift_skip(in, &chunk);
            continue;
        }
        hil_parquet_column *column = &file->column[next++];
        HIL_TRY(begin_column(column, in));
        if (in->bad) break;
        if (column->end - column->at > file->unread)
            return hil_parquet_column_damaged(column, "it has bytes of another one");
        file->unread -= column->end - column->at;
    }
    return HIL_OK;
}

static hil_status begin_group(hil_parquet *file)
{
    enum { COLUMNS = 1, ROWS = 3 };
    hil_thrift *in = &file->groups;
    hil_thrift_field field = {0};
    bool has_columns = false;
    file->group_rows = -1;
    --file->groups_left;
    while (hil_thrift_next(in, &field)) {
        if (field.id == COLUMNS && !has_columns) {
            HIL_TRY(begin_columns(file, in, &field));
            has_columns = true;
        } else if (field.id == ROWS) {
            file->group_rows = hil_thrift_integer(in, &field);
        } else {
            hil_thrift_skip(in, &field);
        }
    }
    if (in->bad || !has_columns || file->group_rows < 0)
        return damaged(file, "a group of rows has no valid description");
    return HIL_OK;
}

/* Checks that a group of rows has been read to its end. */
static hil_status end_group(const hil_parquet *file)
{
    for (size_t i = 0; i < file->columns; ++i) {
        const hil_parquet_column *column = &file->column[i];
        bool is_over = column->is_loaded ? column->is_over : column->page_left == 0;
        if (!is_over || column->values_left > 0)
            return hil_parquet_column_damaged(column, "it has more values than rows");
    }
    return HIL_OK;
}

hil_status hil_parquet_next(hil_parquet *file, json_t **row)
{
    *row = NULL;
    assert(file->columns);
    while (file->group_rows == 0) {
        HIL_TRY(end_group(file));
        if (file->groups_left == 0) return HIL_OK;
        HIL_TRY(begin_group(file));
    }
    --file->group_rows;
    return hil_parquet_row_read(&file->row, row);
}

int64_t hil_parquet_number(const hil_parquet *file)
{
    return file->row.number;
}

double hil_parquet_done(const hil_parquet *file)
{
    return file->rows ? (double)file->row.number / (double)file->rows : 1;
}

HIL_ROW_SOURCE(parquet, "row",
               "pandas renames columns: python3 -c \"import pandas; "
               "pandas.read_parquet('FILE.parquet').rename(columns={'question': 'prompt', "
               "'answer': 'completion'}).to_parquet('NEW.parquet')\"");
