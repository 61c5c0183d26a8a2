/* template_expression.c - parses the expressions of a template: operators, calls, filters, tests.
 */
#include "text/template_builtin.h"
#include "text/template_parser.h"

/* Parses a bound of a slice; NULL if it is omitted. */
static hil_status parse_bound(hil_parser *p, const hil_syntax **out)
{
    *out = NULL;
    if (hil_parser_is_operator(p, ":") || hil_parser_is_operator(p, "]") ||
        hil_parser_is_operator(p, ","))
        return HIL_OK;
    return hil_parse_expression(p, true, out);
}

static hil_status parse_subscript(hil_parser *p, const hil_syntax *base, const hil_syntax **out)
{
    hil_syntax *node;
    HIL_TRY(hil_parser_node(p, HIL_N_ITEM, hil_parser_token(p)->line, &node));
    *out = node;
    node->a = base;
    hil_parser_skip(p);
    HIL_TRY(parse_bound(p, &node->b));
    if (hil_parser_skip_operator(p, ":")) {
        node->kind = HIL_N_SLICE;
        HIL_TRY(parse_bound(p, &node->c));
        if (hil_parser_skip_operator(p, ":")) HIL_TRY(parse_bound(p, &node->d));
    } else if (!node->b) {
        return hil_parser_fail(p, node->line, "expected subscript expression");
    } else if (hil_parser_is_operator(p, ",")) { /* a tuple as a key */
        hil_syntax *tuple;
        const hil_syntax **end = NULL, *item = node->b;
        HIL_TRY(hil_parser_node(p, HIL_N_TUPLE, node->line, &tuple));
        hil_syntax_append(tuple, &end, item);
        while (hil_parser_skip_operator(p, ",")) {
            HIL_TRY(hil_parse_expression(p, true, &item));
            hil_syntax_append(tuple, &end, item);
        }
        node->b = tuple;
    }
    return hil_parser_expect_operator(p, "]");
}

static hil_status parse_dot(hil_parser *p, const hil_syntax *base, const hil_syntax **out)
{
    hil_syntax *node;
    HIL_TRY(hil_parser_node(p, HIL_N_ATTRIBUTE, hil_parser_token(p)->line, &node));
    *out = node;
    node->a = base;
    hil_parser_skip(p);
    const hil_token *token = hil_parser_token(p);
    if (token->type == HIL_T_INT) {
        node->kind = HIL_N_ITEM;
        HIL_TRY(hil_parser_constant(p, HIL_INT(token->integer), &node->b));
    } else if (token->type == HIL_T_NAME) {
        HIL_TRY(hil_parser_chars(p, token->data, token->size, &node->value));
    } else {
        return hil_parser_fail(p, token->line, "expected name or number");
    }
    hil_parser_skip(p);
    return HIL_OK;
}

static hil_status parse_argument(hil_parser *p, int line, hil_argument *argument,
                                 const hil_argument *before)
{
    int last = before ? (int)before->kind : HIL_ARGUMENT_PLAIN;
    bool fine;
    if (hil_parser_skip_operator(p, "*")) {
        argument->kind = HIL_ARGUMENT_LIST;
        fine = last < HIL_ARGUMENT_LIST;
    } else if (hil_parser_skip_operator(p, "**")) {
        argument->kind = HIL_ARGUMENT_DICT;
        fine = last < HIL_ARGUMENT_DICT;
    } else {
        const hil_token *token = hil_parser_token(p);
        if (token->type == HIL_T_NAME && token[1].type == HIL_T_OPERATOR &&
            hil_token_is(&token[1], "=")) {
            hil_variant name;
            HIL_TRY(hil_parser_chars(p, token->data, token->size, &name));
            argument->kind = HIL_ARGUMENT_NAMED;
            argument->name = name.text;
            fine = last < HIL_ARGUMENT_DICT;
            hil_parser_skip(p);
            hil_parser_skip(p);
        } else {
            fine = last == HIL_ARGUMENT_PLAIN;
        }
    }
    if (!fine) return hil_parser_fail(p, line, "invalid syntax for function call expression");
    return hil_parse_expression(p, true, &argument->value);
}

static hil_status parse_arguments(hil_parser *p, hil_argument **out)
{
    int line = hil_parser_token(p)->line;
    hil_argument *before = NULL;
    hil_parser_skip(p);
    while (!hil_parser_is_operator(p, ")")) {
        if (before) HIL_TRY(hil_parser_expect_operator(p, ","));
        if (before && hil_parser_is_operator(p, ")")) break;
        hil_argument *argument;
        HIL_TRY(HIL_ARENA_NEW(&p->made->arena, 1, &argument));
        HIL_TRY(parse_argument(p, line, argument, before));
        if (before)
            before->next = argument;
        else
            *out = argument;
        before = argument;
    }
    return hil_parser_expect_operator(p, ")");
}

static hil_status parse_call(hil_parser *p, const hil_syntax *base, const hil_syntax **out)
{
    hil_syntax *node;
    HIL_TRY(hil_parser_node(p, HIL_N_CALL, hil_parser_token(p)->line, &node));
    node->a = base;
    *out = node;
    return parse_arguments(p, &node->arguments);
}

static hil_status parse_postfix(hil_parser *p, const hil_syntax *base, const hil_syntax **out)
{
    for (*out = base;;) {
        HIL_TRY(hil_parser_enter(p)); /* the tree gets deeper on its left */
        if (hil_parser_is_operator(p, "."))
            HIL_TRY(parse_dot(p, *out, out));
        else if (hil_parser_is_operator(p, "["))
            HIL_TRY(parse_subscript(p, *out, out));
        else if (hil_parser_is_operator(p, "("))
            HIL_TRY(parse_call(p, *out, out));
        else
            break;
    }
    hil_parser_leave(p);
    return HIL_OK;
}

static hil_status parse_builtin_name(hil_parser *p, hil_syntax *node)
{
    const hil_token *token = hil_parser_token(p);
    HIL_TRY(hil_parser_expect(p, HIL_T_NAME, "name"));
    const char *end = token->data + token->size;
    while (hil_parser_skip_operator(p, ".")) { /* "a.b" is parsed as one name, which never exists */
        const hil_token *part = hil_parser_token(p);
        HIL_TRY(hil_parser_expect(p, HIL_T_NAME, "name"));
        end = part->data + part->size;
    }
    size_t size = (size_t)(end - token->data);
    HIL_TRY(hil_parser_chars(p, token->data, size, &node->value));
    node->builtin = node->kind == HIL_N_FILTER ? hil_filter_find(token->data, size)
                                               : hil_test_find(token->data, size);
    return HIL_OK;
}

hil_status hil_parse_filters(hil_parser *p, const hil_syntax *node, bool inline_name,
                             const hil_syntax **out)
{
    *out = node;
    while (inline_name || hil_parser_skip_operator(p, "|")) {
        hil_syntax *filter;
        HIL_TRY(hil_parser_enter(p));
        HIL_TRY(hil_parser_node(p, HIL_N_FILTER, hil_parser_token(p)->line, &filter));
        filter->a = *out;
        *out = filter;
        HIL_TRY(parse_builtin_name(p, filter));
        if (hil_parser_is_operator(p, "(")) HIL_TRY(parse_arguments(p, &filter->arguments));
        inline_name = false;
    }
    return HIL_OK;
}

/* Whether an argument of a test follows, without brackets. */
static bool at_test_argument(const hil_parser *p)
{
    hil_token_type type = hil_parser_token(p)->type;
    if (type == HIL_T_NAME)
        return !hil_parser_is_name(p, "else") && !hil_parser_is_name(p, "or") &&
               !hil_parser_is_name(p, "and");
    return type == HIL_T_TEXT || type == HIL_T_INT || type == HIL_T_REAL ||
           hil_parser_is_operator(p, "[") || hil_parser_is_operator(p, "{");
}

static hil_status parse_test(hil_parser *p, const hil_syntax *base, const hil_syntax **out)
{
    int line = hil_parser_token(p)->line;
    hil_parser_skip(p);
    hil_syntax *test, *negation;
    bool negative = hil_parser_skip_name(p, "not");
    HIL_TRY(hil_parser_node(p, HIL_N_TEST, line, &test));
    test->a = base;
    HIL_TRY(parse_builtin_name(p, test));
    if (hil_parser_is_operator(p, "(")) {
        HIL_TRY(parse_arguments(p, &test->arguments));
    } else if (at_test_argument(p)) {
        if (hil_parser_is_name(p, "is"))
            return hil_parser_fail(p, line, "You cannot chain multiple tests with is");
        const hil_syntax *value;
        HIL_TRY(HIL_ARENA_NEW(&p->made->arena, 1, &test->arguments));
        HIL_TRY(hil_parse_primary(p, false, &value));
        HIL_TRY(parse_postfix(p, value, &test->arguments->value));
    }
    *out = test;
    if (!negative) return HIL_OK;
    HIL_TRY(hil_parser_node(p, HIL_N_NOT, line, &negation));
    negation->a = test;
    *out = negation;
    return HIL_OK;
}

static hil_status parse_unary(hil_parser *p, bool filters, const hil_syntax **out)
{
    HIL_TRY(hil_parser_enter(p));
    bool negative = hil_parser_is_operator(p, "-");
    if (negative || hil_parser_is_operator(p, "+")) {
        hil_syntax *sign;
        HIL_TRY(hil_parser_node(p, negative ? HIL_N_NEGATIVE : HIL_N_POSITIVE,
                                hil_parser_token(p)->line, &sign));
        hil_parser_skip(p);
        HIL_TRY(parse_unary(p, false, &sign->a));
        *out = sign;
    } else {
        HIL_TRY(hil_parse_primary(p, false, out));
    }
    HIL_TRY(parse_postfix(p, *out, out));
    while (filters) {
        if (hil_parser_is_operator(p, "|"))
            HIL_TRY(hil_parse_filters(p, *out, false, out));
        else if (hil_parser_is_name(p, "is"))
            HIL_TRY(parse_test(p, *out, out));
        else if (hil_parser_is_operator(p, "("))
            HIL_TRY(parse_call(p, *out, out));
        else
            break;
    }
    hil_parser_leave(p);
    return HIL_OK;
}

/* A level of binary operators, which group to the left. */
typedef struct level {
    const char *signs[5];
    hil_operator operators[5];
} level;

static const level levels[] = {
    {{"+", "-"}, {HIL_OP_ADD, HIL_OP_SUB}},
    {{"~"}, {0}},
    {{"*", "/", "//", "%"}, {HIL_OP_MUL, HIL_OP_DIV, HIL_OP_FLOORDIV, HIL_OP_MOD}},
    {{"**"}, {HIL_OP_POW}},
};
enum { LEVEL_SUM, LEVEL_CONCAT, LEVELS = sizeof levels / sizeof *levels };

static hil_status parse_concat(hil_parser *p, const hil_syntax **out);

static hil_status parse_binary(hil_parser *p, int depth, const hil_syntax **out)
{
    if (depth == LEVELS) return parse_unary(p, true, out);
    if (depth == LEVEL_CONCAT) return parse_concat(p, out);
    int line = hil_parser_token(p)->line;
    HIL_TRY(parse_binary(p, depth + 1, out));
    for (int i = 0; levels[depth].signs[i]; ++i) {
        if (!hil_parser_skip_operator(p, levels[depth].signs[i])) continue;
        hil_syntax *node;
        HIL_TRY(hil_parser_node(p, HIL_N_BINARY, line, &node));
        HIL_TRY(hil_parser_enter(p)); /* the tree gets deeper on its left */
        node->op = levels[depth].operators[i];
        node->a = *out;
        HIL_TRY(parse_binary(p, depth + 1, &node->b));
        *out = node;
        line = hil_parser_token(p)->line;
        i = -1;
    }
    return HIL_OK;
}

static hil_status parse_concat(hil_parser *p, const hil_syntax **out)
{
    int line = hil_parser_token(p)->line;
    HIL_TRY(parse_binary(p, LEVEL_CONCAT + 1, out));
    if (!hil_parser_is_operator(p, "~")) return HIL_OK;
    hil_syntax *node;
    const hil_syntax **end = NULL, *item = *out;
    HIL_TRY(hil_parser_node(p, HIL_N_CONCAT, line, &node));
    hil_syntax_append(node, &end, item);
    while (hil_parser_skip_operator(p, "~")) {
        HIL_TRY(parse_binary(p, LEVEL_CONCAT + 1, &item));
        hil_syntax_append(node, &end, item);
    }
    *out = node;
    return HIL_OK;
}

/* Consumes a comparison operator, if there is one. */
static bool comparison(hil_parser *p, hil_operator *op)
{
    static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
    static const hil_operator operators[] = {HIL_OP_EQ, HIL_OP_NE, HIL_OP_LT,
                                             HIL_OP_LE, HIL_OP_GT, HIL_OP_GE};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; ++i)
        if (hil_parser_skip_operator(p, signs[i])) {
            *op = operators[i];
            return true;
        }
    *op = HIL_OP_IN;
    if (hil_parser_skip_name(p, "in")) return true;
    const hil_token *token = hil_parser_token(p);
    *op = HIL_OP_NOT_IN;
    if (!hil_parser_is_name(p, "not") || token[1].type != HIL_T_NAME ||
        !hil_token_is(&token[1], "in"))
        return false;
    hil_parser_skip(p);
    hil_parser_skip(p);
    return true;
}

static hil_status parse_compare(hil_parser *p, const hil_syntax **out)
{
    hil_operator op;
    int line = hil_parser_token(p)->line;
    HIL_TRY(parse_binary(p, LEVEL_SUM, out));
    hil_syntax *node = NULL;
    const hil_syntax **end = NULL;
    while (comparison(p, &op)) {
        if (!node) {
            HIL_TRY(hil_parser_node(p, HIL_N_COMPARE, line, &node));
            node->a = *out;
            *out = node;
        }
        hil_syntax *operand;
        const hil_syntax *value;
        HIL_TRY(parse_binary(p, LEVEL_SUM, &value));
        HIL_TRY(hil_parser_node(p, HIL_N_COMPARE, value->line, &operand));
        operand->a = value;
        operand->op = op;
        hil_syntax_append(node, &end, operand);
    }
    return HIL_OK;
}

static hil_status parse_not(hil_parser *p, const hil_syntax **out)
{
    int line = hil_parser_token(p)->line;
    if (!hil_parser_skip_name(p, "not")) return parse_compare(p, out);
    hil_syntax *node;
    HIL_TRY(hil_parser_enter(p));
    HIL_TRY(hil_parser_node(p, HIL_N_NOT, line, &node));
    HIL_TRY(parse_not(p, &node->a));
    hil_parser_leave(p);
    *out = node;
    return HIL_OK;
}

static hil_status parse_logic(hil_parser *p, hil_node_kind kind, const hil_syntax **out)
{
    bool either = kind == HIL_N_OR;
    int line = hil_parser_token(p)->line;
    HIL_TRY(either ? parse_logic(p, HIL_N_AND, out) : parse_not(p, out));
    while (hil_parser_skip_name(p, either ? "or" : "and")) {
        hil_syntax *node;
        HIL_TRY(hil_parser_enter(p)); /* the tree gets deeper on its left */
        HIL_TRY(hil_parser_node(p, kind, line, &node));
        node->a = *out;
        HIL_TRY(either ? parse_logic(p, HIL_N_AND, &node->b) : parse_not(p, &node->b));
        *out = node;
        line = hil_parser_token(p)->line;
    }
    return HIL_OK;
}

hil_status hil_parse_expression(hil_parser *p, bool choice, const hil_syntax **out)
{
    int depth = p->depth;
    HIL_TRY(hil_parser_enter(p));
    int line = hil_parser_token(p)->line;
    HIL_TRY(parse_logic(p, HIL_N_OR, out));
    while (choice && hil_parser_skip_name(p, "if")) {
        hil_syntax *node;
        HIL_TRY(hil_parser_enter(p));
        HIL_TRY(hil_parser_node(p, HIL_N_CHOICE, line, &node));
        node->b = *out;
        HIL_TRY(parse_logic(p, HIL_N_OR, &node->a));
        if (hil_parser_skip_name(p, "else")) HIL_TRY(hil_parse_expression(p, true, &node->c));
        *out = node;
        line = hil_parser_token(p)->line;
    }
    p->depth = depth;
    return HIL_OK;
}
