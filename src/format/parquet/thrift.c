/* thrift.c - Thrift's compact protocol. */
#include "format/parquet/thrift.h"

#define DEEPEST 32 /* structures and lists within each other that are skipped */

static void fail(hil_thrift *in, bool cut)
{
    in->bad = true;
    in->cut = cut;
    in->at = in->end;
}

static unsigned char take_byte(hil_thrift *in)
{
    if (in->at < in->end) return *in->at++;
    if (!in->bad) fail(in, true);
    return 0;
}

static uint64_t take_varint(hil_thrift *in)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        unsigned char byte = take_byte(in);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return in->bad ? 0 : value;
    }
    fail(in, false);
    return 0;
}

static int64_t take_zigzag(hil_thrift *in)
{
    uint64_t value = take_varint(in);
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

static void take_away(hil_thrift *in, uint64_t size)
{
    if (size > (uint64_t)(in->end - in->at)) {
        if (!in->bad) fail(in, true);
    } else {
        in->at += size;
    }
}

bool hil_thrift_next(hil_thrift *in, hil_thrift_field *field)
{
    unsigned char byte = take_byte(in);
    field->type = (hil_thrift_type)(byte & 15);
    if (in->bad || field->type == HIL_THRIFT_STOP) return false;
    int64_t id = byte >> 4 ? field->id + (byte >> 4) : take_zigzag(in);
    if (!in->bad && (id < 0 || id > INT16_MAX || field->type > HIL_THRIFT_STRUCT)) fail(in, false);
    field->id = in->bad ? 0 : (int)id;
    return !in->bad;
}

int64_t hil_thrift_integer(hil_thrift *in, const hil_thrift_field *field)
{
    if (field->type == HIL_THRIFT_TRUE || field->type == HIL_THRIFT_FALSE)
        return field->type == HIL_THRIFT_TRUE;
    if (field->type == HIL_THRIFT_BYTE) return (signed char)take_byte(in);
    if (field->type >= HIL_THRIFT_I16 && field->type <= HIL_THRIFT_I64) return take_zigzag(in);
    fail(in, false);
    return 0;
}

void hil_thrift_integers(hil_thrift *in, int64_t *const *slot, size_t count)
{
    hil_thrift_field field = {0};
    while (hil_thrift_next(in, &field)) {
        if ((size_t)field.id < count && slot[field.id])
            *slot[field.id] = hil_thrift_integer(in, &field);
        else
            hil_thrift_skip(in, &field);
    }
}

const char *hil_thrift_bytes(hil_thrift *in, const hil_thrift_field *field, size_t *size)
{
    *size = 0;
    if (field->type != HIL_THRIFT_BINARY) fail(in, false);
    if (in->bad) return "";
    uint64_t length = take_varint(in);
    const unsigned char *bytes = in->at;
    take_away(in, length);
    if (in->bad) return "";
    *size = (size_t)length;
    return (const char *)bytes;
}

/* The number of a list's elements. Each has at least one byte. */
static size_t take_count(hil_thrift *in, hil_thrift_type *element)
{
    unsigned char byte = take_byte(in);
    *element = (hil_thrift_type)(byte & 15);
    uint64_t count = byte >> 4 == 15 ? take_varint(in) : byte >> 4;
    if (count > (uint64_t)(in->end - in->at) && !in->bad) fail(in, true);
    return in->bad ? 0 : (size_t)count;
}

size_t hil_thrift_structures(hil_thrift *in, const hil_thrift_field *field)
{
    hil_thrift_type element = HIL_THRIFT_STOP;
    if (field->type != HIL_THRIFT_LIST) fail(in, false);
    size_t count = in->bad ? 0 : take_count(in, &element);
    if (count && element != HIL_THRIFT_STRUCT) fail(in, false);
    return in->bad ? 0 : count;
}

bool hil_thrift_enter(hil_thrift *in, const hil_thrift_field *field)
{
    if (field->type != HIL_THRIFT_STRUCT) fail(in, false);
    return !in->bad;
}

static void skip_value(hil_thrift *in, hil_thrift_type type, bool in_list, int depth);

static void skip_map(hil_thrift *in, int depth)
{
    uint64_t count = take_varint(in);
    if (count == 0) return;
    unsigned char types = take_byte(in);
    for (; count && !in->bad; --count) {
        skip_value(in, (hil_thrift_type)(types >> 4), true, depth);
        skip_value(in, (hil_thrift_type)(types & 15), true, depth);
    }
}

static void skip_list(hil_thrift *in, int depth)
{
    hil_thrift_type element;
    for (size_t count = take_count(in, &element); count && !in->bad; --count)
        skip_value(in, element, true, depth);
}

/* A truth is in the head of a field, but a byte of its own in a list. */
static void skip_value(hil_thrift *in, hil_thrift_type type, bool in_list, int depth)
{
    hil_thrift_field field = {0};
    if (depth == 0) {
        fail(in, false);
        return;
    }
    switch (type) {
    case HIL_THRIFT_TRUE:
    case HIL_THRIFT_FALSE:
        if (in_list) take_byte(in);
        break;
    case HIL_THRIFT_BYTE:
        take_byte(in);
        break;
    case HIL_THRIFT_I16:
    case HIL_THRIFT_I32:
    case HIL_THRIFT_I64:
        take_varint(in);
        break;
    case HIL_THRIFT_DOUBLE:
        take_away(in, 8);
        break;
    case HIL_THRIFT_BINARY:
        take_away(in, take_varint(in));
        break;
    case HIL_THRIFT_LIST:
    case HIL_THRIFT_SET:
        skip_list(in, depth - 1);
        break;
    case HIL_THRIFT_MAP:
        skip_map(in, depth - 1);
        break;
    case HIL_THRIFT_STRUCT:
        while (hil_thrift_next(in, &field)) skip_value(in, field.type, false, depth - 1);
        break;
    case HIL_THRIFT_STOP:
    default:
        fail(in, false);
    }
}

void hil_thrift_skip(hil_thrift *in, const hil_thrift_field *field)
{
    skip_value(in, field->type, false, DEEPEST);
}
