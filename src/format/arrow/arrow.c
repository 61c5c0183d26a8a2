/* arrow.c - the messages of an Arrow file, and the choice of columns. */
#include "format/arrow/arrow.h"

#include "base/text.h"
#include "format/arrow/arrow_batch.h"
#include "format/arrow/arrow_row.h"

#include <string.h>

#define MESSAGE_MAX ((uint64_t)256 << 20)

/* The numbers of messages in the format. */
enum { SCHEMA = 1, DICTIONARY = 2, BATCH = 3, END = -1 };
enum { VERSION_LEAST = 3 };

struct hil_arrow {
    hil_arrow_file file;
    bool framed; /* by "ARROW1" and a footer */
    uint64_t at; /* of the next message */
    char *message;
    size_t message_room;
    hil_flat flat; /* of the message */
    hil_arrow_schema schema;
    hil_arrow_row row;
    int64_t rows, taken; /* of the batch */
};

static hil_status end_stream(const hil_arrow *a)
{
    if (a->framed || a->at == a->file.size) return HIL_OK;
    return hil_arrow_damaged(&a->file, "bytes follow its end");
}

/* Reads the description of the next message. *type: which it is, END at the end; `batch` gets its
   table and body. */
static hil_status next_message(hil_arrow *a, int64_t *type, hil_arrow_batch *batch)
{
    unsigned char head[8];
    HIL_TRY(hil_arrow_file_read(&a->file, a->at, head, sizeof head));
    uint64_t size = (uint64_t)head[4] | (uint64_t)head[5] << 8 | (uint64_t)head[6] << 16 |
                    (uint64_t)head[7] << 24;
    a->at += sizeof head;
    *type = END;
    if (memcmp(head, "\xff\xff\xff\xff", 4) != 0)
        return hil_arrow_damaged(&a->file, "a message is missing");
    if (size == 0) return end_stream(a);
    if (size > MESSAGE_MAX || size > a->file.size - a->at)
        return hil_arrow_damaged(&a->file, "the file is cut off");
    HIL_TRY(HIL_GROW(&a->message, &a->message_room, size));
    HIL_TRY(hil_arrow_file_read(&a->file, a->at, a->message, (size_t)size));
    a->flat = (hil_flat){(const unsigned char *)a->message, (size_t)size, false};
    size_t root = hil_flat_root(&a->flat);
    int64_t version = hil_flat_integer(&a->flat, root, 0, 2, 0);
    *type = hil_flat_integer(&a->flat, root, 1, 1, 0);
    *batch = (hil_arrow_batch){&a->file, &a->flat, hil_flat_table(&a->flat, root, 2), a->at + size,
                               (uint64_t)hil_flat_integer(&a->flat, root, 3, 8, 0)};
    if (a->flat.bad || !batch->table || version < VERSION_LEAST)
        return hil_arrow_damaged(&a->file, "a message is not valid");
    if (batch->body_size > a->file.size - batch->body)
        return hil_arrow_damaged(&a->file, "the file is cut off");
    a->at = batch->body + batch->body_size;
    return HIL_OK;
}

static hil_status read_schema(hil_arrow *a)
{
    static const char magic[] = "ARROW1";
    char head[8] = "";
    hil_arrow_batch batch = {0};
    int64_t type = END;
    if (a->file.size >= sizeof head) HIL_TRY(hil_arrow_file_read(&a->file, 0, head, sizeof head));
    a->framed = memcmp(head, magic, sizeof magic - 1) == 0;
    if (!a->framed && memcmp(head, "\xff\xff\xff\xff", 4) != 0)
        return hil_fail(HIL_ERR_INPUT, "%s is not an Arrow file, though its name says so",
                        a->file.what);
    a->at = a->framed ? sizeof head : 0;
    HIL_TRY(next_message(a, &type, &batch));
    if (type != SCHEMA) return hil_arrow_damaged(&a->file, "it does not begin with a schema");
    return hil_arrow_schema_read(&a->schema, &a->file, &a->flat, batch.table);
}

/* Takes the reader over, also on failure. */
static hil_status open_file(hil_arrow **out, hil_arrow_file source, const char *what)
{
    hil_arrow *a = NULL;
    hil_status status = HIL_ALLOC(1, &a);
    if (status != HIL_OK) {
        hil_reader_close(source.reader);
        return status;
    }
    a->file = source;
    status = hil_text_copy(what, &a->file.what);
    if (status == HIL_OK) status = read_schema(a);
    if (status == HIL_OK)
        *out = a;
    else
        hil_arrow_close(a);
    return status;
}

hil_status hil_arrow_open(hil_arrow **out, const char *path)
{
    hil_arrow_file source = {0};
    *out = NULL;
    HIL_TRY(hil_reader_open(&source.reader, path));
    source.size = hil_reader_size(source.reader);
    return open_file(out, source, path);
}

hil_status hil_arrow_parse(hil_arrow **out, const char *bytes, size_t size, const char *what)
{
    *out = NULL;
    return open_file(out, (hil_arrow_file){.memory = bytes, .size = size}, what);
}

void hil_arrow_close(hil_arrow *a)
{
    if (!a) return;
    hil_arrow_schema_free(&a->schema);
    hil_reader_close(a->file.reader);
    hil_free(a->file.what);
    hil_free(a->message);
    hil_free(a);
}

const char *hil_arrow_key(const hil_arrow *a, size_t *at)
{
    const hil_arrow_node *column = &a->schema.node[*at ? *at : 1];
    if (column == a->schema.node + a->schema.nodes) return NULL;
    *at = column->end;
    return column->name;
}

/* Whether values of a node are values of JSON; bytes are text only as a column of their own. */
static bool is_readable(const hil_arrow_node *node, size_t at, bool is_key)
{
    bool any = node[at].end == at + 1; /* an object without members is one */
    switch (node[at].kind) {
    case HIL_ARROW_OTHER:
    case HIL_ARROW_MAP:
        return false;
    case HIL_ARROW_BINARY:
        return is_key;
    case HIL_ARROW_LIST:
    case HIL_ARROW_FIXED_LIST:
        return is_readable(node, at + 1, false);
    case HIL_ARROW_INDEX:
        return is_readable(node, at + 1, is_key);
    case HIL_ARROW_OBJECT:
        for (size_t child = at + 1; child < node[at].end; child = node[child].end)
            any |= is_readable(node, child, false);
        return any;
    default:
        return true;
    }
}

static void keep_node(hil_arrow_node *node, size_t at, bool is_key)
{
    if (!is_readable(node, at, is_key)) return;
    node[at].kept = true;
    for (size_t child = at + 1; child < node[at].end; child = node[child].end)
        keep_node(node, child, is_key && node[at].kind == HIL_ARROW_INDEX);
}

static hil_status keep_column(hil_arrow *a, size_t at)
{
    hil_arrow_node *node = a->schema.node;
    for (size_t other = 1; other < at; other = node[other].end)
        if (strcmp(node[other].name, node[at].name) == 0)
            return hil_fail(HIL_ERR_INPUT, "%s has two columns \"%s\"", a->file.what,
                            node[at].name);
    for (size_t i = at; i < node[at].end; ++i)
        if (node[i].kind == HIL_ARROW_MAP)
            return hil_fail(HIL_ERR_INPUT,
                            "%s: column \"%s\" is or has a map, which is not read; make it a text "
                            "of JSON, or rename it",
                            a->file.what, node[at].name);
    keep_node(node, at, true);
    if (node[at].kept) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT,
                    "%s: column \"%s\" holds neither text nor numbers (of a type that is read): "
                    "cast or rename it",
                    a->file.what, node[at].name);
}

hil_status hil_arrow_select(hil_arrow *a, const char *const *keys, size_t count, size_t row_max)
{
    const hil_arrow_node *node = a->schema.node;
    a->row = (hil_arrow_row){.file = &a->file, .schema = &a->schema, .row_max = row_max};
    for (size_t at = 1; at < node[0].end; at = node[at].end)
        for (size_t i = 0; i < count; ++i)
            if (strcmp(node[at].name, keys[i]) == 0) HIL_TRY(keep_column(a, at));
    return HIL_OK;
}

/* Takes the values of a dictionary for all columns that have indices of it. */
static hil_status load_dictionary(hil_arrow *a, hil_arrow_batch *batch)
{
    hil_arrow_node *node = a->schema.node;
    size_t table = batch->table;
    int64_t number = hil_flat_integer(&a->flat, table, 0, 8, 0);
    if (hil_flat_integer(&a->flat, table, 2, 1, 0))
        return hil_fail(HIL_ERR_INPUT,
                        "%s has a dictionary in several parts, which is not read: write it with "
                        "unified dictionaries, or without any",
                        a->file.what);
    batch->table = hil_flat_table(&a->flat, table, 1);
    for (size_t at = 1; at < a->schema.nodes; ++at)
        if (node[at].kind == HIL_ARROW_INDEX && node[at].kept && node[at].fixed == number)
            HIL_TRY(hil_arrow_batch_load(batch, &a->schema, at + 1, node[at].end));
    return HIL_OK;
}

/* Each row takes a bit at least: a batch whose columns take none could have any number of rows. */
static hil_status check_rows(const hil_arrow *a)
{
    uint64_t bytes = 0;
    for (size_t at = 1; at < a->schema.nodes; ++at)
        for (int i = 0; i < HIL_ARROW_BUFFERS && a->schema.node[at].kept; ++i)
            bytes += a->schema.node[at].buffer[i].size;
    if ((uint64_t)a->rows / 8 <= bytes) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s has a batch of %lld rows without any value", a->file.what,
                    (long long)a->rows);
}

/* Makes the next batch of rows known; *more is false at the end. */
static hil_status next_batch(hil_arrow *a, bool *more)
{
    hil_arrow_batch batch;
    int64_t type = END;
    HIL_TRY(next_message(a, &type, &batch));
    *more = type != END;
    a->rows = a->taken = 0;
    if (type == END) return HIL_OK;
    if (type == DICTIONARY) return load_dictionary(a, &batch);
    if (type != BATCH) return hil_arrow_damaged(&a->file, "a message is of a kind that is unknown");
    HIL_TRY(hil_arrow_batch_rows(&batch, &a->rows));
    HIL_TRY(hil_arrow_batch_load(&batch, &a->schema, 1, a->schema.nodes));
    return check_rows(a);
}

hil_status hil_arrow_next(hil_arrow *a, json_t **row)
{
    bool more = true;
    *row = NULL;
    while (a->taken == a->rows && more) HIL_TRY(next_batch(a, &more));
    return more ? hil_arrow_row_read(&a->row, a->taken++, row) : HIL_OK;
}

int64_t hil_arrow_number(const hil_arrow *a)
{
    return a->row.number;
}

double hil_arrow_done(const hil_arrow *a)
{
    return (double)a->at / (double)a->file.size;
}

HIL_ROW_SOURCE(arrow, "row",
               "datasets renames columns: load_from_disk(DIR).rename_columns({'question': "
               "'prompt', 'answer': 'completion'}).save_to_disk(NEW)");
