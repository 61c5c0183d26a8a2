/* template_unescape.c - Python's unicode-escape codec on UTF-8, as Jinja applies it to strings. */
#include "text/template_unescape.h"

#include "text/unicode/unicode.h"

#include <stdio.h>
#include <string.h>

size_t hil_unescape_room(size_t size)
{
    return size * 4 + 16; /* "\" and a character of four bytes become ten letters */
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Parses exactly `digits` hexadecimal digits as a code point; UINT32_MAX: they are none. */
static uint32_t read_hex(const char *text, size_t size, size_t digits)
{
    uint32_t point = 0;
    if (size < digits) return UINT32_MAX;
    for (size_t i = 0; i < digits; ++i) {
        int digit = hex_digit(text[i]);
        if (digit < 0) return UINT32_MAX;
        point = point << 4 | (uint32_t)digit;
    }
    return point;
}

/* Jinja makes "\" before a character beyond ASCII an escaped backslash and the code in letters. */
static size_t put_code(char *out, uint32_t point)
{
    const char *format = point < 0x100 ? "\\x%02x" : point < 0x10000 ? "\\u%04x" : "\\U%08x";
    return (size_t)snprintf(out, 12, format, point);
}

typedef struct escape {
    uint32_t point;
    size_t used; /* bytes after the backslash */
} escape;

static escape read_octal(const char *text, size_t size)
{
    escape e = {0, 0};
    while (e.used < 3 && e.used < size && text[e.used] >= '0' && text[e.used] <= '7')
        e.point = e.point * 8 + (uint32_t)(text[e.used++] - '0');
    return e;
}

static escape read_coded(const char *text, size_t size, const char **problem)
{
    size_t digits = text[0] == 'x' ? 2 : text[0] == 'u' ? 4 : 8;
    escape e = {read_hex(text + 1, size - 1, digits), digits + 1};
    if (e.point == UINT32_MAX)
        *problem = "truncated escape in a string";
    else if (e.point > 0x10FFFF)
        *problem = "illegal Unicode character in a string";
    else if (e.point >= 0xD800 && e.point < 0xE000)
        *problem = "half of a surrogate pair in a string, which UTF-8 cannot hold";
    return e;
}

size_t hil_unescape(char *out, const char *text, size_t size, const char **problem)
{
    static const char letters[] = "\\'\"abfnrtv", meanings[] = "\\'\"\a\b\f\n\r\t\v";
    size_t put = 0;
    for (size_t i = 0; i < size;) {
        if (text[i] != '\\' || i + 1 == size) {
            out[put++] = text[i++];
            continue;
        }
        char c = text[++i];
        const char *letter = c ? strchr(letters, c) : NULL;
        if (letter) {
            out[put++] = meanings[letter - letters];
            ++i;
        } else if (c == '\n') {
            ++i;
        } else if ((unsigned char)c >= 0x80) {
            size_t width;
            put += put_code(out + put, hil_utf8_get(text + i, &width));
            i += width;
        } else if (c >= '0' && c <= '7') {
            escape e = read_octal(text + i, size - i);
            put += hil_utf8_put(out + put, e.point);
            i += e.used;
        } else if (c == 'x' || c == 'u' || c == 'U') {
            escape e = read_coded(text + i, size - i, problem);
            if (*problem) return 0;
            put += hil_utf8_put(out + put, e.point);
            i += e.used;
        } else if (c == 'N') {
            *problem = "\\N{...} in a string, which is not supported";
            return 0;
        } else {
            out[put++] = '\\';
        }
    }
    return put;
}
