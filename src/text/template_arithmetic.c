/* template_arithmetic.c - + - * / // % ** of numbers, texts and lists, as Python computes them. */
#include "text/template_eval.h"

#include <math.h>
#include <string.h>

static const char *const signs[] = {
    [HIL_OP_ADD] = "+",       [HIL_OP_SUB] = "-", [HIL_OP_MUL] = "*",          [HIL_OP_DIV] = "/",
    [HIL_OP_FLOORDIV] = "//", [HIL_OP_MOD] = "%", [HIL_OP_POW] = "** or pow()"};

static hil_status overflow(hil_render *r)
{
    return hil_render_fail(r, "an integer of more than 64 bits, which is not supported");
}

static hil_status by_zero(hil_render *r)
{
    return hil_render_fail(r, "division by zero");
}

/* base ** exponent, for exponents of at least 0. */
static hil_status power(hil_render *r, int64_t base, int64_t exponent, hil_variant *out)
{
    int64_t result = 1;
    while (exponent > 0) {
        if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) return overflow(r);
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base)) return overflow(r);
    }
    *out = HIL_INT(result);
    return HIL_OK;
}

static hil_status integers(hil_render *r, hil_operator op, int64_t a, int64_t b, hil_variant *out)
{
    int64_t result = 0;
    bool wide = false;
    switch (op) {
    case HIL_OP_ADD:
        wide = __builtin_add_overflow(a, b, &result);
        break;
    case HIL_OP_SUB:
        wide = __builtin_sub_overflow(a, b, &result);
        break;
    case HIL_OP_MUL:
        wide = __builtin_mul_overflow(a, b, &result);
        break;
    case HIL_OP_DIV:
        if (b == 0) return by_zero(r);
        *out = HIL_REAL((double)a / (double)b);
        return HIL_OK;
    case HIL_OP_POW:
        if (b >= 0) return power(r, a, b, out);
        if (a == 0) return hil_render_fail(r, "0.0 cannot be raised to a negative power");
        *out = HIL_REAL(pow((double)a, (double)b));
        return HIL_OK;
    default: /* // and %, rounded toward minus infinity */
        if (b == 0) return by_zero(r);
        wide = a == INT64_MIN && b == -1 && op == HIL_OP_FLOORDIV;
        if (b == -1) {
            result = wide || op == HIL_OP_MOD ? 0 : -a;
        } else {
            bool below = a % b != 0 && (a % b < 0) != (b < 0);
            result = op == HIL_OP_FLOORDIV ? a / b - below : a % b + (below ? b : 0);
        }
    }
    if (wide) return overflow(r);
    *out = HIL_INT(result);
    return HIL_OK;
}

/* Python's float division: the remainder has the sign of the divisor. */
static double divide(double a, double b, double *rest)
{
    double mod = fmod(a, b), quotient = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            quotient -= 1;
        }
    } else {
        mod = copysign(0, b);
    }
    *rest = mod;
    if (quotient == 0) return copysign(0, a / b);
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

static hil_status reals(hil_render *r, hil_operator op, double a, double b, hil_variant *out)
{
    double rest, result;
    if (b == 0 && (op == HIL_OP_DIV || op == HIL_OP_FLOORDIV || op == HIL_OP_MOD))
        return by_zero(r);
    switch (op) {
    case HIL_OP_ADD:
        result = a + b;
        break;
    case HIL_OP_SUB:
        result = a - b;
        break;
    case HIL_OP_MUL:
        result = a * b;
        break;
    case HIL_OP_DIV:
        result = a / b;
        break;
    case HIL_OP_FLOORDIV:
        result = divide(a, b, &rest);
        break;
    case HIL_OP_MOD:
        divide(a, b, &result);
        break;
    default:
        if (a == 0 && b < 0) return hil_render_fail(r, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(b) && floor(b) != b)
            return hil_render_fail(r, "a complex number, which is not supported");
        result = pow(a, b);
        if (isinf(result) && isfinite(a) && isfinite(b))
            return hil_render_fail(r, "the result of ** is too large");
    }
    *out = HIL_REAL(result);
    return HIL_OK;
}

/* Concatenates texts. If one is safe, the other is escaped. */
static hil_status add_texts(hil_render *r, const hil_chars *a, const hil_chars *b, hil_variant *out)
{
    size_t mark;
    bool safe = a->safe || b->safe;
    hil_capture_begin(r, &mark);
    HIL_TRY(safe && !a->safe ? hil_print_escaped(r, a) : hil_render_add(r, a->data, a->size));
    HIL_TRY(safe && !b->safe ? hil_print_escaped(r, b) : hil_render_add(r, b->data, b->size));
    HIL_TRY(hil_capture_end(r, mark, out));
    return hil_chars_mark(r, out->text, safe, out);
}

static hil_status add_items(hil_render *r, hil_variant a, hil_variant b, hil_variant *out)
{
    hil_items *items;
    size_t count = a.items->count + b.items->count;
    HIL_TRY(hil_render_step(r, count));
    HIL_TRY(hil_items_create(r, count, &items));
    for (size_t i = 0; i < count; ++i)
        items->data[i] = i < a.items->count ? a.items->data[i] : b.items->data[i - a.items->count];
    items->count = count;
    *out = a.type == HIL_V_LIST ? hil_items_list(items) : hil_items_tuple(items);
    return HIL_OK;
}

static hil_status repeat_items(hil_render *r, hil_variant a, size_t times, hil_variant *out)
{
    hil_items *items;
    size_t count;
    if (__builtin_mul_overflow(a.items->count, times, &count) || count > SIZE_MAX / 64)
        return hil_render_fail(r, "a list that is too long");
    HIL_TRY(hil_render_step(r, count));
    HIL_TRY(hil_items_create(r, count, &items));
    for (size_t i = 0; i < count; ++i) items->data[i] = a.items->data[i % a.items->count];
    items->count = count;
    *out = a.type == HIL_V_LIST ? hil_items_list(items) : hil_items_tuple(items);
    return HIL_OK;
}

static hil_status repeat(hil_render *r, hil_variant a, int64_t times, hil_variant *out)
{
    if (times < 0) times = 0;
    if (a.type != HIL_V_TEXT) return repeat_items(r, a, (size_t)times, out);
    size_t mark;
    hil_capture_begin(r, &mark);
    if (a.text->size == 0) times = 0;
    for (int64_t i = 0; i < times; ++i) {
        HIL_TRY(hil_render_step(r, 1));
        HIL_TRY(hil_render_add(r, a.text->data, a.text->size));
    }
    HIL_TRY(hil_capture_end(r, mark, out));
    return hil_chars_mark(r, out->text, a.text->safe, out);
}

static bool repeats(hil_variant value)
{
    return value.type == HIL_V_TEXT || value.type == HIL_V_LIST || value.type == HIL_V_TUPLE;
}

static bool counts(hil_variant value)
{
    return value.type == HIL_V_INT || value.type == HIL_V_BOOL;
}

static hil_status add(hil_render *r, hil_variant a, hil_variant b, hil_variant *out)
{
    if (a.type == HIL_V_TEXT && b.type == HIL_V_TEXT) return add_texts(r, a.text, b.text, out);
    if (a.type == b.type && repeats(a)) return add_items(r, a, b, out);
    if (repeats(a))
        return hil_render_fail(r, "can only concatenate %s (not \"%s\") to %s",
                               hil_variant_type_name(a), hil_variant_type_name(b),
                               hil_variant_type_name(a));
    return hil_render_fail(r, "unsupported operand type(s) for +: '%s' and '%s'",
                           hil_variant_type_name(a), hil_variant_type_name(b));
}

hil_status hil_variant_binary(hil_render *r, hil_operator op, hil_variant a, hil_variant b,
                              hil_variant *out)
{
    /* A text on the left of % formats even undefined values. */
    if (op == HIL_OP_MOD && a.type == HIL_V_TEXT) return hil_format_percent(r, a.text, b, out);
    if (a.type == HIL_V_UNDEFINED) return hil_render_undefined(r, a);
    if (b.type == HIL_V_UNDEFINED) return hil_render_undefined(r, b);
    if (hil_variant_is_number(a) && hil_variant_is_number(b)) {
        if (a.type == HIL_V_REAL || b.type == HIL_V_REAL)
            return reals(r, op, hil_variant_real(a), hil_variant_real(b), out);
        return integers(r, op, hil_variant_integer(a), hil_variant_integer(b), out);
    }
    if (op == HIL_OP_ADD) return add(r, a, b, out);
    if (op == HIL_OP_MUL && repeats(a) && counts(b))
        return repeat(r, a, hil_variant_integer(b), out);
    if (op == HIL_OP_MUL && counts(a) && repeats(b))
        return repeat(r, b, hil_variant_integer(a), out);
    return hil_render_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", signs[op],
                           hil_variant_type_name(a), hil_variant_type_name(b));
}

hil_status hil_variant_negate(hil_render *r, hil_variant a, bool negative, hil_variant *out)
{
    if (a.type == HIL_V_UNDEFINED) return hil_render_undefined(r, a);
    if (a.type == HIL_V_REAL) {
        *out = HIL_REAL(negative ? -a.real : a.real);
        return HIL_OK;
    }
    if (!counts(a))
        return hil_render_fail(r, "bad operand type for unary %c: '%s'", negative ? '-' : '+',
                               hil_variant_type_name(a));
    int64_t integer = hil_variant_integer(a);
    if (negative && integer == INT64_MIN) return overflow(r);
    *out = HIL_INT(negative ? -integer : integer);
    return HIL_OK;
}
