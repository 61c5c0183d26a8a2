/* template_builtin.h - filters, tests, methods and functions that templates can call. */
#ifndef HIL_TEXT_TEMPLATE_BUILTIN_H
#define HIL_TEXT_TEMPLATE_BUILTIN_H

#include "text/template_node.h"
#include "text/template_value.h"

typedef struct hil_keyword {
    const hil_chars *name;
    hil_variant value;
} hil_keyword;

typedef struct hil_arguments {
    const hil_variant *values;
    size_t count;
    const hil_keyword *keywords;
    size_t keyword_count;
} hil_arguments;

enum { HIL_MOST_PARAMETERS = 5 };

typedef struct hil_call {
    hil_variant
        self; /* the filtered or tested value, or the object of the method; ABSENT for functions */
    hil_variant bound[HIL_MOST_PARAMETERS]; /* by parameter; ABSENT: not given */
    hil_arguments given;                    /* as they were written */
} hil_call;

typedef hil_status hil_builtin_run(hil_render *r, const hil_call *call, hil_variant *out);

/* Defines a builtin that is one expression of r, call and out. */
#define HIL_BUILTIN(name, expression)                                                              \
    static hil_status name(hil_render *r, const hil_call *call, hil_variant *out)                  \
    {                                                                                              \
        return expression;                                                                         \
    }

typedef struct hil_builtin {
    const char *name;
    hil_builtin_run *run;
    const char *parameters[HIL_MOST_PARAMETERS + 1]; /* names; all NULL where `any` */
    int required;
    bool any; /* takes any arguments, from `given` */
} hil_builtin;

/* Tables end with a name of NULL. */
const hil_builtin *hil_builtin_find(const hil_builtin *table, const char *name, size_t size);
const hil_builtin *hil_filter_find(const char *name, size_t size);
const hil_builtin *hil_test_find(const char *name, size_t size);
/* A global function, or NULL. */
const hil_builtin *hil_global_find(const char *name, size_t size);

/* A bound method. */
typedef struct hil_method {
    hil_variant self;
    const hil_builtin *builtin;
} hil_method;

/* Methods of str, list, tuple, dict, loop, cycler ... NULL if the type has none of that name. *safe
   is false if the sandbox forbids it because it changes the object. */
const hil_builtin *hil_method_find(hil_variant self, const char *name, size_t size, bool *safe);

extern const hil_builtin hil_text_methods[];
extern const hil_builtin hil_text_predicates[];
extern const hil_builtin hil_loop_methods[];
extern const hil_builtin hil_cycler_methods[];
extern const hil_builtin hil_sequence_filters[];
extern const hil_builtin hil_text_filters[];
extern const hil_builtin hil_number_filters[];

/* Binds the arguments to the builtin's parameters and runs it. */
hil_status hil_builtin_call(hil_render *r, const hil_builtin *builtin, hil_variant self,
                            const hil_arguments *arguments, hil_variant *out);
/* Calls any callable value. */
hil_status hil_variant_call(hil_render *r, hil_variant callee, const hil_arguments *arguments,
                            hil_variant *out);

/* An argument as an integer (`absent` if it was not given), as text, as a truth value. */
hil_status hil_argument_integer(hil_render *r, hil_variant value, int64_t absent, int64_t *out);
hil_status hil_argument_text(hil_render *r, hil_variant value, const hil_chars **out);

#endif
