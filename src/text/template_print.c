/* template_print.c - str() and repr() of values. */
#include "text/template_eval.h"
#include "text/template_text.h"
#include "text/unicode/unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hil_status repr_character(hil_render *r, uint32_t point, const char *bytes, size_t size,
                                 char quote)
{
    if (point == (uint32_t)quote || point == '\\') return hil_render_print(r, "\\%c", (int)point);
    if (point == '\n') return HIL_RENDER_ADD(r, "\\n");
    if (point == '\r') return HIL_RENDER_ADD(r, "\\r");
    if (point == '\t') return HIL_RENDER_ADD(r, "\\t");
    if (hil_char_is_printable(point)) return hil_render_add(r, bytes, size);
    if (point < 0x100) return hil_render_print(r, "\\x%02x", point);
    return hil_render_print(r, point < 0x10000 ? "\\u%04x" : "\\U%08x", point);
}

static hil_status repr_text(hil_render *r, const hil_chars *text)
{
    bool single = memchr(text->data, '\'', text->size) != NULL;
    bool twofold = memchr(text->data, '"', text->size) != NULL;
    char quote = single && !twofold ? '"' : '\'';
    if (text->safe) HIL_TRY(HIL_RENDER_ADD(r, "Markup("));
    HIL_TRY(hil_render_add(r, &quote, 1));
    for (size_t at = 0, size; at < text->size; at += size) {
        uint32_t point = hil_utf8_get(text->data + at, &size);
        HIL_TRY(repr_character(r, point, text->data + at, size, quote));
    }
    HIL_TRY(hil_render_step(r, text->size / 8));
    HIL_TRY(hil_render_add(r, &quote, 1));
    return text->safe ? HIL_RENDER_ADD(r, ")") : HIL_OK;
}

static hil_status repr_items(hil_render *r, const hil_items *items, char open, char close)
{
    HIL_TRY(hil_render_add(r, &open, 1));
    for (size_t i = 0; i < items->count; ++i) {
        if (i) HIL_TRY(HIL_RENDER_ADD(r, ", "));
        HIL_TRY(hil_print_repr(r, items->data[i]));
    }
    if (open == '(' && items->count == 1) HIL_TRY(HIL_RENDER_ADD(r, ","));
    return hil_render_add(r, &close, 1);
}

static hil_status repr_dict(hil_render *r, const hil_dict *dict)
{
    HIL_TRY(HIL_RENDER_ADD(r, "{"));
    for (size_t i = 0; i < dict->count; ++i) {
        if (i) HIL_TRY(HIL_RENDER_ADD(r, ", "));
        HIL_TRY(hil_print_repr(r, dict->pairs[i].key));
        HIL_TRY(HIL_RENDER_ADD(r, ": "));
        HIL_TRY(hil_print_repr(r, dict->pairs[i].value));
    }
    return HIL_RENDER_ADD(r, "}");
}

static hil_status repr_view(hil_render *r, hil_variant value)
{
    hil_items *items;
    HIL_TRY(hil_variant_list(r, value, &items));
    HIL_TRY(hil_render_print(r, "%s(", hil_variant_type_name(value)));
    HIL_TRY(repr_items(r, items, '[', ']'));
    return HIL_RENDER_ADD(r, ")");
}

static hil_status repr_range(hil_render *r, const hil_int_range *range)
{
    if (range->step == 1)
        return hil_render_print(r, "range(%lld, %lld)", (long long)range->start,
                                (long long)range->stop);
    return hil_render_print(r, "range(%lld, %lld, %lld)", (long long)range->start,
                            (long long)range->stop, (long long)range->step);
}

/* Objects without a value: Python would print their address. */
static hil_status repr_object(hil_render *r, hil_variant value)
{
    if (value.type == HIL_V_MACRO) {
        HIL_TRY(HIL_RENDER_ADD(r, "<Macro "));
        HIL_TRY(repr_text(r, value.macro->signature->name));
        return HIL_RENDER_ADD(r, ">");
    }
    if (value.type == HIL_V_NAMESPACE) {
        HIL_TRY(HIL_RENDER_ADD(r, "<Namespace "));
        HIL_TRY(repr_dict(r, value.dict));
        return HIL_RENDER_ADD(r, ">");
    }
    return hil_render_print(r, "<%s object>", hil_variant_type_name(value));
}

static hil_status repr_compound(hil_render *r, hil_variant value)
{
    switch (value.type) {
    case HIL_V_LIST:
        return repr_items(r, value.items, '[', ']');
    case HIL_V_TUPLE:
        return repr_items(r, value.items, '(', ')');
    case HIL_V_DICT:
        return repr_dict(r, value.dict);
    case HIL_V_VIEW:
        return repr_view(r, value);
    case HIL_V_RANGE:
        return repr_range(r, value.range);
    default:
        return repr_object(r, value);
    }
}

hil_status hil_print_repr(hil_render *r, hil_variant value)
{
    char digits[32];
    HIL_TRY(hil_render_step(r, 1));
    switch (value.type) {
    case HIL_V_UNDEFINED:
        return HIL_RENDER_ADD(r, "Undefined");
    case HIL_V_ABSENT:
    case HIL_V_NONE:
        return HIL_RENDER_ADD(r, "None");
    case HIL_V_BOOL:
        return hil_render_print(r, value.truth ? "True" : "False");
    case HIL_V_INT:
        return hil_render_print(r, "%lld", (long long)value.integer);
    case HIL_V_REAL:
        hil_text_real(digits, value.real);
        return hil_render_add(r, digits, strlen(digits));
    case HIL_V_TEXT:
        return repr_text(r, value.text);
    default:
        HIL_TRY(hil_render_enter(r));
        HIL_TRY(repr_compound(r, value));
        hil_render_leave(r);
        return HIL_OK;
    }
}

hil_status hil_print_text(hil_render *r, hil_variant value)
{
    if (value.type == HIL_V_TEXT) return hil_render_add(r, value.text->data, value.text->size);
    if (value.type == HIL_V_UNDEFINED) return HIL_OK;
    return hil_print_repr(r, value);
}

hil_status hil_variant_text(hil_render *r, hil_variant value, const hil_chars **out)
{
    if (value.type == HIL_V_TEXT) {
        *out = value.text;
        return HIL_OK;
    }
    size_t mark;
    hil_variant text;
    hil_capture_begin(r, &mark);
    HIL_TRY(hil_print_text(r, value));
    HIL_TRY(hil_capture_end(r, mark, &text));
    *out = text.text;
    return HIL_OK;
}

hil_status hil_print_escaped(hil_render *r, const hil_chars *text)
{
    size_t from = 0;
    for (size_t i = 0; i < text->size; ++i) {
        const char *name = NULL;
        switch (text->data[i]) {
        case '&':
            name = "&amp;";
            break;
        case '<':
            name = "&lt;";
            break;
        case '>':
            name = "&gt;";
            break;
        case '\'':
            name = "&#39;";
            break;
        case '"':
            name = "&#34;";
            break;
        default:
            continue;
        }
        HIL_TRY(hil_render_add(r, text->data + from, i - from));
        HIL_TRY(hil_render_add(r, name, strlen(name)));
        from = i + 1;
    }
    return hil_render_add(r, text->data + from, text->size - from);
}
