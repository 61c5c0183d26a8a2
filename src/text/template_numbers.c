/* template_numbers.c - filters on numbers and order: int, round, sum, sort, unique, ... */
#include "text/template_eval.h"
#include "text/template_sequences.h"
#include "text/template_strings.h"
#include "text/template_text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies the text of a number without surrounding white space and "_" between digits; false if it
   cannot be one. */
static bool number_text(const hil_chars *text, char *out, size_t most)
{
    size_t begin = 0, end = text->size, put = 0;
    while (begin < end && hil_char_is_space((unsigned char)text->data[begin])) ++begin;
    while (end > begin && hil_char_is_space((unsigned char)text->data[end - 1])) --end;
    if (begin == end || end - begin >= most) return false;
    for (size_t i = begin; i < end; ++i) {
        char c = text->data[i];
        if (c == '_') {
            bool between = i > begin && i + 1 < end && isalnum((unsigned char)text->data[i - 1]) &&
                           isalnum((unsigned char)text->data[i + 1]);
            if (!between) return false;
        } else if (!isalnum((unsigned char)c) && !strchr("+-.", c)) {
            return false;
        } else {
            out[put++] = c;
        }
    }
    out[put] = 0;
    return put > 0;
}

/* int(text, base) */
static bool parse_integer(const hil_chars *text, int base, int64_t *out, bool *wide)
{
    char digits[256], *end;
    *wide = false;
    if (!number_text(text, digits, sizeof digits)) return false;
    const char *at = digits + (digits[0] == '+' || digits[0] == '-');
    bool prefix = at[0] == '0' &&
                  ((base == 16 && (at[1] | 0x20) == 'x') || (base == 8 && (at[1] | 0x20) == 'o') ||
                   (base == 2 && (at[1] | 0x20) == 'b'));
    if (!isalnum((unsigned char)*at)) return false;
    errno = 0;
    long long value = strtoll(at + (prefix ? 2 : 0), &end, base);
    *wide = errno == ERANGE;
    *out = digits[0] == '-' ? -value : value;
    return *end == 0 && end > at + (prefix ? 2 : 0);
}

/* float(text) */
static bool parse_real(const hil_chars *text, double *out)
{
    char digits[512], *end;
    if (!number_text(text, digits, sizeof digits)) return false;
    const char *at = digits + (digits[0] == '+' || digits[0] == '-');
    bool word =
        strcasecmp(at, "inf") == 0 || strcasecmp(at, "infinity") == 0 || strcasecmp(at, "nan") == 0;
    if (!word && strspn(at, "0123456789.eE+-") != strlen(at)) return false;
    *out = strtod(digits, &end);
    return *end == 0 && end > digits;
}

static hil_status run_int(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_variant value = call->self;
    int64_t base, integer;
    double real = NAN;
    bool wide = false;
    HIL_TRY(hil_argument_integer(r, call->bound[1], 10, &base));
    *out = call->bound[0].type == HIL_V_ABSENT ? HIL_INT(0) : call->bound[0];
    if (value.type == HIL_V_UNDEFINED) return hil_render_undefined(r, value);
    if (value.type == HIL_V_INT || value.type == HIL_V_BOOL) {
        *out = HIL_INT(hil_variant_integer(value));
        return HIL_OK;
    }
    if (base != 0 && (base < 2 || base > 36)) return HIL_OK;
    if (value.type == HIL_V_TEXT) {
        if (parse_integer(value.text, (int)base, &integer, &wide)) {
            if (wide) return hil_render_fail(r, "int: more than 64 bits, which is not supported");
            *out = HIL_INT(integer);
            return HIL_OK;
        }
        if (!parse_real(value.text, &real)) return HIL_OK;
    } else if (value.type == HIL_V_REAL) {
        real = value.real;
        if (isinf(real)) return hil_render_fail(r, "cannot convert float infinity to integer");
    }
    if (!isfinite(real)) return HIL_OK;
    if (!(real > -0x1p63 && real < 0x1p63))
        return hil_render_fail(r, "int: more than 64 bits, which is not supported");
    *out = HIL_INT((int64_t)real);
    return HIL_OK;
}

static hil_status run_float(hil_render *r, const hil_call *call, hil_variant *out)
{
    double real;
    *out = call->bound[0].type == HIL_V_ABSENT ? HIL_REAL(0) : call->bound[0];
    if (call->self.type == HIL_V_UNDEFINED) return hil_render_undefined(r, call->self);
    if (hil_variant_is_number(call->self))
        *out = HIL_REAL(hil_variant_real(call->self));
    else if (call->self.type == HIL_V_TEXT && parse_real(call->self.text, &real))
        *out = HIL_REAL(real);
    return HIL_OK;
}

static hil_status need_number(hil_render *r, hil_variant value)
{
    if (value.type == HIL_V_UNDEFINED) return hil_render_undefined(r, value);
    if (hil_variant_is_number(value)) return HIL_OK;
    return hil_render_fail(r, "a number is needed, not '%s'", hil_variant_type_name(value));
}

static hil_status run_abs(hil_render *r, const hil_call *call, hil_variant *out)
{
    HIL_TRY(need_number(r, call->self));
    bool negative = hil_variant_real(call->self) < 0 ||
                    (call->self.type == HIL_V_REAL && signbit(call->self.real));
    return hil_variant_negate(r, call->self, negative, out);
}

/* Rounds correctly at a decimal place; ties of the exact value go to the even digit. */
static double round_places(double value, int64_t places)
{
    char digits[400];
    if (!isfinite(value) || places > 300) return value;
    if (places < 0) {
        double unit = pow(10, (double)-places);
        return rint(value / unit) * unit;
    }
    snprintf(digits, sizeof digits, "%.*f", (int)places, value);
    return strtod(digits, NULL);
}

static hil_status run_round(hil_render *r, const hil_call *call, hil_variant *out)
{
    int64_t places;
    const hil_chars *method = NULL;
    HIL_TRY(need_number(r, call->self));
    HIL_TRY(hil_argument_integer(r, call->bound[0], 0, &places));
    if (call->bound[1].type != HIL_V_ABSENT) HIL_TRY(hil_argument_text(r, call->bound[1], &method));
    double value = hil_variant_real(call->self);
    bool common = !method || hil_chars_is(method, "common");
    if (common && call->self.type != HIL_V_REAL && places >= 0) {
        *out = HIL_INT(hil_variant_integer(call->self));
        return HIL_OK;
    }
    if (common) {
        double rounded = round_places(value, places < -300 ? -300 : places);
        *out = HIL_REAL(rounded);
        if (call->self.type == HIL_V_REAL) return HIL_OK;
        if (!(fabs(rounded) < 0x1p63))
            return hil_render_fail(r, "round: more than 64 bits, which is not supported");
        *out = HIL_INT((int64_t)rounded);
        return HIL_OK;
    }
    if (!hil_chars_is(method, "ceil") && !hil_chars_is(method, "floor"))
        return hil_render_fail(r, "method must be common, ceil or floor");
    double unit = pow(10, (double)places), scaled = value * unit;
    *out = HIL_REAL((hil_chars_is(method, "ceil") ? ceil(scaled) : floor(scaled)) / unit);
    return HIL_OK;
}

static hil_status run_sum(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_getter getter;
    hil_cursor cursor;
    HIL_TRY(hil_getter_open(r, call->bound[0], &getter));
    HIL_TRY(hil_cursor_open(r, call->self, &cursor));
    *out = call->bound[1].type == HIL_V_ABSENT ? HIL_INT(0) : call->bound[1];
    if (out->type == HIL_V_TEXT) return hil_render_fail(r, "sum() can't sum strings");
    for (;;) {
        hil_variant item;
        HIL_TRY(hil_cursor_next(r, &cursor, &item));
        if (item.type == HIL_V_ABSENT) return HIL_OK;
        HIL_TRY(hil_getter_get(r, &getter, item, &item));
        HIL_TRY(hil_variant_binary(r, HIL_OP_ADD, *out, item, out));
    }
}

/* The smallest or largest item; of equal ones the first. */
static hil_status extreme(hil_render *r, const hil_call *call, bool largest, hil_variant *out)
{
    hil_getter getter;
    hil_cursor cursor;
    hil_variant best = {0};
    HIL_TRY(hil_getter_open(r, call->bound[1], &getter));
    getter.lower = !hil_variant_truth(call->bound[0]);
    HIL_TRY(hil_cursor_open(r, call->self, &cursor));
    *out = (hil_variant){0};
    for (;;) {
        hil_variant item, key;
        int order = 0;
        HIL_TRY(hil_cursor_next(r, &cursor, &item));
        if (item.type == HIL_V_ABSENT) break;
        HIL_TRY(hil_getter_get(r, &getter, item, &key));
        if (best.type != HIL_V_ABSENT)
            HIL_TRY(hil_variant_compare(r, key, best, largest ? ">" : "<", &order));
        if (best.type != HIL_V_ABSENT && order != (largest ? 1 : -1)) continue;
        best = key;
        *out = item;
    }
    if (out->type != HIL_V_ABSENT) return HIL_OK;
    return hil_undefined_hint(r, "No aggregated item, sequence was empty.", out);
}

HIL_BUILTIN(run_min, extreme(r, call, false, out))
HIL_BUILTIN(run_max, extreme(r, call, true, out))

static hil_status keys_of(hil_render *r, const hil_items *items, const hil_getter *getter,
                          hil_items **out)
{
    HIL_TRY(hil_items_create(r, items->count, out));
    for (size_t i = 0; i < items->count; ++i) {
        hil_variant key;
        HIL_TRY(hil_getter_get(r, getter, items->data[i], &key));
        HIL_TRY(hil_items_add(r, *out, key));
    }
    return HIL_OK;
}

/* Keys for sorting by several attributes, "a,b": each key is a list. */
static hil_status keys_of_many(hil_render *r, const hil_items *items, hil_variant names, bool lower,
                               hil_items **out)
{
    hil_items *parts;
    hil_variant comma;
    HIL_TRY(hil_chars_literal(r, ",", &comma));
    HIL_TRY(hil_chars_split(r, names.text, comma.text, -1, false, &parts));
    HIL_TRY(hil_items_create(r, items->count, out));
    for (size_t i = 0; i < items->count; ++i) {
        hil_items *key;
        HIL_TRY(hil_items_create(r, parts->count, &key));
        for (size_t k = 0; k < parts->count; ++k) {
            hil_getter getter;
            hil_variant value;
            HIL_TRY(hil_getter_open(r, parts->data[k], &getter));
            getter.lower = lower;
            HIL_TRY(hil_getter_get(r, &getter, items->data[i], &value));
            HIL_TRY(hil_items_add(r, key, value));
        }
        HIL_TRY(hil_items_add(r, *out, hil_items_list(key)));
    }
    return HIL_OK;
}

static hil_status run_sort(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_items *items, *keys;
    hil_getter getter;
    bool lower = !hil_variant_truth(call->bound[1]);
    HIL_TRY(hil_variant_list(r, call->self, &items));
    if (call->bound[2].type == HIL_V_TEXT) {
        HIL_TRY(keys_of_many(r, items, call->bound[2], lower, &keys));
    } else {
        HIL_TRY(hil_getter_open(r, call->bound[2], &getter));
        getter.lower = lower;
        HIL_TRY(keys_of(r, items, &getter, &keys));
    }
    HIL_TRY(hil_items_sort(r, items, keys, hil_variant_truth(call->bound[0])));
    *out = hil_items_list(items);
    return HIL_OK;
}

static hil_status run_dictsort(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_items *items, *keys;
    hil_getter getter = {.lower = !hil_variant_truth(call->bound[0])};
    bool by_value = false;
    if (call->self.type == HIL_V_UNDEFINED) return hil_render_undefined(r, call->self);
    if (call->self.type != HIL_V_DICT)
        return hil_render_fail(r, "'%s' object has no attribute 'items'",
                               hil_variant_type_name(call->self));
    if (call->bound[1].type != HIL_V_ABSENT) {
        const hil_chars *by;
        HIL_TRY(hil_argument_text(r, call->bound[1], &by));
        by_value = hil_chars_is(by, "value");
        if (!by_value && !hil_chars_is(by, "key"))
            return hil_render_fail(r, "You can only sort by either \"key\" or \"value\"");
    }
    HIL_TRY(hil_items_create(r, call->self.dict->count, &items));
    HIL_TRY(hil_items_create(r, call->self.dict->count, &keys));
    for (size_t i = 0; i < call->self.dict->count; ++i) {
        const hil_pair *pair = &call->self.dict->pairs[i];
        hil_variant item, key;
        HIL_TRY(hil_pair_tuple(r, pair->key, pair->value, &item));
        HIL_TRY(hil_getter_get(r, &getter, by_value ? pair->value : pair->key, &key));
        HIL_TRY(hil_items_add(r, items, item));
        HIL_TRY(hil_items_add(r, keys, key));
    }
    HIL_TRY(hil_items_sort(r, items, keys, hil_variant_truth(call->bound[2])));
    *out = hil_items_list(items);
    return HIL_OK;
}

static hil_status run_unique(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_items *items, *kept;
    hil_getter getter;
    hil_dict *seen;
    HIL_TRY(hil_getter_open(r, call->bound[1], &getter));
    getter.lower = !hil_variant_truth(call->bound[0]);
    HIL_TRY(hil_variant_list(r, call->self, &items));
    HIL_TRY(hil_items_create(r, 0, &kept));
    HIL_TRY(hil_dict_create(r, 0, &seen));
    for (size_t i = 0; i < items->count; ++i) {
        hil_variant key;
        size_t before = seen->count;
        HIL_TRY(hil_getter_get(r, &getter, items->data[i], &key));
        HIL_TRY(hil_dict_set(r, seen, key, HIL_NONE));
        if (seen->count > before) HIL_TRY(hil_items_add(r, kept, items->data[i]));
    }
    return hil_iterator_create(r, hil_items_list(kept), "generator", out);
}

static hil_status add_list(hil_render *r, hil_items *rows, hil_items *row)
{
    return hil_items_add(r, rows, hil_items_list(row));
}

static hil_status run_batch(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_items *items, *rows, *row = NULL;
    int64_t width;
    HIL_TRY(hil_argument_integer(r, call->bound[0], 0, &width));
    HIL_TRY(hil_variant_list(r, call->self, &items));
    HIL_TRY(hil_items_create(r, 0, &rows));
    for (size_t i = 0; i < items->count; ++i) {
        if (!row || (int64_t)row->count == width) {
            if (row) HIL_TRY(add_list(r, rows, row));
            HIL_TRY(hil_items_create(r, 0, &row));
        }
        HIL_TRY(hil_items_add(r, row, items->data[i]));
    }
    bool fill = call->bound[1].type != HIL_V_ABSENT && call->bound[1].type != HIL_V_NONE;
    while (row && fill && (int64_t)row->count < width) {
        HIL_TRY(hil_render_step(r, 1));
        HIL_TRY(hil_items_add(r, row, call->bound[1]));
    }
    if (row) HIL_TRY(add_list(r, rows, row));
    return hil_iterator_create(r, hil_items_list(rows), "generator", out);
}

const hil_builtin hil_number_filters[] = {
    {"abs", run_abs, {NULL}, 0, false},
    {"batch", run_batch, {"linecount", "fill_with"}, 1, false},
    {"dictsort", run_dictsort, {"case_sensitive", "by", "reverse"}, 0, false},
    {"float", run_float, {"default"}, 0, false},
    {"int", run_int, {"default", "base"}, 0, false},
    {"max", run_max, {"case_sensitive", "attribute"}, 0, false},
    {"min", run_min, {"case_sensitive", "attribute"}, 0, false},
    {"round", run_round, {"precision", "method"}, 0, false},
    {"sort", run_sort, {"reverse", "case_sensitive", "attribute"}, 0, false},
    {"sum", run_sum, {"attribute", "start"}, 0, false},
    {"unique", run_unique, {"case_sensitive", "attribute"}, 0, false},
    {NULL, NULL, {NULL}, 0, false},
};
