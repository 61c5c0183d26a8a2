/* template_render.h - the state of one rendering: its limits, its memory, its output. */
#ifndef HIL_TEXT_TEMPLATE_RENDER_H
#define HIL_TEXT_TEMPLATE_RENDER_H

#include "base/arena.h"
#include "text/template.h"
#include "text/template_node.h"
#include "text/template_value.h"

/* The variables of one block: a loop's body, a macro's, the template itself. */
typedef struct hil_scope {
    const struct hil_scope *parent;
    struct hil_binding {
        int name;
        hil_variant value;
    } * bindings;
    size_t count, capacity;
} hil_scope;

struct hil_render {
    const hil_jinja *source;
    const hil_jinja_limits *limits;
    hil_arena arena;
    uint64_t steps; /* left */
    size_t bytes;   /* left */
    int depth;      /* of nested calls */
    int line;       /* of the expression being evaluated */
    hil_text *out;  /* a capture removes its part at the end */
    int captures;   /* nested captures; 0: out is the rendered text */
    hil_rendering *result;
    const hil_dict *variables;
    enum { HIL_FLOW_ON, HIL_FLOW_BREAK, HIL_FLOW_CONTINUE } flow;
};

/* Fails with the line of the template. */
hil_status hil_render_fail(const hil_render *r, const char *format, ...) HIL_PRINTF(2, 3);
/* Fails because an undefined value was used. */
hil_status hil_render_undefined(hil_render *r, hil_variant value);
/* Counts `count` steps; fails when the limit is reached. */
hil_status hil_render_step(hil_render *r, size_t count);
/* Zeroed memory that is freed with the rendering. */
hil_status hil_render_alloc(hil_render *r, size_t bytes, void **out);
#define HIL_RENDER_NEW(r, count, pointer)                                                          \
    hil_render_alloc((r), (size_t)(count) * sizeof **(pointer), (void **)(pointer))
/* Enters a nested call; every enter has its leave, except after a failure. */
hil_status hil_render_enter(hil_render *r);
void hil_render_leave(hil_render *r);
/* Adds bytes to the output. */
hil_status hil_render_add(hil_render *r, const char *bytes, size_t size);
#define HIL_RENDER_ADD(r, literal) hil_render_add((r), literal, sizeof(literal) - 1)
hil_status hil_render_print(hil_render *r, const char *format, ...) HIL_PRINTF(2, 3);

/* Captures the output between begin and end as a text; the caller keeps `mark`. */
void hil_capture_begin(hil_render *r, size_t *mark);
hil_status hil_capture_end(hil_render *r, size_t mark, hil_variant *out);

#endif
