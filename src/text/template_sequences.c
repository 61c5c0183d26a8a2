/* template_sequences.c - filters on lists and dicts: map, select, sort, join, items, ... */
#include "text/template_eval.h"
#include "text/template_sequences.h"
#include "text/template_strings.h"

#include <string.h>

static hil_status run_default(hil_render *r, const hil_call *call, hil_variant *out)
{
    *out = call->self;
    bool missing = call->self.type == HIL_V_UNDEFINED ||
                   (hil_variant_truth(call->bound[1]) && !hil_variant_truth(call->self));
    if (!missing) return HIL_OK;
    if (call->bound[0].type == HIL_V_ABSENT) return hil_chars_literal(r, "", out);
    *out = call->bound[0];
    return HIL_OK;
}

static hil_status run_length(hil_render *r, const hil_call *call, hil_variant *out)
{
    size_t length;
    if (call->self.type == HIL_V_LOOP) {
        hil_variant name;
        HIL_TRY(hil_chars_literal(r, "length", &name));
        return hil_loop_attribute(r, call->self.loop, name.text, out);
    }
    HIL_TRY(hil_variant_length(r, call->self, &length));
    *out = HIL_INT((int64_t)length);
    return HIL_OK;
}

static hil_status run_list(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_items *items;
    HIL_TRY(hil_variant_list(r, call->self, &items));
    *out = hil_items_list(items);
    return HIL_OK;
}

static hil_status run_first(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_cursor cursor;
    HIL_TRY(hil_cursor_open(r, call->self, &cursor));
    HIL_TRY(hil_cursor_next(r, &cursor, out));
    if (out->type != HIL_V_ABSENT) return HIL_OK;
    return hil_undefined_hint(r, "No first item, sequence was empty.", out);
}

static hil_status run_last(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_items *items;
    if (!hil_variant_has_length(call->self))
        return hil_render_fail(r, "'%s' object is not reversible",
                               hil_variant_type_name(call->self));
    HIL_TRY(hil_variant_list(r, call->self, &items));
    if (!items->count) return hil_undefined_hint(r, "No last item, sequence was empty.", out);
    *out = items->data[items->count - 1];
    return HIL_OK;
}

static hil_status run_items(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_items *items;
    HIL_TRY(hil_items_create(r, 0, &items));
    if (call->self.type != HIL_V_UNDEFINED && call->self.type != HIL_V_DICT)
        return hil_render_fail(r, "Can only get item pairs from a mapping.");
    const hil_dict *dict = call->self.type == HIL_V_DICT ? call->self.dict : NULL;
    for (size_t i = 0; dict && i < dict->count; ++i) {
        hil_variant pair;
        HIL_TRY(hil_pair_tuple(r, dict->pairs[i].key, dict->pairs[i].value, &pair));
        HIL_TRY(hil_items_add(r, items, pair));
    }
    return hil_iterator_create(r, hil_items_list(items), "generator", out);
}

/* Splits "a.b.0" into names and indices. */
static hil_status attribute_parts(hil_render *r, hil_variant attribute, hil_items **out)
{
    hil_variant dot;
    if (attribute.type != HIL_V_TEXT) {
        HIL_TRY(hil_items_create(r, 1, out));
        return hil_items_add(r, *out, attribute);
    }
    HIL_TRY(hil_chars_literal(r, ".", &dot));
    HIL_TRY(hil_chars_split(r, attribute.text, dot.text, -1, false, out));
    for (size_t i = 0; i < (*out)->count; ++i) {
        const hil_chars *part = (*out)->data[i].text;
        int64_t index = 0;
        bool digits = part->size > 0 && part->size < 18;
        for (size_t k = 0; k < part->size && digits; ++k) {
            digits = part->data[k] >= '0' && part->data[k] <= '9';
            index = index * 10 + (part->data[k] - '0');
        }
        if (digits) (*out)->data[i] = HIL_INT(index);
    }
    return HIL_OK;
}

hil_status hil_getter_open(hil_render *r, hil_variant attribute, hil_getter *out)
{
    *out = (hil_getter){0};
    if (attribute.type == HIL_V_ABSENT || attribute.type == HIL_V_NONE) return HIL_OK;
    return attribute_parts(r, attribute, &out->parts);
}

hil_status hil_getter_get(hil_render *r, const hil_getter *getter, hil_variant item,
                          hil_variant *out)
{
    *out = item;
    for (size_t i = 0; getter->parts && i < getter->parts->count; ++i) {
        HIL_TRY(hil_variant_item(r, *out, getter->parts->data[i], out));
        bool stands_in =
            getter->standard.type != HIL_V_ABSENT && getter->standard.type != HIL_V_NONE;
        if (stands_in && out->type == HIL_V_UNDEFINED) *out = getter->standard;
    }
    if (getter->lower && out->type == HIL_V_TEXT)
        return hil_chars_case(r, out->text, HIL_CASE_LOWER, out);
    return HIL_OK;
}

static hil_status run_join(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_getter getter;
    hil_cursor cursor;
    size_t mark;
    const hil_chars *between = NULL;
    hil_items *items;
    HIL_TRY(hil_getter_open(r, call->bound[1], &getter));
    if (call->bound[0].type != HIL_V_ABSENT) HIL_TRY(hil_variant_text(r, call->bound[0], &between));
    HIL_TRY(hil_cursor_open(r, call->self, &cursor));
    HIL_TRY(hil_items_create(r, 0, &items));
    for (;;) {
        hil_variant item;
        HIL_TRY(hil_cursor_next(r, &cursor, &item));
        if (item.type == HIL_V_ABSENT) break;
        HIL_TRY(hil_getter_get(r, &getter, item, &item));
        HIL_TRY(hil_items_add(r, items, item));
    }
    hil_capture_begin(r, &mark);
    for (size_t i = 0; i < items->count; ++i) {
        if (i && between) HIL_TRY(hil_render_add(r, between->data, between->size));
        HIL_TRY(hil_print_text(r, items->data[i]));
    }
    return hil_capture_end(r, mark, out);
}

/* Takes the first argument, the name of a filter or test. */
static hil_status callable_name(hil_render *r, const hil_call *call, size_t skip, bool filter,
                                const hil_builtin **out, hil_arguments *rest)
{
    hil_variant name = call->given.values[skip];
    *out = NULL;
    if (name.type == HIL_V_TEXT)
        *out = filter ? hil_filter_find(name.text->data, name.text->size)
                      : hil_test_find(name.text->data, name.text->size);
    *rest = call->given;
    rest->values += skip + 1;
    rest->count -= skip + 1;
    if (*out) return HIL_OK;
    const hil_chars *words;
    HIL_TRY(hil_variant_text(r, name, &words));
    return hil_render_fail(r, "No %s named '%.*s'.", filter ? "filter" : "test", (int)words->size,
                           words->data);
}

static hil_status map_getter(hil_render *r, const hil_call *call, hil_getter *getter)
{
    hil_variant attribute = {0}, standard = {0};
    for (size_t i = 0; i < call->given.keyword_count; ++i) {
        const hil_keyword *keyword = &call->given.keywords[i];
        if (hil_chars_is(keyword->name, "attribute"))
            attribute = keyword->value;
        else if (hil_chars_is(keyword->name, "default"))
            standard = keyword->value;
        else
            return hil_render_fail(r, "Unexpected keyword argument '%.*s'",
                                   (int)keyword->name->size, keyword->name->data);
    }
    if (attribute.type == HIL_V_ABSENT) return hil_render_fail(r, "map requires a filter argument");
    HIL_TRY(hil_getter_open(r, attribute, getter));
    getter->standard = standard;
    return HIL_OK;
}

static hil_status run_map(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_items *items;
    hil_cursor cursor;
    hil_getter getter = {0};
    const hil_builtin *filter = NULL;
    hil_arguments rest;
    HIL_TRY(hil_items_create(r, 0, &items));
    if (hil_variant_truth(call->self)) {
        if (call->given.count)
            HIL_TRY(callable_name(r, call, 0, true, &filter, &rest));
        else
            HIL_TRY(map_getter(r, call, &getter));
        HIL_TRY(hil_cursor_open(r, call->self, &cursor));
    }
    while (hil_variant_truth(call->self)) {
        hil_variant item;
        HIL_TRY(hil_cursor_next(r, &cursor, &item));
        if (item.type == HIL_V_ABSENT) break;
        if (filter)
            HIL_TRY(hil_builtin_call(r, filter, item, &rest, &item));
        else
            HIL_TRY(hil_getter_get(r, &getter, item, &item));
        HIL_TRY(hil_items_add(r, items, item));
    }
    return hil_iterator_create(r, hil_items_list(items), "generator", out);
}

/* Selects items whose test result, or truth value, is `wanted`. */
static hil_status choose(hil_render *r, const hil_call *call, bool attribute, bool wanted,
                         hil_variant *out)
{
    hil_items *items;
    hil_cursor cursor;
    hil_getter getter = {0};
    const hil_builtin *test = NULL;
    hil_arguments rest;
    HIL_TRY(hil_items_create(r, 0, &items));
    bool any = hil_variant_truth(call->self);
    if (any) {
        if (attribute && !call->given.count)
            return hil_render_fail(r, "Missing parameter for attribute name");
        if (attribute) HIL_TRY(hil_getter_open(r, call->given.values[0], &getter));
        if (call->given.count > attribute)
            HIL_TRY(callable_name(r, call, attribute, false, &test, &rest));
        HIL_TRY(hil_cursor_open(r, call->self, &cursor));
    }
    while (any) {
        hil_variant item, asked;
        HIL_TRY(hil_cursor_next(r, &cursor, &item));
        if (item.type == HIL_V_ABSENT) break;
        HIL_TRY(hil_getter_get(r, &getter, item, &asked));
        if (test) HIL_TRY(hil_builtin_call(r, test, asked, &rest, &asked));
        if (hil_variant_truth(asked) == wanted) HIL_TRY(hil_items_add(r, items, item));
    }
    return hil_iterator_create(r, hil_items_list(items), "generator", out);
}

HIL_BUILTIN(run_select, choose(r, call, false, true, out))
HIL_BUILTIN(run_reject, choose(r, call, false, false, out))
HIL_BUILTIN(run_selectattr, choose(r, call, true, true, out))
HIL_BUILTIN(run_rejectattr, choose(r, call, true, false, out))

static hil_status run_reverse(hil_render *r, const hil_call *call, hil_variant *out)
{
    static const hil_variant whole[3] = {
        {.type = HIL_V_NONE}, {.type = HIL_V_NONE}, {.type = HIL_V_INT, .integer = -1}};
    if (call->self.type == HIL_V_TEXT) return hil_variant_slice(r, call->self, whole, out);
    hil_items *items;
    if (!hil_variant_is_iterable(call->self))
        return hil_render_fail(r, "argument must be iterable");
    HIL_TRY(hil_variant_list(r, call->self, &items));
    HIL_TRY(hil_variant_slice(r, hil_items_list(items), whole, out));
    if (call->self.type == HIL_V_ITERATOR) return HIL_OK;
    return hil_iterator_create(r, *out, "list_reverseiterator", out);
}

static hil_status run_attr(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *name;
    hil_variant object = call->self;
    HIL_TRY(hil_argument_text(r, call->bound[0], &name));
    if (object.type == HIL_V_DICT) { /* its members are not attributes */
        hil_dict *empty;
        HIL_TRY(hil_dict_create(r, 0, &empty));
        bool safe;
        if (!hil_method_find(object, name->data, name->size, &safe)) object.dict = empty;
    }
    return hil_variant_attribute(r, object, name, out);
}

const hil_builtin hil_sequence_filters[] = {
    {"attr", run_attr, {"name"}, 1, false},
    {"count", run_length, {NULL}, 0, false},
    {"d", run_default, {"default_value", "boolean"}, 0, false},
    {"default", run_default, {"default_value", "boolean"}, 0, false},
    {"first", run_first, {NULL}, 0, false},
    {"items", run_items, {NULL}, 0, false},
    {"join", run_join, {"d", "attribute"}, 0, false},
    {"last", run_last, {NULL}, 0, false},
    {"length", run_length, {NULL}, 0, false},
    {"list", run_list, {NULL}, 0, false},
    {"map", run_map, {NULL}, 0, true},
    {"reject", run_reject, {NULL}, 0, true},
    {"rejectattr", run_rejectattr, {NULL}, 0, true},
    {"reverse", run_reverse, {NULL}, 0, false},
    {"select", run_select, {NULL}, 0, true},
    {"selectattr", run_selectattr, {NULL}, 0, true},
    {NULL, NULL, {NULL}, 0, false},
};
