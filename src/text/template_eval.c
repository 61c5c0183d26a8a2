/* template_eval.c - evaluates expressions. */
#include "text/template_eval.h"

#include <string.h>

static hil_status eval_name(hil_render *r, const hil_scope *scope, const hil_syntax *node,
                            hil_variant *out)
{
    for (; scope; scope = scope->parent)
        for (size_t i = scope->count; i-- > 0;)
            if (scope->bindings[i].name == node->name) {
                *out = scope->bindings[i].value;
                if (out->type == HIL_V_ABSENT) *out = node->value;
                return HIL_OK;
            }
    const hil_chars *name = r->source->names[node->name];
    hil_pair *pair;
    HIL_TRY(hil_dict_find(r, r->variables, HIL_TEXT(name), &pair));
    if (pair) {
        *out = pair->value;
        return HIL_OK;
    }
    const hil_builtin *function = hil_global_find(name->data, name->size);
    *out = function ? (hil_variant){.type = HIL_V_FUNCTION, .function = function} : node->value;
    return HIL_OK;
}

static hil_status eval_list(hil_render *r, hil_scope *scope, const hil_syntax *node,
                            hil_variant *out)
{
    hil_items *items;
    HIL_TRY(hil_items_create(r, 0, &items));
    for (const hil_syntax *item = node->list; item; item = item->next) {
        hil_variant value;
        HIL_TRY(hil_evaluate(r, scope, item, &value));
        HIL_TRY(hil_items_add(r, items, value));
    }
    *out = node->kind == HIL_N_LIST ? hil_items_list(items) : hil_items_tuple(items);
    return HIL_OK;
}

static hil_status eval_dict(hil_render *r, hil_scope *scope, const hil_syntax *node,
                            hil_variant *out)
{
    hil_dict *dict;
    HIL_TRY(hil_dict_create(r, 0, &dict));
    for (const hil_syntax *item = node->list; item; item = item->next->next) {
        hil_variant key, value;
        HIL_TRY(hil_evaluate(r, scope, item, &key));
        HIL_TRY(hil_evaluate(r, scope, item->next, &value));
        HIL_TRY(hil_dict_set(r, dict, key, value));
    }
    *out = (hil_variant){.type = HIL_V_DICT, .dict = dict};
    return HIL_OK;
}

static hil_status eval_concat(hil_render *r, hil_scope *scope, const hil_syntax *node,
                              hil_variant *out)
{
    /* Evaluates all of them before it prints the first, because evaluation may capture output. */
    hil_variant list;
    size_t mark;
    HIL_TRY(eval_list(r, scope, node, &list));
    hil_capture_begin(r, &mark);
    for (size_t i = 0; i < list.items->count; ++i) HIL_TRY(hil_print_text(r, list.items->data[i]));
    return hil_capture_end(r, mark, out);
}

static hil_status compare_one(hil_render *r, hil_operator op, hil_variant a, hil_variant b,
                              bool *yes)
{
    static const char *const signs[] = {
        [HIL_OP_LT] = "<", [HIL_OP_LE] = "<=", [HIL_OP_GT] = ">", [HIL_OP_GE] = ">="};
    int order = 0;
    switch (op) {
    case HIL_OP_EQ:
        return hil_variant_equal(r, a, b, yes);
    case HIL_OP_NE:
        HIL_TRY(hil_variant_equal(r, a, b, yes));
        *yes = !*yes;
        return HIL_OK;
    case HIL_OP_IN:
        return hil_variant_contains(r, b, a, yes);
    case HIL_OP_NOT_IN:
        HIL_TRY(hil_variant_contains(r, b, a, yes));
        *yes = !*yes;
        return HIL_OK;
    default:
        HIL_TRY(hil_variant_compare(r, a, b, signs[op], &order));
        *yes = (op == HIL_OP_LT && order == -1) || (op == HIL_OP_GT && order == 1) ||
               (op == HIL_OP_LE && (order == -1 || order == 0)) ||
               (op == HIL_OP_GE && (order == 1 || order == 0));
        return HIL_OK;
    }
}

static hil_status eval_compare(hil_render *r, hil_scope *scope, const hil_syntax *node,
                               hil_variant *out)
{
    hil_variant left, right;
    bool yes = true;
    HIL_TRY(hil_evaluate(r, scope, node->a, &left));
    for (const hil_syntax *operand = node->list; operand && yes; operand = operand->next) {
        HIL_TRY(hil_evaluate(r, scope, operand->a, &right));
        HIL_TRY(compare_one(r, operand->op, left, right, &yes));
        left = right;
    }
    *out = HIL_BOOL(yes);
    return HIL_OK;
}

static hil_status eval_choice(hil_render *r, hil_scope *scope, const hil_syntax *node,
                              hil_variant *out)
{
    hil_variant condition;
    HIL_TRY(hil_evaluate(r, scope, node->a, &condition));
    if (hil_variant_truth(condition)) return hil_evaluate(r, scope, node->b, out);
    if (node->c) return hil_evaluate(r, scope, node->c, out);
    return hil_undefined_hint(r,
                              "the inline if-expression evaluated to false and no else section "
                              "was defined.",
                              out);
}

static hil_status eval_slice(hil_render *r, hil_scope *scope, const hil_syntax *node,
                             hil_variant *out)
{
    hil_variant object, bounds[3] = {{0}};
    HIL_TRY(hil_evaluate(r, scope, node->a, &object));
    if (node->b) HIL_TRY(hil_evaluate(r, scope, node->b, &bounds[0]));
    if (node->c) HIL_TRY(hil_evaluate(r, scope, node->c, &bounds[1]));
    if (node->d) HIL_TRY(hil_evaluate(r, scope, node->d, &bounds[2]));
    return hil_variant_slice(r, object, bounds, out);
}

typedef struct gathering {
    hil_items *values;
    hil_keyword *keywords;
    size_t count, capacity;
} gathering;

static hil_status add_keyword(hil_render *r, gathering *g, const hil_chars *name, hil_variant value)
{
    for (size_t i = 0; i < g->count; ++i)
        if (g->keywords[i].name->size == name->size &&
            memcmp(g->keywords[i].name->data, name->data, name->size) == 0)
            return hil_render_fail(r, "got multiple values for keyword argument '%.*s'",
                                   (int)name->size, name->data);
    if (g->count == g->capacity) {
        hil_keyword *keywords;
        g->capacity = g->capacity ? g->capacity * 2 : 4;
        HIL_TRY(HIL_RENDER_NEW(r, g->capacity, &keywords));
        if (g->count) memcpy(keywords, g->keywords, g->count * sizeof *keywords);
        g->keywords = keywords;
    }
    g->keywords[g->count++] = (hil_keyword){name, value};
    return hil_render_step(r, g->count);
}

static hil_status spread(hil_render *r, gathering *g, const hil_argument *argument,
                         hil_variant value)
{
    if (argument->kind == HIL_ARGUMENT_LIST) {
        hil_items *more;
        HIL_TRY(hil_variant_list(r, value, &more));
        for (size_t i = 0; i < more->count; ++i)
            HIL_TRY(hil_items_add(r, g->values, more->data[i]));
        return HIL_OK;
    }
    if (value.type != HIL_V_DICT)
        return hil_render_fail(r, "argument after ** must be a mapping, not %s",
                               hil_variant_type_name(value));
    for (size_t i = 0; i < value.dict->count; ++i) {
        if (value.dict->pairs[i].key.type != HIL_V_TEXT)
            return hil_render_fail(r, "keywords must be strings");
        HIL_TRY(add_keyword(r, g, value.dict->pairs[i].key.text, value.dict->pairs[i].value));
    }
    return HIL_OK;
}

hil_status hil_evaluate_arguments(hil_render *r, hil_scope *scope, const hil_argument *list,
                                  hil_arguments *out)
{
    gathering g = {0};
    *out = (hil_arguments){0};
    if (!list) return HIL_OK;
    HIL_TRY(hil_items_create(r, 0, &g.values));
    for (; list; list = list->next) {
        hil_variant value;
        HIL_TRY(hil_evaluate(r, scope, list->value, &value));
        if (list->kind == HIL_ARGUMENT_PLAIN)
            HIL_TRY(hil_items_add(r, g.values, value));
        else if (list->kind == HIL_ARGUMENT_NAMED)
            HIL_TRY(add_keyword(r, &g, list->name, value));
        else
            HIL_TRY(spread(r, &g, list, value));
    }
    *out = (hil_arguments){g.values->data, g.values->count, g.keywords, g.count};
    return HIL_OK;
}

static hil_status eval_call(hil_render *r, hil_scope *scope, const hil_syntax *node,
                            hil_variant *out)
{
    hil_variant callee;
    hil_arguments arguments;
    HIL_TRY(hil_evaluate(r, scope, node->a, &callee));
    HIL_TRY(hil_evaluate_arguments(r, scope, node->arguments, &arguments));
    r->line = node->line;
    return hil_variant_call(r, callee, &arguments, out);
}

static hil_status apply(hil_render *r, hil_scope *scope, const hil_syntax *node, hil_variant value,
                        hil_variant *out)
{
    hil_arguments arguments;
    HIL_TRY(hil_evaluate_arguments(r, scope, node->arguments, &arguments));
    r->line = node->line;
    if (node->builtin) return hil_builtin_call(r, node->builtin, value, &arguments, out);
    const hil_chars *name = node->value.text;
    return hil_render_fail(r, "No %s named '%.*s' found.",
                           node->kind == HIL_N_FILTER ? "filter" : "test", (int)name->size,
                           name->data);
}

hil_status hil_evaluate_filters(hil_render *r, hil_scope *scope, const hil_syntax *node,
                                hil_variant value, hil_variant *out)
{
    HIL_TRY(hil_render_enter(r));
    if (node->a) HIL_TRY(hil_evaluate_filters(r, scope, node->a, value, &value));
    HIL_TRY(apply(r, scope, node, value, out));
    hil_render_leave(r);
    return HIL_OK;
}

static hil_status eval_applied(hil_render *r, hil_scope *scope, const hil_syntax *node,
                               hil_variant *out)
{
    hil_variant value;
    HIL_TRY(hil_evaluate(r, scope, node->a, &value));
    return apply(r, scope, node, value, out);
}

static hil_status eval_logic(hil_render *r, hil_scope *scope, const hil_syntax *node,
                             hil_variant *out)
{
    HIL_TRY(hil_evaluate(r, scope, node->a, out));
    if (hil_variant_truth(*out) == (node->kind == HIL_N_OR)) return HIL_OK;
    return hil_evaluate(r, scope, node->b, out);
}

static hil_status eval_sign(hil_render *r, hil_scope *scope, const hil_syntax *node,
                            hil_variant *out)
{
    hil_variant value;
    HIL_TRY(hil_evaluate(r, scope, node->a, &value));
    r->line = node->line;
    if (node->kind != HIL_N_NOT)
        return hil_variant_negate(r, value, node->kind == HIL_N_NEGATIVE, out);
    *out = HIL_BOOL(!hil_variant_truth(value));
    return HIL_OK;
}

/* Evaluates a.b, a[b], a + b: expressions of one or two values. */
static hil_status eval_members(hil_render *r, hil_scope *scope, const hil_syntax *node,
                               hil_variant *out)
{
    hil_variant a, b;
    HIL_TRY(hil_evaluate(r, scope, node->a, &a));
    if (node->kind == HIL_N_ATTRIBUTE) {
        r->line = node->line;
        return hil_variant_attribute(r, a, node->value.text, out);
    }
    HIL_TRY(hil_evaluate(r, scope, node->b, &b));
    r->line = node->line;
    if (node->kind == HIL_N_ITEM) return hil_variant_item(r, a, b, out);
    return hil_variant_binary(r, node->op, a, b, out);
}

static hil_status eval_kind(hil_render *r, hil_scope *scope, const hil_syntax *node,
                            hil_variant *out)
{
    switch (node->kind) {
    case HIL_N_LIST:
    case HIL_N_TUPLE:
        return eval_list(r, scope, node, out);
    case HIL_N_DICT:
        return eval_dict(r, scope, node, out);
    case HIL_N_ATTRIBUTE:
    case HIL_N_ITEM:
    case HIL_N_BINARY:
        return eval_members(r, scope, node, out);
    case HIL_N_SLICE:
        return eval_slice(r, scope, node, out);
    case HIL_N_CALL:
        return eval_call(r, scope, node, out);
    case HIL_N_FILTER:
    case HIL_N_TEST:
        return eval_applied(r, scope, node, out);
    case HIL_N_NOT:
    case HIL_N_NEGATIVE:
    case HIL_N_POSITIVE:
        return eval_sign(r, scope, node, out);
    case HIL_N_AND:
    case HIL_N_OR:
        return eval_logic(r, scope, node, out);
    case HIL_N_CHOICE:
        return eval_choice(r, scope, node, out);
    case HIL_N_CONCAT:
        return eval_concat(r, scope, node, out);
    default:
        return eval_compare(r, scope, node, out);
    }
}

hil_status hil_evaluate(hil_render *r, hil_scope *scope, const hil_syntax *node, hil_variant *out)
{
    HIL_TRY(hil_render_step(r, 1));
    r->line = node->line;
    if (node->kind == HIL_N_CONST) {
        *out = node->value;
        return HIL_OK;
    }
    if (node->kind == HIL_N_NAME) return eval_name(r, scope, node, out);
    HIL_TRY(hil_render_enter(r));
    HIL_TRY(eval_kind(r, scope, node, out));
    hil_render_leave(r);
    return HIL_OK;
}
