/* template_parser.h - functions shared by the parsers of expressions and statements. */
#ifndef HIL_TEXT_TEMPLATE_PARSER_H
#define HIL_TEXT_TEMPLATE_PARSER_H

#include "text/template_lexer.h"
#include "text/template_node.h"

typedef struct hil_jinja hil_jinja;

typedef struct hil_parser {
    hil_jinja *made;
    const char *what;
    hil_token_list tokens;
    size_t at;
    int depth;
    bool in_loop;
    /* which special names were read since they were last cleared */
    bool uses_loop, uses_caller, uses_kwargs, uses_varargs;
} hil_parser;

hil_status hil_parser_fail(const hil_parser *p, int line, const char *format, ...) HIL_PRINTF(3, 4);
/* The current token. */
const hil_token *hil_parser_token(const hil_parser *p);
void hil_parser_skip(hil_parser *p);
bool hil_parser_is_name(const hil_parser *p, const char *name);
bool hil_parser_is_operator(const hil_parser *p, const char *sign);
bool hil_parser_skip_name(hil_parser *p, const char *name);
bool hil_parser_skip_operator(hil_parser *p, const char *sign);
hil_status hil_parser_expect(hil_parser *p, hil_token_type type, const char *words);
hil_status hil_parser_expect_operator(hil_parser *p, const char *sign);
/* Consumes a name and returns its number. */
hil_status hil_parser_name(hil_parser *p, int *name);
hil_status hil_parser_intern(hil_parser *p, const char *data, size_t size, int *name);
hil_status hil_parser_node(hil_parser *p, hil_node_kind kind, int line, hil_syntax **out);
hil_status hil_parser_enter(hil_parser *p);
void hil_parser_leave(hil_parser *p);

/* Where a list without brackets ends. */
typedef enum hil_tuple_end {
    HIL_TUPLE_PLAIN,
    HIL_TUPLE_BEFORE_IN,
    HIL_TUPLE_BEFORE_RECURSIVE
} hil_tuple_end;

bool hil_token_is(const hil_token *token, const char *word);
/* A text of the template. Borrows `data`, which must outlive it. */
hil_status hil_parser_chars(hil_parser *p, const char *data, size_t size, hil_variant *out);
hil_status hil_parser_constant(hil_parser *p, hil_variant value, const hil_syntax **out);
/* Appends to node->list; *end is NULL before the first. */
void hil_syntax_append(hil_syntax *node, const hil_syntax ***end, const hil_syntax *item);

/* Parses a name, a constant, or an expression in brackets; with `attributes` also x.y as one
   target. */
hil_status hil_parse_primary(hil_parser *p, bool attributes, const hil_syntax **out);
hil_status hil_parse_expression(hil_parser *p, bool choice, const hil_syntax **out);
hil_status hil_parse_tuple(hil_parser *p, bool choice, hil_tuple_end end, const hil_syntax **out);
/* Parses the target of an assignment: names, and with `attributes` also x.y. */
hil_status hil_parse_target(hil_parser *p, bool attributes, hil_tuple_end end,
                            const hil_syntax **out);
/* Parses | name(...) | name ... after `node`, which may be NULL; *out is `node` if there are none.
   `inline_name`: the first has no "|". */
hil_status hil_parse_filters(hil_parser *p, const hil_syntax *node, bool inline_name,
                             const hil_syntax **out);
hil_status hil_parse_statements(hil_parser *p);

/* Fills in the hidden names of all scopes: [Note: hidden names] in template_scope.c. */
hil_status hil_jinja_find_hidden(hil_jinja *made);

#endif
