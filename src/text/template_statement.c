/* template_statement.c - parses the statements of a template. */
#include "text/template_parser.h"

#include <string.h>

typedef struct end_tags {
    const char *names[4];
} end_tags;

static hil_status parse_body(hil_parser *p, const end_tags *ends, const hil_syntax **out);

/* Parses a body. ":" may precede the end of the tag that opens it. */
static hil_status parse_block(hil_parser *p, const end_tags *ends, const hil_syntax **out)
{
    hil_parser_skip_operator(p, ":");
    HIL_TRY(hil_parser_expect(p, HIL_T_BLOCK_END, "end of statement block"));
    return parse_body(p, ends, out);
}

/* Parses a body up to the tag `end`, and consumes that. */
static hil_status parse_closed(hil_parser *p, const char *end, const hil_syntax **out)
{
    HIL_TRY(parse_block(p, &(end_tags){{end}}, out));
    hil_parser_skip(p);
    return HIL_OK;
}

static hil_status parse_if(hil_parser *p, hil_syntax *node)
{
    static const end_tags ends = {{"elif", "else", "endif"}};
    for (;;) {
        HIL_TRY(hil_parse_tuple(p, false, HIL_TUPLE_PLAIN, &node->a));
        HIL_TRY(parse_block(p, &ends, &node->body));
        int line = hil_parser_token(p)->line;
        if (hil_parser_skip_name(p, "endif")) return HIL_OK;
        if (hil_parser_skip_name(p, "else")) return parse_closed(p, "endif", &node->otherwise);
        hil_parser_skip(p);
        hil_syntax *next;
        HIL_TRY(hil_parser_node(p, HIL_N_IF, line, &next));
        node->c = next;
        node = next;
    }
}

static hil_status refuse_loop(const hil_parser *p, const hil_syntax *target)
{
    if (target->kind == HIL_N_NAME && target->name == p->made->name_loop)
        return hil_parser_fail(p, target->line,
                               "Can't assign to special loop variable in for-loop target");
    for (const hil_syntax *item = target->list; item; item = item->next)
        HIL_TRY(refuse_loop(p, item));
    return HIL_OK;
}

static hil_status parse_for(hil_parser *p, hil_syntax *node)
{
    static const end_tags ends = {{"endfor", "else"}};
    bool in_loop = p->in_loop, uses_loop = p->uses_loop;
    HIL_TRY(hil_parse_target(p, false, HIL_TUPLE_BEFORE_IN, &node->a));
    HIL_TRY(refuse_loop(p, node->a));
    if (!hil_parser_skip_name(p, "in"))
        return hil_parser_fail(p, hil_parser_token(p)->line, "expected 'in' after 'for'");
    HIL_TRY(hil_parse_tuple(p, false, HIL_TUPLE_BEFORE_RECURSIVE, &node->b));
    if (hil_parser_skip_name(p, "if")) HIL_TRY(hil_parse_expression(p, true, &node->c));
    node->recursive = hil_parser_skip_name(p, "recursive");
    p->in_loop = true;
    p->uses_loop = false;
    HIL_TRY(parse_block(p, &ends, &node->body));
    node->uses_loop = p->uses_loop || node->recursive;
    p->uses_loop = uses_loop;
    p->in_loop = in_loop;
    if (hil_parser_skip_name(p, "else")) return parse_closed(p, "endfor", &node->otherwise);
    hil_parser_skip(p);
    return HIL_OK;
}

static hil_status parse_set(hil_parser *p, hil_syntax *node)
{
    HIL_TRY(hil_parse_target(p, true, HIL_TUPLE_PLAIN, &node->a));
    if (hil_parser_skip_operator(p, "="))
        return hil_parse_tuple(p, true, HIL_TUPLE_PLAIN, &node->b);
    node->kind = HIL_N_SET_BLOCK;
    HIL_TRY(hil_parse_filters(p, NULL, false, &node->b));
    bool in_loop = p->in_loop;
    HIL_TRY(parse_closed(p, "endset", &node->body));
    p->in_loop = in_loop;
    return HIL_OK;
}

enum { MOST_PARAMETERS = 64 };

static hil_status parse_parameters(hil_parser *p, hil_signature *macro)
{
    int names[MOST_PARAMETERS];
    const hil_syntax *values[MOST_PARAMETERS] = {0};
    size_t count = 0;
    HIL_TRY(hil_parser_expect_operator(p, "("));
    while (!hil_parser_is_operator(p, ")")) {
        if (count) HIL_TRY(hil_parser_expect_operator(p, ","));
        int line = hil_parser_token(p)->line;
        if (count == MOST_PARAMETERS)
            return hil_parser_fail(p, line, "a macro with more than %d parameters",
                                   MOST_PARAMETERS);
        HIL_TRY(hil_parser_name(p, &names[count]));
        if (hil_parser_skip_operator(p, "="))
            HIL_TRY(hil_parse_expression(p, true, &values[count]));
        else if (count && values[count - 1])
            return hil_parser_fail(p, line, "non-default argument follows default argument");
        ++count;
    }
    HIL_TRY(hil_parser_expect_operator(p, ")"));
    int *parameters;
    const hil_chars **words;
    const hil_syntax **defaults;
    HIL_TRY(HIL_ARENA_NEW(&p->made->arena, count, &parameters));
    HIL_TRY(HIL_ARENA_NEW(&p->made->arena, count, &words));
    HIL_TRY(HIL_ARENA_NEW(&p->made->arena, count, &defaults));
    for (size_t i = 0; i < count; ++i) {
        parameters[i] = names[i];
        words[i] = p->made->names[names[i]];
        defaults[i] = values[i];
    }
    macro->parameters = parameters;
    macro->words = words;
    macro->defaults = defaults;
    macro->count = count;
    return HIL_OK;
}

static bool has_parameter(const hil_signature *macro, int name)
{
    for (size_t i = 0; i < macro->count; ++i)
        if (macro->parameters[i] == name) return true;
    return false;
}

static hil_status parse_macro_body(hil_parser *p, hil_signature *macro, const char *end)
{
    bool in_loop = p->in_loop, uses_caller = p->uses_caller, uses_kwargs = p->uses_kwargs,
         uses_varargs = p->uses_varargs;
    p->in_loop = p->uses_caller = p->uses_kwargs = p->uses_varargs = false;
    HIL_TRY(parse_closed(p, end, &macro->body));
    const hil_jinja *t = p->made;
    macro->uses_caller = p->uses_caller && !has_parameter(macro, t->name_caller);
    macro->uses_kwargs = p->uses_kwargs && !has_parameter(macro, t->name_kwargs);
    macro->uses_varargs = p->uses_varargs && !has_parameter(macro, t->name_varargs);
    p->in_loop = in_loop;
    p->uses_caller |= uses_caller;
    p->uses_kwargs |= uses_kwargs;
    p->uses_varargs |= uses_varargs;
    return HIL_OK;
}

static hil_status parse_macro(hil_parser *p, hil_syntax *node)
{
    HIL_TRY(HIL_ARENA_NEW(&p->made->arena, 1, &node->macro));
    HIL_TRY(hil_parser_name(p, &node->name));
    node->macro->name = p->made->names[node->name];
    HIL_TRY(parse_parameters(p, node->macro));
    return parse_macro_body(p, node->macro, "endmacro");
}

static hil_status parse_call_block(hil_parser *p, hil_syntax *node)
{
    HIL_TRY(HIL_ARENA_NEW(&p->made->arena, 1, &node->macro));
    node->macro->name = p->made->names[p->made->name_caller];
    if (hil_parser_is_operator(p, "(")) HIL_TRY(parse_parameters(p, node->macro));
    HIL_TRY(hil_parse_expression(p, true, &node->a));
    if (node->a->kind != HIL_N_CALL) return hil_parser_fail(p, node->line, "expected call");
    return parse_macro_body(p, node->macro, "endcall");
}

static hil_status parse_with(hil_parser *p, hil_syntax *node)
{
    const hil_syntax **end = &node->list;
    while (hil_parser_token(p)->type == HIL_T_NAME || hil_parser_is_operator(p, ",")) {
        if (node->list) HIL_TRY(hil_parser_expect_operator(p, ","));
        hil_syntax *pair;
        HIL_TRY(hil_parser_node(p, HIL_N_SET, node->line, &pair));
        HIL_TRY(hil_parse_target(p, false, HIL_TUPLE_PLAIN, &pair->a));
        HIL_TRY(hil_parser_expect_operator(p, "="));
        HIL_TRY(hil_parse_expression(p, true, &pair->b));
        *end = pair;
        end = &pair->next;
    }
    return parse_closed(p, "endwith", &node->body);
}

static hil_status parse_filter_block(hil_parser *p, hil_syntax *node)
{
    HIL_TRY(hil_parse_filters(p, NULL, true, &node->b));
    return parse_closed(p, "endfilter", &node->body);
}

static hil_status parse_generation(hil_parser *p, hil_syntax *node)
{
    bool in_loop = p->in_loop;
    p->in_loop = false;
    p->made->generation = true;
    HIL_TRY(parse_closed(p, "endgeneration", &node->body));
    p->in_loop = in_loop;
    return HIL_OK;
}

static hil_status parse_jump(hil_parser *p, hil_syntax *node)
{
    if (!p->in_loop)
        return hil_parser_fail(p, node->line, "'%s' outside loop",
                               node->kind == HIL_N_BREAK ? "break" : "continue");
    return HIL_OK;
}

/* {% print a, b %} */
static hil_status parse_print(hil_parser *p, hil_syntax *node)
{
    hil_syntax *last = node;
    while (hil_parser_token(p)->type != HIL_T_BLOCK_END) {
        if (last->a) {
            hil_syntax *next;
            HIL_TRY(hil_parser_expect_operator(p, ","));
            HIL_TRY(hil_parser_node(p, HIL_N_OUTPUT, node->line, &next));
            last->next = next;
            last = next;
        }
        HIL_TRY(hil_parse_expression(p, true, &last->a));
    }
    return HIL_OK;
}

static const struct tag {
    const char *name;
    hil_node_kind kind;
    hil_status (*parse)(hil_parser *, hil_syntax *);
} tags[] = {
    {"if", HIL_N_IF, parse_if},
    {"for", HIL_N_FOR, parse_for},
    {"set", HIL_N_SET, parse_set},
    {"macro", HIL_N_MACRO, parse_macro},
    {"call", HIL_N_CALL_BLOCK, parse_call_block},
    {"filter", HIL_N_FILTER_BLOCK, parse_filter_block},
    {"with", HIL_N_WITH, parse_with},
    {"print", HIL_N_OUTPUT, parse_print},
    {"generation", HIL_N_GENERATION, parse_generation},
    {"break", HIL_N_BREAK, parse_jump},
    {"continue", HIL_N_CONTINUE, parse_jump},
};

static const char *const other_tags[] = {"block",  "extends", "include",
                                         "import", "from",    "autoescape"};

static hil_status parse_statement(hil_parser *p, hil_syntax **out)
{
    const hil_token *token = hil_parser_token(p);
    if (token->type != HIL_T_NAME) return hil_parser_fail(p, token->line, "tag name expected");
    for (size_t i = 0; i < sizeof tags / sizeof *tags; ++i) {
        if (!hil_parser_skip_name(p, tags[i].name)) continue;
        HIL_TRY(hil_parser_enter(p));
        HIL_TRY(hil_parser_node(p, tags[i].kind, token->line, out));
        HIL_TRY(tags[i].parse(p, *out));
        hil_parser_leave(p);
        return hil_parser_expect(p, HIL_T_BLOCK_END, "end of statement block");
    }
    for (size_t i = 0; i < sizeof other_tags / sizeof *other_tags; ++i)
        if (hil_parser_is_name(p, other_tags[i]))
            return hil_parser_fail(p, token->line,
                                   "'%s': chat templates do not load or extend other templates",
                                   other_tags[i]);
    return hil_parser_fail(p, token->line, "Encountered unknown tag '%.*s'.",
                           (int)(token->size < 60 ? token->size : 60), token->data);
}

static hil_status parse_output(hil_parser *p, hil_syntax **out)
{
    hil_parser_skip(p);
    HIL_TRY(hil_parser_node(p, HIL_N_OUTPUT, hil_parser_token(p)->line, out));
    HIL_TRY(hil_parse_tuple(p, true, HIL_TUPLE_PLAIN, &(*out)->a));
    return hil_parser_expect(p, HIL_T_OUTPUT_END, "end of print statement");
}

static hil_status parse_data(hil_parser *p, hil_syntax **out)
{
    const hil_token *token = hil_parser_token(p);
    hil_chars *text;
    HIL_TRY(hil_parser_node(p, HIL_N_DATA, token->line, out));
    HIL_TRY(HIL_ARENA_NEW(&p->made->arena, 1, &text));
    *text = (hil_chars){token->data, token->size, 0, false};
    (*out)->value = HIL_TEXT(text);
    hil_parser_skip(p);
    return HIL_OK;
}

static bool at_end_tag(const hil_parser *p, const end_tags *ends)
{
    for (int i = 0; ends && ends->names[i]; ++i)
        if (hil_parser_is_name(p, ends->names[i])) return true;
    return false;
}

/* Parses up to the name of one of the end tags; without `ends`, to the end of the template. */
static hil_status parse_body(hil_parser *p, const end_tags *ends, const hil_syntax **out)
{
    for (;;) {
        hil_syntax *node;
        int line = hil_parser_token(p)->line;
        switch (hil_parser_token(p)->type) {
        case HIL_T_END:
            if (!ends) return HIL_OK;
            return hil_parser_fail(
                p, line, "Unexpected end of template. Jinja was looking for '%s'.", ends->names[0]);
        case HIL_T_DATA:
            HIL_TRY(parse_data(p, &node));
            break;
        case HIL_T_OUTPUT_BEGIN:
            HIL_TRY(parse_output(p, &node));
            break;
        default:
            hil_parser_skip(p);
            if (at_end_tag(p, ends)) return HIL_OK;
            HIL_TRY(parse_statement(p, &node));
        }
        *out = node;
        while (node->next) node = (hil_syntax *)node->next;
        out = &node->next;
    }
}

hil_status hil_parse_statements(hil_parser *p)
{
    return parse_body(p, NULL, &p->made->body);
}
