/* arrow_schema.h - the columns of an Arrow file, as a tree. */
#ifndef HIL_FORMAT_ARROW_ARROW_SCHEMA_H
#define HIL_FORMAT_ARROW_ARROW_SCHEMA_H

#include "format/arrow/arrow_buffer.h"
#include "format/arrow/flat.h"

typedef enum hil_arrow_kind {
    HIL_ARROW_OTHER, /* not read, but known how to be skipped: dates, decimals, ... */
    HIL_ARROW_MAP,
    HIL_ARROW_NULL,
    HIL_ARROW_TRUTH,
    HIL_ARROW_INTEGER,
    HIL_ARROW_UNSIGNED,
    HIL_ARROW_REAL,
    HIL_ARROW_TEXT,
    HIL_ARROW_BINARY,
    HIL_ARROW_LIST,
    HIL_ARROW_FIXED_LIST,
    HIL_ARROW_OBJECT,
    HIL_ARROW_INDEX, /* of values in a dictionary, whose type is the node below */
} hil_arrow_kind;

#define HIL_ARROW_BUFFERS 3

/* A column or a part of one; the nodes below it follow it. */
typedef struct hil_arrow_node {
    char *name;
    hil_arrow_kind kind;
    size_t end;            /* the first node that is not below it */
    int bytes;             /* of a number, an offset of a list or a text, or an index */
    bool is_signed;        /* an index */
    int64_t fixed;         /* elements of each FIXED_LIST; of INDEX, the number of the dictionary */
    int buffers;           /* in a batch: that it is there, offsets, data */
    bool variadic;         /* and others, whose number a batch says */
    bool kept;             /* is read */
    int64_t length, nulls; /* of the batch */
    hil_arrow_buffer buffer[HIL_ARROW_BUFFERS];
} hil_arrow_node;

/* Owns its nodes. Node 0 is the whole row. */
typedef struct hil_arrow_schema {
    hil_arrow_node *node;
    size_t nodes, room;
} hil_arrow_schema;

/* Reads the table of a schema. */
hil_status hil_arrow_schema_read(hil_arrow_schema *schema, const hil_arrow_file *file,
                                 hil_flat *flat, size_t table);
void hil_arrow_schema_free(hil_arrow_schema *schema);

#endif
