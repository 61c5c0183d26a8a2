/* template_json.c - the variables of a rendering from JSON, and the filter tojson. */
#include "text/template_eval.h"
#include "text/unicode/unicode.h"

#include <math.h>
#include <string.h>

static hil_status from_object(hil_render *r, const json_t *json, hil_variant *out)
{
    hil_dict *dict;
    HIL_TRY(hil_dict_create(r, json_object_size(json), &dict));
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)json, key, member)
    {
        hil_variant name, value;
        HIL_TRY(hil_chars_borrow(r, key, strlen(key), &name));
        HIL_TRY(hil_variant_from_json(r, member, &value));
        HIL_TRY(hil_dict_set(r, dict, name, value));
    }
    *out = (hil_variant){.type = HIL_V_DICT, .dict = dict};
    return HIL_OK;
}

static hil_status from_array(hil_render *r, const json_t *json, hil_variant *out)
{
    hil_items *items;
    HIL_TRY(hil_items_create(r, json_array_size(json), &items));
    for (size_t i = 0; i < json_array_size(json); ++i) {
        hil_variant value;
        HIL_TRY(hil_variant_from_json(r, json_array_get(json, i), &value));
        HIL_TRY(hil_items_add(r, items, value));
    }
    *out = hil_items_list(items);
    return HIL_OK;
}

hil_status hil_variant_from_json(hil_render *r, const json_t *json, hil_variant *out)
{
    HIL_TRY(hil_render_step(r, 1));
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        HIL_TRY(hil_render_enter(r));
        HIL_TRY(from_object(r, json, out));
        hil_render_leave(r);
        return HIL_OK;
    case JSON_ARRAY:
        HIL_TRY(hil_render_enter(r));
        HIL_TRY(from_array(r, json, out));
        hil_render_leave(r);
        return HIL_OK;
    case JSON_STRING:
        return hil_chars_borrow(r, json_string_value(json), json_string_length(json), out);
    case JSON_INTEGER:
        *out = HIL_INT(json_integer_value(json));
        return HIL_OK;
    case JSON_REAL:
        *out = HIL_REAL(json_real_value(json));
        return HIL_OK;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = HIL_BOOL(json_is_true(json));
        return HIL_OK;
    default:
        *out = HIL_NONE;
        return HIL_OK;
    }
}

static hil_status print_beyond_ascii(hil_render *r, uint32_t point)
{
    if (point < 0x10000) return hil_render_print(r, "\\u%04x", point);
    point -= 0x10000;
    return hil_render_print(r, "\\u%04x\\u%04x", 0xD800 + (point >> 10), 0xDC00 + (point & 0x3FF));
}

static hil_status print_quoted(hil_render *r, const hil_chars *text, bool ascii)
{
    static const char plain[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    size_t from = 0, size;
    HIL_TRY(HIL_RENDER_ADD(r, "\""));
    for (size_t at = 0; at < text->size; at += size) {
        uint32_t point = hil_utf8_get(text->data + at, &size);
        if (point >= 0x20 && point != '"' && point != '\\' && (point < 0x7F || !ascii)) continue;
        HIL_TRY(hil_render_add(r, text->data + from, at - from));
        from = at + size;
        const char *special = point && point < 0x80 ? strchr(plain, (int)point) : NULL;
        if (special)
            HIL_TRY(hil_render_print(r, "\\%c", letters[special - plain]));
        else
            HIL_TRY(print_beyond_ascii(r, point));
    }
    HIL_TRY(hil_render_step(r, text->size / 16));
    HIL_TRY(hil_render_add(r, text->data + from, text->size - from));
    return HIL_RENDER_ADD(r, "\"");
}

static hil_status print_number(hil_render *r, hil_variant value)
{
    if (value.type == HIL_V_REAL && isnan(value.real)) return HIL_RENDER_ADD(r, "NaN");
    if (value.type == HIL_V_REAL && isinf(value.real))
        return value.real < 0 ? HIL_RENDER_ADD(r, "-Infinity") : HIL_RENDER_ADD(r, "Infinity");
    return hil_print_repr(r, value);
}

/* How lists and dicts of a value are printed. */
typedef struct printing {
    const hil_json_style *style;
    int depth;
} printing;

static hil_status print_value(hil_render *r, printing *p, hil_variant value);

static hil_status new_line(hil_render *r, const printing *p)
{
    if (!p->style->lines) return HIL_OK;
    HIL_TRY(HIL_RENDER_ADD(r, "\n"));
    for (int i = 0; i < p->depth; ++i)
        HIL_TRY(hil_render_add(r, p->style->indent->data, p->style->indent->size));
    return HIL_OK;
}

static hil_status print_items(hil_render *r, printing *p, const hil_items *items)
{
    if (!items->count) return HIL_RENDER_ADD(r, "[]");
    HIL_TRY(HIL_RENDER_ADD(r, "["));
    ++p->depth;
    for (size_t i = 0; i < items->count; ++i) {
        if (i) HIL_TRY(hil_render_add(r, p->style->between->data, p->style->between->size));
        HIL_TRY(new_line(r, p));
        HIL_TRY(print_value(r, p, items->data[i]));
    }
    --p->depth;
    HIL_TRY(new_line(r, p));
    return HIL_RENDER_ADD(r, "]");
}

static hil_status print_key(hil_render *r, const printing *p, hil_variant key)
{
    if (key.type == HIL_V_TEXT) return print_quoted(r, key.text, p->style->ascii);
    HIL_TRY(HIL_RENDER_ADD(r, "\""));
    if (key.type == HIL_V_NONE)
        HIL_TRY(HIL_RENDER_ADD(r, "null"));
    else if (key.type == HIL_V_BOOL)
        HIL_TRY(hil_render_print(r, key.truth ? "true" : "false"));
    else if (key.type == HIL_V_INT || key.type == HIL_V_REAL)
        HIL_TRY(print_number(r, key));
    else
        return hil_render_fail(r, "keys must be str, int, float, bool or None, not %s",
                               hil_variant_type_name(key));
    return HIL_RENDER_ADD(r, "\"");
}

static hil_status print_pairs(hil_render *r, printing *p, const hil_items *keys,
                              const hil_items *values)
{
    if (!keys->count) return HIL_RENDER_ADD(r, "{}");
    HIL_TRY(HIL_RENDER_ADD(r, "{"));
    ++p->depth;
    for (size_t i = 0; i < keys->count; ++i) {
        if (i) HIL_TRY(hil_render_add(r, p->style->between->data, p->style->between->size));
        HIL_TRY(new_line(r, p));
        HIL_TRY(print_key(r, p, keys->data[i]));
        HIL_TRY(hil_render_add(r, p->style->colon->data, p->style->colon->size));
        HIL_TRY(print_value(r, p, values->data[i]));
    }
    --p->depth;
    HIL_TRY(new_line(r, p));
    return HIL_RENDER_ADD(r, "}");
}

static hil_status print_dict(hil_render *r, printing *p, const hil_dict *dict)
{
    hil_items *keys, *values;
    HIL_TRY(hil_items_create(r, dict->count, &keys));
    HIL_TRY(hil_items_create(r, dict->count, &values));
    for (size_t i = 0; i < dict->count; ++i) {
        HIL_TRY(hil_items_add(r, keys, dict->pairs[i].key));
        HIL_TRY(hil_items_add(r, values, dict->pairs[i].value));
    }
    if (p->style->sorted) {
        HIL_TRY(hil_items_sort(r, values, keys, false));
        HIL_TRY(hil_items_sort(r, keys, keys, false));
    }
    return print_pairs(r, p, keys, values);
}

static hil_status print_value(hil_render *r, printing *p, hil_variant value)
{
    HIL_TRY(hil_render_step(r, 1));
    switch (value.type) {
    case HIL_V_NONE:
        return HIL_RENDER_ADD(r, "null");
    case HIL_V_BOOL:
        return hil_render_print(r, value.truth ? "true" : "false");
    case HIL_V_INT:
    case HIL_V_REAL:
        return print_number(r, value);
    case HIL_V_TEXT:
        return print_quoted(r, value.text, p->style->ascii);
    case HIL_V_LIST:
    case HIL_V_TUPLE:
        HIL_TRY(hil_render_enter(r));
        HIL_TRY(print_items(r, p, value.items));
        hil_render_leave(r);
        return HIL_OK;
    case HIL_V_DICT:
        HIL_TRY(hil_render_enter(r));
        HIL_TRY(print_dict(r, p, value.dict));
        hil_render_leave(r);
        return HIL_OK;
    default:
        return hil_render_fail(r, "Object of type %s is not JSON serializable",
                               hil_variant_type_name(value));
    }
}

hil_status hil_print_json(hil_render *r, hil_variant value, const hil_json_style *style)
{
    printing p = {style, 0};
    return print_value(r, &p, value);
}
