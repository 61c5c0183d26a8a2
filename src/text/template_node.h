/* template_node.h - the tree of a parsed template. */
#ifndef HIL_TEXT_TEMPLATE_NODE_H
#define HIL_TEXT_TEMPLATE_NODE_H

#include "base/arena.h"
#include "text/template_value.h"

typedef enum hil_node_kind {
    /* expressions */
    HIL_N_CONST,     /* value */
    HIL_N_NAME,      /* name; value: undefined, for a name that nothing defines */
    HIL_N_LIST,      /* list */
    HIL_N_TUPLE,     /* list */
    HIL_N_DICT,      /* list: key, value, key, value ... */
    HIL_N_ATTRIBUTE, /* a . value */
    HIL_N_ITEM,      /* a [ b ] */
    HIL_N_SLICE,     /* a [ b : c : d ] */
    HIL_N_CALL,      /* a ( arguments ) */
    HIL_N_FILTER,    /* a | value ( arguments ); a is NULL in filters of a block */
    HIL_N_TEST,      /* a is value ( arguments ) */
    HIL_N_NOT,       /* a */
    HIL_N_NEGATIVE,  /* a */
    HIL_N_POSITIVE,  /* a */
    HIL_N_AND,       /* a, b */
    HIL_N_OR,        /* a, b */
    HIL_N_CHOICE,    /* b if a else c; c may be NULL */
    HIL_N_CONCAT,    /* list */
    HIL_N_COMPARE,   /* a, then list: each with its op */
    HIL_N_BINARY,    /* a op b */
    HIL_N_NSREF,     /* name . value, as a target */
    /* statements */
    HIL_N_DATA,         /* value: text outside of tags */
    HIL_N_OUTPUT,       /* a */
    HIL_N_IF,           /* a; body; c: the elif, an IF, or NULL; otherwise */
    HIL_N_FOR,          /* a in b if c; body; otherwise; recursive */
    HIL_N_SET,          /* a = b */
    HIL_N_SET_BLOCK,    /* a = body, through the filters b */
    HIL_N_MACRO,        /* name; macro */
    HIL_N_CALL_BLOCK,   /* a: the call; macro: its caller() */
    HIL_N_FILTER_BLOCK, /* b: the filters; body */
    HIL_N_WITH,         /* list: target, value, target, value ...; body */
    HIL_N_GENERATION,   /* body */
    HIL_N_BREAK,
    HIL_N_CONTINUE,
} hil_node_kind;

typedef enum hil_operator {
    HIL_OP_ADD,
    HIL_OP_SUB,
    HIL_OP_MUL,
    HIL_OP_DIV,
    HIL_OP_FLOORDIV,
    HIL_OP_MOD,
    HIL_OP_POW,
    HIL_OP_EQ,
    HIL_OP_NE,
    HIL_OP_LT,
    HIL_OP_LE,
    HIL_OP_GT,
    HIL_OP_GE,
    HIL_OP_IN,
    HIL_OP_NOT_IN,
} hil_operator;

typedef struct hil_syntax hil_syntax;

/* Names that are undefined when a scope begins: [Note: hidden names] in template_scope.c. */
typedef struct hil_names {
    int *data;
    size_t count, capacity;
} hil_names;

/* One argument of a call. */
typedef struct hil_argument {
    struct hil_argument *next;
    enum { HIL_ARGUMENT_PLAIN, HIL_ARGUMENT_NAMED, HIL_ARGUMENT_LIST, HIL_ARGUMENT_DICT } kind;
    const hil_chars *name;
    const hil_syntax *value;
} hil_argument;

/* The definition of a macro. */
typedef struct hil_signature {
    const hil_chars *name;
    const int *parameters; /* names */
    const hil_chars *const *words;
    const hil_syntax *const *defaults; /* NULL: none */
    size_t count;
    bool uses_caller, uses_kwargs, uses_varargs; /* in addition to the parameters */
    const hil_syntax *body;
    hil_names hidden;
} hil_signature;

struct hil_syntax {
    hil_node_kind kind;
    hil_operator op;
    int line;
    int name;
    bool recursive;
    bool uses_loop; /* FOR: the body names `loop` */
    hil_variant value;
    const hil_syntax *a, *b, *c, *d;
    const hil_syntax *list, *next; /* `next` chains the members of lists and bodies */
    const hil_syntax *body, *otherwise;
    hil_argument *arguments;
    const struct hil_builtin *builtin; /* FILTER, TEST: NULL if there is none of that name */
    hil_signature *macro;
    hil_names hidden; /* of the scope that the body opens */
};

/* Owns the whole tree. */
struct hil_jinja {
    hil_arena arena;
    char *what;
    const hil_syntax *body;
    const hil_chars **names;
    size_t name_count, name_capacity;
    hil_names hidden;
    bool generation;
    int name_loop, name_caller, name_kwargs, name_varargs;
};

#endif
