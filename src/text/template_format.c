/* template_format.c - "..." % values and "...".format(values). */
#include "text/template_eval.h"
#include "text/template_format.h"
#include "text/unicode/unicode.h"

#include <string.h>

/* A position in a format. */
typedef struct reader {
    const char *at, *end;
} reader;

static bool take(reader *in, char c)
{
    bool found = in->at < in->end && *in->at == c;
    in->at += found;
    return found;
}

static int read_digits(reader *in, int absent)
{
    if (in->at == in->end || *in->at < '0' || *in->at > '9') return absent;
    int value = 0;
    for (; in->at < in->end && *in->at >= '0' && *in->at <= '9'; ++in->at)
        if (value < 100000000) value = value * 10 + (*in->at - '0');
    return value;
}

/* The arguments of a % format, taken in turn. */
typedef struct supply {
    hil_variant values;
    size_t next;
    bool named;
} supply;

static hil_status next_value(hil_render *r, supply *s, hil_variant *out)
{
    bool tuple = s->values.type == HIL_V_TUPLE;
    if (s->next >= (tuple ? s->values.items->count : 1))
        return hil_render_fail(r, "not enough arguments for format string");
    *out = tuple ? s->values.items->data[s->next] : s->values;
    ++s->next;
    return HIL_OK;
}

static hil_status named_value(hil_render *r, supply *s, reader *in, hil_variant *out)
{
    const char *name = in->at;
    int depth = 1;
    while (in->at < in->end && depth) {
        depth += (*in->at == '(') - (*in->at == ')');
        ++in->at;
    }
    if (depth) return hil_render_fail(r, "incomplete format key");
    if (s->values.type != HIL_V_DICT) return hil_render_fail(r, "format requires a mapping");
    hil_pair *pair;
    hil_variant key;
    HIL_TRY(hil_chars_copy(r, name, (size_t)(in->at - name) - 1, &key));
    HIL_TRY(hil_dict_find(r, s->values.dict, key, &pair));
    if (!pair) return hil_render_fail(r, "'%.*s'", (int)key.text->size, key.text->data);
    s->named = true;
    *out = pair->value;
    return HIL_OK;
}

/* A width or precision: digits, or "*", which takes an argument. */
static hil_status read_measure(hil_render *r, supply *s, reader *in, int absent, int *out)
{
    if (!take(in, '*')) {
        *out = read_digits(in, absent);
        return HIL_OK;
    }
    hil_variant value;
    int64_t measure;
    HIL_TRY(next_value(r, s, &value));
    if (value.type != HIL_V_INT) return hil_render_fail(r, "* wants int");
    HIL_TRY(hil_argument_integer(r, value, 0, &measure));
    if (measure > 100000000 || measure < -100000000)
        return hil_render_fail(r, "a width that is too large");
    *out = (int)measure;
    return HIL_OK;
}

static hil_status percent_text(hil_render *r, hil_format *f, char kind, hil_variant value)
{
    const hil_chars *text;
    size_t mark;
    hil_variant made;
    if (kind == 's') {
        HIL_TRY(hil_variant_text(r, value, &text));
    } else {
        hil_capture_begin(r, &mark);
        HIL_TRY(hil_print_repr(r, value));
        HIL_TRY(hil_capture_end(r, mark, &made));
        text = made.text;
    }
    return hil_format_text(r, f, text);
}

static hil_status percent_character(hil_render *r, hil_format *f, hil_variant value)
{
    if (value.type == HIL_V_TEXT && value.text->length == 1)
        return hil_format_text(r, f, value.text);
    if (value.type != HIL_V_INT || value.integer < 0 || value.integer > 0x10FFFF ||
        (value.integer >= 0xD800 && value.integer < 0xE000))
        return hil_render_fail(r, "%%c requires int or char");
    char bytes[4];
    hil_chars text = {bytes, hil_utf8_put(bytes, (uint32_t)value.integer), 1, false};
    return hil_format_text(r, f, &text);
}

static hil_status percent_value(hil_render *r, hil_format *f, char kind, hil_variant value)
{
    if (kind == 's' || kind == 'r') return percent_text(r, f, kind, value);
    if (kind == 'c') return percent_character(r, f, value);
    bool integer = kind && strchr("diuxXo", kind);
    if (!integer && !(kind && strchr("eEfFgG", kind)))
        return hil_render_fail(r, "unsupported format character '%c'", kind);
    if (value.type == HIL_V_UNDEFINED) return hil_render_undefined(r, value);
    if (!hil_variant_is_number(value))
        return hil_render_fail(r, "%%%c format: a real number is required, not %s", kind,
                               hil_variant_type_name(value));
    if (!integer) {
        f->type = kind;
        return hil_format_real(r, f, hil_variant_real(value));
    }
    if (value.type == HIL_V_REAL) {
        if (kind == 'x' || kind == 'X' || kind == 'o')
            return hil_render_fail(r, "%%%c format: an integer is required, not float", kind);
        if (!(value.real > -0x1p63 && value.real < 0x1p63))
            return hil_render_fail(r, "%%%c format: the number is too large", kind);
        value = HIL_INT((int64_t)value.real);
    }
    f->type = kind == 'i' || kind == 'u' ? 'd' : kind;
    return hil_format_integer(r, f, hil_variant_integer(value));
}

static hil_status percent_one(hil_render *r, supply *s, reader *in)
{
    hil_format f = {.fill = ' ', .align = '>', .precision = -1};
    hil_variant value = {0};
    bool named = take(in, '(');
    if (named) HIL_TRY(named_value(r, s, in, &value));
    for (;; ++in->at) {
        char c = in->at < in->end ? *in->at : 0;
        if (c == '-')
            f.align = '<';
        else if (c == '+')
            f.sign = '+';
        else if (c == ' ')
            f.sign = f.sign ? f.sign : ' ';
        else if (c == '0')
            f.zero = true;
        else if (c == '#')
            f.alternate = true;
        else
            break;
    }
    HIL_TRY(read_measure(r, s, in, 0, &f.width));
    if (f.width < 0) {
        f.align = '<';
        f.width = -f.width;
    }
    if (take(in, '.')) HIL_TRY(read_measure(r, s, in, 0, &f.precision));
    while (take(in, 'l') || take(in, 'h') || take(in, 'L')) continue;
    if (in->at == in->end) return hil_render_fail(r, "incomplete format");
    char kind = *in->at++;
    if (kind == '%') return HIL_RENDER_ADD(r, "%");
    if (!named) HIL_TRY(next_value(r, s, &value));
    if (f.align == '<') f.zero = false;
    return percent_value(r, &f, kind, value);
}

hil_status hil_format_percent(hil_render *r, const hil_chars *format, hil_variant values,
                              hil_variant *out)
{
    size_t mark;
    reader in = {format->data, format->data + format->size};
    supply s = {.values = values};
    hil_capture_begin(r, &mark);
    while (in.at < in.end) {
        const char *sign = memchr(in.at, '%', (size_t)(in.end - in.at));
        const char *stop = sign ? sign : in.end;
        HIL_TRY(hil_render_add(r, in.at, (size_t)(stop - in.at)));
        in.at = stop + (sign != NULL);
        HIL_TRY(hil_render_step(r, 1));
        if (sign) HIL_TRY(percent_one(r, &s, &in));
    }
    size_t given = values.type == HIL_V_TUPLE ? values.items->count : 1;
    bool loose = values.type == HIL_V_DICT || values.type == HIL_V_LIST || s.named;
    if (s.next < given && !(loose && s.next == 0))
        return hil_render_fail(r, "not all arguments converted during string formatting");
    HIL_TRY(hil_capture_end(r, mark, out));
    return hil_chars_mark(r, out->text, format->safe, out);
}

/* The arguments of {...} fields, and the index for fields without a name. */
typedef struct braces {
    const hil_arguments *arguments;
    size_t next;
    enum { NUMBERING_OPEN, NUMBERING_AUTOMATIC, NUMBERING_MANUAL } numbering;
} braces;

static hil_status first_value(hil_render *r, braces *b, const char *name, size_t size,
                              hil_variant *out)
{
    size_t index = 0;
    bool digits = true;
    for (size_t i = 0; i < size; ++i) {
        digits = digits && name[i] >= '0' && name[i] <= '9';
        if (digits && index < 1000000) index = index * 10 + (size_t)(name[i] - '0');
    }
    if (digits) {
        int numbering = size ? NUMBERING_MANUAL : NUMBERING_AUTOMATIC;
        if (b->numbering != NUMBERING_OPEN && (int)b->numbering != numbering)
            return hil_render_fail(r, "cannot switch between manual field specification and "
                                      "automatic field numbering");
        b->numbering = size ? NUMBERING_MANUAL : NUMBERING_AUTOMATIC;
        if (!size) index = b->next++;
        if (index >= b->arguments->count)
            return hil_render_fail(
                r, "Replacement index %zu out of range for positional args tuple", index);
        *out = b->arguments->values[index];
        return HIL_OK;
    }
    for (size_t i = 0; i < b->arguments->keyword_count; ++i) {
        const hil_chars *keyword = b->arguments->keywords[i].name;
        if (keyword->size == size && memcmp(keyword->data, name, size) == 0) {
            *out = b->arguments->keywords[i].value;
            return HIL_OK;
        }
    }
    return hil_render_fail(r, "'%.*s'", (int)size, name);
}

/* .name and [key] after the first name of a field. */
static hil_status member_value(hil_render *r, reader *in, hil_variant *value)
{
    hil_variant name;
    const char *begin = in->at + 1;
    bool item = *in->at == '[';
    ++in->at;
    while (in->at < in->end && *in->at != ']' && (item || (*in->at != '.' && *in->at != '[')))
        ++in->at;
    HIL_TRY(hil_chars_copy(r, begin, (size_t)(in->at - begin), &name));
    if (!item) return hil_variant_attribute(r, *value, name.text, value);
    if (!take(in, ']')) return hil_render_fail(r, "Missing ']' in format string");
    reader digits = {name.text->data, name.text->data + name.text->size};
    int index = read_digits(&digits, -1);
    if (index >= 0 && digits.at == digits.end) name = HIL_INT(index);
    return hil_variant_item(r, *value, name, value);
}

static hil_status field_value(hil_render *r, braces *b, reader *in, hil_variant *out)
{
    const char *name = in->at;
    while (in->at < in->end && *in->at != '.' && *in->at != '[') ++in->at;
    HIL_TRY(first_value(r, b, name, (size_t)(in->at - name), out));
    while (in->at < in->end) HIL_TRY(member_value(r, in, out));
    return HIL_OK;
}

static hil_status print_fields(hil_render *r, braces *b, reader in, int depth);

/* The part of a field after ":"; {...} in it is replaced by a value. */
static hil_status format_spec(hil_render *r, braces *b, reader in, int depth, hil_variant *out)
{
    size_t mark;
    hil_capture_begin(r, &mark);
    HIL_TRY(print_fields(r, b, in, depth + 1));
    return hil_capture_end(r, mark, out);
}

static hil_status print_field(hil_render *r, braces *b, reader in, int depth)
{
    const char *begin = in.at;
    int brackets = 0;
    while (in.at < in.end && (brackets || (*in.at != '!' && *in.at != ':'))) {
        brackets += (*in.at == '[') - (*in.at == ']');
        ++in.at;
    }
    hil_variant value, spec;
    reader name = {begin, in.at};
    HIL_TRY(field_value(r, b, &name, &value));
    if (take(&in, '!')) {
        char kind = in.at < in.end ? *in.at++ : 0;
        size_t mark;
        if (kind != 's' && kind != 'r')
            return hil_render_fail(r, "unknown conversion in a format string");
        hil_capture_begin(r, &mark);
        HIL_TRY(kind == 's' ? hil_print_text(r, value) : hil_print_repr(r, value));
        HIL_TRY(hil_capture_end(r, mark, &value));
    }
    if (in.at < in.end && !take(&in, ':'))
        return hil_render_fail(r, "expected ':' after conversion specifier");
    HIL_TRY(format_spec(r, b, in, depth, &spec));
    return hil_format_value(r, spec.text, value);
}

static hil_status print_fields(hil_render *r, braces *b, reader in, int depth)
{
    if (depth > 2) return hil_render_fail(r, "Max string recursion exceeded");
    while (in.at < in.end) {
        const char *begin = in.at;
        while (in.at < in.end && *in.at != '{' && *in.at != '}') ++in.at;
        HIL_TRY(hil_render_add(r, begin, (size_t)(in.at - begin)));
        HIL_TRY(hil_render_step(r, 1));
        if (in.at == in.end) break;
        char c = *in.at++;
        if (take(&in, c)) {
            HIL_TRY(hil_render_add(r, &c, 1));
            continue;
        }
        if (c == '}') return hil_render_fail(r, "Single '}' encountered in format string");
        const char *field = in.at;
        int open = 1;
        while (in.at < in.end && open) {
            open += (*in.at == '{') - (*in.at == '}');
            ++in.at;
        }
        if (open) return hil_render_fail(r, "expected '}' before end of string");
        HIL_TRY(print_field(r, b, (reader){field, in.at - 1}, depth));
    }
    return HIL_OK;
}

hil_status hil_format_braces(hil_render *r, const hil_chars *format, const hil_arguments *arguments,
                             hil_variant *out)
{
    size_t mark;
    braces b = {.arguments = arguments};
    hil_capture_begin(r, &mark);
    HIL_TRY(print_fields(r, &b, (reader){format->data, format->data + format->size}, 0));
    HIL_TRY(hil_capture_end(r, mark, out));
    return hil_chars_mark(r, out->text, format->safe, out);
}
