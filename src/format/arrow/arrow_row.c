/* arrow_row.c - values of columns, lists and groups at an index. */
#include "format/arrow/arrow_row.h"

#include "base/text.h"
#include "tensor/tensor.h"
#include "text/unicode/unicode.h"

#include <math.h>
#include <string.h>

#define COST ((size_t)16) /* of a value, besides its bytes */

enum { VALID, FIRST, SECOND }; /* the buffers of a column */

static hil_status give(json_t *value, json_t **out)
{
    *out = value;
    return value ? HIL_OK : hil_fail(HIL_ERR_MEMORY, "out of memory: a row of an Arrow file");
}

static hil_status fail_column(const hil_arrow_row *row, const char *what)
{
    return hil_fail(HIL_ERR_INPUT, "%s row %lld: column \"%s\" %s", row->file->what,
                    (long long)row->number, row->column, what);
}

static hil_status count_bytes(hil_arrow_row *row, uint64_t bytes)
{
    char limit[32], text[64];
    if (bytes <= row->row_max - row->size) {
        row->size += (size_t)bytes;
        return HIL_OK;
    }
    snprintf(text, sizeof text, "makes it longer than %s", hil_text_bytes(limit, row->row_max));
    return fail_column(row, text);
}

static hil_status get_number(const hil_arrow_row *row, hil_arrow_node *node, int64_t index,
                             int64_t *out)
{
    return hil_arrow_buffer_number(&node->buffer[FIRST], row->file, (uint64_t)index, node->bytes,
                                   out);
}

static hil_status get_bit(const hil_arrow_row *row, hil_arrow_buffer *buffer, int64_t index,
                          bool *out)
{
    int64_t byte;
    HIL_TRY(hil_arrow_buffer_number(buffer, row->file, (uint64_t)index / 8, 1, &byte));
    *out = byte >> index % 8 & 1;
    return HIL_OK;
}

static int64_t with_sign(int64_t number, int bytes)
{
    int unused = 64 - 8 * bytes;
    return (int64_t)((uint64_t)number << unused) >> unused;
}

static hil_status make_unsigned(const hil_arrow_row *row, int64_t number, json_t **out)
{
    return number >= 0 ? give(json_integer(number), out)
                       : fail_column(row, "has a number of more than 63 bits");
}

static hil_status make_real(int64_t bits, int bytes, json_t **out)
{
    double real;
    float single;
    uint16_t half = (uint16_t)bits;
    uint32_t word = (uint32_t)bits;
    memcpy(&single, &word, sizeof single);
    if (bytes == 2) hil_dtype_to_f32(&single, &half, HIL_F16, 1);
    if (bytes == 8)
        memcpy(&real, &bits, sizeof real);
    else
        real = (double)single;
    return give(isfinite(real) ? json_real(real) : json_null(), out);
}

/* The range of a text or a list: *begin <= *end, both not negative. */
static hil_status get_range(const hil_arrow_row *row, hil_arrow_node *node, int64_t index,
                            int64_t *begin, int64_t *end)
{
    HIL_TRY(get_number(row, node, index, begin));
    HIL_TRY(get_number(row, node, index + 1, end));
    if (*begin >= 0 && *begin <= *end) return HIL_OK;
    return hil_arrow_damaged(row->file, "the offsets of a column run backwards");
}

static hil_status make_text(hil_arrow_row *row, hil_arrow_node *node, int64_t index, json_t **out)
{
    int64_t begin, end;
    const char *text;
    size_t bad;
    HIL_TRY(get_range(row, node, index, &begin, &end));
    size_t size = (size_t)(end - begin);
    HIL_TRY(count_bytes(row, size));
    HIL_TRY(hil_arrow_buffer_get(&node->buffer[SECOND], row->file, (uint64_t)begin, size, &text));
    json_t *value = json_stringn(text, size);
    if (!value && hil_utf8_check(text, size, &bad) != size) return fail_column(row, "is not UTF-8");
    return give(value, out);
}

static hil_status read_value(hil_arrow_row *row, size_t at, int64_t index, json_t **out);

static hil_status make_list(hil_arrow_row *row, size_t at, int64_t begin, int64_t end, json_t **out)
{
    json_t *list, *value;
    hil_status status;
    HIL_TRY_DONE(give(json_array(), &list));
    for (int64_t i = begin; i < end; ++i) {
        HIL_TRY_DONE(read_value(row, at, i, &value));
        if (json_array_append_new(list, value) != 0) HIL_TRY_DONE(give(NULL, &value));
    }
done:
    if (status == HIL_OK)
        *out = list;
    else
        json_decref(list);
    return status;
}

static hil_status make_object(hil_arrow_row *row, size_t at, int64_t index, json_t **out)
{
    const hil_arrow_node *node = row->schema->node;
    json_t *object, *value;
    hil_status status = give(json_object(), &object);
    size_t child = at + 1;
    for (; status == HIL_OK && child < node[at].end; child = node[child].end) {
        if (!node[child].kept) continue;
        if (at == 0) row->column = node[child].name;
        status = read_value(row, child, index, &value);
        if (status == HIL_OK && json_object_set_new(object, node[child].name, value) != 0)
            status = give(NULL, &value);
    }
    if (status == HIL_OK)
        *out = object;
    else
        json_decref(object);
    return status;
}

/* A value that is not null. */
static hil_status read_content(hil_arrow_row *row, size_t at, int64_t index, json_t **out)
{
    hil_arrow_node *node = &row->schema->node[at];
    int64_t number = 0, end = 0;
    bool bit = false;
    switch (node->kind) {
    case HIL_ARROW_TRUTH:
        HIL_TRY(get_bit(row, &node->buffer[FIRST], index, &bit));
        return give(json_boolean(bit), out);
    case HIL_ARROW_INTEGER:
        HIL_TRY(get_number(row, node, index, &number));
        return give(json_integer(with_sign(number, node->bytes)), out);
    case HIL_ARROW_UNSIGNED:
        HIL_TRY(get_number(row, node, index, &number));
        return make_unsigned(row, number, out);
    case HIL_ARROW_REAL:
        HIL_TRY(get_number(row, node, index, &number));
        return make_real(number, node->bytes, out);
    case HIL_ARROW_LIST:
        HIL_TRY(get_range(row, node, index, &number, &end));
        return make_list(row, at + 1, number, end, out);
    case HIL_ARROW_FIXED_LIST:
        if (__builtin_mul_overflow(index, node->fixed, &number) ||
            __builtin_add_overflow(number, node->fixed, &end))
            return hil_arrow_damaged(row->file, "a list is too long");
        return make_list(row, at + 1, number, end, out);
    case HIL_ARROW_OBJECT:
        return make_object(row, at, index, out);
    case HIL_ARROW_INDEX:
        HIL_TRY(get_number(row, node, index, &number));
        if (node->is_signed) number = with_sign(number, node->bytes);
        return read_value(row, at + 1, number, out);
    default:
        return make_text(row, node, index, out);
    }
}

static hil_status read_value(hil_arrow_row *row, size_t at, int64_t index, json_t **out)
{
    hil_arrow_node *node = &row->schema->node[at];
    bool valid = node->kind != HIL_ARROW_NULL;
    *out = NULL;
    HIL_TRY(count_bytes(row, COST));
    if (index < 0 || index >= node->length)
        return hil_arrow_damaged(row->file, "a column has fewer values than it should");
    if (valid && node->nulls) HIL_TRY(get_bit(row, &node->buffer[VALID], index, &valid));
    return valid ? read_content(row, at, index, out) : give(json_null(), out);
}

hil_status hil_arrow_row_read(hil_arrow_row *row, int64_t index, json_t **out)
{
    *out = NULL;
    row->size = 0;
    ++row->number;
    return make_object(row, 0, index, out);
}
