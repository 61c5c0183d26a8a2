/* pickle.h - reads what a pickle of tensors holds, without executing anything of it.

   [Note: pickle] A pickle is a program for a machine with a stack. This one knows only the
   operations that data and tensors need. Calls are not made: a few functions of PyTorch are known
   by name, and what any other would return is an object with its arguments. Every operation makes
   at most one value, so memory is bounded by the pickle's size. */
#ifndef HIL_FORMAT_PICKLE_H
#define HIL_FORMAT_PICKLE_H

#include "base/arena.h"

typedef enum hil_pickle_kind {
    HIL_PICKLE_NONE,
    HIL_PICKLE_BOOL, /* whole is 0 or 1 */
    HIL_PICKLE_INT,
    HIL_PICKLE_REAL,
    HIL_PICKLE_TEXT,
    HIL_PICKLE_LIST,   /* or tuple */
    HIL_PICKLE_DICT,   /* items are key, value, key, value ... */
    HIL_PICKLE_GLOBAL, /* "module name" */
    /* Items: "storage", its class, its key, a device, the number of elements. */
    HIL_PICKLE_STORAGE,
    HIL_PICKLE_TENSOR, /* items: the storage, the first element in it, shape, strides */
    HIL_PICKLE_OBJECT  /* of another class: items are the arguments, `state` its attributes */
} hil_pickle_kind;

typedef struct hil_pickle_value hil_pickle_value;
struct hil_pickle_value {
    hil_pickle_kind kind;
    int64_t whole;
    double real;
    const char *text; /* NUL-terminated; of GLOBAL and TEXT, of OBJECT the name of its class */
    hil_pickle_value **item;
    size_t count, capacity;
    const hil_pickle_value *state;
};

/* Owns the values. A value may contain itself: follow paths of known depth only. */
typedef struct hil_pickle {
    hil_arena arena;
    const hil_pickle_value *root;
} hil_pickle;

/* `what` names the source in errors. Copies the texts. */
hil_status hil_pickle_parse(hil_pickle *out, const char *bytes, size_t size, const char *what);
void hil_pickle_free(hil_pickle *pickle);

/* The value of a key in a dictionary; NULL: none, or no dictionary. */
const hil_pickle_value *hil_pickle_get(const hil_pickle_value *dict, const char *key);
const hil_pickle_value *hil_pickle_get_index(const hil_pickle_value *dict, int64_t key);
/* An item of a list, tuple or object; NULL: none. */
const hil_pickle_value *hil_pickle_at(const hil_pickle_value *list, size_t i);
/* Whether it is a whole number; an object made of one number, as an enumeration, is it too. */
bool hil_pickle_whole(const hil_pickle_value *value, int64_t *out);

#endif
