/* template_spec.c - parses format specifications, and prints numbers and texts by them. */
#include "text/template_eval.h"
#include "text/template_format.h"
#include "text/unicode/unicode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_WIDTH = 1000000, MOST_PRECISION = 300 };

static hil_status pad(hil_render *r, uint32_t fill, size_t count)
{
    char bytes[4];
    size_t size = hil_utf8_put(bytes, fill);
    for (size_t i = 0; i < count; ++i) HIL_TRY(hil_render_add(r, bytes, size));
    return hil_render_step(r, count / 8);
}

/* Prints `head` (a sign) and `body` of `length` characters, padded to the width; with "=" the
   padding goes between them. */
static hil_status print_padded(hil_render *r, const hil_format *f, const char *head,
                               const char *body, size_t size, size_t length)
{
    size_t taken = strlen(head) + length;
    size_t room = (size_t)f->width > taken ? (size_t)f->width - taken : 0;
    if (f->width > MOST_WIDTH) return hil_render_fail(r, "a width of more than %d", MOST_WIDTH);
    uint32_t fill = f->fill;
    char align = f->align;
    size_t left = align == '>' ? room : align == '^' ? room / 2 : 0;
    size_t middle = align == '=' ? room : 0;
    HIL_TRY(pad(r, fill, left));
    HIL_TRY(hil_render_add(r, head, strlen(head)));
    HIL_TRY(pad(r, fill, middle));
    HIL_TRY(hil_render_add(r, body, size));
    return pad(r, fill, room - left - middle);
}

/* Leading zeros of a number go after its sign. */
static hil_format numeric(const hil_format *f)
{
    hil_format made = *f;
    if (made.zero) {
        made.fill = '0';
        made.align = '=';
    }
    if (!made.align) made.align = '>';
    return made;
}

hil_status hil_format_text(hil_render *r, const hil_format *f, const hil_chars *text)
{
    hil_format made = *f;
    size_t length = text->length;
    if (f->precision >= 0 && (size_t)f->precision < length) length = (size_t)f->precision;
    if (!made.align) made.align = '<';
    return print_padded(r, &made, "", text->data, hil_chars_offset(text, length), length);
}

/* Digits with a separator between groups, counted from the right. */
static size_t group(char *out, const char *digits, size_t count, char separator, size_t every)
{
    size_t put = 0;
    for (size_t i = 0; i < count; ++i) {
        if (i && separator && (count - i) % every == 0) out[put++] = separator;
        out[put++] = digits[i];
    }
    return put;
}

/* Leading zeros get separators too, within the width. */
static hil_status print_number(hil_render *r, const hil_format *f, const char *head,
                               const char *digits, size_t whole)
{
    char body[MOST_PRECISION * 2 + 800];
    size_t rest = strlen(digits + whole);
    size_t every = f->type == 'x' || f->type == 'X' || f->type == 'b' || f->type == 'o' ? 4 : 3;
    size_t put = group(body, digits, whole, f->grouping, every);
    memcpy(body + put, digits + whole, rest);
    put += rest;
    hil_format made = numeric(f);
    if (f->zero && f->grouping) {
        char zeros[MOST_PRECISION + 400] = {0};
        size_t count = whole;
        if (f->width > 300) return hil_render_fail(r, "a width of more than 300 with a separator");
        while (strlen(head) + put < (size_t)f->width) {
            ++count;
            memset(zeros, '0', count - whole);
            memcpy(zeros + (count - whole), digits, whole);
            put = group(body, zeros, count, f->grouping, every);
            memcpy(body + put, digits + whole, rest);
            put += rest;
        }
    }
    return print_padded(r, &made, head, body, put, put);
}

hil_status hil_format_integer(hil_render *r, const hil_format *f, int64_t value)
{
    char digits[MOST_PRECISION + 100], head[8];
    size_t count = 0, put = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    uint64_t base = f->type == 'x' || f->type == 'X' ? 16
                    : f->type == 'o'                 ? 8
                    : f->type == 'b'                 ? 2
                                                     : 10;
    const char *letters = f->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    char reversed[72];
    do reversed[count++] = letters[rest % base];
    while ((rest /= base) > 0);
    if (f->precision > MOST_PRECISION)
        return hil_render_fail(r, "a precision of more than %d", MOST_PRECISION);
    size_t zeros = f->precision > (int)count ? (size_t)f->precision - count : 0;
    memset(digits, '0', zeros);
    for (size_t i = 0; i < count; ++i) digits[zeros + i] = reversed[count - 1 - i];
    digits[zeros + count] = 0;
    if (value < 0)
        head[put++] = '-';
    else if (f->sign == '+' || f->sign == ' ')
        head[put++] = f->sign;
    if (f->alternate && base != 10) {
        head[put++] = '0';
        head[put++] = f->type;
    }
    head[put] = 0;
    return print_number(r, f, head, digits, zeros + count);
}

/* Prints a float without a type: like str(), or with a precision like %g that keeps ".0". */
static void print_general(char *out, size_t most, double value, int precision)
{
    if (precision < 0) {
        hil_text_real(out, value);
        return;
    }
    snprintf(out, most, "%.*g", precision ? precision : 1, value);
    if (!strpbrk(out, ".en")) {
        size_t size = strlen(out);
        memcpy(out + size, ".0", 3);
    }
}

hil_status hil_format_real(hil_render *r, const hil_format *f, double value)
{
    char digits[MOST_PRECISION + 400], head[2] = {0}, pattern[8] = "%.*f";
    int precision = f->precision < 0 ? 6 : f->precision;
    double size = fabs(value);
    if (precision > MOST_PRECISION)
        return hil_render_fail(r, "a precision of more than %d", MOST_PRECISION);
    if (f->type == '%') {
        snprintf(digits, sizeof digits, "%.*f%%", precision, size * 100);
    } else if (!f->type) {
        print_general(digits, sizeof digits, size, f->precision);
    } else {
        pattern[3] = f->type;
        snprintf(digits, sizeof digits, pattern, precision, size);
    }
    if (signbit(value) && !isnan(value))
        head[0] = '-';
    else if (f->sign == '+' || f->sign == ' ')
        head[0] = f->sign;
    size_t whole = strspn(digits, "0123456789");
    return print_number(r, f, head, digits, whole);
}

static int read_number(const char **at, const char *end, int absent)
{
    if (*at == end || **at < '0' || **at > '9') return absent;
    int value = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at)
        if (value < 100000000) value = value * 10 + (**at - '0');
    return value;
}

static bool is_align(const char *at, const char *end)
{
    return at < end && *at && strchr("<>^=", *at);
}

static hil_status read_spec(hil_render *r, const hil_chars *spec, hil_format *f)
{
    const char *at = spec->data, *end = at + spec->size;
    *f = (hil_format){.fill = ' ', .precision = -1};
    if (at < end) {
        size_t size;
        uint32_t point = hil_utf8_get(at, &size);
        if (is_align(at + size, end)) {
            f->fill = point;
            at += size;
        }
    }
    if (is_align(at, end)) f->align = *at++;
    if (at < end && *at && strchr("+- ", *at)) f->sign = *at++;
    if (at < end && *at == '#') f->alternate = *at++ == '#';
    if (at < end && *at == '0') {
        f->zero = !f->align;
        if (f->align && f->fill == ' ') f->fill = '0';
        ++at;
    }
    f->width = read_number(&at, end, 0);
    if (at < end && (*at == ',' || *at == '_')) f->grouping = *at++;
    if (at < end && *at == '.') {
        ++at;
        f->precision = read_number(&at, end, -1);
        if (f->precision < 0) return hil_render_fail(r, "Format specifier missing precision");
    }
    if (at < end) f->type = *at++;
    if (at < end) return hil_render_fail(r, "Invalid format specifier");
    return HIL_OK;
}

static hil_status unknown(hil_render *r, const hil_format *f, hil_variant value)
{
    return hil_render_fail(r, "Unknown format code '%c' for object of type '%s'", f->type,
                           hil_variant_type_name(value));
}

static hil_status format_number(hil_render *r, const hil_format *f, hil_variant value)
{
    bool real = value.type == HIL_V_REAL || (f->type && strchr("eEfFgG%", f->type));
    if (real) {
        if (f->type && !strchr("eEfFgG%", f->type)) return unknown(r, f, value);
        return hil_format_real(r, f, hil_variant_real(value));
    }
    if (f->type && !strchr("dxXob", f->type)) return unknown(r, f, value);
    if (f->precision >= 0)
        return hil_render_fail(r, "Precision not allowed in integer format specifier");
    return hil_format_integer(r, f, hil_variant_integer(value));
}

hil_status hil_format_value(hil_render *r, const hil_chars *spec, hil_variant value)
{
    hil_format f;
    if (!spec->size) return hil_print_text(r, value);
    HIL_TRY(read_spec(r, spec, &f));
    if (hil_variant_is_number(value)) return format_number(r, &f, value);
    if (value.type != HIL_V_TEXT)
        return hil_render_fail(r, "unsupported format string passed to %s.__format__",
                               hil_variant_type_name(value));
    if (f.type && f.type != 's') return unknown(r, &f, value);
    if (f.sign) return hil_render_fail(r, "Sign not allowed in string format specifier");
    if (f.alternate || f.grouping || f.align == '=')
        return hil_render_fail(r, "'#', ',', '_' and '=' are not allowed for strings");
    if (f.zero) {
        f.fill = '0';
        f.align = '<';
    }
    return hil_format_text(r, &f, value.text);
}
