/* template_scope.c - finds the names that a scope hides from the variables around it. */

/* [Note: hidden names] Jinja decides when it compiles a template what a name means in a scope. A
 * name that a scope assigns before it reads it, outside of conditions, belongs to that scope from
 * its start: until the assignment it is undefined for the scopes inside, even when the rendering
 * was given a variable of that name. So `{% for x in y %}{{ z }}{% endfor %}{% set z = 1 %}` prints
 * nothing for any z. Everything else about scopes needs no preparation: a name is looked up in the
 * scopes from the inside out, then among the variables.
 *
 * Filters and tests that do not exist are refused here too, except inside conditions, where Jinja
 * also fails only when they are reached. */
#include "text/template_parser.h"

/* The names of a scope, as far as its statements were read. */
typedef struct frame {
    const struct frame *parent;
    unsigned char *known; /* per name: KNOWN_... */
    size_t count;
} frame;

enum { KNOWN_READ = 1, KNOWN_HIDDEN = 2, KNOWN_STORED = 4 };

typedef struct analysis {
    hil_jinja *made;
    bool conditional; /* inside an if */
} analysis;

static hil_status read_body(analysis *a, frame *f, const hil_syntax *body);
static hil_status read_inner(analysis *a, const hil_syntax *body, const frame *f);

static bool known_around(const frame *f, int name)
{
    for (f = f->parent; f; f = f->parent)
        if (f->known[name]) return true;
    return false;
}

static void load(frame *f, int name)
{
    if (!f->known[name] && !known_around(f, name)) f->known[name] = KNOWN_READ;
}

static void store(const analysis *a, frame *f, int name)
{
    if (f->known[name] == 0)
        f->known[name] = a->conditional || known_around(f, name) ? KNOWN_READ : KNOWN_HIDDEN;
    f->known[name] |= KNOWN_STORED;
}

static void read_target(const analysis *a, frame *f, const hil_syntax *target)
{
    if (target->kind == HIL_N_NAME) store(a, f, target->name);
    if (target->kind == HIL_N_NSREF) load(f, target->name);
    for (const hil_syntax *item = target->list; item; item = item->next) read_target(a, f, item);
}

static hil_status refuse_unknown(const analysis *a, const hil_syntax *node)
{
    const hil_chars *name = node->value.text;
    return hil_fail(HIL_ERR_INPUT, "%s, line %d: No %s named '%.*s'.", a->made->what, node->line,
                    node->kind == HIL_N_FILTER ? "filter" : "test",
                    (int)(name->size < 100 ? name->size : 100), name->data);
}

static hil_status read_expression(analysis *a, frame *f, const hil_syntax *node)
{
    if (!node) return HIL_OK;
    if (node->kind == HIL_N_NAME) load(f, node->name);
    bool conditional = a->conditional;
    bool applied = node->kind == HIL_N_FILTER || node->kind == HIL_N_TEST;
    if (applied && !node->builtin && !conditional) return refuse_unknown(a, node);
    a->conditional = conditional || node->kind == HIL_N_CHOICE;
    HIL_TRY(read_expression(a, f, node->a));
    HIL_TRY(read_expression(a, f, node->b));
    HIL_TRY(read_expression(a, f, node->c));
    HIL_TRY(read_expression(a, f, node->d));
    for (const hil_syntax *item = node->list; item; item = item->next)
        HIL_TRY(read_expression(a, f, item));
    for (const hil_argument *item = node->arguments; item; item = item->next)
        HIL_TRY(read_expression(a, f, item->value));
    a->conditional = conditional;
    return HIL_OK;
}

static hil_status open_frame(analysis *a, const frame *parent, frame *out)
{
    *out = (frame){.parent = parent, .count = a->made->name_count};
    return HIL_ALLOC(out->count + 1, &out->known);
}

/* Stores the hidden names of a frame. */
static hil_status store_hidden(analysis *a, const frame *f, hil_names *hidden)
{
    for (size_t i = 0; i < f->count; ++i) hidden->count += (f->known[i] & KNOWN_HIDDEN) != 0;
    if (!hidden->count) return HIL_OK;
    HIL_TRY(HIL_ARENA_NEW(&a->made->arena, hidden->count, &hidden->data));
    for (size_t i = 0, put = 0; i < f->count; ++i)
        if (f->known[i] & KNOWN_HIDDEN) hidden->data[put++] = (int)i;
    return HIL_OK;
}

/* Reads a scope in two passes: first its own names, then the scopes inside, which need all of
   them. */
static hil_status read_scope(analysis *a, frame *f, const hil_syntax *body, hil_names *hidden)
{
    bool conditional = a->conditional;
    a->conditional = false;
    hil_status status = read_body(a, f, body);
    if (status == HIL_OK) status = store_hidden(a, f, hidden);
    if (status == HIL_OK) status = read_inner(a, body, f);
    a->conditional = conditional;
    hil_free(f->known);
    return status;
}

/* Reads expressions at the start of a scope, which see its names; no condition is around them. */
static hil_status read_alone(analysis *a, frame *f, const hil_syntax *node)
{
    bool conditional = a->conditional;
    a->conditional = false;
    hil_status status = read_expression(a, f, node);
    a->conditional = conditional;
    return status;
}

static hil_status read_macro(analysis *a, const frame *parent, hil_signature *macro)
{
    frame f;
    hil_status status = HIL_OK;
    HIL_TRY(open_frame(a, parent, &f));
    for (size_t i = 0; i < macro->count && status == HIL_OK; ++i) {
        f.known[macro->parameters[i]] = KNOWN_STORED | KNOWN_READ;
        status = read_alone(a, &f, macro->defaults[i]);
    }
    if (status != HIL_OK) {
        hil_free(f.known);
        return status;
    }
    f.known[a->made->name_caller] |= macro->uses_caller ? KNOWN_READ : 0;
    f.known[a->made->name_kwargs] |= macro->uses_kwargs ? KNOWN_READ : 0;
    f.known[a->made->name_varargs] |= macro->uses_varargs ? KNOWN_READ : 0;
    return read_scope(a, &f, macro->body, &macro->hidden);
}

static void take_target(frame *f, const hil_syntax *target)
{
    if (target->kind == HIL_N_NAME) f->known[target->name] = KNOWN_STORED | KNOWN_READ;
    for (const hil_syntax *item = target->list; item; item = item->next) take_target(f, item);
}

/* Reads the condition of a loop, which is a scope of its own. */
static hil_status read_condition(analysis *a, const frame *parent, const hil_syntax *node)
{
    frame f;
    HIL_TRY(open_frame(a, parent, &f));
    take_target(&f, node->a);
    hil_status status = read_alone(a, &f, node->c);
    hil_free(f.known);
    return status;
}

static hil_status read_block(analysis *a, const frame *parent, hil_syntax *node)
{
    frame f;
    if (node->kind == HIL_N_FOR) HIL_TRY(read_condition(a, parent, node));
    HIL_TRY(open_frame(a, parent, &f));
    if (node->kind == HIL_N_FOR) {
        take_target(&f, node->a);
        if (node->uses_loop) f.known[a->made->name_loop] = KNOWN_READ;
    }
    if (node->kind == HIL_N_WITH)
        for (const hil_syntax *pair = node->list; pair; pair = pair->next) take_target(&f, pair->a);
    HIL_TRY(read_scope(a, &f, node->body, &node->hidden));
    if (!node->otherwise) return HIL_OK;
    hil_names unused = {0}; /* no statement runs between the start of an else and its assignments */
    HIL_TRY(open_frame(a, parent, &f));
    return read_scope(a, &f, node->otherwise, &unused);
}

/* Reads the scopes that statements open. */
static hil_status read_inner(analysis *a, const hil_syntax *body, const frame *f)
{
    for (; body; body = body->next) {
        hil_syntax *node = (hil_syntax *)body;
        switch (node->kind) {
        case HIL_N_IF:
            for (const hil_syntax *branch = node; branch; branch = branch->c) {
                HIL_TRY(read_inner(a, branch->body, f));
                HIL_TRY(read_inner(a, branch->otherwise, f));
            }
            break;
        case HIL_N_FOR:
        case HIL_N_SET_BLOCK:
        case HIL_N_FILTER_BLOCK:
        case HIL_N_WITH:
        case HIL_N_GENERATION:
            HIL_TRY(read_block(a, f, node));
            break;
        case HIL_N_MACRO:
        case HIL_N_CALL_BLOCK:
            HIL_TRY(read_macro(a, f, node->macro));
            break;
        default:
            break;
        }
    }
    return HIL_OK;
}

static hil_status read_if(analysis *a, frame *f, const hil_syntax *node)
{
    bool conditional = a->conditional;
    for (; node; node = node->c) {
        a->conditional = true;
        HIL_TRY(read_expression(a, f, node->a));
        HIL_TRY(read_body(a, f, node->body));
        HIL_TRY(read_body(a, f, node->otherwise));
    }
    a->conditional = conditional;
    return HIL_OK;
}

/* Reads the names that statements use and assign in their own scope, in order. */
static hil_status read_body(analysis *a, frame *f, const hil_syntax *body)
{
    for (; body; body = body->next) {
        switch (body->kind) {
        case HIL_N_IF:
            HIL_TRY(read_if(a, f, body));
            break;
        case HIL_N_SET:
            HIL_TRY(read_expression(a, f, body->b));
            read_target(a, f, body->a);
            break;
        case HIL_N_SET_BLOCK:
            read_target(a, f, body->a);
            HIL_TRY(read_alone(a, f, body->b));
            break;
        case HIL_N_MACRO:
            store(a, f, body->name);
            break;
        case HIL_N_WITH:
            for (const hil_syntax *pair = body->list; pair; pair = pair->next)
                HIL_TRY(read_expression(a, f, pair->b));
            break;
        case HIL_N_OUTPUT:
        case HIL_N_CALL_BLOCK:
            HIL_TRY(read_expression(a, f, body->a));
            break;
        case HIL_N_FOR:
            HIL_TRY(read_expression(a, f, body->b));
            break;
        case HIL_N_FILTER_BLOCK:
            HIL_TRY(read_alone(a, f, body->b));
            break;
        default:
            break;
        }
    }
    return HIL_OK;
}

hil_status hil_jinja_find_hidden(hil_jinja *made)
{
    analysis a = {.made = made};
    frame f;
    HIL_TRY(open_frame(&a, NULL, &f));
    return read_scope(&a, &f, made->body, &made->hidden);
}
