/* parquet_row.c - a row from the levels of its columns. */
#include "format/parquet/parquet_row.h"

#include "text/unicode/unicode.h"

#include <math.h>

/* [Note: levels] Each value of a column comes with two levels. The level of definition says how
   many of the optional and repeated nodes on the way to it are there: where it is less than a
   node's own
   (`defined`), that node is null, or an empty list. The level of repetition says which list goes
   on: 0 begins a row, and a list's own level (`repeated`) another element of it. The columns below
   a node agree in both, as far as the node goes; a file where they do not is damaged. */

#define COST ((size_t)16) /* of a value, besides its bytes */

static hil_status no_memory(void)
{
    return hil_fail(HIL_ERR_MEMORY, "out of memory: a row of a Parquet file");
}

static hil_status give(json_t *value, json_t **out)
{
    *out = value;
    return value ? HIL_OK : no_memory();
}

static hil_status count_bytes(hil_parquet_row *row, const hil_parquet_column *column, size_t bytes)
{
    char limit[32];
    if (bytes <= row->row_max - row->size) {
        row->size += bytes;
        return HIL_OK;
    }
    return hil_fail(HIL_ERR_INPUT, "%s row %lld: column \"%s\" makes it longer than %s",
                    column->source->what, (long long)row->number, column->path,
                    hil_text_bytes(limit, row->row_max));
}

/* Makes the next pair of levels of a column known, and checks that it goes with the others. */
static hil_status expect(hil_parquet_column *column, unsigned repeated, unsigned defined)
{
    HIL_TRY(hil_parquet_column_load(column));
    if (column->is_over)
        return hil_parquet_column_damaged(column, "it has fewer values than it should");
    if (column->repeated != repeated || column->defined < defined)
        return hil_parquet_column_damaged(column, "its levels do not go with those of others");
    return HIL_OK;
}

static hil_status make_text(const hil_parquet_row *row, const hil_parquet_column *column,
                            const hil_parquet_value *value, json_t **out)
{
    size_t bad;
    *out = json_stringn(value->bytes, value->size);
    if (*out) return HIL_OK;
    if (hil_utf8_check(value->bytes, value->size, &bad) == value->size) return no_memory();
    return hil_fail(HIL_ERR_INPUT, "%s row %lld: column \"%s\" is not UTF-8", column->source->what,
                    (long long)row->number, column->path);
}

static hil_status make_unsigned(const hil_parquet_row *row, const hil_parquet_column *column,
                                int64_t value, json_t **out)
{
    if (column->node->type == HIL_PARQUET_INT32) return give(json_integer((uint32_t)value), out);
    if (value >= 0) return give(json_integer(value), out);
    return hil_fail(HIL_ERR_INPUT, "%s row %lld: column \"%s\" has a number of more than 63 bits",
                    column->source->what, (long long)row->number, column->path);
}

static hil_status make_value(hil_parquet_row *row, hil_parquet_column *column, json_t **out)
{
    hil_parquet_value value;
    HIL_TRY(hil_parquet_column_value(column, &value));
    HIL_TRY(count_bytes(row, column, value.size));
    switch (column->node->kind) {
    case HIL_PARQUET_TRUTH:
        return give(json_boolean(value.integer), out);
    case HIL_PARQUET_INTEGER:
        return give(json_integer(value.integer), out);
    case HIL_PARQUET_UNSIGNED:
        return make_unsigned(row, column, value.integer, out);
    case HIL_PARQUET_REAL:
        return give(isfinite(value.real) ? json_real(value.real) : json_null(), out);
    default:
        return make_text(row, column, &value, out);
    }
}

static hil_status read_node(hil_parquet_row *row, size_t at, unsigned repeated, json_t **out);
static hil_status read_list(hil_parquet_row *row, size_t at, size_t element, unsigned repeated,
                            json_t **out);

static hil_status read_leaf(hil_parquet_row *row, const hil_parquet_node *node, unsigned repeated,
                            json_t **out)
{
    hil_parquet_column *column = &row->column[node->column_begin];
    HIL_TRY(expect(column, repeated, node->defined));
    HIL_TRY(make_value(row, column, out));
    column->is_loaded = false;
    return HIL_OK;
}

static hil_status read_object(hil_parquet_row *row, size_t at, unsigned repeated, json_t **out)
{
    const hil_parquet_node *node = row->schema->node;
    json_t *object, *value;
    hil_status status;
    HIL_TRY_DONE(give(json_object(), &object));
    for (size_t child = at + 1; child < node[at].end; child = node[child].end) {
        if (node[child].column_begin == node[child].columns_end) continue;
        if (node[child].repetition == HIL_PARQUET_REPEATED)
            HIL_TRY_DONE(read_list(row, child, child, repeated, &value));
        else
            HIL_TRY_DONE(read_node(row, child, repeated, &value));
        if (json_object_set_new_nocheck(object, node[child].name, value) != 0)
            HIL_TRY_DONE(no_memory());
    }
    *out = object;
    object = NULL;
done:
    json_decref(object);
    return status;
}

/* A node that is there. */
static hil_status read_content(hil_parquet_row *row, size_t at, unsigned repeated, json_t **out)
{
    const hil_parquet_node *node = &row->schema->node[at];
    if (node->kind == HIL_PARQUET_LIST) {
        size_t element, list = hil_parquet_schema_list(row->schema, at, &element);
        return read_list(row, list, element, repeated, out);
    }
    if (node->kind == HIL_PARQUET_OBJECT) return read_object(row, at, repeated, out);
    return read_leaf(row, node, repeated, out);
}

/* Takes the pairs of levels that say that a node is not there: the same one of each column. */
static hil_status take_absence(hil_parquet_row *row, const hil_parquet_node *node,
                               unsigned repeated)
{
    uint32_t defined = row->column[node->column_begin].defined;
    for (size_t i = node->column_begin; i < node->columns_end; ++i) {
        hil_parquet_column *column = &row->column[i];
        HIL_TRY(expect(column, repeated, defined));
        if (column->defined != defined)
            return hil_parquet_column_damaged(column, "its levels do not go with those of others");
        column->is_loaded = false;
    }
    return HIL_OK;
}

/* A node that may be null, within one that is there. */
static hil_status read_node(hil_parquet_row *row, size_t at, unsigned repeated, json_t **out)
{
    const hil_parquet_node *node = &row->schema->node[at];
    hil_parquet_column *column = &row->column[node->column_begin];
    unsigned within = node->defined - (node->repetition != HIL_PARQUET_REQUIRED);
    HIL_TRY(count_bytes(row, column, COST));
    HIL_TRY(expect(column, repeated, within));
    if (column->defined >= node->defined) return read_content(row, at, repeated, out);
    HIL_TRY(take_absence(row, node, repeated));
    return give(json_null(), out);
}

/* The elements of the repeated node `at`, which are itself or the node below it. */
static hil_status read_list(hil_parquet_row *row, size_t at, size_t element, unsigned repeated,
                            json_t **out)
{
    const hil_parquet_node *node = &row->schema->node[at];
    hil_parquet_column *column = &row->column[node->column_begin];
    json_t *list, *value;
    hil_status status;
    HIL_TRY_DONE(give(json_array(), &list));
    HIL_TRY_DONE(expect(column, repeated, node->defined - 1));
    bool more = column->defined >= node->defined;
    if (!more) HIL_TRY_DONE(take_absence(row, node, repeated));
    while (more) {
        HIL_TRY_DONE(count_bytes(row, column, COST));
        if (element == at)
            HIL_TRY_DONE(read_content(row, at, repeated, &value));
        else
            HIL_TRY_DONE(read_node(row, element, repeated, &value));
        if (json_array_append_new(list, value) != 0) HIL_TRY_DONE(no_memory());
        HIL_TRY_DONE(hil_parquet_column_load(column));
        repeated = node->repeated;
        more = column->repeated == repeated;
    }
    *out = list;
    list = NULL;
done:
    json_decref(list);
    return status;
}

hil_status hil_parquet_row_read(hil_parquet_row *row, json_t **out)
{
    *out = NULL;
    row->size = 0;
    ++row->number;
    return read_object(row, 0, 0, out);
}
