/* flat.c - follows offsets in a FlatBuffer. */
#include "format/arrow/flat.h"

/* Whether `size` bytes lie at a position. */
static bool holds(hil_flat *f, size_t at, size_t size)
{
    if (!f->bad && at <= f->size && size <= f->size - at) return true;
    f->bad = true;
    return false;
}

static uint64_t number(hil_flat *f, size_t at, int bytes)
{
    uint64_t n = 0;
    if (!holds(f, at, (size_t)bytes)) return 0;
    for (int i = bytes; i-- > 0;) n = n << 8 | f->bytes[at + (size_t)i];
    return n;
}

/* Where the offset at a position leads. */
static size_t follow(hil_flat *f, size_t at)
{
    size_t to = at + (size_t)number(f, at, 4);
    return holds(f, to, 4) && to > at ? to : 0;
}

/* The position of a field; 0: the table has none. */
static size_t find(hil_flat *f, size_t table, int field)
{
    if (!table || f->bad) return 0;
    int64_t up = (int32_t)(uint32_t)number(f, table, 4); /* the list of fields may be before it */
    if (up > (int64_t)table || (int64_t)table - up > (int64_t)f->size) {
        f->bad = true;
        return 0;
    }
    size_t list = (size_t)((int64_t)table - up), place = 4 + 2 * (size_t)field;
    if (place + 2 > number(f, list, 2)) return 0;
    size_t offset = (size_t)number(f, list + place, 2);
    return offset && !f->bad ? table + offset : 0;
}

size_t hil_flat_root(hil_flat *f)
{
    return follow(f, 0);
}

int64_t hil_flat_integer(hil_flat *f, size_t table, int field, int bytes, int64_t missing)
{
    size_t at = find(f, table, field);
    if (!at) return missing;
    uint64_t n = number(f, at, bytes);
    int unused = 64 - 8 * bytes;
    return (int64_t)(n << unused) >> unused;
}

size_t hil_flat_table(hil_flat *f, size_t table, int field)
{
    size_t at = find(f, table, field);
    return at ? follow(f, at) : 0;
}

const char *hil_flat_text(hil_flat *f, size_t table, int field, size_t *size)
{
    size_t at = hil_flat_vector(f, table, field, 1, size);
    return at ? (const char *)f->bytes + at : NULL;
}

size_t hil_flat_vector(hil_flat *f, size_t table, int field, size_t element, size_t *count)
{
    size_t at = hil_flat_table(f, table, field);
    *count = at ? (size_t)number(f, at, 4) : 0;
    if (!at || !holds(f, at + 4, *count * element)) {
        *count = 0;
        return 0;
    }
    return at + 4;
}

size_t hil_flat_item(hil_flat *f, size_t vector, size_t i)
{
    return vector ? follow(f, vector + 4 * i) : 0;
}

int64_t hil_flat_long(hil_flat *f, size_t at)
{
    return (int64_t)number(f, at, 8);
}
