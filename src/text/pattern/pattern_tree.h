/* pattern_tree.h - an expression between parser and table; for pattern_*.c only. */
#ifndef HIL_TEXT_PATTERN_PATTERN_TREE_H
#define HIL_TEXT_PATTERN_PATTERN_TREE_H

#include "text/pattern/pattern.h"

typedef struct hil_pattern_item {
    hil_pattern_item_kind kind;
    bool negated;
    /* RANGE; CATEGORIES: first is a mask; SET: first is its index; WORD: first is 1 in a class,
       where \w lacks U+00B2 and the like, as in Oniguruma */
    uint32_t first, last;
    int next; /* of the same set, or -1 */
} hil_pattern_item;

/* A set of code points: the union of its items, or all others; and in all sets of `also`. */
typedef struct hil_pattern_set {
    int items; /* the first one, or -1 */
    bool negated;
    int also; /* a set whose members alone are in this one, or -1 */
} hil_pattern_set;

typedef enum hil_pattern_node_kind {
    HIL_NODE_EMPTY,
    HIL_NODE_SET,   /* one character of `set` */
    HIL_NODE_AHEAD, /* the next character is (not) of `set`; takes none */
    HIL_NODE_THEN,  /* left, then right */
    HIL_NODE_EITHER,
    HIL_NODE_REPEAT, /* left, `least` to `most` times; most -1: without end */
} hil_pattern_node_kind;

typedef struct hil_pattern_node {
    hil_pattern_node_kind kind;
    int left, right;
    int set; /* -1 for AHEAD: the empty set */
    int least, most;
    bool lazy, possessive;
    bool wanted, at_end; /* AHEAD: passes if in the set == wanted; whether the text's end passes */
} hil_pattern_node;

/* Owns its arrays. */
typedef struct hil_pattern_tree {
    hil_pattern_item *items;
    size_t item_count, item_capacity;
    hil_pattern_set *sets;
    size_t set_count, set_capacity;
    hil_pattern_node *nodes;
    size_t node_count, node_capacity;
    int root;
} hil_pattern_tree;

/* Parses an expression. On refusal *reason says why and the status is HIL_OK. */
hil_status hil_pattern_parse(hil_pattern_tree *tree, const char *pattern, const char **reason);
void hil_pattern_tree_free(hil_pattern_tree *tree);

/* These append; *out is the index. */
hil_status hil_pattern_tree_add_set(hil_pattern_tree *tree, hil_pattern_set set, int *out);
hil_status hil_pattern_tree_add_node(hil_pattern_tree *tree, hil_pattern_node node, int *out);

/* A place in the text of a pattern. */
typedef struct hil_pattern_reader {
    const char *at;
    const char *reason; /* set: the pattern is refused */
    hil_pattern_tree *tree;
    int items;   /* the first item of the set that is being read, or -1 */
    int depth;   /* of groups and classes */
    int classes; /* of classes alone */
    bool fold;   /* inside (?i:...) */
} hil_pattern_reader;

enum { HIL_PATTERN_DEPTH = 32 };

hil_status hil_pattern_read_add(hil_pattern_reader *reader, hil_pattern_item item);
/* Reads a class after its '['. */
hil_status hil_pattern_read_class(hil_pattern_reader *reader, int *set);
/* Reads what follows a backslash: a character, or (*is_item) an item of the set. */
hil_status hil_pattern_read_escape(hil_pattern_reader *reader, uint32_t *point, bool *is_item);
/* Adds a range of characters to the set, in both cases if the reader folds. */
hil_status hil_pattern_read_points(hil_pattern_reader *reader, uint32_t first, uint32_t last);

/* Gives every code point its class and every class its sets: *members has a mask for each class. */
hil_status hil_pattern_classify(hil_pattern *regex, const hil_pattern_tree *tree,
                                uint64_t **members, const char **reason);

#endif
