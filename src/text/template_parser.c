/* template_parser.c - parses a template: its tokens, names and the whole. */
#include "text/template_parser.h"

#include "text/template.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_DEPTH = 400, MOST_NAMES = 10000 };

hil_status hil_parser_fail(const hil_parser *p, int line, const char *format, ...)
{
    char words[400];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return hil_fail(HIL_ERR_INPUT, "%s, line %d: %s", p->what, line, words);
}

const hil_token *hil_parser_token(const hil_parser *p)
{
    return &p->tokens.data[p->at];
}

void hil_parser_skip(hil_parser *p)
{
    if (p->at + 1 < p->tokens.count) ++p->at;
}

static bool is(const hil_parser *p, hil_token_type type, const char *words)
{
    const hil_token *token = hil_parser_token(p);
    return token->type == type && token->size == strlen(words) &&
           memcmp(token->data, words, token->size) == 0;
}

bool hil_parser_is_name(const hil_parser *p, const char *name)
{
    return is(p, HIL_T_NAME, name);
}

bool hil_parser_is_operator(const hil_parser *p, const char *sign)
{
    return is(p, HIL_T_OPERATOR, sign);
}

bool hil_parser_skip_name(hil_parser *p, const char *name)
{
    bool found = hil_parser_is_name(p, name);
    if (found) hil_parser_skip(p);
    return found;
}

bool hil_parser_skip_operator(hil_parser *p, const char *sign)
{
    bool found = hil_parser_is_operator(p, sign);
    if (found) hil_parser_skip(p);
    return found;
}

static hil_status unexpected(const hil_parser *p, const char *words)
{
    const hil_token *token = hil_parser_token(p);
    if (token->type == HIL_T_END)
        return hil_parser_fail(p, token->line, "unexpected end of template, expected '%s'", words);
    if (!token->data)
        return hil_parser_fail(p, token->line, "unexpected end of the tag, expected '%s'", words);
    return hil_parser_fail(p, token->line, "expected token '%s', got '%.*s'", words,
                           (int)(token->size < 60 ? token->size : 60), token->data);
}

hil_status hil_parser_expect(hil_parser *p, hil_token_type type, const char *words)
{
    if (hil_parser_token(p)->type != type) return unexpected(p, words);
    hil_parser_skip(p);
    return HIL_OK;
}

hil_status hil_parser_expect_operator(hil_parser *p, const char *sign)
{
    return hil_parser_skip_operator(p, sign) ? HIL_OK : unexpected(p, sign);
}

hil_status hil_parser_intern(hil_parser *p, const char *data, size_t size, int *name)
{
    hil_jinja *t = p->made;
    for (size_t i = 0; i < t->name_count; ++i)
        if (t->names[i]->size == size && memcmp(t->names[i]->data, data, size) == 0) {
            *name = (int)i;
            return HIL_OK;
        }
    if (t->name_count == MOST_NAMES)
        return hil_fail(HIL_ERR_INPUT, "%s: more than %d different names", p->what, MOST_NAMES);
    hil_chars *text;
    HIL_TRY(HIL_GROW(&t->names, &t->name_capacity, t->name_count + 1));
    HIL_TRY(HIL_ARENA_NEW(&t->arena, 1, &text));
    *text = (hil_chars){data, size, hil_chars_length(data, size), false};
    *name = (int)t->name_count;
    t->names[t->name_count++] = text;
    return HIL_OK;
}

hil_status hil_parser_name(hil_parser *p, int *name)
{
    const hil_token *token = hil_parser_token(p);
    HIL_TRY(hil_parser_expect(p, HIL_T_NAME, "name"));
    return hil_parser_intern(p, token->data, token->size, name);
}

hil_status hil_parser_node(hil_parser *p, hil_node_kind kind, int line, hil_syntax **out)
{
    HIL_TRY(HIL_ARENA_NEW(&p->made->arena, 1, out));
    (*out)->kind = kind;
    (*out)->line = line;
    return HIL_OK;
}

hil_status hil_parser_enter(hil_parser *p)
{
    if (++p->depth > MOST_DEPTH)
        return hil_parser_fail(p, hil_parser_token(p)->line,
                               "more than %d expressions or blocks inside each other", MOST_DEPTH);
    return HIL_OK;
}

void hil_parser_leave(hil_parser *p)
{
    --p->depth;
}

static hil_status parse(hil_parser *p, const char *text, size_t size)
{
    hil_jinja *t = p->made;
    HIL_TRY(hil_text_copy(p->what, &t->what));
    HIL_TRY(hil_parser_intern(p, "loop", 4, &t->name_loop));
    HIL_TRY(hil_parser_intern(p, "caller", 6, &t->name_caller));
    HIL_TRY(hil_parser_intern(p, "kwargs", 6, &t->name_kwargs));
    HIL_TRY(hil_parser_intern(p, "varargs", 7, &t->name_varargs));
    HIL_TRY(hil_token_list_read(&p->tokens, &t->arena, text, size, p->what));
    HIL_TRY(hil_parse_statements(p));
    return hil_jinja_find_hidden(t);
}

hil_status hil_jinja_parse(hil_jinja **out, const char *text, size_t size, const char *what)
{
    hil_parser p = {.what = what};
    *out = NULL;
    HIL_TRY(HIL_ALLOC(1, &p.made));
    hil_status status = parse(&p, text, size);
    hil_free(p.tokens.data);
    if (status == HIL_OK)
        *out = p.made;
    else
        hil_jinja_destroy(p.made);
    return status;
}

void hil_jinja_destroy(hil_jinja *parsed)
{
    if (!parsed) return;
    hil_arena_free(&parsed->arena);
    hil_free(parsed->names);
    hil_free(parsed->what);
    hil_free(parsed);
}

bool hil_jinja_marks_generation(const hil_jinja *parsed)
{
    return parsed->generation;
}
