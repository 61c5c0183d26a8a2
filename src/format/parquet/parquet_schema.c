/* parquet_schema.c - reads the nodes of a schema, and says what they are in JSON. */
#include "format/parquet/parquet_schema.h"

#include "text/unicode/unicode.h"

#include <string.h>

#define DEEPEST 32

/* A node as the file has it; -1: absent. */
struct element {
    const char *name;
    size_t name_size;
    int64_t type, repetition, children, converted, logical;
    bool is_unsigned;
};

/* The member of the union of logical types that is set. */
static void read_logical(hil_thrift *in, struct element *e)
{
    enum { INTEGER = 10 };
    hil_thrift_field member = {0};
    while (hil_thrift_next(in, &member)) {
        int64_t is_signed = 1, *slots[] = {NULL, NULL, &is_signed};
        e->logical = member.id;
        if (member.id == INTEGER && hil_thrift_enter(in, &member))
            hil_thrift_integers(in, slots, 3);
        else
            hil_thrift_skip(in, &member);
        e->is_unsigned = !is_signed;
    }
}

static void read_element(hil_thrift *in, struct element *e)
{
    enum { TYPE = 1, REPETITION = 3, NAME = 4, CHILDREN = 5, CONVERTED = 6, LOGICAL = 10 };
    hil_thrift_field field = {0};
    *e = (struct element){"", 0, -1, HIL_PARQUET_REQUIRED, 0, -1, -1, false};
    while (hil_thrift_next(in, &field)) {
        if (field.id == NAME)
            e->name = hil_thrift_bytes(in, &field, &e->name_size);
        else if (field.id == TYPE)
            e->type = hil_thrift_integer(in, &field);
        else if (field.id == REPETITION)
            e->repetition = hil_thrift_integer(in, &field);
        else if (field.id == CHILDREN)
            e->children = hil_thrift_integer(in, &field);
        else if (field.id == CONVERTED)
            e->converted = hil_thrift_integer(in, &field);
        else if (field.id == LOGICAL && hil_thrift_enter(in, &field))
            read_logical(in, e);
        else
            hil_thrift_skip(in, &field);
    }
}

/* The numbers of converted and logical types are the format's. */
static hil_parquet_kind kind_of_group(const struct element *e)
{
    if (e->logical == 3 || e->converted == 3) return HIL_PARQUET_LIST;
    bool map = e->logical == 2 || e->converted == 1 || e->converted == 2;
    return map ? HIL_PARQUET_MAP : HIL_PARQUET_OBJECT;
}

static hil_parquet_kind kind_of_leaf(const struct element *e)
{
    static const signed char text_logical[] = {1, 4, 12}; /* string, enum, JSON */
    bool plain = e->logical == -1 && e->converted == -1;
    bool whole = e->logical == 10 || e->logical == 11 || (e->converted >= 11 && e->converted <= 18);
    bool is_unsigned = e->is_unsigned || (e->converted >= 11 && e->converted <= 14);
    switch (e->type) {
    case HIL_PARQUET_BOOLEAN:
        return HIL_PARQUET_TRUTH;
    case HIL_PARQUET_INT32:
    case HIL_PARQUET_INT64:
        if (!plain && !whole) return HIL_PARQUET_OTHER;
        return is_unsigned ? HIL_PARQUET_UNSIGNED : HIL_PARQUET_INTEGER;
    case HIL_PARQUET_FLOAT:
    case HIL_PARQUET_DOUBLE:
        return HIL_PARQUET_REAL;
    case HIL_PARQUET_BYTES:
        if (plain) return HIL_PARQUET_BINARY;
        for (size_t i = 0; i < sizeof text_logical; ++i)
            if (e->logical == text_logical[i]) return HIL_PARQUET_TEXT;
        if (e->logical != -1) return HIL_PARQUET_OTHER;
        return e->converted == 0 || e->converted == 4 || e->converted == 19 ? HIL_PARQUET_TEXT
                                                                            : HIL_PARQUET_OTHER;
    default:
        return HIL_PARQUET_OTHER;
    }
}

static hil_status fail_schema(const char *what, const char *why)
{
    return hil_fail(HIL_ERR_INPUT, "%s: damaged: the schema %s; download the file again", what,
                    why);
}

static hil_status set_node(hil_parquet_node *node, const struct element *e, const char *what)
{
    size_t bad;
    if (hil_utf8_check(e->name, e->name_size, &bad) != e->name_size ||
        memchr(e->name, 0, e->name_size))
        return fail_schema(what, "has a name that is not text");
    if (e->repetition < HIL_PARQUET_REQUIRED || e->repetition > HIL_PARQUET_REPEATED)
        return fail_schema(what, "has an unknown repetition");
    if (e->children < 0 || e->children > INT32_MAX || (e->children == 0 && e->type > 7))
        return fail_schema(what, "is not a tree");
    HIL_TRY(HIL_ALLOC(e->name_size + 1, &node->name));
    memcpy(node->name, e->name, e->name_size);
    node->repetition = (hil_parquet_repetition)e->repetition;
    node->children = (size_t)e->children;
    node->type = e->type < 0 ? HIL_PARQUET_FIXED : (hil_parquet_type)e->type;
    node->kind = node->children || e->type < 0 ? kind_of_group(e) : kind_of_leaf(e);
    return HIL_OK;
}

/* Sets ends and levels of the subtree at *at, which then is the node after it. */
static hil_status join(hil_parquet_schema *schema, size_t *at, const hil_parquet_node *parent,
                       int depth, const char *what)
{
    if (*at >= schema->count || depth > DEEPEST) return fail_schema(what, "is not a tree");
    hil_parquet_node *node = &schema->node[(*at)++];
    if (parent) {
        node->defined = parent->defined + (node->repetition != HIL_PARQUET_REQUIRED);
        node->repeated = parent->repeated + (node->repetition == HIL_PARQUET_REPEATED);
    }
    node->leaf = schema->leaves;
    bool is_group = node->kind <= HIL_PARQUET_MAP;
    if (!is_group) ++schema->leaves;
    for (size_t i = 0; i < node->children; ++i) HIL_TRY(join(schema, at, node, depth + 1, what));
    node->end = *at;
    bool is_list = parent && node->children == 1 && node[1].repetition == HIL_PARQUET_REPEATED;
    if (node->kind == HIL_PARQUET_LIST && !is_list) node->kind = HIL_PARQUET_OBJECT;
    return HIL_OK;
}

hil_status hil_parquet_schema_read(hil_parquet_schema *schema, hil_thrift *in,
                                   const hil_thrift_field *field, const char *what)
{
    if (schema->node) return fail_schema(what, "is there twice");
    size_t count = hil_thrift_structures(in, field), at = 0;
    HIL_TRY(HIL_ALLOC(count, &schema->node));
    for (; schema->count < count; ++schema->count) {
        struct element e;
        read_element(in, &e);
        if (in->bad) return fail_schema(what, "ends too early");
        HIL_TRY(set_node(&schema->node[schema->count], &e, what));
    }
    HIL_TRY(join(schema, &at, NULL, 0, what));
    return at == count ? HIL_OK : fail_schema(what, "is not a tree");
}

void hil_parquet_schema_free(hil_parquet_schema *schema)
{
    for (size_t i = 0; i < schema->count; ++i) hil_free(schema->node[i].name);
    hil_free(schema->node);
    *schema = (hil_parquet_schema){0};
}

size_t hil_parquet_schema_list(const hil_parquet_schema *schema, size_t list, size_t *element)
{
    size_t repeated = list + 1;
    const hil_parquet_node *node = &schema->node[repeated];
    *element = repeated;
    if (node->children != 1 || node->kind == HIL_PARQUET_LIST || node->kind == HIL_PARQUET_MAP)
        return repeated;
    const char *name = schema->node[list].name;
    size_t size = strlen(name);
    bool tuple = strncmp(node->name, name, size) == 0 && strcmp(node->name + size, "_tuple") == 0;
    if (strcmp(node->name, "array") != 0 && !tuple &&
        schema->node[repeated + 1].repetition != HIL_PARQUET_REPEATED)
        *element = repeated + 1;
    return repeated;
}
