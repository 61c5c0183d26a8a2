/* npy.c - parses the header of a .npy file (a Python dict literal) and reads token ids. */
#include "format/npy.h"

#include "base/alloc.h"
#include "base/text.h"
#include "io/reader.h"

#include <string.h>

#define PIECE 4096 /* elements that are read at once */
#define HEADER_MAX ((size_t)1 << 20)
#define FRONT_LEAST ((size_t)12) /* magic, version and length of the header */

typedef enum npy_kind { NPY_U16, NPY_U32, NPY_I32, NPY_I64 } npy_kind;

static const struct {
    const char *descr;
    size_t bytes;
} kinds[] = {{"<u2", 2}, {"<u4", 4}, {"<i4", 4}, {"<i8", 8}};

struct hil_npy {
    hil_reader *reader; /* NULL: the content is in memory */
    const char *memory;
    char *what;
    uint64_t data; /* where the elements begin in the file */
    int64_t count;
    npy_kind kind;
};

/* The rest of the header text. */
typedef struct cursor {
    const char *at, *end;
    const char *what;
} cursor;

static hil_status damaged(const cursor *c)
{
    return hil_fail(HIL_ERR_INPUT, "%s: damaged .npy header", c->what);
}

static void skip_space(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n')) ++c->at;
}

static bool take(cursor *c, char expected)
{
    skip_space(c);
    if (c->at == c->end || *c->at != expected) return false;
    ++c->at;
    return true;
}

static bool take_word(cursor *c, const char *word)
{
    size_t size = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->at) < size || memcmp(c->at, word, size) != 0) return false;
    c->at += size;
    return true;
}

/* A quoted string without escapes, which is all that NumPy writes for the types read here. */
static hil_status take_string(cursor *c, char *out, size_t capacity)
{
    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return damaged(c);
    char quote = *c->at++;
    const char *close = memchr(c->at, quote, (size_t)(c->end - c->at));
    if (!close || (size_t)(close - c->at) >= capacity || memchr(c->at, 0, (size_t)(close - c->at)))
        return damaged(c);
    memcpy(out, c->at, (size_t)(close - c->at));
    out[close - c->at] = 0;
    c->at = close + 1;
    return HIL_OK;
}

static hil_status take_descr(cursor *c, hil_npy *npy)
{
    char descr[64];
    skip_space(c);
    if (c->at < c->end && *c->at == '[')
        return hil_fail(HIL_ERR_INPUT,
                        "%s: an array of records; token ids must be a plain array of uint16, "
                        "uint32, int32 or int64",
                        c->what);
    HIL_TRY(take_string(c, descr, sizeof descr));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
        if (strcmp(descr, kinds[i].descr) == 0) {
            npy->kind = (npy_kind)i;
            return HIL_OK;
        }
    if (descr[0] == '>')
        return hil_fail(HIL_ERR_INPUT,
                        "%s: big-endian elements (\"%s\"); save the array as little-endian, for "
                        "example with .astype('<i4')",
                        c->what, descr);
    return hil_fail(HIL_ERR_INPUT,
                    "%s: elements of type \"%s\"; token ids must be uint16, uint32, int32 or int64",
                    c->what, descr);
}

/* Parses one dimension; accepts the trailing L of Python 2. */
static hil_status take_number(cursor *c, int64_t *out)
{
    skip_space(c);
    const char *start = c->at;
    int64_t value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; ++c->at)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *c->at - '0', &value))
            return damaged(c);
    if (c->at == start) return damaged(c);
    if (c->at < c->end && *c->at == 'L') ++c->at;
    *out = value;
    return HIL_OK;
}

static hil_status take_shape(cursor *c, hil_npy *npy)
{
    int dims = 0;
    if (!take(c, '(')) return damaged(c);
    while (!take(c, ')')) {
        int64_t dim = 0;
        HIL_TRY(take_number(c, &dim));
        if (dims == 0) npy->count = dim;
        if (++dims > 64) return damaged(c);
        skip_space(c);
        if (!take(c, ',') && (c->at == c->end || *c->at != ')')) return damaged(c);
    }
    if (dims != 1)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: an array of %d dimensions; token ids must be one-dimensional (save it "
                        "with .reshape(-1))",
                        c->what, dims);
    return HIL_OK;
}

static hil_status parse_header(cursor *c, hil_npy *npy)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
    int seen = 0;
    if (!take(c, '{')) return damaged(c);
    while (!take(c, '}')) {
        char key[16];
        HIL_TRY(take_string(c, key, sizeof key));
        if (!take(c, ':')) return damaged(c);
        int bit = strcmp(key, "descr") == 0           ? DESCR
                  : strcmp(key, "fortran_order") == 0 ? ORDER
                  : strcmp(key, "shape") == 0         ? SHAPE
                                                      : 0;
        if (bit == 0 || (seen & bit)) return damaged(c);
        seen |= bit;
        if (bit == DESCR) HIL_TRY(take_descr(c, npy));
        if (bit == SHAPE) HIL_TRY(take_shape(c, npy));
        if (bit == ORDER && !take_word(c, "True") && !take_word(c, "False")) return damaged(c);
        skip_space(c);
        if (!take(c, ',') && (c->at == c->end || *c->at != '}')) return damaged(c);
    }
    skip_space(c);
    return c->at == c->end && seen == (DESCR | ORDER | SHAPE) ? HIL_OK : damaged(c);
}

static size_t header_start(const unsigned char *u)
{
    return u[6] == 1 ? 10 : 12;
}

static size_t header_bytes(const unsigned char *u)
{
    size_t header = (size_t)u[8] | (size_t)u[9] << 8;
    if (u[6] > 1) header |= (size_t)u[10] << 16 | (size_t)u[11] << 24;
    return header;
}

/* `bytes` begin a file of `size` bytes, and include its whole header if that is valid. */
static hil_status parse_bytes(hil_npy *npy, const char *bytes, size_t size)
{
    const unsigned char *u = (const unsigned char *)bytes;
    if (size < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return hil_fail(HIL_ERR_INPUT, "%s: not a .npy file", npy->what);
    if (u[6] < 1 || u[6] > 3)
        return hil_fail(HIL_ERR_INPUT, "%s: .npy version %d.%d is not supported (1 to 3 are)",
                        npy->what, u[6], u[7]);
    size_t start = header_start(u), header = header_bytes(u);
    if (header > size - start)
        return hil_fail(HIL_ERR_INPUT, "%s: truncated: the .npy header of %zu bytes is not whole",
                        npy->what, header);
    if (header > HEADER_MAX)
        return hil_fail(HIL_ERR_INPUT, "%s: damaged: a .npy header of %zu bytes", npy->what,
                        header);
    cursor c = {bytes + start, bytes + start + header, npy->what};
    HIL_TRY(parse_header(&c, npy));
    size_t left = size - start - header, need;
    if (__builtin_mul_overflow((size_t)npy->count, kinds[npy->kind].bytes, &need) || need > left)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: truncated: %lld elements are declared, but only %zu bytes follow",
                        npy->what, (long long)npy->count, left);
    if (need < left)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: %zu bytes follow the array; a file must hold exactly one array",
                        npy->what, left - need);
    npy->data = start + header;
    return HIL_OK;
}

hil_status hil_npy_parse(hil_npy **out, const char *bytes, size_t size, const char *what)
{
    *out = NULL;
    hil_npy *npy = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &npy));
    HIL_TRY_DONE(hil_text_copy(what, &npy->what));
    npy->memory = bytes;
    HIL_TRY_DONE(parse_bytes(npy, bytes, size));
    *out = npy;
    npy = NULL;
done:
    hil_npy_close(npy);
    return status;
}

static hil_status cut_short(const hil_npy *npy)
{
    return hil_fail(HIL_ERR_IO, "%s was cut short while it was being read", npy->what);
}

/* The first bytes of a file, up to the end of its header, for parse_bytes; the caller frees them.
 */
static hil_status read_front(const hil_npy *npy, char **out)
{
    uint64_t size = hil_reader_size(npy->reader);
    size_t need = size < FRONT_LEAST ? (size_t)size : FRONT_LEAST, got;
    HIL_TRY(HIL_ALLOC(FRONT_LEAST, out));
    HIL_TRY(hil_reader_read(npy->reader, 0, *out, need, &got));
    const unsigned char *u = (const unsigned char *)*out;
    uint64_t whole = (uint64_t)header_start(u) + header_bytes(u);
    if (got == FRONT_LEAST && whole <= size && header_bytes(u) <= HEADER_MAX) {
        hil_free(*out);
        need = (size_t)whole;
        HIL_TRY(HIL_ALLOC(need, out));
        HIL_TRY(hil_reader_read(npy->reader, 0, *out, need, &got));
    }
    return got == need ? HIL_OK : cut_short(npy);
}

hil_status hil_npy_open(hil_npy **out, const char *path)
{
    *out = NULL;
    hil_npy *npy = NULL;
    char *front = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &npy));
    HIL_TRY_DONE(hil_text_copy(path, &npy->what));
    HIL_TRY_DONE(hil_reader_open(&npy->reader, path));
    HIL_TRY_DONE(read_front(npy, &front));
    HIL_TRY_DONE(parse_bytes(npy, front, (size_t)hil_reader_size(npy->reader)));
    *out = npy;
    npy = NULL;
done:
    hil_free(front);
    hil_npy_close(npy);
    return status;
}

void hil_npy_close(hil_npy *npy)
{
    if (!npy) return;
    hil_reader_close(npy->reader);
    hil_free(npy->what);
    hil_free(npy);
}

int64_t hil_npy_count(const hil_npy *npy)
{
    return npy->count;
}

static int64_t element(npy_kind kind, const char *at)
{
    uint16_t u16;
    uint32_t u32;
    int32_t i32;
    int64_t i64;
    switch (kind) {
    case NPY_U16:
        return memcpy(&u16, at, 2), u16;
    case NPY_U32:
        return memcpy(&u32, at, 4), u32;
    case NPY_I32:
        return memcpy(&i32, at, 4), i32;
    case NPY_I64:
        break;
    }
    return memcpy(&i64, at, 8), i64;
}

/* Elements [begin, begin + count), at most PIECE, as the file has them. */
static hil_status read_piece(const hil_npy *npy, int64_t begin, int64_t count, char *out)
{
    size_t each = kinds[npy->kind].bytes, size = (size_t)count * each, got;
    uint64_t offset = npy->data + (uint64_t)begin * each;
    if (!npy->reader) {
        memcpy(out, npy->memory + offset, size);
        return HIL_OK;
    }
    HIL_TRY(hil_reader_read(npy->reader, offset, out, size, &got));
    return got == size ? HIL_OK : cut_short(npy);
}

hil_status hil_npy_read(const hil_npy *npy, int64_t begin, int64_t count, int64_t vocab,
                        int32_t *out)
{
    char piece[PIECE * 8];
    assert(begin >= 0 && count >= 0 && begin <= npy->count - count);
    int64_t limit = vocab < INT32_MAX ? vocab : INT32_MAX;
    for (int64_t i = 0; i < count; ++i) {
        int64_t at = i % PIECE, left = count - i;
        if (at == 0) HIL_TRY(read_piece(npy, begin + i, left < PIECE ? left : PIECE, piece));
        int64_t id = element(npy->kind, piece + (size_t)at * kinds[npy->kind].bytes);
        if (id < 0 || id >= limit)
            return hil_fail(HIL_ERR_INPUT,
                            "%s: token id %lld at index %lld is outside the vocabulary of %lld",
                            npy->what, (long long)id, (long long)(begin + i), (long long)vocab);
        out[i] = (int32_t)id;
    }
    return HIL_OK;
}
