/* template_value.c - truth, equality, order and length of values, as in Python. */
#include "text/template_render.h"
#include "text/template_value.h"

#include <math.h>
#include <string.h>

static const char *const type_names[HIL_V_TYPES] = {
    [HIL_V_ABSENT] = "NoneType",   [HIL_V_UNDEFINED] = "Undefined",
    [HIL_V_NONE] = "NoneType",     [HIL_V_BOOL] = "bool",
    [HIL_V_INT] = "int",           [HIL_V_REAL] = "float",
    [HIL_V_TEXT] = "str",          [HIL_V_LIST] = "list",
    [HIL_V_TUPLE] = "tuple",       [HIL_V_DICT] = "dict",
    [HIL_V_RANGE] = "range",       [HIL_V_NAMESPACE] = "Namespace",
    [HIL_V_MACRO] = "Macro",       [HIL_V_LOOP] = "LoopContext",
    [HIL_V_FUNCTION] = "function", [HIL_V_METHOD] = "builtin_function_or_method",
    [HIL_V_CYCLER] = "Cycler",     [HIL_V_JOINER] = "Joiner",
};

static const char *const view_names[] = {"dict_keys", "dict_values", "dict_items"};

const char *hil_variant_type_name(hil_variant value)
{
    if (value.type == HIL_V_VIEW) return view_names[value.view->kind];
    if (value.type == HIL_V_ITERATOR) return value.iterator->type;
    if (value.type == HIL_V_TEXT && value.text->safe) return "Markup";
    return type_names[value.type];
}

bool hil_variant_truth(hil_variant value)
{
    switch (value.type) {
    case HIL_V_ABSENT:
    case HIL_V_UNDEFINED:
    case HIL_V_NONE:
        return false;
    case HIL_V_BOOL:
        return value.truth;
    case HIL_V_INT:
        return value.integer != 0;
    case HIL_V_REAL:
        return value.real != 0;
    case HIL_V_TEXT:
        return value.text->size != 0;
    case HIL_V_LIST:
    case HIL_V_TUPLE:
        return value.items->count != 0;
    case HIL_V_DICT:
        return value.dict->count != 0;
    case HIL_V_RANGE:
        return value.range->count != 0;
    case HIL_V_VIEW:
        return value.view->dict->count != 0;
    default:
        return true;
    }
}

bool hil_variant_is_number(hil_variant value)
{
    return value.type == HIL_V_BOOL || value.type == HIL_V_INT || value.type == HIL_V_REAL;
}

int64_t hil_variant_integer(hil_variant value)
{
    return value.type == HIL_V_BOOL ? value.truth : value.integer;
}

double hil_variant_real(hil_variant value)
{
    return value.type == HIL_V_REAL ? value.real : (double)hil_variant_integer(value);
}

/* Compares int and float exactly, as Python does: -1, 0, 1, or 2 for NaN. */
static int order_numbers(hil_variant a, hil_variant b)
{
    if (a.type != HIL_V_REAL && b.type != HIL_V_REAL) {
        int64_t x = hil_variant_integer(a), y = hil_variant_integer(b);
        return (x > y) - (x < y);
    }
    if (a.type == HIL_V_REAL && b.type == HIL_V_REAL) {
        if (isnan(a.real) || isnan(b.real)) return 2;
        return (a.real > b.real) - (a.real < b.real);
    }
    bool swapped = a.type == HIL_V_REAL;
    double real = swapped ? a.real : b.real;
    int64_t integer = hil_variant_integer(swapped ? b : a);
    if (isnan(real)) return 2;
    int order; /* of integer against real */
    if (real >= 0x1p63) {
        order = -1;
    } else if (real < -0x1p63) {
        order = 1;
    } else {
        int64_t whole = (int64_t)real; /* toward zero */
        double rest = real - (double)whole;
        order = integer != whole ? (integer > whole) - (integer < whole) : (rest < 0) - (rest > 0);
    }
    return swapped ? -order : order;
}

static hil_status equal_items(hil_render *r, const hil_items *a, const hil_items *b, bool *equal)
{
    *equal = a->count == b->count;
    for (size_t i = 0; i < a->count && *equal; ++i)
        HIL_TRY(hil_variant_equal(r, a->data[i], b->data[i], equal));
    return HIL_OK;
}

static hil_status equal_dicts(hil_render *r, const hil_dict *a, const hil_dict *b, bool *equal)
{
    *equal = a->count == b->count;
    for (size_t i = 0; i < a->count && *equal; ++i) {
        hil_pair *other;
        HIL_TRY(hil_dict_find(r, b, a->pairs[i].key, &other));
        *equal = other != NULL;
        if (other) HIL_TRY(hil_variant_equal(r, a->pairs[i].value, other->value, equal));
    }
    return HIL_OK;
}

static bool equal_ranges(const hil_int_range *a, const hil_int_range *b)
{
    if (a->count != b->count) return false;
    if (a->count == 0) return true;
    return a->start == b->start && (a->count == 1 || a->step == b->step);
}

static hil_status equal_deep(hil_render *r, hil_variant a, hil_variant b, bool *equal)
{
    switch (a.type) {
    case HIL_V_LIST:
    case HIL_V_TUPLE:
        return equal_items(r, a.items, b.items, equal);
    case HIL_V_DICT:
        return equal_dicts(r, a.dict, b.dict, equal);
    default:
        *equal = a.view->kind == b.view->kind && a.view->kind != HIL_VIEW_VALUES;
        return *equal ? equal_dicts(r, a.view->dict, b.view->dict, equal) : HIL_OK;
    }
}

hil_status hil_variant_equal(hil_render *r, hil_variant a, hil_variant b, bool *equal)
{
    HIL_TRY(hil_render_step(r, 1));
    if (hil_variant_is_number(a) && hil_variant_is_number(b)) {
        *equal = order_numbers(a, b) == 0;
        return HIL_OK;
    }
    *equal = false;
    if (a.type != b.type) return HIL_OK;
    switch (a.type) {
    case HIL_V_ABSENT:
    case HIL_V_UNDEFINED:
    case HIL_V_NONE:
        *equal = true;
        return HIL_OK;
    case HIL_V_TEXT:
        *equal =
            a.text->size == b.text->size && memcmp(a.text->data, b.text->data, a.text->size) == 0;
        return hil_render_step(r, a.text->size / 64);
    case HIL_V_RANGE:
        *equal = equal_ranges(a.range, b.range);
        return HIL_OK;
    case HIL_V_LIST:
    case HIL_V_TUPLE:
    case HIL_V_DICT:
    case HIL_V_VIEW:
        HIL_TRY(hil_render_enter(r));
        HIL_TRY(equal_deep(r, a, b, equal));
        hil_render_leave(r);
        return HIL_OK;
    default:
        *equal = a.loop == b.loop; /* the same object: all of these are pointers */
        return HIL_OK;
    }
}

static int order_texts(const hil_chars *a, const hil_chars *b)
{
    size_t least = a->size < b->size ? a->size : b->size;
    int order = memcmp(a->data, b->data, least); /* UTF-8 has the order of its code points */
    return order ? (order > 0) - (order < 0) : (a->size > b->size) - (a->size < b->size);
}

static hil_status order_items(hil_render *r, const hil_items *a, const hil_items *b,
                              const char *sign, int *order)
{
    for (size_t i = 0; i < a->count && i < b->count; ++i) {
        bool equal;
        HIL_TRY(hil_variant_equal(r, a->data[i], b->data[i], &equal));
        if (!equal) return hil_variant_compare(r, a->data[i], b->data[i], sign, order);
    }
    *order = (a->count > b->count) - (a->count < b->count);
    return HIL_OK;
}

hil_status hil_variant_compare(hil_render *r, hil_variant a, hil_variant b, const char *sign,
                               int *order)
{
    HIL_TRY(hil_render_step(r, 1));
    if (a.type == HIL_V_UNDEFINED) return hil_render_undefined(r, a);
    if (b.type == HIL_V_UNDEFINED) return hil_render_undefined(r, b);
    if (hil_variant_is_number(a) && hil_variant_is_number(b)) {
        *order = order_numbers(a, b);
        return HIL_OK;
    }
    if (a.type == HIL_V_TEXT && b.type == HIL_V_TEXT) {
        *order = order_texts(a.text, b.text);
        return hil_render_step(r, a.text->size / 64);
    }
    if (a.type == b.type && (a.type == HIL_V_LIST || a.type == HIL_V_TUPLE)) {
        HIL_TRY(hil_render_enter(r));
        HIL_TRY(order_items(r, a.items, b.items, sign, order));
        hil_render_leave(r);
        return HIL_OK;
    }
    return hil_render_fail(r, "'%s' not supported between instances of '%s' and '%s'", sign,
                           hil_variant_type_name(a), hil_variant_type_name(b));
}

hil_status hil_variant_contains(hil_render *r, hil_variant container, hil_variant value,
                                bool *found)
{
    *found = false;
    if (container.type == HIL_V_TEXT) {
        if (value.type != HIL_V_TEXT)
            return hil_render_fail(r, "'in <string>' requires string as left operand, not %s",
                                   hil_variant_type_name(value));
        HIL_TRY(hil_render_step(r, container.text->size / 64 + 1));
        *found = value.text->size == 0 || memmem(container.text->data, container.text->size,
                                                 value.text->data, value.text->size) != NULL;
        return HIL_OK;
    }
    if (container.type == HIL_V_DICT ||
        (container.type == HIL_V_VIEW && container.view->kind == HIL_VIEW_KEYS)) {
        hil_pair *pair;
        const hil_dict *dict = container.type == HIL_V_DICT ? container.dict : container.view->dict;
        HIL_TRY(hil_dict_find(r, dict, value, &pair));
        *found = pair != NULL;
        return HIL_OK;
    }
    if (!hil_variant_is_iterable(container))
        return hil_render_fail(r, "argument of type '%s' is not iterable",
                               hil_variant_type_name(container));
    hil_cursor cursor;
    HIL_TRY(hil_cursor_open(r, container, &cursor));
    for (;;) {
        hil_variant item;
        HIL_TRY(hil_cursor_next(r, &cursor, &item));
        if (item.type == HIL_V_ABSENT) return HIL_OK;
        HIL_TRY(hil_variant_equal(r, item, value, found));
        if (*found) return HIL_OK;
    }
}

bool hil_variant_has_length(hil_variant value)
{
    return value.type == HIL_V_UNDEFINED || (value.type >= HIL_V_TEXT && value.type <= HIL_V_VIEW);
}

hil_status hil_variant_length(hil_render *r, hil_variant value, size_t *length)
{
    switch (value.type) {
    case HIL_V_UNDEFINED:
        *length = 0;
        return HIL_OK;
    case HIL_V_TEXT:
        *length = value.text->length;
        return HIL_OK;
    case HIL_V_LIST:
    case HIL_V_TUPLE:
        *length = value.items->count;
        return HIL_OK;
    case HIL_V_DICT:
        *length = value.dict->count;
        return HIL_OK;
    case HIL_V_RANGE:
        *length = value.range->count;
        return HIL_OK;
    case HIL_V_VIEW:
        *length = value.view->dict->count;
        return HIL_OK;
    default:
        return hil_render_fail(r, "object of type '%s' has no len()", hil_variant_type_name(value));
    }
}
