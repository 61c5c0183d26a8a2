/* template_predicates.c - the methods of str that classify its characters, and those that pad. */
#include "text/template_eval.h"
#include "text/template_format.h"
#include "text/template_strings.h"
#include "text/template_text.h"
#include "text/unicode/unicode.h"

#include <string.h>

static bool is_letter(uint32_t point)
{
    return hil_unicode_flags(point) & HIL_UNICODE_LETTER;
}

static bool is_number(uint32_t point)
{
    return hil_unicode_flags(point) & HIL_UNICODE_NUMBER;
}

static bool is_letter_or_number(uint32_t point)
{
    return hil_unicode_flags(point) & (HIL_UNICODE_LETTER | HIL_UNICODE_NUMBER);
}

static bool is_ascii(uint32_t point)
{
    return point < 0x80;
}

/* Whether the text has characters and `is` holds for all of them. */
static hil_status all(hil_render *r, const hil_chars *text, bool (*is)(uint32_t), hil_variant *out)
{
    bool yes = text->size > 0;
    HIL_TRY(hil_render_step(r, text->size / 8));
    for (size_t at = 0, size; at < text->size && yes; at += size)
        yes = is(hil_utf8_get(text->data + at, &size));
    *out = HIL_BOOL(yes);
    return HIL_OK;
}

HIL_BUILTIN(run_isalpha, all(r, call->self.text, is_letter, out))
HIL_BUILTIN(run_isdigit, all(r, call->self.text, is_number, out))
HIL_BUILTIN(run_isalnum, all(r, call->self.text, is_letter_or_number, out))
HIL_BUILTIN(run_isspace, all(r, call->self.text, hil_char_is_space, out))

static hil_status run_isascii(hil_render *r, const hil_call *call, hil_variant *out)
{
    HIL_TRY(all(r, call->self.text, is_ascii, out));
    out->truth |= call->self.text->size == 0;
    return HIL_OK;
}

static hil_status run_isprintable(hil_render *r, const hil_call *call, hil_variant *out)
{
    HIL_TRY(all(r, call->self.text, hil_char_is_printable, out));
    out->truth |= call->self.text->size == 0;
    return HIL_OK;
}

/* Whether the text has cased characters, all of one case. */
static hil_status one_case(hil_render *r, const hil_chars *text, bool upper, hil_variant *out)
{
    bool yes = true, cased = false;
    HIL_TRY(hil_render_step(r, text->size / 8));
    for (size_t at = 0, size; at < text->size && yes; at += size) {
        uint32_t point = hil_utf8_get(text->data + at, &size);
        bool is_upper = hil_char_is_upper(point), is_lower = hil_char_is_lower(point);
        yes = !(upper ? is_lower : is_upper) && !hil_char_is_titled(point);
        cased |= upper ? is_upper : is_lower;
    }
    *out = HIL_BOOL(yes && cased);
    return HIL_OK;
}

HIL_BUILTIN(run_isupper, one_case(r, call->self.text, true, out))
HIL_BUILTIN(run_islower, one_case(r, call->self.text, false, out))

static hil_status run_istitle(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *text = call->self.text;
    bool yes = true, cased = false, inside = false;
    HIL_TRY(hil_render_step(r, text->size / 8));
    for (size_t at = 0, size; at < text->size && yes; at += size) {
        uint32_t point = hil_utf8_get(text->data + at, &size);
        bool upper = hil_char_is_upper(point) || hil_char_is_titled(point),
             lower = hil_char_is_lower(point);
        yes = !(upper && inside) && !(lower && !inside);
        cased |= upper || lower;
        inside = upper || lower;
    }
    *out = HIL_BOOL(yes && cased);
    return HIL_OK;
}

static hil_status run_isidentifier(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *text = call->self.text;
    bool yes = text->size > 0 && !(text->data[0] >= '0' && text->data[0] <= '9');
    HIL_TRY(hil_render_step(r, text->size / 8));
    for (size_t at = 0, size; at < text->size && yes; at += size) {
        uint32_t point = hil_utf8_get(text->data + at, &size);
        yes = point == '_' || (hil_unicode_flags(point) & HIL_UNICODE_WORD);
    }
    *out = HIL_BOOL(yes);
    return HIL_OK;
}

static hil_status pad(hil_render *r, const hil_call *call, char align, hil_variant *out)
{
    const hil_chars *text = call->self.text;
    hil_format f = {.fill = ' ', .align = align, .precision = -1};
    int64_t width;
    size_t mark, size;
    HIL_TRY(hil_argument_integer(r, call->bound[0], 0, &width));
    if (call->bound[1].type != HIL_V_ABSENT) {
        const hil_chars *fill;
        HIL_TRY(hil_argument_text(r, call->bound[1], &fill));
        if (fill->length != 1)
            return hil_render_fail(r, "The fill character must be exactly one character long");
        f.fill = hil_utf8_get(fill->data, &size);
    }
    if (width > 1000000) return hil_render_fail(r, "a width of more than 1000000");
    f.width = width < 0 ? 0 : (int)width;
    hil_capture_begin(r, &mark);
    int64_t room = width - (int64_t)text->length;
    if (align == '^' && room > 0 && (room & 1) &&
        (width & 1)) { /* the odd padding goes to the left */
        char bytes[4];
        HIL_TRY(hil_render_add(r, bytes, hil_utf8_put(bytes, f.fill)));
        --f.width;
    }
    HIL_TRY(hil_format_text(r, &f, text));
    HIL_TRY(hil_capture_end(r, mark, out));
    return hil_chars_mark(r, out->text, text->safe, out);
}

HIL_BUILTIN(run_center, pad(r, call, '^', out))
HIL_BUILTIN(run_ljust, pad(r, call, '<', out))
HIL_BUILTIN(run_rjust, pad(r, call, '>', out))

static hil_status run_zfill(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *text = call->self.text;
    int64_t width;
    size_t mark;
    HIL_TRY(hil_argument_integer(r, call->bound[0], 0, &width));
    if (width > 1000000) return hil_render_fail(r, "a width of more than 1000000");
    size_t sign = text->size > 0 && (text->data[0] == '+' || text->data[0] == '-');
    hil_capture_begin(r, &mark);
    HIL_TRY(hil_render_add(r, text->data, sign));
    for (int64_t i = (int64_t)text->length; i < width; ++i) HIL_TRY(HIL_RENDER_ADD(r, "0"));
    HIL_TRY(hil_render_step(r, width > 0 ? (size_t)width / 8 : 0));
    HIL_TRY(hil_render_add(r, text->data + sign, text->size - sign));
    HIL_TRY(hil_capture_end(r, mark, out));
    return hil_chars_mark(r, out->text, text->safe, out);
}

static hil_status run_expandtabs(hil_render *r, const hil_call *call, hil_variant *out)
{
    const hil_chars *text = call->self.text;
    int64_t width;
    size_t mark, column = 0;
    HIL_TRY(hil_argument_integer(r, call->bound[0], 8, &width));
    if (width > 1000) return hil_render_fail(r, "a tab size of more than 1000");
    hil_capture_begin(r, &mark);
    HIL_TRY(hil_render_step(r, text->size / 8));
    for (size_t at = 0, size; at < text->size; at += size) {
        uint32_t point = hil_utf8_get(text->data + at, &size);
        if (point != '\t') {
            HIL_TRY(hil_render_add(r, text->data + at, size));
            column = point == '\n' || point == '\r' ? 0 : column + 1;
            continue;
        }
        for (size_t room = width > 0 ? (size_t)width - column % (size_t)width : 0; room; --room) {
            HIL_TRY(HIL_RENDER_ADD(r, " "));
            ++column;
        }
    }
    HIL_TRY(hil_capture_end(r, mark, out));
    return hil_chars_mark(r, out->text, text->safe, out);
}

const hil_builtin hil_text_predicates[] = {
    {"center", run_center, {"width", "fillchar"}, 1, false},
    {"expandtabs", run_expandtabs, {"tabsize"}, 0, false},
    {"isalnum", run_isalnum, {NULL}, 0, false},
    {"isalpha", run_isalpha, {NULL}, 0, false},
    {"isascii", run_isascii, {NULL}, 0, false},
    {"isdecimal", run_isdigit, {NULL}, 0, false},
    {"isdigit", run_isdigit, {NULL}, 0, false},
    {"isidentifier", run_isidentifier, {NULL}, 0, false},
    {"islower", run_islower, {NULL}, 0, false},
    {"isnumeric", run_isdigit, {NULL}, 0, false},
    {"isprintable", run_isprintable, {NULL}, 0, false},
    {"isspace", run_isspace, {NULL}, 0, false},
    {"istitle", run_istitle, {NULL}, 0, false},
    {"isupper", run_isupper, {NULL}, 0, false},
    {"ljust", run_ljust, {"width", "fillchar"}, 1, false},
    {"rjust", run_rjust, {"width", "fillchar"}, 1, false},
    {"zfill", run_zfill, {"width"}, 1, false},
    {NULL, NULL, {NULL}, 0, false},
};
