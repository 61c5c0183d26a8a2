/* parquet_encoding.c - decoders of runs, differences, dictionaries and plain values. */
#include "format/parquet/parquet_encoding.h"

#include "format/parquet/varint.h"

#include <string.h>

#define MOST_VALUES ((uint64_t)INT32_MAX) /* of a page */

const char *hil_parquet_encoding_name(int64_t encoding)
{
    static const char *const names[] = {
        "PLAIN",          "GROUP_VAR_INT",       "PLAIN_DICTIONARY",        "RLE",
        "BIT_PACKED",     "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
        "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};
    bool known = encoding >= 0 && encoding < (int64_t)(sizeof names / sizeof *names);
    return known ? names[encoding] : "unknown to hilbert";
}

bool hil_parquet_encoding_fits(hil_parquet_type type, hil_parquet_encoding encoding)
{
    switch (encoding) {
    case HIL_PARQUET_PLAIN:
        return true;
    case HIL_PARQUET_PLAIN_DICTIONARY:
    case HIL_PARQUET_RLE_DICTIONARY:
        return type != HIL_PARQUET_BOOLEAN;
    case HIL_PARQUET_RLE:
        return type == HIL_PARQUET_BOOLEAN;
    case HIL_PARQUET_DELTA_PACKED:
        return type == HIL_PARQUET_INT32 || type == HIL_PARQUET_INT64;
    case HIL_PARQUET_DELTA_LENGTHS:
    case HIL_PARQUET_DELTA_BYTES:
        return type == HIL_PARQUET_BYTES;
    default:
        return false;
    }
}

size_t hil_parquet_type_size(hil_parquet_type type)
{
    if (type == HIL_PARQUET_INT32 || type == HIL_PARQUET_FLOAT) return 4;
    return type == HIL_PARQUET_INT64 || type == HIL_PARQUET_DOUBLE ? 8 : 0;
}

static uint64_t load64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

uint32_t hil_parquet_load32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

/* `width` bits from `bit` on, of at most 64; false: they are not all before `end`. */
static bool take_bits(const unsigned char *bytes, const unsigned char *end, uint64_t bit,
                      unsigned width, uint64_t *value)
{
    uint64_t size = (uint64_t)(end - bytes), first = bit >> 3;
    unsigned shift = bit & 7;
    *value = 0;
    if (width == 0) return true;
    if (first >= size || (shift + width + 7) >> 3 > size - first) return false;
    if (size - first > 8) {
        *value = load64(bytes + first) >> shift;
        if (shift) *value |= (uint64_t)bytes[first + 8] << (64 - shift);
    } else {
        uint64_t low = 0; /* there is no ninth byte, so that no more than 64 bits are needed */
        for (uint64_t i = first; i < size; ++i) low |= (uint64_t)bytes[i] << (8 * (i - first));
        *value = low >> shift;
    }
    if (width < 64) *value &= ((uint64_t)1 << width) - 1;
    return true;
}

static bool take_zigzag(const unsigned char **at, const unsigned char *end, uint64_t *value)
{
    if (!hil_varint_take(at, end, value)) return false;
    *value = *value >> 1 ^ (0 - (*value & 1));
    return true;
}

void hil_parquet_runs_begin(hil_parquet_runs *runs, const unsigned char *bytes, size_t size,
                            unsigned width)
{
    assert(width <= 32);
    *runs = (hil_parquet_runs){.at = bytes, .end = bytes + size, .width = width};
}

/* The last packed run may be cut off after its last value. */
static bool begin_run(hil_parquet_runs *runs)
{
    uint64_t head, left = (uint64_t)(runs->end - runs->at);
    if (!hil_varint_take(&runs->at, runs->end, &head)) return false;
    left = (uint64_t)(runs->end - runs->at);
    runs->packed = head & 1;
    if (runs->packed) {
        uint64_t bytes;
        if (__builtin_mul_overflow(head >> 1, runs->width, &bytes) || head >> 1 > UINT64_MAX / 8)
            return false;
        runs->bits = runs->at;
        runs->bit = 0;
        runs->left = (head >> 1) * 8;
        runs->at += bytes < left ? bytes : left;
        return runs->left > 0;
    }
    unsigned bytes = (runs->width + 7) / 8;
    if (bytes > left) return false;
    runs->value = 0;
    for (unsigned i = 0; i < bytes; ++i) runs->value |= (uint32_t)runs->at[i] << (8 * i);
    runs->at += bytes;
    runs->left = head >> 1;
    return runs->left > 0;
}

bool hil_parquet_runs_next(hil_parquet_runs *runs, uint32_t *value)
{
    *value = 0;
    if (runs->width == 0) return true;
    if (runs->left == 0 && !begin_run(runs)) return false;
    --runs->left;
    if (!runs->packed) {
        *value = runs->value;
        return true;
    }
    uint64_t bits;
    if (!take_bits(runs->bits, runs->end, runs->bit, runs->width, &bits)) return false;
    runs->bit += runs->width;
    *value = (uint32_t)bits;
    return true;
}

static bool begin_deltas(hil_parquet_deltas *d, const unsigned char *bytes,
                         const unsigned char *end)
{
    uint64_t block, total;
    *d = (hil_parquet_deltas){.at = bytes, .end = end, .first = true};
    if (!hil_varint_take(&d->at, end, &block) || !hil_varint_take(&d->at, end, &d->block_parts) ||
        !hil_varint_take(&d->at, end, &total) || !take_zigzag(&d->at, end, &d->value))
        return false;
    if (block == 0 || block > MOST_VALUES || d->block_parts == 0 || total > MOST_VALUES ||
        block % d->block_parts != 0)
        return false;
    d->part_size = block / d->block_parts;
    d->part = d->block_parts;
    d->left = total;
    return d->part_size % 8 == 0;
}

/* Goes to the next miniblock; its bits may be cut off after its last number. */
static bool begin_part(hil_parquet_deltas *d)
{
    if (++d->part >= d->block_parts) {
        if (!take_zigzag(&d->at, d->end, &d->least)) return false;
        if (d->block_parts > (uint64_t)(d->end - d->at)) return false;
        d->widths = d->at;
        d->at += d->block_parts;
        d->part = 0;
    }
    if (d->widths[d->part] > 64) return false;
    uint64_t bytes = d->part_size / 8 * d->widths[d->part], left = (uint64_t)(d->end - d->at);
    d->bits = d->at;
    d->bit = 0;
    d->part_left = d->part_size;
    d->at += bytes < left ? bytes : left;
    return true;
}

static bool next_delta(hil_parquet_deltas *d, uint64_t *value)
{
    uint64_t delta;
    if (d->left == 0) return false;
    --d->left;
    if (!d->first) {
        if (d->part_left == 0 && !begin_part(d)) return false;
        unsigned width = d->widths[d->part];
        if (!take_bits(d->bits, d->end, d->bit, width, &delta)) return false;
        d->bit += width;
        --d->part_left;
        d->value += d->least + delta;
    }
    d->first = false;
    *value = d->value;
    return true;
}

/* A length, which must not exceed `most`. */
static bool next_length(hil_parquet_deltas *d, size_t most, size_t *length)
{
    uint64_t value;
    if (!next_delta(d, &value) || value > most) return false;
    *length = (size_t)value;
    return true;
}

/* Where the bytes of the numbers end. */
static bool end_of_deltas(const hil_parquet_deltas *from, const unsigned char **end)
{
    hil_parquet_deltas d = *from;
    for (uint64_t left = d.left ? d.left - 1 : 0; left;) {
        if (!begin_part(&d)) return false;
        left -= left < d.part_size ? left : d.part_size;
    }
    *end = d.at;
    return true;
}

static bool begin_dictionary(hil_parquet_values *v)
{
    if (v->at == v->end) return true; /* all values are null */
    unsigned width = *v->at++;
    if (width > 32) return false;
    hil_parquet_runs_begin(&v->runs, v->at, (size_t)(v->end - v->at), width);
    return true;
}

static bool begin_truths(hil_parquet_values *v)
{
    if (v->at == v->end) return true;
    if (v->end - v->at < 4) return false;
    uint32_t size = hil_parquet_load32(v->at);
    if (size > (size_t)(v->end - v->at) - 4) return false;
    hil_parquet_runs_begin(&v->runs, v->at + 4, size, 1);
    return true;
}

bool hil_parquet_values_begin(hil_parquet_values *v, const unsigned char *bytes, size_t size)
{
    v->at = bytes;
    v->end = bytes + size;
    v->bit = 0;
    v->before_size = 0;
    v->runs = (hil_parquet_runs){.width = 1};
    v->deltas = v->rest = (hil_parquet_deltas){0};
    switch (v->encoding) {
    case HIL_PARQUET_PLAIN_DICTIONARY:
    case HIL_PARQUET_RLE_DICTIONARY:
        return begin_dictionary(v);
    case HIL_PARQUET_RLE:
        return begin_truths(v);
    case HIL_PARQUET_DELTA_PACKED:
        return size == 0 || begin_deltas(&v->deltas, bytes, v->end);
    case HIL_PARQUET_DELTA_LENGTHS:
        return size == 0 ||
               (begin_deltas(&v->deltas, bytes, v->end) && end_of_deltas(&v->deltas, &v->at));
    case HIL_PARQUET_DELTA_BYTES:
        return size == 0 ||
               (begin_deltas(&v->deltas, bytes, v->end) && end_of_deltas(&v->deltas, &v->at) &&
                begin_deltas(&v->rest, v->at, v->end) && end_of_deltas(&v->rest, &v->at));
    default:
        return true;
    }
}

static void read_number(hil_parquet_type type, const unsigned char *at, hil_parquet_value *value)
{
    float real;
    int32_t integer;
    switch (type) {
    case HIL_PARQUET_INT32:
        memcpy(&integer, at, 4);
        value->integer = integer;
        break;
    case HIL_PARQUET_INT64:
        memcpy(&value->integer, at, 8);
        break;
    case HIL_PARQUET_FLOAT:
        memcpy(&real, at, 4);
        value->real = (double)real;
        break;
    default:
        memcpy(&value->real, at, 8);
        break;
    }
}

static bool next_plain(hil_parquet_values *v, hil_parquet_value *value)
{
    size_t left = (size_t)(v->end - v->at), size = hil_parquet_type_size(v->type);
    uint64_t truth;
    if (v->type == HIL_PARQUET_BOOLEAN) {
        if (!take_bits(v->at, v->end, v->bit++, 1, &truth)) return false;
        value->integer = (int64_t)truth;
        return true;
    }
    if (size) {
        if (left < size) return false;
        read_number(v->type, v->at, value);
        v->at += size;
        return true;
    }
    if (left < 4 || hil_parquet_load32(v->at) > left - 4) return false;
    value->size = hil_parquet_load32(v->at);
    value->bytes = (const char *)v->at + 4;
    v->at += 4 + value->size;
    return true;
}

static bool next_of_dictionary(hil_parquet_values *v, hil_parquet_value *value)
{
    const hil_parquet_dictionary *d = v->dictionary;
    size_t size = hil_parquet_type_size(v->type);
    uint32_t place;
    if (!hil_parquet_runs_next(&v->runs, &place) || place >= d->count) return false;
    if (size) {
        read_number(v->type, d->bytes + place * size, value);
    } else {
        const unsigned char *at = d->bytes + d->start[place];
        value->size = hil_parquet_load32(at);
        value->bytes = (const char *)at + 4;
    }
    return true;
}

/* A text of a prefix of the last one, and of bytes of its own. */
static bool next_of_bytes(hil_parquet_values *v, hil_parquet_value *value)
{
    size_t same, more;
    if (!next_length(&v->deltas, v->before_size, &same)) return false;
    if (!next_length(&v->rest, (size_t)(v->end - v->at), &more)) return false;
    if (more) memcpy(v->before + same, v->at, more);
    v->at += more;
    v->before_size = same + more;
    value->bytes = v->before;
    value->size = v->before_size;
    return true;
}

bool hil_parquet_values_next(hil_parquet_values *v, hil_parquet_value *value)
{
    uint32_t truth;
    uint64_t number;
    switch (v->encoding) {
    case HIL_PARQUET_PLAIN_DICTIONARY:
    case HIL_PARQUET_RLE_DICTIONARY:
        return next_of_dictionary(v, value);
    case HIL_PARQUET_RLE:
        if (!hil_parquet_runs_next(&v->runs, &truth)) return false;
        value->integer = truth;
        return true;
    case HIL_PARQUET_DELTA_PACKED:
        if (!next_delta(&v->deltas, &number)) return false;
        value->integer = v->type == HIL_PARQUET_INT32 ? (int32_t)(uint32_t)number : (int64_t)number;
        return true;
    case HIL_PARQUET_DELTA_LENGTHS:
        if (!next_length(&v->deltas, (size_t)(v->end - v->at), &value->size)) return false;
        value->bytes = (const char *)v->at;
        v->at += value->size;
        return true;
    case HIL_PARQUET_DELTA_BYTES:
        return next_of_bytes(v, value);
    default:
        return next_plain(v, value);
    }
}
