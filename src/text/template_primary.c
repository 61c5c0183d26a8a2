/* template_primary.c - parses names, constants, lists, dicts and tuples of a template. */
#include "text/template_parser.h"

#include <string.h>

hil_status hil_parser_constant(hil_parser *p, hil_variant value, const hil_syntax **out)
{
    hil_syntax *node;
    HIL_TRY(hil_parser_node(p, HIL_N_CONST, hil_parser_token(p)->line, &node));
    node->value = value;
    *out = node;
    return HIL_OK;
}

hil_status hil_parser_chars(hil_parser *p, const char *data, size_t size, hil_variant *out)
{
    hil_chars *text;
    HIL_TRY(HIL_ARENA_NEW(&p->made->arena, 1, &text));
    *text = (hil_chars){data, size, hil_chars_length(data, size), false};
    *out = HIL_TEXT(text);
    return HIL_OK;
}

/* "a" 'b' is one string. */
static hil_status parse_text(hil_parser *p, const hil_syntax **out)
{
    const hil_token *first = hil_parser_token(p);
    size_t size = 0, put = 0;
    hil_variant value;
    for (const hil_token *t = first; t->type == HIL_T_TEXT; ++t) size += t->size;
    char *data;
    HIL_TRY(hil_arena_alloc(&p->made->arena, size + 1, (void **)&data));
    hil_syntax *node;
    HIL_TRY(hil_parser_node(p, HIL_N_CONST, first->line, &node));
    for (; hil_parser_token(p)->type == HIL_T_TEXT; hil_parser_skip(p)) {
        memcpy(data + put, hil_parser_token(p)->data, hil_parser_token(p)->size);
        put += hil_parser_token(p)->size;
    }
    HIL_TRY(hil_parser_chars(p, data, size, &value));
    node->value = value;
    *out = node;
    return HIL_OK;
}

bool hil_token_is(const hil_token *token, const char *word)
{
    return token->size == strlen(word) && memcmp(token->data, word, token->size) == 0;
}

static hil_status make_unknown(hil_parser *p, const hil_chars *name, hil_variant *out)
{
    hil_unknown *unknown;
    HIL_TRY(HIL_ARENA_NEW(&p->made->arena, 1, &unknown));
    unknown->name = HIL_TEXT(name);
    *out = (hil_variant){.type = HIL_V_UNDEFINED, .unknown = unknown};
    return HIL_OK;
}

static hil_status parse_name(hil_parser *p, bool attributes, const hil_syntax **out)
{
    const hil_token *token = hil_parser_token(p);
    hil_syntax *node;
    HIL_TRY(hil_parser_node(p, HIL_N_CONST, token->line, &node));
    *out = node;
    bool yes = hil_token_is(token, "true") || hil_token_is(token, "True");
    if (yes || hil_token_is(token, "false") || hil_token_is(token, "False")) {
        node->value = HIL_BOOL(yes);
        hil_parser_skip(p);
        return HIL_OK;
    }
    if (hil_token_is(token, "none") || hil_token_is(token, "None")) {
        node->value = HIL_NONE;
        hil_parser_skip(p);
        return HIL_OK;
    }
    node->kind = HIL_N_NAME;
    HIL_TRY(hil_parser_name(p, &node->name));
    p->uses_loop |= node->name == p->made->name_loop;
    p->uses_caller |= node->name == p->made->name_caller;
    p->uses_kwargs |= node->name == p->made->name_kwargs;
    p->uses_varargs |= node->name == p->made->name_varargs;
    HIL_TRY(make_unknown(p, p->made->names[node->name], &node->value));
    if (attributes && hil_parser_skip_operator(p, ".")) {
        const hil_token *attribute = hil_parser_token(p);
        HIL_TRY(hil_parser_expect(p, HIL_T_NAME, "name"));
        node->kind = HIL_N_NSREF;
        return hil_parser_chars(p, attribute->data, attribute->size, &node->value);
    }
    return HIL_OK;
}

void hil_syntax_append(hil_syntax *list, const hil_syntax ***end, const hil_syntax *item)
{
    if (!*end) *end = &list->list;
    **end = item;
    *end = (const hil_syntax **)&((hil_syntax *)item)->next;
}

/* [a, b] or {a: b, c: d} */
static hil_status parse_collection(hil_parser *p, hil_node_kind kind, const hil_syntax **out)
{
    const char *close = kind == HIL_N_LIST ? "]" : "}";
    hil_syntax *node;
    const hil_syntax **end = NULL, *item;
    HIL_TRY(hil_parser_node(p, kind, hil_parser_token(p)->line, &node));
    hil_parser_skip(p);
    while (!hil_parser_is_operator(p, close)) {
        if (node->list) HIL_TRY(hil_parser_expect_operator(p, ","));
        if (hil_parser_is_operator(p, close)) break;
        HIL_TRY(hil_parse_expression(p, true, &item));
        hil_syntax_append(node, &end, item);
        if (kind == HIL_N_LIST) continue;
        HIL_TRY(hil_parser_expect_operator(p, ":"));
        HIL_TRY(hil_parse_expression(p, true, &item));
        hil_syntax_append(node, &end, item);
    }
    *out = node;
    return hil_parser_expect_operator(p, close);
}

static bool at_tuple_end(const hil_parser *p, hil_tuple_end end)
{
    hil_token_type type = hil_parser_token(p)->type;
    if (type == HIL_T_OUTPUT_END || type == HIL_T_BLOCK_END || hil_parser_is_operator(p, ")"))
        return true;
    if (end == HIL_TUPLE_BEFORE_IN) return hil_parser_is_name(p, "in");
    return end == HIL_TUPLE_BEFORE_RECURSIVE && hil_parser_is_name(p, "recursive");
}

typedef enum tuple_items {
    ITEMS_EXPRESSIONS,
    ITEMS_CHOICES,
    ITEMS_PRIMARY,
    ITEMS_TARGETS
} tuple_items;

static hil_status parse_items(hil_parser *p, tuple_items items, hil_tuple_end ending, bool brackets,
                              const hil_syntax **out)
{
    hil_syntax *node;
    const hil_syntax **end = NULL, *item = NULL;
    bool tuple = false;
    HIL_TRY(hil_parser_node(p, HIL_N_TUPLE, hil_parser_token(p)->line, &node));
    for (;;) {
        if (item) HIL_TRY(hil_parser_expect_operator(p, ","));
        if (at_tuple_end(p, ending)) break;
        if (items <= ITEMS_CHOICES)
            HIL_TRY(hil_parse_expression(p, items == ITEMS_CHOICES, &item));
        else
            HIL_TRY(hil_parse_primary(p, items == ITEMS_TARGETS, &item));
        bool more = hil_parser_is_operator(p, ",");
        if (!tuple && !more) {
            *out = item;
            return HIL_OK;
        }
        hil_syntax_append(node, &end, item);
        tuple = true;
        if (!more) break;
    }
    if (!tuple && !brackets) return hil_parser_fail(p, node->line, "Expected an expression");
    *out = node;
    return HIL_OK;
}

hil_status hil_parse_tuple(hil_parser *p, bool choice, hil_tuple_end end, const hil_syntax **out)
{
    return parse_items(p, choice ? ITEMS_CHOICES : ITEMS_EXPRESSIONS, end, false, out);
}

static hil_status check_target(const hil_parser *p, const hil_syntax *node)
{
    if (node->kind == HIL_N_TUPLE) {
        for (const hil_syntax *item = node->list; item; item = item->next)
            HIL_TRY(check_target(p, item));
        return HIL_OK;
    }
    if (node->kind != HIL_N_NAME && node->kind != HIL_N_NSREF)
        return hil_parser_fail(p, node->line, "can't assign to an expression");
    return HIL_OK;
}

hil_status hil_parse_target(hil_parser *p, bool attributes, hil_tuple_end end,
                            const hil_syntax **out)
{
    HIL_TRY(parse_items(p, attributes ? ITEMS_TARGETS : ITEMS_PRIMARY, end, false, out));
    return check_target(p, *out);
}

hil_status hil_parse_primary(hil_parser *p, bool attributes, const hil_syntax **out)
{
    const hil_token *token = hil_parser_token(p);
    if (token->type == HIL_T_NAME) return parse_name(p, attributes, out);
    if (token->type == HIL_T_TEXT) return parse_text(p, out);
    if (token->type == HIL_T_INT || token->type == HIL_T_REAL) {
        HIL_TRY(hil_parser_constant(
            p, token->type == HIL_T_INT ? HIL_INT(token->integer) : HIL_REAL(token->real), out));
        hil_parser_skip(p);
        return HIL_OK;
    }
    if (hil_parser_is_operator(p, "[")) return parse_collection(p, HIL_N_LIST, out);
    if (hil_parser_is_operator(p, "{")) return parse_collection(p, HIL_N_DICT, out);
    if (!hil_parser_skip_operator(p, "("))
        return hil_parser_fail(p, token->line, "unexpected '%.*s'",
                               (int)(token->size < 40 ? token->size : 40),
                               token->data ? token->data : "end of the tag");
    HIL_TRY(parse_items(p, ITEMS_CHOICES, HIL_TUPLE_PLAIN, true, out));
    return hil_parser_expect_operator(p, ")");
}
