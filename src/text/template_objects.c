/* template_objects.c - finds the methods of a value; those of list, tuple, dict, loop and cycler.
 */
#include "text/template_eval.h"

#include <string.h>

static hil_status run_get(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_pair *pair;
    HIL_TRY(hil_dict_find(r, call->self.dict, call->bound[0], &pair));
    *out = pair ? pair->value : call->bound[1].type == HIL_V_ABSENT ? HIL_NONE : call->bound[1];
    return HIL_OK;
}

static hil_status make_view(hil_render *r, const hil_call *call, int kind, hil_variant *out)
{
    hil_dict_view *view;
    HIL_TRY(HIL_RENDER_NEW(r, 1, &view));
    view->dict = call->self.dict;
    if (kind == HIL_VIEW_KEYS)
        view->kind = HIL_VIEW_KEYS;
    else
        view->kind = kind == HIL_VIEW_VALUES ? HIL_VIEW_VALUES : HIL_VIEW_ITEMS;
    *out = (hil_variant){.type = HIL_V_VIEW, .view = view};
    return HIL_OK;
}

HIL_BUILTIN(run_keys, make_view(r, call, HIL_VIEW_KEYS, out))
HIL_BUILTIN(run_values, make_view(r, call, HIL_VIEW_VALUES, out))
HIL_BUILTIN(run_items, make_view(r, call, HIL_VIEW_ITEMS, out))

/* Values are immutable, so a copy is the value itself. */
static hil_status run_copy(hil_render *r, const hil_call *call, hil_variant *out)
{
    (void)r;
    *out = call->self;
    return HIL_OK;
}

static hil_status run_count(hil_render *r, const hil_call *call, hil_variant *out)
{
    int64_t count = 0;
    for (size_t i = 0; i < call->self.items->count; ++i) {
        bool equal;
        HIL_TRY(hil_variant_equal(r, call->self.items->data[i], call->bound[0], &equal));
        count += equal;
    }
    *out = HIL_INT(count);
    return HIL_OK;
}

static hil_status run_index(hil_render *r, const hil_call *call, hil_variant *out)
{
    for (size_t i = 0; i < call->self.items->count; ++i) {
        bool equal;
        HIL_TRY(hil_variant_equal(r, call->self.items->data[i], call->bound[0], &equal));
        if (equal) {
            *out = HIL_INT((int64_t)i);
            return HIL_OK;
        }
    }
    return hil_render_fail(r, "the value is not in the list");
}

static const hil_builtin dict_methods[] = {
    {"get", run_get, {"key", "default"}, 1, false}, {"items", run_items, {NULL}, 0, false},
    {"keys", run_keys, {NULL}, 0, false},           {"values", run_values, {NULL}, 0, false},
    {"copy", run_copy, {NULL}, 0, false},           {NULL, NULL, {NULL}, 0, false},
};

static const hil_builtin list_methods[] = {
    {"count", run_count, {"value"}, 1, false},
    {"index", run_index, {"value"}, 1, false},
    {"copy", run_copy, {NULL}, 0, false},
    {NULL, NULL, {NULL}, 0, false},
};

/* Methods that change their object: they exist, but the sandbox forbids them. */
static const hil_builtin changing_dict[] = {
    {"clear", NULL, {NULL}, 0, false},   {"pop", NULL, {NULL}, 0, false},
    {"popitem", NULL, {NULL}, 0, false}, {"setdefault", NULL, {NULL}, 0, false},
    {"update", NULL, {NULL}, 0, false},  {NULL, NULL, {NULL}, 0, false},
};

static const hil_builtin changing_list[] = {
    {"append", NULL, {NULL}, 0, false}, {"clear", NULL, {NULL}, 0, false},
    {"pop", NULL, {NULL}, 0, false},    {"reverse", NULL, {NULL}, 0, false},
    {"insert", NULL, {NULL}, 0, false}, {"sort", NULL, {NULL}, 0, false},
    {"extend", NULL, {NULL}, 0, false}, {"remove", NULL, {NULL}, 0, false},
    {NULL, NULL, {NULL}, 0, false},
};

static const hil_builtin nothing[] = {{NULL, NULL, {NULL}, 0, false}};

/* Up to two tables of a type's methods, and the forbidden ones. */
typedef struct method_tables {
    const hil_builtin *first, *second, *changing;
} method_tables;

static method_tables tables_of(hil_variant_type type)
{
    switch (type) {
    case HIL_V_TEXT:
        return (method_tables){hil_text_methods, hil_text_predicates, nothing};
    case HIL_V_LIST:
        return (method_tables){list_methods, nothing, changing_list};
    case HIL_V_TUPLE:
        return (method_tables){list_methods, nothing, nothing};
    case HIL_V_DICT:
        return (method_tables){dict_methods, nothing, changing_dict};
    case HIL_V_LOOP:
        return (method_tables){hil_loop_methods, nothing, nothing};
    case HIL_V_CYCLER:
        return (method_tables){hil_cycler_methods, nothing, nothing};
    default:
        return (method_tables){nothing, nothing, nothing};
    }
}

const hil_builtin *hil_method_find(hil_variant self, const char *name, size_t size, bool *safe)
{
    method_tables tables = tables_of(self.type);
    *safe = true;
    const hil_builtin *found = hil_builtin_find(tables.first, name, size);
    if (!found) found = hil_builtin_find(tables.second, name, size);
    if (found) return found;
    *safe = false;
    return hil_builtin_find(tables.changing, name, size);
}

static hil_status loop_length(hil_render *r, hil_loop *loop, int64_t *out)
{
    if (loop->length < 0) {
        size_t length;
        hil_items *rest;
        if (!loop->node->c && hil_variant_has_length(loop->cursor.source)) {
            HIL_TRY(hil_variant_length(r, loop->cursor.source, &length));
            loop->length = (int64_t)length;
        } else { /* a condition or an iterator: the length is only known at the end */
            bool more = !(loop->has_after && loop->after.type == HIL_V_ABSENT);
            HIL_TRY(hil_items_create(r, 0, &rest));
            while (more) {
                hil_variant item;
                HIL_TRY(hil_loop_fetch(r, loop, &item));
                more = item.type != HIL_V_ABSENT;
                if (more) HIL_TRY(hil_items_add(r, rest, item));
            }
            loop->length = loop->index0 + 1 + (int64_t)rest->count +
                           (loop->has_after && loop->after.type != HIL_V_ABSENT);
            loop->cursor = (hil_cursor){hil_items_list(rest), 0};
        }
    }
    *out = loop->length;
    return HIL_OK;
}

static hil_status peek(hil_render *r, hil_loop *loop, hil_variant *out)
{
    if (!loop->has_after) HIL_TRY(hil_loop_fetch(r, loop, &loop->after));
    loop->has_after = true;
    *out = loop->after;
    return HIL_OK;
}

static hil_status neighbour(hil_render *r, hil_variant value, const char *hint, hil_variant *out)
{
    *out = value;
    return value.type == HIL_V_ABSENT ? hil_undefined_hint(r, hint, out) : HIL_OK;
}

/* Attributes of a loop that need to look ahead. */
static hil_status look_ahead_attribute(hil_render *r, hil_loop *loop, const hil_chars *name,
                                       hil_variant *out)
{
    int64_t length;
    hil_variant next;
    if (hil_chars_is(name, "last")) {
        HIL_TRY(peek(r, loop, &next));
        *out = HIL_BOOL(next.type == HIL_V_ABSENT);
    } else if (hil_chars_is(name, "nextitem")) {
        HIL_TRY(peek(r, loop, &next));
        return neighbour(r, next, "there is no next item", out);
    } else if (hil_chars_is(name, "length")) {
        HIL_TRY(loop_length(r, loop, &length));
        *out = HIL_INT(length);
    } else if (hil_chars_is(name, "revindex")) {
        HIL_TRY(loop_length(r, loop, &length));
        *out = HIL_INT(length - loop->index0);
    } else if (hil_chars_is(name, "revindex0")) {
        HIL_TRY(loop_length(r, loop, &length));
        *out = HIL_INT(length - loop->index0 - 1);
    }
    return HIL_OK;
}

hil_status hil_loop_attribute(hil_render *r, hil_loop *loop, const hil_chars *name,
                              hil_variant *out)
{
    *out = (hil_variant){0};
    if (hil_chars_is(name, "index"))
        *out = HIL_INT(loop->index0 + 1);
    else if (hil_chars_is(name, "index0"))
        *out = HIL_INT(loop->index0);
    else if (hil_chars_is(name, "first"))
        *out = HIL_BOOL(loop->index0 == 0);
    else if (hil_chars_is(name, "depth"))
        *out = HIL_INT(loop->depth0 + 1);
    else if (hil_chars_is(name, "depth0"))
        *out = HIL_INT(loop->depth0);
    else if (hil_chars_is(name, "previtem"))
        return neighbour(r, loop->before, "there is no previous item", out);
    else
        return look_ahead_attribute(r, loop, name, out);
    return HIL_OK;
}

static hil_status run_cycle(hil_render *r, const hil_call *call, hil_variant *out)
{
    if (!call->given.count) return hil_render_fail(r, "no items for cycling given");
    *out = call->given.values[(size_t)call->self.loop->index0 % call->given.count];
    return HIL_OK;
}

static hil_status run_changed(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_loop *loop = call->self.loop;
    hil_items *items;
    bool equal;
    HIL_TRY(hil_items_create(r, call->given.count, &items));
    for (size_t i = 0; i < call->given.count; ++i)
        HIL_TRY(hil_items_add(r, items, call->given.values[i]));
    hil_variant now = hil_items_tuple(items);
    HIL_TRY(hil_variant_equal(r, loop->changed, now, &equal));
    loop->changed = now;
    *out = HIL_BOOL(!equal);
    return HIL_OK;
}

const hil_builtin hil_loop_methods[] = {
    {"cycle", run_cycle, {NULL}, 0, true},
    {"changed", run_changed, {NULL}, 0, true},
    {NULL, NULL, {NULL}, 0, false},
};

static hil_status run_next(hil_render *r, const hil_call *call, hil_variant *out)
{
    (void)r;
    hil_cycler *cycler = call->self.cycler;
    *out = cycler->values[cycler->at];
    cycler->at = (cycler->at + 1) % cycler->count;
    return HIL_OK;
}

static hil_status run_reset(hil_render *r, const hil_call *call, hil_variant *out)
{
    (void)r;
    call->self.cycler->at = 0;
    *out = HIL_NONE;
    return HIL_OK;
}

const hil_builtin hil_cycler_methods[] = {
    {"next", run_next, {NULL}, 0, false},
    {"reset", run_reset, {NULL}, 0, false},
    {NULL, NULL, {NULL}, 0, false},
};
