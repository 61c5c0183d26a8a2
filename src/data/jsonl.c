/* jsonl.c - assembles records from fragments and parses them. */
#include "data/jsonl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EXACT 0x1p53        /* doubles below it are whole numbers to the last digit */
#define MARK "\xEF\xBB\xBF" /* the byte order mark */

static hil_status fail_line(const hil_jsonl *jsonl, const char *what)
{
    return hil_fail(HIL_ERR_INPUT, "%s line %lld: %s", jsonl->path, (long long)jsonl->line, what);
}

static bool is_blank(const char *line, size_t size)
{
    while (size && strchr(" \t\r", line[size - 1]) && line[size - 1]) --size;
    return size == 0;
}

/* Puts the place before the message of a failure. */
static hil_status name_line(const hil_jsonl *jsonl, hil_status status)
{
    char message[900];
    if (status != HIL_ERR_INPUT) return status;
    snprintf(message, sizeof message, "%s", hil_status_message());
    return fail_line(jsonl, message);
}

/* The integer that a value is as a real; NULL: none. */
static hil_status find_integer(const json_t *value, json_t **out)
{
    double real = json_real_value(value);
    *out = NULL;
    if (!json_is_real(value) || fabs(real) >= EXACT || real != floor(real)) return HIL_OK;
    *out = json_integer((json_int_t)real);
    return *out ? HIL_OK : hil_fail(HIL_ERR_MEMORY, "out of memory: a record");
}

/* Makes integers of the reals that are some, also in lists. */
static hil_status restore_integers(json_t *object)
{
    const char *key;
    json_t *value, *whole;
    json_object_foreach(object, key, value)
    {
        for (size_t i = 0; i < json_array_size(value); ++i) {
            HIL_TRY(find_integer(json_array_get(value, i), &whole));
            if (whole) json_array_set_new(value, i, whole);
        }
        HIL_TRY(find_integer(value, &whole));
        if (whole) json_object_set_new_nocheck(object, key, whole);
    }
    return HIL_OK;
}

/* Text may hold U+0000 (ALLOW_NUL). A record with an integer of more than 64 bits, which belongs to
   a key that is ignored, is read with reals (*rounded). */
static hil_status parse_line(const hil_jsonl *jsonl, const char *line, size_t size, json_t **object,
                             bool *rounded)
{
    const size_t flags = JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_error_t error;
    *object = json_loadb(line, size, flags, &error);
    *rounded = !*object && json_error_code(&error) == json_error_numeric_overflow;
    if (*rounded) *object = json_loadb(line, size, flags | JSON_DECODE_INT_AS_REAL, &error);
    if (*object) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s line %lld: not valid JSON at column %d: %s", jsonl->path,
                    (long long)jsonl->line + error.line - 1, error.column, error.text);
}

static hil_status take_object(hil_jsonl *jsonl, const json_t *object, bool rounded)
{
    hil_record record;
    hil_status status = name_line(jsonl, hil_record_read(&jsonl->rules, object, &record));
    if (status == HIL_OK && rounded && record.variables)
        status = fail_line(jsonl, "a number of a conversation has more than 64 bits");
    if (status == HIL_OK) status = jsonl->take(jsonl->context, &record, jsonl->line);
    hil_record_free(&record);
    return status;
}

static hil_status take_text(hil_jsonl *jsonl, const char *text, size_t size)
{
    json_t *object;
    bool rounded;
    HIL_TRY(parse_line(jsonl, text, size, &object, &rounded));
    hil_status status = rounded ? restore_integers(object) : HIL_OK;
    if (status == HIL_OK) status = take_object(jsonl, object, rounded);
    json_decref(object);
    return status;
}

static hil_status take_line(hil_jsonl *jsonl, const char *line, size_t size)
{
    ++jsonl->line;
    if (jsonl->line == 1 && size >= 3 && memcmp(line, MARK, 3) == 0) {
        line += 3;
        size -= 3;
    }
    if (is_blank(line, size)) return HIL_OK;
    if (line[strspn(line, " \t")] == '[')
        return fail_line(jsonl, "not a JSON object; a file that is one JSON array is read if its "
                                "name ends with .json");
    return take_text(jsonl, line, size);
}

static hil_status add_partial(hil_jsonl *jsonl, const char *bytes, size_t size)
{
    if (size > jsonl->line_max - jsonl->partial.size) {
        char limit[32];
        long long line = jsonl->line + (jsonl->layout == HIL_JSONL_LINES);
        return hil_fail(HIL_ERR_INPUT, "%s line %lld: longer than %s", jsonl->path, line,
                        hil_text_bytes(limit, jsonl->line_max));
    }
    return hil_text_add(&jsonl->partial, bytes, size);
}

static hil_status fail_layout(const hil_jsonl *jsonl)
{
    return fail_line(jsonl, "expected an array of JSON objects, or objects in a row");
}

/* One byte outside of records: begins one, or goes on in the array. */
static hil_status step_between(hil_jsonl *jsonl, char byte)
{
    hil_json_place *p = &jsonl->place;
    if (jsonl->line == 0) jsonl->line = 1;
    if (byte == '\n') ++jsonl->line;
    if (p->mark < 3) { /* whole, or not at all, and nothing before it */
        if (byte == MARK[p->mark]) {
            ++p->mark;
            return HIL_OK;
        }
        if (p->mark > 0) return fail_layout(jsonl);
        p->mark = 3;
    }
    if (byte && strchr(" \t\r\n", byte)) return HIL_OK;
    bool first = p->state == HIL_JSON_START, after = p->state == HIL_JSON_AFTER;
    if (byte == '[' && first) {
        p->is_array = true;
        p->state = HIL_JSON_OPENED;
    } else if (byte == ']' && p->is_array && (after || p->state == HIL_JSON_OPENED)) {
        p->state = HIL_JSON_CLOSED;
    } else if (byte == ',' && p->is_array && after) {
        p->state = HIL_JSON_COMMA;
    } else if (byte == '{' && p->state != HIL_JSON_CLOSED && !(after && p->is_array)) {
        p->depth = 1;
        p->newlines = 0;
    } else {
        return p->state == HIL_JSON_CLOSED ? fail_line(jsonl, "more text follows the array")
                                           : fail_layout(jsonl);
    }
    return HIL_OK;
}

/* One byte of a record. */
static void step_within(hil_json_place *p, char byte)
{
    if (byte == '\n') ++p->newlines;
    if (p->in_string) {
        p->in_string = p->escaped || byte != '"';
        p->escaped = !p->escaped && byte == '\\';
    } else if (byte == '"') {
        p->in_string = true;
    } else if (byte == '{' || byte == '[') {
        ++p->depth;
    } else if (byte == '}' || byte == ']') {
        --p->depth;
    }
}

static hil_status take_value(hil_jsonl *jsonl)
{
    hil_json_place *p = &jsonl->place;
    size_t size = jsonl->partial.size;
    jsonl->partial.size = 0;
    p->state = HIL_JSON_AFTER;
    HIL_TRY(take_text(jsonl, jsonl->partial.data, size));
    jsonl->line += p->newlines;
    return HIL_OK;
}

static hil_status add_values(hil_jsonl *jsonl, const char *bytes, size_t size)
{
    hil_json_place *p = &jsonl->place;
    for (size_t i = 0; i < size;) {
        size_t begin = i;
        if (p->depth == 0) HIL_TRY(step_between(jsonl, bytes[i++]));
        if (p->depth == 0) continue;
        while (i < size && p->depth) step_within(p, bytes[i++]);
        HIL_TRY(add_partial(jsonl, bytes + begin, i - begin));
        if (p->depth == 0) HIL_TRY(take_value(jsonl));
    }
    return HIL_OK;
}

static hil_status end_values(const hil_jsonl *jsonl)
{
    const hil_json_place *p = &jsonl->place;
    if (p->mark == 1 || p->mark == 2) return fail_layout(jsonl);
    if (p->depth) return fail_line(jsonl, "the file ends within this record");
    if (p->is_array && p->state != HIL_JSON_CLOSED)
        return fail_line(jsonl, "the file ends within its array");
    return HIL_OK;
}

hil_status hil_jsonl_add(hil_jsonl *jsonl, const char *bytes, size_t size)
{
    if (jsonl->layout == HIL_JSONL_VALUES) return add_values(jsonl, bytes, size);
    while (size) {
        const char *end = memchr(bytes, '\n', size);
        size_t line = end ? (size_t)(end - bytes) : size;
        if (!end || jsonl->partial.size || line > jsonl->line_max)
            HIL_TRY(add_partial(jsonl, bytes, line));
        if (!end) break;
        if (jsonl->partial.size)
            HIL_TRY(hil_jsonl_end(jsonl));
        else
            HIL_TRY(take_line(jsonl, bytes, line));
        bytes += line + 1;
        size -= line + 1;
    }
    return HIL_OK;
}

hil_status hil_jsonl_end(hil_jsonl *jsonl)
{
    if (jsonl->layout == HIL_JSONL_VALUES) return end_values(jsonl);
    if (!jsonl->partial.size) return HIL_OK;
    size_t size = jsonl->partial.size;
    jsonl->partial.size = 0;
    return take_line(jsonl, jsonl->partial.data, size);
}

void hil_jsonl_free(hil_jsonl *jsonl)
{
    hil_text_free(&jsonl->partial);
}
