/* template_value.h - the values of a template: those of Python that templates can see. Everything
   is allocated in the arena of one rendering and freed with it. Lists and dicts are never changed
   once a template can see them; only namespaces, iterators and loops have state. */
#ifndef HIL_TEXT_TEMPLATE_VALUE_H
#define HIL_TEXT_TEMPLATE_VALUE_H

#include "base/text.h"

typedef struct hil_render hil_render;

typedef enum hil_variant_type {
    HIL_V_ABSENT, /* an argument that was not given */
    HIL_V_UNDEFINED,
    HIL_V_NONE,
    HIL_V_BOOL,
    HIL_V_INT,
    HIL_V_REAL,
    HIL_V_TEXT,
    HIL_V_LIST,
    HIL_V_TUPLE,
    HIL_V_DICT,
    HIL_V_RANGE,
    HIL_V_VIEW,
    HIL_V_ITERATOR,
    HIL_V_NAMESPACE,
    HIL_V_MACRO,
    HIL_V_LOOP,
    HIL_V_FUNCTION,
    HIL_V_METHOD,
    HIL_V_CYCLER,
    HIL_V_JOINER,
    HIL_V_TYPES,
} hil_variant_type;

typedef struct hil_variant {
    hil_variant_type type;
    union {
        bool truth;
        int64_t integer;
        double real;
        const struct hil_chars *text;
        const struct hil_items *items; /* LIST, TUPLE */
        struct hil_dict *dict;         /* DICT, NAMESPACE */
        const struct hil_int_range *range;
        const struct hil_dict_view *view;
        struct hil_iterator *iterator;
        const struct hil_macro *macro;
        struct hil_loop *loop;
        const struct hil_builtin *function;
        const struct hil_method *method;
        struct hil_cycler *cycler;
        const struct hil_unknown *unknown;
    };
} hil_variant;

/* Valid UTF-8. */
typedef struct hil_chars {
    const char *data;
    size_t size;   /* in bytes */
    size_t length; /* in code points */
    bool safe;     /* Markup: other text is escaped when it is joined with this */
} hil_chars;

typedef struct hil_items {
    hil_variant *data;
    size_t count, capacity;
} hil_items;

typedef struct hil_pair {
    hil_variant key, value;
    uint64_t hash;
} hil_pair;

/* Keeps the order of insertion. */
typedef struct hil_dict {
    hil_pair *pairs;
    size_t count, capacity;
    uint32_t *slots; /* 1 + index of a pair, open addressing; NULL while small */
    size_t slot_count;
} hil_dict;

typedef struct hil_int_range {
    int64_t start, stop, step;
    size_t count;
} hil_int_range;

typedef struct hil_dict_view {
    const hil_dict *dict;
    enum { HIL_VIEW_KEYS, HIL_VIEW_VALUES, HIL_VIEW_ITEMS } kind;
} hil_dict_view;

/* A position in anything that can be iterated. Iterating changes only iterators. */
typedef struct hil_cursor {
    hil_variant source;
    size_t at;
} hil_cursor;

/* A generator or iterator of Python: always true, without length, iterated once. */
typedef struct hil_iterator {
    hil_cursor cursor;
    const char *type;
} hil_iterator;

typedef struct hil_cycler {
    const hil_variant *values; /* JOINER: the separator */
    size_t count, at;
} hil_cycler;

/* Why a value is undefined: `hint`, or the undefined name, or the name that `owner` lacks. */
typedef struct hil_unknown {
    const char *hint;
    const char *owner;
    hil_variant name;
} hil_unknown;

#define HIL_NONE ((hil_variant){.type = HIL_V_NONE})
#define HIL_BOOL(x) ((hil_variant){.type = HIL_V_BOOL, .truth = (x)})
#define HIL_INT(x) ((hil_variant){.type = HIL_V_INT, .integer = (x)})
#define HIL_REAL(x) ((hil_variant){.type = HIL_V_REAL, .real = (x)})
#define HIL_TEXT(x) ((hil_variant){.type = HIL_V_TEXT, .text = (x)})

/* A text value: `copy` copies the bytes, `borrow` needs them to outlive the rendering. */
hil_status hil_chars_copy(hil_render *r, const char *data, size_t size, hil_variant *out);
hil_status hil_chars_borrow(hil_render *r, const char *data, size_t size, hil_variant *out);
hil_status hil_chars_literal(hil_render *r, const char *words, hil_variant *out);
/* The same text, marked as safe or not. */
hil_status hil_chars_mark(hil_render *r, const hil_chars *text, bool safe, hil_variant *out);
/* The number of code points in valid UTF-8. */
size_t hil_chars_length(const char *data, size_t size);
/* The offset in bytes of character `index`; index == length: the end. */
size_t hil_chars_offset(const hil_chars *text, size_t index);
bool hil_chars_is(const hil_chars *text, const char *word);

hil_status hil_items_create(hil_render *r, size_t capacity, hil_items **out);
hil_status hil_items_add(hil_render *r, hil_items *items, hil_variant value);
hil_variant hil_items_list(const hil_items *items);
hil_variant hil_items_tuple(const hil_items *items);
hil_status hil_pair_tuple(hil_render *r, hil_variant a, hil_variant b, hil_variant *out);
/* An iterator of `type`, as Python names it, over `source`. */
hil_status hil_iterator_create(hil_render *r, hil_variant source, const char *type,
                               hil_variant *out);

hil_status hil_dict_create(hil_render *r, size_t capacity, hil_dict **out);
/* Adds or replaces. Fails for keys that Python cannot hash. */
hil_status hil_dict_set(hil_render *r, hil_dict *dict, hil_variant key, hil_variant value);
/* *out is NULL if the key does not exist. Fails for keys that Python cannot hash. */
hil_status hil_dict_find(hil_render *r, const hil_dict *dict, hil_variant key, hil_pair **out);
hil_pair *hil_dict_get(const hil_dict *dict, const char *key, size_t size);

/* Python's name of the type, as in "'int' object is not iterable". */
const char *hil_variant_type_name(hil_variant value);
bool hil_variant_truth(hil_variant value);
bool hil_variant_is_number(hil_variant value);  /* bool, int or float */
int64_t hil_variant_integer(hil_variant value); /* of a bool or int */
double hil_variant_real(hil_variant value);     /* of any number */
hil_status hil_variant_equal(hil_render *r, hil_variant a, hil_variant b, bool *equal);
/* The sign of *order is that of a - b; fails if Python has no order for them. `sign` is the
   operator, for messages. */
hil_status hil_variant_compare(hil_render *r, hil_variant a, hil_variant b, const char *sign,
                               int *order);
hil_status hil_variant_contains(hil_render *r, hil_variant container, hil_variant value,
                                bool *found);
/* len(); fails for values without a length. */
hil_status hil_variant_length(hil_render *r, hil_variant value, size_t *length);
bool hil_variant_has_length(hil_variant value);

/* The cursor borrows the source, which lives as long as the rendering. */
hil_status hil_cursor_open(hil_render *r, hil_variant source, hil_cursor *cursor);
/* *out is ABSENT after the last. */
hil_status hil_cursor_next(hil_render *r, hil_cursor *cursor, hil_variant *out);
bool hil_variant_is_iterable(hil_variant value);
/* list(value) */
hil_status hil_variant_list(hil_render *r, hil_variant value, hil_items **out);
/* Sorts `items` by `keys`, of the same count, stable. */
hil_status hil_items_sort(hil_render *r, hil_items *items, const hil_items *keys, bool reverse);

#endif
