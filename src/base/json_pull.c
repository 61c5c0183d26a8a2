/* json_pull.c - reading large JSON values piece by piece. */
#include "base/json_pull.h"

#include <string.h>

static hil_status wrong(const hil_json_pull *pull, const char *expected)
{
    size_t line = 1, at = pull->at < pull->size ? pull->at : pull->size;
    for (size_t i = 0; i < at; ++i) line += pull->text[i] == '\n';
    return hil_fail(HIL_ERR_INPUT, "%s: not valid JSON at line %zu, byte %zu: expected %s",
                    pull->what, line, at, expected);
}

char hil_json_pull_peek(hil_json_pull *pull)
{
    while (pull->at < pull->size && (pull->text[pull->at] == ' ' || pull->text[pull->at] == '\n' ||
                                     pull->text[pull->at] == '\r' || pull->text[pull->at] == '\t'))
        ++pull->at;
    return pull->at < pull->size ? pull->text[pull->at] : 0;
}

static char closing(char bracket)
{
    return bracket == '{' ? '}' : ']';
}

hil_status hil_json_pull_enter(hil_json_pull *pull, char bracket, bool *more)
{
    if (hil_json_pull_peek(pull) != bracket)
        return wrong(pull, bracket == '{' ? "an object" : "an array");
    ++pull->at;
    *more = hil_json_pull_peek(pull) != closing(bracket);
    if (!*more) ++pull->at;
    return HIL_OK;
}

hil_status hil_json_pull_next(hil_json_pull *pull, char bracket, bool *more)
{
    char next = hil_json_pull_peek(pull);
    if (next != ',' && next != closing(bracket)) return wrong(pull, "a comma or the end");
    *more = next == ',';
    ++pull->at;
    return HIL_OK;
}

static int hex4(const hil_json_pull *pull, size_t at)
{
    int value = 0;
    if (at + 4 > pull->size) return -1;
    for (size_t i = at; i < at + 4; ++i) {
        char c = pull->text[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Decodes \uXXXX, or two of them for a surrogate pair; pull->at is after the 'u'. */
static hil_status unescape_point(hil_json_pull *pull, hil_text *out)
{
    int high = hex4(pull, pull->at);
    if (high <= 0 || (high >= 0xDC00 && high < 0xE000)) return wrong(pull, "a code point");
    uint32_t point = (uint32_t)high;
    pull->at += 4;
    if (point >= 0xD800 && point < 0xDC00) {
        bool pair = pull->at + 6 <= pull->size && memcmp(pull->text + pull->at, "\\u", 2) == 0;
        int low = pair ? hex4(pull, pull->at + 2) : -1;
        if (low < 0xDC00 || low >= 0xE000)
            return wrong(pull, "the second half of a surrogate pair");
        point = 0x10000 + ((point - 0xD800) << 10) + ((uint32_t)low - 0xDC00);
        pull->at += 6;
    }
    char bytes[4];
    size_t size = 1;
    if (point < 0x80) {
        bytes[0] = (char)point;
    } else {
        size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
        for (size_t i = size - 1; i > 0; --i, point >>= 6) bytes[i] = (char)(0x80 | (point & 0x3F));
        bytes[0] = (char)((0xF00u >> size & 0xF0u) | point);
    }
    return hil_text_add(out, bytes, size);
}

static hil_status unescape(hil_json_pull *pull, hil_text *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char letter = pull->at < pull->size ? pull->text[pull->at] : 0;
    if (letter == 'u') {
        ++pull->at;
        return unescape_point(pull, out);
    }
    const char *found = letter ? strchr(from, letter) : NULL;
    if (!found) return wrong(pull, "an escape");
    ++pull->at;
    return hil_text_add(out, &to[found - from], 1);
}

hil_status hil_json_pull_string(hil_json_pull *pull, hil_text *out)
{
    if (hil_json_pull_peek(pull) != '"') return wrong(pull, "a string");
    ++pull->at;
    out->size = 0;
    for (;;) {
        size_t end = pull->at;
        while (end < pull->size && pull->text[end] != '"' && pull->text[end] != '\\' &&
               (unsigned char)pull->text[end] >= 0x20)
            ++end;
        HIL_TRY(hil_text_add(out, pull->text + pull->at, end - pull->at));
        pull->at = end;
        if (end == pull->size || (unsigned char)pull->text[end] < 0x20)
            return wrong(pull, "the end of a string");
        ++pull->at;
        if (pull->text[end] == '"') break;
        HIL_TRY(unescape(pull, out));
    }
    return HIL_OK;
}

hil_status hil_json_pull_key(hil_json_pull *pull, hil_text *out)
{
    HIL_TRY(hil_json_pull_string(pull, out));
    if (hil_json_pull_peek(pull) != ':') return wrong(pull, "a colon");
    ++pull->at;
    return HIL_OK;
}

hil_status hil_json_pull_int(hil_json_pull *pull, int64_t *out)
{
    bool negative = hil_json_pull_peek(pull) == '-';
    size_t start = pull->at + negative, at = start;
    int64_t value = 0;
    for (; at < pull->size && pull->text[at] >= '0' && pull->text[at] <= '9'; ++at)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (negative ? -1 : 1) * (pull->text[at] - '0'), &value))
            return wrong(pull, "a number of 64 bits");
    bool fraction = at < pull->size && strchr(".eE", pull->text[at]) && pull->text[at];
    if (at == start || (at > start + 1 && pull->text[start] == '0') || fraction)
        return wrong(pull, "a whole number");
    pull->at = at;
    *out = value;
    return HIL_OK;
}

static hil_status skip_string(hil_json_pull *pull)
{
    size_t at = pull->at + 1;
    while (at < pull->size && pull->text[at] != '"') at += pull->text[at] == '\\' ? 2 : 1;
    if (at >= pull->size) return wrong(pull, "the end of a string");
    pull->at = at + 1;
    return HIL_OK;
}

hil_status hil_json_pull_skip(hil_json_pull *pull)
{
    size_t depth = 0;
    do {
        char next = hil_json_pull_peek(pull);
        if (next == 0) return wrong(pull, "a value");
        if (next == '"') {
            HIL_TRY(skip_string(pull));
            continue;
        }
        if (depth == 0 && (next == ',' || next == '}' || next == ']'))
            return wrong(pull, "a value");
        if (next == '{' || next == '[') ++depth;
        if (next == '}' || next == ']') --depth;
        ++pull->at;
        bool plain = !strchr("{}[],:", next);
        while (plain && pull->at < pull->size && !strchr("{}[],:\" \n\r\t", pull->text[pull->at]))
            ++pull->at;
    } while (depth > 0);
    return HIL_OK;
}

hil_status hil_json_pull_count(hil_json_pull pull, size_t *count)
{
    bool more = false;
    *count = 0;
    HIL_TRY(hil_json_pull_enter(&pull, '[', &more));
    for (; more; ++*count) {
        HIL_TRY(hil_json_pull_skip(&pull));
        HIL_TRY(hil_json_pull_next(&pull, '[', &more));
    }
    return HIL_OK;
}
