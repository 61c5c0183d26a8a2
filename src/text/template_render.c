/* template_render.c - one rendering from its variables to its text, within its limits. */
#include "text/template_render.h"

#include "text/template_eval.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

hil_jinja_limits hil_jinja_default_limits(void)
{
    return (hil_jinja_limits){
        .steps = 50 * 1000 * 1000, .bytes = (size_t)512 << 20, .depth = 1500, .now = 0};
}

hil_status hil_render_fail(const hil_render *r, const char *format, ...)
{
    char words[900];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return hil_fail(HIL_ERR_INPUT, "%s, line %d: %s", r->source->what, r->line, words);
}

hil_status hil_render_undefined(hil_render *r, hil_variant value)
{
    const hil_unknown *unknown = value.unknown;
    if (unknown->hint) return hil_render_fail(r, "%s", unknown->hint);
    const hil_chars *name;
    size_t mark;
    hil_variant words;
    hil_capture_begin(r, &mark);
    HIL_TRY(hil_print_repr(r, unknown->name));
    HIL_TRY(hil_capture_end(r, mark, &words));
    name = words.text;
    if (!unknown->owner)
        return hil_render_fail(r, "%.*s is undefined", (int)name->size, name->data);
    if (unknown->name.type == HIL_V_TEXT)
        return hil_render_fail(r, "'%s object' has no attribute %.*s", unknown->owner,
                               (int)name->size, name->data);
    return hil_render_fail(r, "%s object has no element %.*s", unknown->owner, (int)name->size,
                           name->data);
}

hil_status hil_render_step(hil_render *r, size_t count)
{
    if (r->steps < count)
        return hil_render_fail(r, "the template needs more than %llu steps",
                               (unsigned long long)r->limits->steps);
    r->steps -= count;
    return HIL_OK;
}

static hil_status take(hil_render *r, size_t bytes)
{
    if (r->bytes < bytes) {
        char most[32];
        return hil_render_fail(r, "the template needs more than %s of memory",
                               hil_text_bytes(most, r->limits->bytes));
    }
    r->bytes -= bytes;
    return HIL_OK;
}

hil_status hil_render_alloc(hil_render *r, size_t bytes, void **out)
{
    HIL_TRY(take(r, bytes));
    return hil_arena_alloc(&r->arena, bytes, out);
}

hil_status hil_render_enter(hil_render *r)
{
    if (++r->depth > r->limits->depth)
        return hil_render_fail(r, "more than %d calls and expressions inside each other",
                               r->limits->depth);
    return HIL_OK;
}

void hil_render_leave(hil_render *r)
{
    --r->depth;
}

hil_status hil_render_add(hil_render *r, const char *bytes, size_t size)
{
    HIL_TRY(take(r, size));
    HIL_TRY(hil_render_step(r, size / 64));
    return hil_text_add(r->out, bytes, size);
}

hil_status hil_render_print(hil_render *r, const char *format, ...)
{
    char words[512];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(words, sizeof words, format, args);
    va_end(args);
    assert(size >= 0 && (size_t)size < sizeof words);
    return hil_render_add(r, words, (size_t)size);
}

void hil_capture_begin(hil_render *r, size_t *mark)
{
    ++r->captures;
    *mark = r->out->size;
}

hil_status hil_capture_end(hil_render *r, size_t mark, hil_variant *out)
{
    --r->captures;
    HIL_TRY(hil_chars_copy(r, r->out->data + mark, r->out->size - mark, out));
    r->out->size = mark;
    r->out->data[mark] = 0;
    return HIL_OK;
}

static hil_status render(hil_render *r, const json_t *variables)
{
    hil_variant given;
    hil_scope scope;
    if (!json_is_object(variables))
        return hil_fail(HIL_ERR_INPUT, "%s: its variables must be a JSON object", r->source->what);
    HIL_TRY(hil_text_add(r->out, "", 0)); /* allocates it, so that texts can point into it */
    HIL_TRY(hil_variant_from_json(r, variables, &given));
    r->variables = given.dict;
    HIL_TRY(hil_scope_begin(r, NULL, &r->source->hidden, &scope));
    return hil_execute(r, &scope, r->source->body);
}

hil_status hil_jinja_render(const hil_jinja *parsed, const json_t *variables,
                            const hil_jinja_limits *limits, hil_rendering *out)
{
    hil_jinja_limits standard = hil_jinja_default_limits();
    if (!limits) limits = &standard;
    hil_render r = {.source = parsed,
                    .limits = limits,
                    .steps = limits->steps,
                    .bytes = limits->bytes,
                    .line = 1,
                    .out = &out->text,
                    .result = out};
    hil_status status = render(&r, variables);
    hil_arena_free(&r.arena);
    return status;
}

void hil_rendering_free(hil_rendering *rendering)
{
    hil_text_free(&rendering->text);
    hil_free(rendering->spans);
    *rendering = (hil_rendering){0};
}
