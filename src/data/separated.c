/* separated.c - rows of fields from pieces of text. */
#include "data/separated.h"

#include "base/text.h"
#include "data/file_type.h"
#include "data/input.h"
#include "text/unicode/unicode.h"

#include <string.h>
#include <sys/stat.h>

#define PIECE ((size_t)1 << 16)
#define HEADER_MAX ((size_t)1 << 20)

struct hil_separated {
    hil_separated_text text;
    size_t taken;     /* bytes of it */
    char *owned;      /* the path of a file */
    hil_input *input; /* NULL: the text is in memory */
    double file_bytes;
    char *buffer;
    const char *piece;
    size_t at, size; /* of the piece */
    bool after_cr;   /* a newline that follows belongs to it */
    int64_t line, row_line;
    char **name; /* of the columns */
    size_t columns, name_room;
    bool *kept; /* NULL: all */
    size_t row_max;
    hil_text bytes; /* the kept fields of the row, and where each ends */
    size_t *end, fields, end_room;
};

static hil_status fail_line(const hil_separated *c, int64_t line, const char *what)
{
    return hil_fail(HIL_ERR_INPUT, "%s line %lld: %s", c->text.what, (long long)line, what);
}

/* Makes the next piece known; an empty one is the end. */
static hil_status refill(hil_separated *c)
{
    c->at = 0;
    if (c->input) {
        c->piece = c->buffer;
        return hil_input_read(c->input, c->buffer, PIECE, &c->size);
    }
    size_t left = c->text.size - c->taken;
    c->piece = c->text.bytes + c->taken;
    c->size = left < c->text.piece ? left : c->text.piece;
    c->taken += c->size;
    return HIL_OK;
}

static bool is_kept(const hil_separated *c, size_t column)
{
    return !c->kept || (column < c->columns && c->kept[column]);
}

static hil_status add(hil_separated *c, size_t size)
{
    const char *bytes = c->piece + c->at;
    char limit[32];
    c->at += size;
    if (!is_kept(c, c->fields)) return HIL_OK;
    if (size <= c->row_max - c->bytes.size) return hil_text_add(&c->bytes, bytes, size);
    return hil_fail(HIL_ERR_INPUT, "%s line %lld: this row is longer than %s", c->text.what,
                    (long long)c->row_line, hil_text_bytes(limit, c->row_max));
}

static hil_status end_field(hil_separated *c)
{
    if (c->fields == HEADER_MAX) return fail_line(c, c->row_line, "this row has too many fields");
    HIL_TRY(HIL_GROW(&c->end, &c->end_room, c->fields + 1));
    c->end[c->fields++] = c->bytes.size;
    return HIL_OK;
}

/* Where a row is. */
typedef enum state {
    START,  /* at the start of a field */
    PLAIN,  /* within one without quotes */
    QUOTED, /* within quotes */
    CLOSED, /* behind a quote, which another would double */
} state;

/* Takes a quote, or what is before the next one. */
static hil_status step_quoted(hil_separated *c, state *s)
{
    const char *from = c->piece + c->at;
    const char *quote = memchr(from, '"', c->size - c->at);
    size_t size = quote ? (size_t)(quote - from) : c->size - c->at;
    for (size_t i = 0; i < size; ++i) c->line += from[i] == '\n';
    HIL_TRY(add(c, size));
    if (!quote) return HIL_OK;
    ++c->at;
    *s = CLOSED;
    return HIL_OK;
}

/* Takes what is before the next delimiter or end of a line. */
static hil_status step_plain(hil_separated *c)
{
    size_t end = c->at;
    while (end < c->size && c->piece[end] != c->text.delimiter && c->piece[end] != '\n' &&
           c->piece[end] != '\r')
        ++end;
    return add(c, end - c->at);
}

/* Takes bytes in one state. *ended: the row ended with its line. */
static hil_status step(hil_separated *c, state *s, bool *ended)
{
    char byte = c->piece[c->at];
    if (*s == QUOTED) return step_quoted(c, s);
    if (*s == CLOSED && byte == '"') {
        *s = QUOTED;
        return add(c, 1);
    }
    if (byte == c->text.delimiter) {
        ++c->at;
        *s = START;
        return end_field(c);
    }
    if (byte == '\n' || byte == '\r') {
        ++c->at;
        ++c->line;
        c->after_cr = byte == '\r';
        *ended = true;
        return HIL_OK;
    }
    if (*s == CLOSED)
        return fail_line(c, c->line, "text follows a quoted field: a quote in it must be doubled");
    if (*s == START && byte == '"') {
        ++c->at;
        *s = QUOTED;
        return HIL_OK;
    }
    *s = PLAIN;
    return step_plain(c);
}

/* Reads the fields of the next row; *got is false at the end. */
static hil_status read_fields(hil_separated *c, bool *got)
{
    state s = START;
    bool ended = false, empty = true;
    c->fields = c->bytes.size = 0;
    c->row_line = c->line;
    while (!ended) {
        if (c->at == c->size) HIL_TRY(refill(c));
        if (c->size == 0) break;
        bool second = c->after_cr && c->piece[c->at] == '\n'; /* of CR LF */
        c->after_cr = false;
        if (second) {
            ++c->at;
            continue;
        }
        HIL_TRY(step(c, &s, &ended));
        empty = s == START && c->fields == 0;
        if (!ended || !empty) continue;
        ended = false;
        c->row_line = c->line;
    }
    if (s == QUOTED) return fail_line(c, c->row_line, "the file ends within quotes of this row");
    *got = !empty;
    return empty ? HIL_OK : end_field(c);
}

/* The field's text; it has no NUL behind it. */
static const char *field_of(const hil_separated *c, size_t i, size_t *size)
{
    size_t begin = i ? c->end[i - 1] : 0;
    *size = c->end[i] - begin;
    return c->bytes.data ? c->bytes.data + begin : "";
}

static hil_status read_header(hil_separated *c)
{
    bool got;
    c->line = 1;
    c->row_max = HEADER_MAX;
    HIL_TRY(read_fields(c, &got));
    HIL_TRY(HIL_GROW(&c->name, &c->name_room, c->fields + 1));
    for (; got && c->columns < c->fields; ++c->columns) {
        size_t size, bad;
        const char *field = field_of(c, c->columns, &size);
        if (hil_utf8_check(field, size, &bad) != size)
            return hil_fail(HIL_ERR_INPUT,
                            "%s line %lld: the name of column %zu is not UTF-8; convert the file "
                            "first, for example with iconv -f LATIN1 -t UTF-8",
                            c->text.what, (long long)c->row_line, c->columns + 1);
        HIL_TRY(HIL_ALLOC(size + 1, &c->name[c->columns]));
        if (size) memcpy(c->name[c->columns], field, size);
    }
    return HIL_OK;
}

static const char mark[] = "\xEF\xBB\xBF"; /* the byte order mark */

static hil_status open_input(hil_separated *c, const char *path)
{
    hil_file_type type;
    struct stat info;
    HIL_TRY(hil_text_copy(path, &c->owned));
    c->text.what = c->owned;
    HIL_TRY(hil_file_type_read(&type, path));
    c->text.delimiter = type.kind == HIL_DATA_TSV ? '\t' : ',';
    c->file_bytes = stat(path, &info) == 0 && info.st_size > 0 ? (double)info.st_size : 1;
    HIL_TRY(HIL_ALLOC(PIECE, &c->buffer));
    HIL_TRY(hil_input_open(&c->input, path));
    HIL_TRY(refill(c));
    if (c->size >= 3 && memcmp(c->piece, mark, 3) == 0) c->at = 3;
    return HIL_OK;
}

static hil_status give(hil_separated **out, hil_separated *c, hil_status status)
{
    if (status == HIL_OK) status = read_header(c);
    if (status == HIL_OK)
        *out = c;
    else
        hil_separated_close(c);
    return status;
}

hil_status hil_separated_open(hil_separated **out, const char *path)
{
    hil_separated *c;
    *out = NULL;
    HIL_TRY(HIL_ALLOC(1, &c));
    return give(out, c, open_input(c, path));
}

hil_status hil_separated_parse(hil_separated **out, const hil_separated_text *text)
{
    hil_separated *c;
    *out = NULL;
    HIL_TRY(HIL_ALLOC(1, &c));
    c->text = *text;
    if (text->size >= 3 && memcmp(text->bytes, mark, 3) == 0) c->taken = 3;
    return give(out, c, HIL_OK);
}

void hil_separated_close(hil_separated *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->columns; ++i) hil_free(c->name[i]);
    hil_input_close(c->input);
    hil_text_free(&c->bytes);
    hil_free(c->name);
    hil_free(c->kept);
    hil_free(c->end);
    hil_free(c->buffer);
    hil_free(c->owned);
    hil_free(c);
}

const char *hil_separated_key(const hil_separated *c, size_t *at)
{
    return *at < c->columns ? c->name[(*at)++] : NULL;
}

hil_status hil_separated_select(hil_separated *c, const char *const *keys, size_t count,
                                size_t row_max)
{
    HIL_TRY(HIL_ALLOC(c->columns, &c->kept));
    c->row_max = row_max;
    for (size_t k = 0; k < count; ++k) {
        bool found = false;
        for (size_t i = 0; i < c->columns; ++i) {
            if (strcmp(c->name[i], keys[k]) != 0) continue;
            if (found)
                return hil_fail(HIL_ERR_INPUT, "%s has two columns \"%s\"", c->text.what, keys[k]);
            found = c->kept[i] = true;
        }
    }
    return HIL_OK;
}

static hil_status add_text(const hil_separated *c, size_t i, json_t *row)
{
    size_t size, bad;
    const char *field = field_of(c, i, &size);
    json_t *text = json_stringn(field, size);
    if (!text && hil_utf8_check(field, size, &bad) != size)
        return hil_fail(HIL_ERR_INPUT, "%s line %lld: \"%.60s\" is not UTF-8", c->text.what,
                        (long long)c->row_line, c->name[i]);
    if (text && json_object_set_new_nocheck(row, c->name[i], text) == 0) return HIL_OK;
    return hil_fail(HIL_ERR_MEMORY, "out of memory: a row of a table");
}

static hil_status make_row(const hil_separated *c, json_t **out)
{
    json_t *row = json_object();
    hil_status status = row ? HIL_OK : hil_fail(HIL_ERR_MEMORY, "out of memory: a row of a table");
    for (size_t i = 0; status == HIL_OK && i < c->columns; ++i)
        if (is_kept(c, i)) status = add_text(c, i, row);
    if (status == HIL_OK)
        *out = row;
    else
        json_decref(row);
    return status;
}

hil_status hil_separated_next(hil_separated *c, json_t **row)
{
    bool got;
    *row = NULL;
    HIL_TRY(read_fields(c, &got));
    if (!got) return HIL_OK;
    if (c->fields == c->columns) return make_row(c, row);
    return hil_fail(HIL_ERR_INPUT,
                    "%s line %lld: this row has %zu field%s, the first line %zu: a field with %s "
                    "in it must be in quotes",
                    c->text.what, (long long)c->row_line, c->fields, c->fields == 1 ? "" : "s",
                    c->columns, c->text.delimiter == '\t' ? "tabs" : "commas");
}

int64_t hil_separated_number(const hil_separated *c)
{
    return c->row_line;
}

double hil_separated_done(const hil_separated *c)
{
    return c->input ? (double)hil_input_position(c->input) / c->file_bytes : 1;
}

HIL_ROW_SOURCE(separated, "line", "give the columns these names in the file's first line");
