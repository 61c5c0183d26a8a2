/* template_eval.h - evaluation of expressions and statements. */
#ifndef HIL_TEXT_TEMPLATE_EVAL_H
#define HIL_TEXT_TEMPLATE_EVAL_H

#include "text/template_builtin.h"
#include "text/template_render.h"

hil_status hil_evaluate(hil_render *r, hil_scope *scope, const hil_syntax *node, hil_variant *out);
hil_status hil_execute(hil_render *r, hil_scope *scope, const hil_syntax *body);
/* Applies the filters `node` of a block to `value`. */
hil_status hil_evaluate_filters(hil_render *r, hil_scope *scope, const hil_syntax *node,
                                hil_variant value, hil_variant *out);
hil_status hil_evaluate_arguments(hil_render *r, hil_scope *scope, const hil_argument *list,
                                  hil_arguments *out);

hil_status hil_scope_set(hil_render *r, hil_scope *scope, int name, hil_variant value);
/* Begins a scope inside `parent`. */
hil_status hil_scope_begin(hil_render *r, const hil_scope *parent, const hil_names *hidden,
                           hil_scope *out);

/* A macro with the scope in which it was defined. */
typedef struct hil_macro {
    const hil_signature *signature;
    const hil_scope *scope;
} hil_macro;
hil_status hil_macro_call(hil_render *r, const hil_macro *macro, const hil_arguments *arguments,
                          hil_variant *out);

/* The value of `loop` inside a loop. */
typedef struct hil_loop {
    hil_cursor cursor;
    const hil_syntax *node;
    const hil_scope *scope; /* around the loop */
    int64_t index0;
    int64_t length; /* -1: not known yet */
    int depth0;
    hil_variant before, current, after; /* `after` is fetched early if the template asks for it */
    bool has_after;                     /* `after` was fetched; ABSENT: the loop ends */
    hil_variant changed;                /* the last argument of loop.changed */
} hil_loop;
hil_status hil_loop_attribute(hil_render *r, hil_loop *loop, const hil_chars *name,
                              hil_variant *out);
/* loop(iterable) of a recursive loop. */
hil_status hil_loop_recurse(hil_render *r, hil_loop *loop, hil_variant iterable, hil_variant *out);
/* The next item that passes the loop's condition; ABSENT after the last. */
hil_status hil_loop_fetch(hil_render *r, hil_loop *loop, hil_variant *out);
/* Binds the names of a target, which may be a tuple of them. */
hil_status hil_assign(hil_render *r, hil_scope *scope, const hil_syntax *target, hil_variant value);

/* object.name and object[key]; UNDEFINED if it has none. */
hil_status hil_variant_attribute(hil_render *r, hil_variant object, const hil_chars *name,
                                 hil_variant *out);
hil_status hil_variant_item(hil_render *r, hil_variant object, hil_variant key, hil_variant *out);
/* object[start:stop:step]; an omitted bound is ABSENT or NONE. */
hil_status hil_variant_slice(hil_render *r, hil_variant object, const hil_variant bounds[3],
                             hil_variant *out);
hil_status hil_undefined_member(hil_render *r, hil_variant object, hil_variant name,
                                hil_variant *out);
hil_status hil_undefined_hint(hil_render *r, const char *hint, hil_variant *out);

hil_status hil_variant_binary(hil_render *r, hil_operator op, hil_variant a, hil_variant b,
                              hil_variant *out);
hil_status hil_variant_negate(hil_render *r, hil_variant a, bool negative, hil_variant *out);

/* Adds str(value) or repr(value) to the output. */
hil_status hil_print_text(hil_render *r, hil_variant value);
hil_status hil_print_repr(hil_render *r, hil_variant value);
/* str(value) as a value. */
hil_status hil_variant_text(hil_render *r, hil_variant value, const hil_chars **out);
/* Adds text with & < > ' " replaced as in HTML. */
hil_status hil_print_escaped(hil_render *r, const hil_chars *text);

/* `format` % `values`, and format.format(...). */
hil_status hil_format_percent(hil_render *r, const hil_chars *format, hil_variant values,
                              hil_variant *out);
hil_status hil_format_braces(hil_render *r, const hil_chars *format, const hil_arguments *arguments,
                             hil_variant *out);

typedef struct hil_json_style {
    bool ascii, sorted, lines;
    const hil_chars *indent, *between, *colon;
} hil_json_style;
hil_status hil_print_json(hil_render *r, hil_variant value, const hil_json_style *style);
hil_status hil_variant_from_json(hil_render *r, const json_t *json, hil_variant *out);

#endif
