/* template_call.c - calls of macros, builtins and methods; binding arguments to parameters. */
#include "text/template_eval.h"

#include <string.h>

const hil_builtin *hil_builtin_find(const hil_builtin *table, const char *name, size_t size)
{
    for (; table->name; ++table)
        if (strlen(table->name) == size && memcmp(table->name, name, size) == 0) return table;
    return NULL;
}

static const hil_keyword *find_keyword(const hil_arguments *arguments, const hil_chars *name)
{
    for (size_t i = 0; i < arguments->keyword_count; ++i)
        if (arguments->keywords[i].name->size == name->size &&
            memcmp(arguments->keywords[i].name->data, name->data, name->size) == 0)
            return &arguments->keywords[i];
    return NULL;
}

static hil_status bind(hil_render *r, const hil_builtin *builtin, hil_call *call)
{
    size_t most = 0;
    while (builtin->parameters[most]) ++most;
    const hil_arguments *given = &call->given;
    if (given->count > most)
        return hil_render_fail(r, "%s() takes at most %zu arguments (%zu given)", builtin->name,
                               most, given->count);
    for (size_t i = 0; i < given->count; ++i) call->bound[i] = given->values[i];
    for (size_t k = 0; k < given->keyword_count; ++k) {
        const hil_chars *name = given->keywords[k].name;
        size_t i = 0;
        while (i < most && !hil_chars_is(name, builtin->parameters[i])) ++i;
        if (i == most)
            return hil_render_fail(r, "%s() got an unexpected keyword argument '%.*s'",
                                   builtin->name, (int)name->size, name->data);
        if (call->bound[i].type != HIL_V_ABSENT)
            return hil_render_fail(r, "%s() got multiple values for argument '%s'", builtin->name,
                                   builtin->parameters[i]);
        call->bound[i] = given->keywords[k].value;
    }
    for (int i = 0; i < builtin->required; ++i)
        if (call->bound[i].type == HIL_V_ABSENT)
            return hil_render_fail(r, "%s() missing 1 required positional argument: '%s'",
                                   builtin->name, builtin->parameters[i]);
    return HIL_OK;
}

hil_status hil_builtin_call(hil_render *r, const hil_builtin *builtin, hil_variant self,
                            const hil_arguments *arguments, hil_variant *out)
{
    hil_call call = {.self = self, .given = *arguments};
    if (!builtin->any) HIL_TRY(bind(r, builtin, &call));
    HIL_TRY(hil_render_enter(r));
    HIL_TRY(builtin->run(r, &call, out));
    hil_render_leave(r);
    return HIL_OK;
}

/* Collects the arguments that no parameter of the macro took. */
static hil_status bind_rest(hil_render *r, const hil_macro *macro, const hil_arguments *arguments,
                            hil_scope *scope)
{
    const hil_signature *s = macro->signature;
    const hil_chars *caller = r->source->names[r->source->name_caller];
    hil_dict *rest;
    HIL_TRY(hil_dict_create(r, 0, &rest));
    for (size_t i = 0; i < arguments->keyword_count; ++i) {
        const hil_keyword *keyword = &arguments->keywords[i];
        bool taken = s->uses_caller && keyword->name->size == caller->size &&
                     memcmp(keyword->name->data, caller->data, caller->size) == 0;
        for (size_t k = arguments->count; k < s->count && !taken; ++k)
            taken = s->words[k]->size == keyword->name->size &&
                    memcmp(s->words[k]->data, keyword->name->data, keyword->name->size) == 0;
        if (taken) continue;
        if (!s->uses_kwargs)
            return hil_render_fail(r, "macro '%.*s' takes no keyword argument '%.*s'",
                                   (int)s->name->size, s->name->data, (int)keyword->name->size,
                                   keyword->name->data);
        HIL_TRY(hil_dict_set(r, rest, HIL_TEXT(keyword->name), keyword->value));
    }
    if (s->uses_kwargs)
        HIL_TRY(hil_scope_set(r, scope, r->source->name_kwargs,
                              (hil_variant){.type = HIL_V_DICT, .dict = rest}));
    if (!s->uses_varargs && arguments->count > s->count)
        return hil_render_fail(r, "macro '%.*s' takes not more than %zu argument(s)",
                               (int)s->name->size, s->name->data, s->count);
    if (!s->uses_varargs) return HIL_OK;
    hil_items *more;
    HIL_TRY(hil_items_create(r, 0, &more));
    for (size_t i = s->count; i < arguments->count; ++i)
        HIL_TRY(hil_items_add(r, more, arguments->values[i]));
    return hil_scope_set(r, scope, r->source->name_varargs, hil_items_tuple(more));
}

static hil_status bind_parameters(hil_render *r, const hil_macro *macro,
                                  const hil_arguments *arguments, hil_scope *scope)
{
    const hil_signature *s = macro->signature;
    HIL_TRY(bind_rest(r, macro, arguments, scope));
    if (s->uses_caller) {
        const hil_chars *name = r->source->names[r->source->name_caller];
        const hil_keyword *keyword = find_keyword(arguments, name);
        hil_variant caller;
        if (keyword)
            caller = keyword->value;
        else
            HIL_TRY(hil_undefined_hint(r, "No caller defined", &caller));
        HIL_TRY(hil_scope_set(r, scope, r->source->name_caller, caller));
    }
    for (size_t i = 0; i < s->count; ++i) {
        const hil_keyword *keyword = find_keyword(arguments, s->words[i]);
        hil_variant value;
        if (i < arguments->count)
            value = arguments->values[i];
        else if (keyword)
            value = keyword->value;
        else if (s->defaults[i])
            HIL_TRY(hil_evaluate(r, scope, s->defaults[i], &value));
        else
            HIL_TRY(hil_undefined_hint(r, "parameter was not provided", &value));
        HIL_TRY(hil_scope_set(r, scope, s->parameters[i], value));
    }
    return HIL_OK;
}

hil_status hil_macro_call(hil_render *r, const hil_macro *macro, const hil_arguments *arguments,
                          hil_variant *out)
{
    hil_scope *scope;
    size_t mark;
    HIL_TRY(hil_render_enter(r));
    HIL_TRY(HIL_RENDER_NEW(r, 1, &scope));
    HIL_TRY(hil_scope_begin(r, macro->scope, &macro->signature->hidden, scope));
    HIL_TRY(bind_parameters(r, macro, arguments, scope));
    hil_capture_begin(r, &mark);
    HIL_TRY(hil_execute(r, scope, macro->signature->body));
    HIL_TRY(hil_capture_end(r, mark, out));
    hil_render_leave(r);
    return HIL_OK;
}

/* Calls loop(x), which takes one argument. */
static hil_status call_loop(hil_render *r, hil_loop *loop, const hil_arguments *arguments,
                            hil_variant *out)
{
    if (arguments->count != 1 || arguments->keyword_count)
        return hil_render_fail(r, "loop() takes one argument: what it goes through");
    HIL_TRY(hil_render_enter(r));
    HIL_TRY(hil_loop_recurse(r, loop, arguments->values[0], out));
    hil_render_leave(r);
    return HIL_OK;
}

/* "" the first time, then the separator. */
static hil_status call_joiner(hil_render *r, hil_cycler *joiner, hil_variant *out)
{
    if (joiner->at++ == 0) return hil_chars_literal(r, "", out);
    *out = joiner->values[0];
    return HIL_OK;
}

hil_status hil_variant_call(hil_render *r, hil_variant callee, const hil_arguments *arguments,
                            hil_variant *out)
{
    switch (callee.type) {
    case HIL_V_UNDEFINED:
        return hil_render_undefined(r, callee);
    case HIL_V_MACRO:
        return hil_macro_call(r, callee.macro, arguments, out);
    case HIL_V_FUNCTION:
        return hil_builtin_call(r, callee.function, (hil_variant){0}, arguments, out);
    case HIL_V_METHOD:
        return hil_builtin_call(r, callee.method->builtin, callee.method->self, arguments, out);
    case HIL_V_LOOP:
        return call_loop(r, callee.loop, arguments, out);
    case HIL_V_JOINER:
        return call_joiner(r, callee.cycler, out);
    default:
        return hil_render_fail(r, "'%s' object is not callable", hil_variant_type_name(callee));
    }
}

hil_status hil_argument_integer(hil_render *r, hil_variant value, int64_t absent, int64_t *out)
{
    *out = absent;
    if (value.type == HIL_V_ABSENT) return HIL_OK;
    if (value.type == HIL_V_UNDEFINED) return hil_render_undefined(r, value);
    if (value.type != HIL_V_INT && value.type != HIL_V_BOOL)
        return hil_render_fail(r, "'%s' object cannot be interpreted as an integer",
                               hil_variant_type_name(value));
    *out = hil_variant_integer(value);
    return HIL_OK;
}

hil_status hil_argument_text(hil_render *r, hil_variant value, const hil_chars **out)
{
    if (value.type == HIL_V_UNDEFINED) return hil_render_undefined(r, value);
    if (value.type != HIL_V_TEXT)
        return hil_render_fail(r, "a string is needed, not '%s'", hil_variant_type_name(value));
    *out = value.text;
    return HIL_OK;
}
