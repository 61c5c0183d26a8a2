/* template_lexer.c - tokens of a template, by the rules of Jinja with trim_blocks and
 * lstrip_blocks.
 */
#include "text/template_lexer.h"

#include "text/template_text.h"
#include "text/template_unescape.h"
#include "text/unicode/unicode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BRACKETS = 200 };

typedef struct lexer {
    hil_token_list *tokens;
    hil_arena *arena;
    const char *what;
    char *text; /* all line ends are "\n" */
    size_t size, at;
    int line;
    bool line_starting; /* the last token ended a line */
    char brackets[MOST_BRACKETS];
    size_t open; /* brackets that are open */
} lexer;

static hil_status wrong(const lexer *l, const char *words)
{
    return hil_fail(HIL_ERR_INPUT, "%s, line %d: %s", l->what, l->line, words);
}

static hil_status add(lexer *l, hil_token_type type, const char *data, size_t size)
{
    hil_token_list *tokens = l->tokens;
    HIL_TRY(HIL_GROW(&tokens->data, &tokens->capacity, tokens->count + 1));
    tokens->data[tokens->count++] =
        (hil_token){.type = type, .line = l->line, .data = data, .size = size};
    return HIL_OK;
}

/* Advances to `to` and counts lines. */
static void pass(lexer *l, size_t to)
{
    for (; l->at < to; ++l->at) l->line += l->text[l->at] == '\n';
    l->line_starting = to > 0 && l->text[to - 1] == '\n';
}

static bool looking_at(const lexer *l, size_t at, const char *word)
{
    size_t size = strlen(word);
    return l->size - at >= size && memcmp(l->text + at, word, size) == 0;
}

static size_t skip_spaces(const lexer *l, size_t at)
{
    while (at < l->size) {
        size_t size;
        if (!hil_char_is_space(hil_utf8_get(l->text + at, &size))) break;
        at += size;
    }
    return at;
}

/* The end of a tag that closes with `mark` at `at`: "-" also skips white space, "+" keeps the line
   end, which `trim` removes otherwise. Returns `at` if no tag ends there. */
static size_t tag_end(const lexer *l, size_t at, const char *mark, bool trim)
{
    if (l->text[at] == '-' && looking_at(l, at + 1, mark)) return skip_spaces(l, at + 3);
    if (trim && l->text[at] == '+' && looking_at(l, at + 1, mark)) return at + 3;
    if (!looking_at(l, at, mark)) return at;
    return at + 2 + (trim && at + 2 < l->size && l->text[at + 2] == '\n');
}

/* For {% raw %}, {%- raw -%} ...: the position of its text, or 0. */
static size_t raw_begin(const lexer *l, size_t at)
{
    if (!looking_at(l, at, "{%")) return 0;
    at += 2;
    if (at < l->size && (l->text[at] == '-' || l->text[at] == '+')) ++at;
    at = skip_spaces(l, at);
    if (!looking_at(l, at, "raw")) return 0;
    at = skip_spaces(l, at + 3);
    if (looking_at(l, at, "-%}")) return skip_spaces(l, at + 3);
    return looking_at(l, at, "%}") ? at + 2 : 0;
}

static size_t raw_end(const lexer *l, size_t at)
{
    at += 2;
    if (at < l->size && (l->text[at] == '-' || l->text[at] == '+')) ++at;
    at = skip_spaces(l, at);
    if (!looking_at(l, at, "endraw")) return 0;
    at = skip_spaces(l, at + 6);
    if (at >= l->size) return 0;
    size_t end = tag_end(l, at, "%}", true);
    return end == at ? 0 : end;
}

/* Adds the text up to the tag at `tag`. The sign after the tag's brace, and the tag's kind, decide
   which white space before it is removed. */
static hil_status add_data(lexer *l, size_t tag, bool output)
{
    const char *data = l->text + l->at;
    size_t size = tag - l->at, keep = size;
    char sign = tag + 2 < l->size ? l->text[tag + 2] : 0;
    if (sign == '-') {
        while (keep > 0) {
            size_t start = hil_utf8_back(data, keep), width;
            if (!hil_char_is_space(hil_utf8_get(data + start, &width))) break;
            keep = start;
        }
    } else if (sign != '+' && !output) {
        const char *newline = memrchr(data, '\n', size);
        size_t start = newline ? (size_t)(newline - data) + 1 : 0;
        size_t stop = start;
        while (stop < size) {
            size_t width;
            if (!hil_char_is_space(hil_utf8_get(data + stop, &width))) break;
            stop += width;
        }
        if ((start > 0 || l->line_starting) && stop == size) keep = start;
    }
    if (keep) HIL_TRY(add(l, HIL_T_DATA, data, keep));
    return HIL_OK;
}

static hil_status read_raw(lexer *l, size_t begin)
{
    pass(l, begin);
    size_t at = l->at;
    for (;; ++at) {
        const char *found = memmem(l->text + at, l->size - at, "{%", 2);
        if (!found) return wrong(l, "Missing end of raw directive");
        at = (size_t)(found - l->text);
        size_t end = raw_end(l, at);
        if (!end) continue;
        HIL_TRY(add_data(l, at, false));
        pass(l, end);
        return HIL_OK;
    }
}

static hil_status read_comment(lexer *l)
{
    const char *found = NULL;
    size_t begin = l->at + 2;
    if (begin < l->size && (l->text[begin] == '-' || l->text[begin] == '+')) ++begin;
    if (begin < l->size) found = memmem(l->text + begin, l->size - begin, "#}", 2);
    if (!found) return wrong(l, "Missing end of comment tag");
    size_t at = (size_t)(found - l->text);
    if (at > begin && (l->text[at - 1] == '-' || l->text[at - 1] == '+')) --at;
    pass(l, tag_end(l, at, "#}", true));
    return HIL_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The end of digits, with single "_" between them; `at` if there are none. */
static size_t digits_end(const lexer *l, size_t at)
{
    if (at >= l->size || !is_digit(l->text[at])) return at;
    while (at < l->size && (is_digit(l->text[at]) ||
                            (l->text[at] == '_' && at + 1 < l->size && is_digit(l->text[at + 1]))))
        ++at;
    return at;
}

/* The end of a number with a fraction or an exponent that begins at `at`; `at` if it has neither.
 */
static size_t real_end(const lexer *l, size_t at)
{
    if (at > 0 && l->text[at - 1] == '.') return at;
    size_t whole = digits_end(l, at), end = whole;
    if (end < l->size && l->text[end] == '.') {
        size_t fraction = digits_end(l, end + 1);
        if (fraction > end + 1) end = fraction;
    }
    if (end < l->size && (l->text[end] | 0x20) == 'e') {
        size_t sign = end + 1;
        if (sign < l->size && (l->text[sign] == '+' || l->text[sign] == '-')) ++sign;
        size_t exponent = digits_end(l, sign);
        if (exponent > sign) end = exponent;
    }
    return end > whole ? end : at;
}

static bool is_base_digit(char c, int base)
{
    if (is_digit(c)) return c - '0' < base;
    c |= 0x20;
    return base == 16 && c >= 'a' && c <= 'f';
}

/* The end of an integer; sets its base and the position of its digits. */
static size_t integer_end(const lexer *l, size_t at, int *base, size_t *digits)
{
    *base = 10;
    *digits = at;
    char kind = at + 1 < l->size && l->text[at] == '0' ? (char)(l->text[at + 1] | 0x20) : 0;
    int special = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (special) {
        size_t end = at + 2;
        while (end < l->size &&
               (is_base_digit(l->text[end], special) || (l->text[end] == '_' && end + 1 < l->size &&
                                                         is_base_digit(l->text[end + 1], special))))
            ++end;
        if (end > at + 2) {
            *base = special;
            *digits = at + 2;
            return end;
        }
    }
    if (l->text[at] != '0') return digits_end(l, at);
    size_t end = at + 1;
    while (end < l->size && (l->text[end] == '0' ||
                             (l->text[end] == '_' && end + 1 < l->size && l->text[end + 1] == '0')))
        ++end;
    return end;
}

static hil_status read_number(lexer *l)
{
    char digits[64];
    int base = 10;
    size_t begin = l->at, end = real_end(l, begin), size = 0;
    bool real = end > begin;
    if (!real) end = integer_end(l, l->at, &base, &begin);
    for (size_t i = begin; i < end; ++i)
        if (l->text[i] != '_') {
            if (size + 1 >= sizeof digits) return wrong(l, "a number with too many digits");
            digits[size++] = l->text[i];
        }
    digits[size] = 0;
    HIL_TRY(add(l, real ? HIL_T_REAL : HIL_T_INT, l->text + l->at, end - l->at));
    hil_token *token = &l->tokens->data[l->tokens->count - 1];
    errno = 0;
    if (real)
        token->real = strtod(digits, NULL);
    else
        token->integer = strtoll(digits, NULL, base);
    if (!real && errno == ERANGE)
        return wrong(l, "an integer of more than 64 bits, which is not supported");
    pass(l, end);
    return HIL_OK;
}

static size_t name_end(const lexer *l, size_t at)
{
    while (at < l->size) {
        size_t size;
        uint32_t point = hil_utf8_get(l->text + at, &size);
        if (!(hil_unicode_flags(point) & HIL_UNICODE_WORD)) break;
        at += size;
    }
    return at;
}

static hil_status read_text(lexer *l, bool *found)
{
    char quote = l->text[l->at];
    size_t end = l->at + 1;
    while (end < l->size && l->text[end] != quote) end += l->text[end] == '\\' ? 2 : 1;
    *found = end < l->size;
    if (!*found) return HIL_OK;
    char *text;
    size_t size = end - l->at - 1;
    HIL_TRY(hil_arena_alloc(l->arena, hil_unescape_room(size), (void **)&text));
    const char *problem = NULL;
    size = hil_unescape(text, l->text + l->at + 1, size, &problem);
    if (problem) return wrong(l, problem);
    HIL_TRY(add(l, HIL_T_TEXT, text, size));
    pass(l, end + 1);
    return HIL_OK;
}

static hil_status balance(lexer *l, char c)
{
    static const char opening[] = "([{", closing[] = ")]}";
    const char *kind = strchr(opening, c);
    if (kind) {
        if (l->open == MOST_BRACKETS) return wrong(l, "too many brackets inside each other");
        l->brackets[l->open++] = closing[kind - opening];
        return HIL_OK;
    }
    if (!strchr(closing, c)) return HIL_OK;
    if (l->open == 0)
        return hil_fail(HIL_ERR_INPUT, "%s, line %d: unexpected '%c'", l->what, l->line, c);
    char expected = l->brackets[--l->open];
    if (expected != c)
        return hil_fail(HIL_ERR_INPUT, "%s, line %d: unexpected '%c', expected '%c'", l->what,
                        l->line, c, expected);
    return HIL_OK;
}

static hil_status read_operator(lexer *l)
{
    static const char *const doubles[] = {"//", "**", "==", "!=", ">=", "<="};
    size_t size = 0;
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; ++i)
        if (looking_at(l, l->at, doubles[i])) size = 2;
    char c = l->text[l->at];
    if (!size && c && strchr("+-/*%~[](){}><=.:|,;", c)) size = 1;
    if (!size)
        return hil_fail(HIL_ERR_INPUT, "%s, line %d: unexpected char '%c'", l->what, l->line, c);
    if (size == 1) HIL_TRY(balance(l, c));
    HIL_TRY(add(l, HIL_T_OPERATOR, l->text + l->at, size));
    pass(l, l->at + size);
    return HIL_OK;
}

/* Reads the inside of {{ }} or {% %}, including its end. */
static hil_status read_tag(lexer *l, bool output)
{
    const char *mark = output ? "}}" : "%}";
    while (l->at < l->size) {
        size_t end = l->open ? l->at : tag_end(l, l->at, mark, !output);
        if (end > l->at) {
            HIL_TRY(add(l, output ? HIL_T_OUTPUT_END : HIL_T_BLOCK_END, NULL, 0));
            pass(l, end);
            return HIL_OK;
        }
        char c = l->text[l->at];
        bool text = false;
        if ((end = skip_spaces(l, l->at)) > l->at) {
            pass(l, end);
            continue;
        }
        if (c == '\'' || c == '"') HIL_TRY(read_text(l, &text));
        if (text) continue;
        if (is_digit(c)) {
            HIL_TRY(read_number(l));
        } else if ((end = name_end(l, l->at)) > l->at) {
            HIL_TRY(add(l, HIL_T_NAME, l->text + l->at, end - l->at));
            pass(l, end);
        } else {
            HIL_TRY(read_operator(l));
        }
    }
    return HIL_OK; /* the parser reports the missing end */
}

static hil_status read_all(lexer *l)
{
    while (l->at < l->size) {
        size_t tag = l->at;
        while (tag < l->size && !(l->text[tag] == '{' && tag + 1 < l->size && l->text[tag + 1] &&
                                  strchr("{%#", l->text[tag + 1])))
            ++tag;
        if (tag == l->size) {
            HIL_TRY(add(l, HIL_T_DATA, l->text + l->at, tag - l->at));
            pass(l, tag);
            break;
        }
        char kind = l->text[tag + 1];
        HIL_TRY(add_data(l, tag, kind == '{'));
        pass(l, tag);
        size_t raw = raw_begin(l, tag);
        if (raw) {
            HIL_TRY(read_raw(l, raw));
        } else if (kind == '#') {
            HIL_TRY(read_comment(l));
        } else {
            HIL_TRY(add(l, kind == '{' ? HIL_T_OUTPUT_BEGIN : HIL_T_BLOCK_BEGIN, NULL, 0));
            size_t begin = tag + 2;
            if (begin < l->size && (l->text[begin] == '-' || l->text[begin] == '+')) ++begin;
            pass(l, begin);
            HIL_TRY(read_tag(l, kind == '{'));
        }
    }
    return add(l, HIL_T_END, NULL, 0);
}

hil_status hil_token_list_read(hil_token_list *tokens, hil_arena *arena, const char *text,
                               size_t size, const char *what)
{
    lexer l = {.tokens = tokens, .arena = arena, .what = what, .line = 1, .line_starting = true};
    size_t bad;
    if (hil_utf8_check(text, size, &bad) < size)
        return hil_fail(HIL_ERR_INPUT, "%s: the template is not valid UTF-8", what);
    HIL_TRY(hil_arena_alloc(arena, size + 4, (void **)&l.text)); /* zeros after the text */
    for (size_t i = 0; i < size; ++i) {
        if (text[i] == '\r' && i + 1 < size && text[i + 1] == '\n') continue;
        l.text[l.size++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (l.size && l.text[l.size - 1] == '\n') l.text[--l.size] = 0;
    return read_all(&l);
}
