/* parquet_schema.h - the tree of a Parquet file's columns. */
#ifndef HIL_FORMAT_PARQUET_PARQUET_SCHEMA_H
#define HIL_FORMAT_PARQUET_PARQUET_SCHEMA_H

#include "base/text.h"
#include "format/parquet/parquet_encoding.h"
#include "format/parquet/thrift.h"

typedef enum hil_parquet_repetition {
    HIL_PARQUET_REQUIRED,
    HIL_PARQUET_OPTIONAL,
    HIL_PARQUET_REPEATED
} hil_parquet_repetition;

/* What a node is in JSON. */
typedef enum hil_parquet_kind {
    HIL_PARQUET_OBJECT, /* a group of columns */
    HIL_PARQUET_LIST,
    HIL_PARQUET_MAP, /* refused */
    HIL_PARQUET_TEXT,
    HIL_PARQUET_BINARY, /* bytes that need not be text */
    HIL_PARQUET_TRUTH,
    HIL_PARQUET_INTEGER,
    HIL_PARQUET_UNSIGNED,
    HIL_PARQUET_REAL,
    HIL_PARQUET_OTHER, /* has no form in JSON: dates, decimals, ... */
} hil_parquet_kind;

/* Owns `name`. The nodes below the node i are those from i + 1 to before `end`, depth first. */
typedef struct hil_parquet_node {
    char *name;
    hil_parquet_kind kind;
    hil_parquet_type type; /* of leaves */
    hil_parquet_repetition repetition;
    size_t children, end;
    unsigned defined, repeated;       /* levels of definition and repetition of a value here */
    size_t leaf;                      /* the number of the first leaf in or below it */
    size_t column_begin, columns_end; /* those that are read */
} hil_parquet_node;

typedef struct hil_parquet_schema {
    hil_parquet_node *node; /* the first is the root */
    size_t count, leaves;
} hil_parquet_schema;

/* Reads the list of nodes that a footer has; free it also after a failure. `what` names the file.
 */
hil_status hil_parquet_schema_read(hil_parquet_schema *schema, hil_thrift *in,
                                   const hil_thrift_field *field, const char *what);
void hil_parquet_schema_free(hil_parquet_schema *schema);

/* The list's repeated node, and in *element what its elements are: that node or the one below.
   Follows the format's rules for lists of old writers. */
size_t hil_parquet_schema_list(const hil_parquet_schema *schema, size_t list, size_t *element);

#endif
