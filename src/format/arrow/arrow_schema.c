/* arrow_schema.c - fields of a schema to nodes. */
#include "format/arrow/arrow_schema.h"

#include "base/alloc.h"
#include "text/unicode/unicode.h"

#include <string.h>

enum { DEEPEST = 64, MOST = 10000 };

/* The numbers of types in the format. */
enum type {
    NONE_TYPE,
    NULL_TYPE,
    INT_TYPE,
    FLOAT_TYPE,
    BINARY_TYPE,
    TEXT_TYPE,
    BOOL_TYPE,
    STRUCT_TYPE = 13,
    UNION_TYPE,
    FIXED_LIST_TYPE = 16,
    MAP_TYPE,
    LARGE_BINARY_TYPE = 19,
    LARGE_TEXT_TYPE,
    LARGE_LIST_TYPE,
    RUNS_TYPE,
    BINARY_VIEW_TYPE,
    TEXT_VIEW_TYPE,
    LIST_VIEW_TYPE,
    LARGE_LIST_VIEW_TYPE,
    TYPES
};

typedef struct reading {
    hil_arrow_schema *schema;
    const hil_arrow_file *file;
    hil_flat *flat;
    size_t names; /* bytes of all so far */
} reading;

static hil_status not_valid(const reading *r)
{
    return hil_arrow_damaged(r->file, "its schema is not valid");
}

/* Width and sign of integers; *kind stays OTHER for those that do not exist. */
static void read_integer(reading *r, size_t type, hil_arrow_node *node, bool *is_signed)
{
    int64_t bits = hil_flat_integer(r->flat, type, 0, 4, 0);
    *is_signed = hil_flat_integer(r->flat, type, 1, 1, 0) != 0;
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64) r->flat->bad = true;
    node->bytes = (int)(bits / 8);
}

/* Kind and buffers of a field by its type. */
static void read_type(reading *r, size_t field, int64_t type, hil_arrow_node *node)
{
    static const struct {
        hil_arrow_kind kind;
        int bytes, buffers;
    } plain[TYPES] = {
        [NULL_TYPE] = {HIL_ARROW_NULL, 0, 0},
        [INT_TYPE] = {HIL_ARROW_INTEGER, 0, 2},
        [FLOAT_TYPE] = {HIL_ARROW_REAL, 0, 2},
        [BINARY_TYPE] = {HIL_ARROW_BINARY, 4, 3},
        [TEXT_TYPE] = {HIL_ARROW_TEXT, 4, 3},
        [BOOL_TYPE] = {HIL_ARROW_TRUTH, 1, 2},
        [12] = {HIL_ARROW_LIST, 4, 2},
        [STRUCT_TYPE] = {HIL_ARROW_OBJECT, 0, 1},
        [FIXED_LIST_TYPE] = {HIL_ARROW_FIXED_LIST, 0, 1},
        [MAP_TYPE] = {HIL_ARROW_MAP, 4, 2},
        [LARGE_BINARY_TYPE] = {HIL_ARROW_BINARY, 8, 3},
        [LARGE_TEXT_TYPE] = {HIL_ARROW_TEXT, 8, 3},
        [LARGE_LIST_TYPE] = {HIL_ARROW_LIST, 8, 2},
        [RUNS_TYPE] = {HIL_ARROW_OTHER, 0, 0},
        [BINARY_VIEW_TYPE] = {HIL_ARROW_OTHER, 0, 2},
        [TEXT_VIEW_TYPE] = {HIL_ARROW_OTHER, 0, 2},
        [LIST_VIEW_TYPE] = {HIL_ARROW_OTHER, 0, 3},
        [LARGE_LIST_VIEW_TYPE] = {HIL_ARROW_OTHER, 0, 3},
    };
    size_t about = hil_flat_table(r->flat, field, 3);
    bool is_signed, other = plain[type].kind == HIL_ARROW_OTHER && type < RUNS_TYPE;
    node->kind = plain[type].kind;
    node->bytes = plain[type].bytes;
    node->buffers = other ? 2 : plain[type].buffers; /* dates, times, decimals */
    node->variadic = type == BINARY_VIEW_TYPE || type == TEXT_VIEW_TYPE;
    if (type == UNION_TYPE) node->buffers = hil_flat_integer(r->flat, about, 0, 2, 0) ? 2 : 1;
    if (type == INT_TYPE) {
        read_integer(r, about, node, &is_signed);
        if (!is_signed) node->kind = HIL_ARROW_UNSIGNED;
    }
    if (type == FLOAT_TYPE) {
        int64_t precision = hil_flat_integer(r->flat, about, 0, 2, 0);
        if (precision < 0 || precision > 2) r->flat->bad = true;
        node->bytes = precision == 0 ? 2 : precision == 1 ? 4 : 8;
    }
    if (type == FIXED_LIST_TYPE) node->fixed = hil_flat_integer(r->flat, about, 0, 4, 0);
    if (node->fixed < 0) r->flat->bad = true;
}

static hil_status add_node(reading *r, size_t field, size_t *at)
{
    size_t size = 0, bad;
    hil_arrow_schema *schema = r->schema;
    const char *name = field ? hil_flat_text(r->flat, field, 0, &size) : NULL;
    r->names += size; /* fields may share one; those with a dictionary are read twice */
    if (schema->nodes == MOST || r->names > 2 * r->flat->size || (size && memchr(name, 0, size)) ||
        (size && hil_utf8_check(name, size, &bad) != size))
        return not_valid(r);
    HIL_TRY(HIL_GROW(&schema->node, &schema->room, schema->nodes + 1));
    hil_arrow_node *node = &schema->node[schema->nodes];
    *node = (hil_arrow_node){.kind = HIL_ARROW_OBJECT};
    HIL_TRY(HIL_ALLOC(size + 1, &node->name));
    if (size) memcpy(node->name, name, size);
    *at = schema->nodes++;
    return HIL_OK;
}

static hil_status read_fields(reading *r, size_t vector, size_t count, int depth);

/* The field as a node with those below it. */
static hil_status read_field(reading *r, size_t field, int depth, bool coded)
{
    size_t at, count;
    int64_t type = hil_flat_integer(r->flat, field, 2, 1, 0);
    size_t dictionary = hil_flat_table(r->flat, field, 4);
    size_t children = hil_flat_vector(r->flat, field, 5, 4, &count);
    if (!field || type <= NONE_TYPE || type >= TYPES || depth == DEEPEST) return not_valid(r);
    HIL_TRY(add_node(r, field, &at));
    hil_arrow_node node = r->schema->node[at];
    if (dictionary && !coded) {
        node.kind = HIL_ARROW_INDEX;
        node.buffers = 2;
        node.fixed = hil_flat_integer(r->flat, dictionary, 0, 8, 0);
        size_t index = hil_flat_table(r->flat, dictionary, 1);
        node.bytes = 4, node.is_signed = true;
        if (index) read_integer(r, index, &node, &node.is_signed);
        HIL_TRY(read_field(r, field, depth + 1, true));
    } else {
        read_type(r, field, type, &node);
        HIL_TRY(read_fields(r, children, count, depth + 1));
        bool is_list = node.kind == HIL_ARROW_LIST || node.kind == HIL_ARROW_FIXED_LIST;
        if (is_list && count != 1) return not_valid(r);
    }
    node.end = r->schema->nodes;
    r->schema->node[at] = node;
    return r->flat->bad ? not_valid(r) : HIL_OK;
}

static hil_status read_fields(reading *r, size_t vector, size_t count, int depth)
{
    for (size_t i = 0; i < count; ++i)
        HIL_TRY(read_field(r, hil_flat_item(r->flat, vector, i), depth, false));
    return r->flat->bad ? not_valid(r) : HIL_OK;
}

hil_status hil_arrow_schema_read(hil_arrow_schema *schema, const hil_arrow_file *file,
                                 hil_flat *flat, size_t table)
{
    reading r = {.schema = schema, .file = file, .flat = flat};
    size_t count, at;
    size_t fields = hil_flat_vector(flat, table, 1, 4, &count);
    if (hil_flat_integer(flat, table, 0, 2, 0) != 0)
        return hil_fail(HIL_ERR_INPUT, "%s was written on a machine of another byte order",
                        file->what);
    HIL_TRY(add_node(&r, 0, &at));
    HIL_TRY(read_fields(&r, fields, count, 1));
    schema->node[0].end = schema->nodes;
    return HIL_OK;
}

void hil_arrow_schema_free(hil_arrow_schema *schema)
{
    for (size_t i = 0; i < schema->nodes; ++i) {
        hil_free(schema->node[i].name);
        for (int k = 0; k < HIL_ARROW_BUFFERS; ++k)
            hil_arrow_buffer_free(&schema->node[i].buffer[k]);
    }
    hil_free(schema->node);
    *schema = (hil_arrow_schema){0};
}
