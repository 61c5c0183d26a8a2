/* template_execute.c - executes statements: output, choices, loops, assignments, blocks. */
#include "text/template_eval.h"

#include <string.h>

hil_status hil_scope_begin(hil_render *r, const hil_scope *parent, const hil_names *hidden,
                           hil_scope *out)
{
    *out = (hil_scope){.parent = parent};
    for (size_t i = 0; i < hidden->count; ++i)
        HIL_TRY(hil_scope_set(r, out, hidden->data[i], (hil_variant){0}));
    return HIL_OK;
}

hil_status hil_scope_set(hil_render *r, hil_scope *scope, int name, hil_variant value)
{
    for (size_t i = 0; i < scope->count; ++i)
        if (scope->bindings[i].name == name) {
            scope->bindings[i].value = value;
            return HIL_OK;
        }
    if (scope->count == scope->capacity) {
        struct hil_binding *bindings;
        scope->capacity = scope->capacity ? scope->capacity * 2 : 4;
        HIL_TRY(HIL_RENDER_NEW(r, scope->capacity, &bindings));
        if (scope->count) memcpy(bindings, scope->bindings, scope->count * sizeof *bindings);
        scope->bindings = bindings;
    }
    scope->bindings[scope->count++] = (struct hil_binding){name, value};
    return HIL_OK;
}

static hil_status set_attribute(hil_render *r, const hil_scope *scope, const hil_syntax *target,
                                hil_variant value)
{
    hil_syntax name = {.kind = HIL_N_NAME, .line = target->line, .name = target->name};
    hil_variant object;
    HIL_TRY(hil_evaluate(r, (hil_scope *)scope, &name, &object));
    if (object.type != HIL_V_NAMESPACE)
        return hil_render_fail(r, "cannot assign attribute on non-namespace object");
    if (target->value.text->data[0] == '_')
        return hil_render_fail(r, "a namespace cannot have an attribute that begins with '_'");
    return hil_dict_set(r, object.dict, target->value, value);
}

hil_status hil_assign(hil_render *r, hil_scope *scope, const hil_syntax *target, hil_variant value)
{
    if (target->kind == HIL_N_NAME) return hil_scope_set(r, scope, target->name, value);
    if (target->kind == HIL_N_NSREF) return set_attribute(r, scope, target, value);
    hil_cursor cursor;
    r->line = target->line;
    if (!hil_variant_is_iterable(value))
        return hil_render_fail(r, "cannot unpack non-iterable %s object",
                               hil_variant_type_name(value));
    HIL_TRY(hil_render_enter(r));
    HIL_TRY(hil_cursor_open(r, value, &cursor));
    hil_items *items;
    size_t expected = 0;
    for (const hil_syntax *name = target->list; name; name = name->next) ++expected;
    HIL_TRY(hil_items_create(r, expected, &items));
    for (;;) {
        hil_variant item;
        HIL_TRY(hil_cursor_next(r, &cursor, &item));
        if (item.type == HIL_V_ABSENT) break;
        if (items->count == expected)
            return hil_render_fail(r, "too many values to unpack (expected %zu)", expected);
        HIL_TRY(hil_items_add(r, items, item));
    }
    if (items->count < expected)
        return hil_render_fail(r, "not enough values to unpack (expected %zu, got %zu)", expected,
                               items->count);
    const hil_variant *item = items->data;
    for (const hil_syntax *name = target->list; name; name = name->next)
        HIL_TRY(hil_assign(r, scope, name, *item++));
    hil_render_leave(r);
    return HIL_OK;
}

hil_status hil_loop_fetch(hil_render *r, hil_loop *loop, hil_variant *out)
{
    for (;;) {
        HIL_TRY(hil_cursor_next(r, &loop->cursor, out));
        if (out->type == HIL_V_ABSENT || !loop->node->c) return HIL_OK;
        hil_scope scope;
        hil_variant passes;
        static const hil_names none = {0};
        HIL_TRY(hil_scope_begin(r, loop->scope, &none, &scope));
        HIL_TRY(hil_assign(r, &scope, loop->node->a, *out));
        HIL_TRY(hil_evaluate(r, &scope, loop->node->c, &passes));
        if (hil_variant_truth(passes)) return HIL_OK;
    }
}

static hil_status advance(hil_render *r, hil_loop *loop)
{
    hil_variant next = loop->after;
    if (!loop->has_after) HIL_TRY(hil_loop_fetch(r, loop, &next));
    loop->has_after = false;
    if (next.type == HIL_V_ABSENT) {
        loop->has_after = true; /* the loop stays at its end */
        loop->after = next;
    } else {
        ++loop->index0;
    }
    loop->before = loop->current;
    loop->current = next;
    return HIL_OK;
}

/* Allocates a scope: one that a macro or a loop keeps outlives the C function that began it. */
static hil_status new_scope(hil_render *r, const hil_scope *parent, const hil_names *hidden,
                            hil_scope **out)
{
    HIL_TRY(HIL_RENDER_NEW(r, 1, out));
    return hil_scope_begin(r, parent, hidden, *out);
}

static hil_status run_loop(hil_render *r, hil_loop *loop)
{
    const hil_syntax *node = loop->node;
    bool completed = false; /* an iteration reached the end of the body */
    for (;;) {
        hil_scope *scope;
        HIL_TRY(advance(r, loop));
        if (loop->current.type == HIL_V_ABSENT) break;
        HIL_TRY(new_scope(r, loop->scope, &node->hidden, &scope));
        if (node->uses_loop)
            HIL_TRY(hil_scope_set(r, scope, r->source->name_loop,
                                  (hil_variant){.type = HIL_V_LOOP, .loop = loop}));
        HIL_TRY(hil_assign(r, scope, node->a, loop->current));
        HIL_TRY(hil_execute(r, scope, node->body));
        bool stop = r->flow == HIL_FLOW_BREAK;
        completed |= r->flow == HIL_FLOW_ON;
        r->flow = HIL_FLOW_ON;
        if (stop) break;
    }
    if (completed || !node->otherwise) return HIL_OK;
    static const hil_names none = {0};
    hil_scope *scope;
    HIL_TRY(new_scope(r, loop->scope, &none, &scope));
    return hil_execute(r, scope, node->otherwise);
}

static hil_status start_loop(hil_render *r, const hil_scope *scope, const hil_syntax *node,
                             hil_variant iterable, int depth0)
{
    hil_loop *loop;
    HIL_TRY(HIL_RENDER_NEW(r, 1, &loop));
    *loop = (hil_loop){.node = node, .scope = scope, .index0 = -1, .length = -1, .depth0 = depth0};
    r->line = node->line;
    HIL_TRY(hil_cursor_open(r, iterable, &loop->cursor));
    return run_loop(r, loop);
}

hil_status hil_loop_recurse(hil_render *r, hil_loop *loop, hil_variant iterable, hil_variant *out)
{
    if (!loop->node->recursive)
        return hil_render_fail(
            r, "The loop must have the 'recursive' marker to be called recursively.");
    size_t mark;
    hil_capture_begin(r, &mark);
    HIL_TRY(start_loop(r, loop->scope, loop->node, iterable, loop->depth0 + 1));
    return hil_capture_end(r, mark, out);
}

static hil_status execute_for(hil_render *r, const hil_scope *scope, const hil_syntax *node)
{
    hil_variant iterable;
    HIL_TRY(hil_evaluate(r, (hil_scope *)scope, node->b, &iterable));
    r->captures += node->recursive; /* its output is appended as one piece at its end */
    HIL_TRY(start_loop(r, scope, node, iterable, 0));
    r->captures -= node->recursive;
    return HIL_OK;
}

static hil_status execute_if(hil_render *r, hil_scope *scope, const hil_syntax *node)
{
    for (; node; node = node->c) {
        hil_variant condition;
        HIL_TRY(hil_evaluate(r, scope, node->a, &condition));
        if (hil_variant_truth(condition)) return hil_execute(r, scope, node->body);
        if (!node->c) return hil_execute(r, scope, node->otherwise);
    }
    return HIL_OK;
}

/* Captures the output of a body, which has its own scope. */
static hil_status capture_body(hil_render *r, const hil_scope *scope, const hil_syntax *node,
                               hil_variant *out)
{
    size_t mark;
    hil_scope *inner;
    HIL_TRY(new_scope(r, scope, &node->hidden, &inner));
    hil_capture_begin(r, &mark);
    HIL_TRY(hil_execute(r, inner, node->body));
    return hil_capture_end(r, mark, out);
}

static hil_status execute_block(hil_render *r, hil_scope *scope, const hil_syntax *node)
{
    hil_variant value;
    HIL_TRY(capture_body(r, scope, node, &value));
    if (r->flow != HIL_FLOW_ON) return HIL_OK;
    if (node->b) HIL_TRY(hil_evaluate_filters(r, scope, node->b, value, &value));
    if (node->kind == HIL_N_SET_BLOCK) return hil_assign(r, scope, node->a, value);
    return hil_print_text(r, value);
}

static hil_status execute_with(hil_render *r, const hil_scope *scope, const hil_syntax *node)
{
    hil_scope *inner;
    HIL_TRY(new_scope(r, scope, &node->hidden, &inner));
    for (const hil_syntax *pair = node->list; pair; pair = pair->next) {
        hil_variant value;
        HIL_TRY(hil_evaluate(r, (hil_scope *)scope, pair->b, &value));
        HIL_TRY(hil_assign(r, inner, pair->a, value));
    }
    return hil_execute(r, inner, node->body);
}

static hil_status execute_generation(hil_render *r, const hil_scope *scope, const hil_syntax *node)
{
    hil_scope *inner;
    hil_rendering *result = r->result;
    size_t begin = r->out->size, first = result->span_count;
    HIL_TRY(new_scope(r, scope, &node->hidden, &inner));
    HIL_TRY(hil_execute(r, inner, node->body));
    if (r->captures) {
        result->spans_lost = true;
        return HIL_OK;
    }
    result->span_count = first; /* drops the spans inside this one */
    HIL_TRY(HIL_GROW(&result->spans, &result->span_capacity, first + 1));
    result->spans[result->span_count++] = (hil_byte_span){begin, r->out->size};
    return HIL_OK;
}

static hil_status make_macro(hil_render *r, const hil_scope *scope, const hil_syntax *node,
                             hil_variant *out)
{
    hil_macro *macro;
    HIL_TRY(HIL_RENDER_NEW(r, 1, &macro));
    *macro = (hil_macro){node->macro, scope};
    *out = (hil_variant){.type = HIL_V_MACRO, .macro = macro};
    return HIL_OK;
}

/* {% call f(x) %}body{% endcall %}: f(x, caller=body) */
static hil_status execute_call_block(hil_render *r, hil_scope *scope, const hil_syntax *node)
{
    hil_variant callee, caller, result;
    hil_arguments arguments;
    HIL_TRY(hil_evaluate(r, scope, node->a->a, &callee));
    HIL_TRY(hil_evaluate_arguments(r, scope, node->a->arguments, &arguments));
    HIL_TRY(make_macro(r, scope, node, &caller));
    hil_keyword *keywords;
    HIL_TRY(HIL_RENDER_NEW(r, arguments.keyword_count + 1, &keywords));
    for (size_t i = 0; i < arguments.keyword_count; ++i) keywords[i] = arguments.keywords[i];
    keywords[arguments.keyword_count] = (hil_keyword){node->macro->name, caller};
    arguments.keywords = keywords;
    ++arguments.keyword_count;
    r->line = node->line;
    HIL_TRY(hil_variant_call(r, callee, &arguments, &result));
    return hil_print_text(r, result);
}

static hil_status execute_one(hil_render *r, hil_scope *scope, const hil_syntax *node)
{
    hil_variant value;
    switch (node->kind) {
    case HIL_N_DATA:
        return hil_render_add(r, node->value.text->data, node->value.text->size);
    case HIL_N_OUTPUT:
        if (!node->a) return HIL_OK; /* {% print %} */
        HIL_TRY(hil_evaluate(r, scope, node->a, &value));
        return hil_print_text(r, value);
    case HIL_N_IF:
        return execute_if(r, scope, node);
    case HIL_N_FOR:
        return execute_for(r, scope, node);
    case HIL_N_SET:
        HIL_TRY(hil_evaluate(r, scope, node->b, &value));
        return hil_assign(r, scope, node->a, value);
    case HIL_N_SET_BLOCK:
    case HIL_N_FILTER_BLOCK:
        return execute_block(r, scope, node);
    case HIL_N_MACRO:
        HIL_TRY(make_macro(r, scope, node, &value));
        return hil_scope_set(r, scope, node->name, value);
    case HIL_N_CALL_BLOCK:
        return execute_call_block(r, scope, node);
    case HIL_N_WITH:
        return execute_with(r, scope, node);
    case HIL_N_GENERATION:
        return execute_generation(r, scope, node);
    default:
        r->flow = node->kind == HIL_N_BREAK ? HIL_FLOW_BREAK : HIL_FLOW_CONTINUE;
        return HIL_OK;
    }
}

hil_status hil_execute(hil_render *r, hil_scope *scope, const hil_syntax *body)
{
    HIL_TRY(hil_render_enter(r));
    for (; body && r->flow == HIL_FLOW_ON; body = body->next) {
        HIL_TRY(hil_render_step(r, 1));
        r->line = body->line;
        HIL_TRY(execute_one(r, scope, body));
    }
    hil_render_leave(r);
    return HIL_OK;
}
