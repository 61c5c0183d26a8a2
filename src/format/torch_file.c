/* torch_file.c - finds pickle and tensors in the zip archive that torch.save writes. */
#include "format/torch_file.h"

#include "base/alloc.h"
#include "base/text.h"
#include "io/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    END_BYTES = 22,     /* record at the end of the archive, before a comment of up to 65535 */
    LOCATOR_BYTES = 20, /* of the 64-bit form of that record, before it */
    END64_BYTES = 56,
    CENTRAL_BYTES = 46, /* of a member in the directory, before its name */
    LOCAL_BYTES = 30,   /* of a member before its name and data */
};
/* The most bytes of directory and pickle: of some hundred thousand tensors. */
#define MOST ((uint64_t)64 << 20)

typedef struct member {
    const char *name;
    uint64_t offset, bytes; /* of its header, and of its data */
    bool stored;
} member;

struct hil_torch {
    hil_reader *reader; /* NULL: the archive is in memory */
    const char *memory;
    uint64_t size;
    char *what;
    char *directory; /* names are in it */
    char *names;
    member *member; /* by name */
    size_t members;
    size_t prefix; /* length of "archive/" in the names */
    hil_pickle pickle;
};

static uint64_t number(const char *bytes, int count)
{
    uint64_t n = 0;
    for (int i = count; i-- > 0;) n = n << 8 | (unsigned char)bytes[i];
    return n;
}

static hil_status damaged(const hil_torch *f, const char *why)
{
    return hil_fail(HIL_ERR_INPUT, "%s is not a file of torch.save, or damaged: %s", f->what, why);
}

static hil_status read_at(const hil_torch *f, uint64_t offset, void *out, size_t size)
{
    size_t got;
    if (offset > f->size || size > f->size - offset) return damaged(f, "it ends too early");
    if (!f->reader) {
        memcpy(out, f->memory + offset, size);
        return HIL_OK;
    }
    HIL_TRY(hil_reader_read(f->reader, offset, out, size, &got));
    return got == size ? HIL_OK : damaged(f, "it was cut short while it was being read");
}

/* Where the directory is, and how many members it has. */
typedef struct place {
    uint64_t offset, bytes, members;
} place;

static hil_status find_place64(const hil_torch *f, uint64_t end, place *out)
{
    char locator[LOCATOR_BYTES], record[END64_BYTES];
    if (end < LOCATOR_BYTES) return damaged(f, "its directory is missing");
    HIL_TRY(read_at(f, end - LOCATOR_BYTES, locator, sizeof locator));
    if (memcmp(locator, "PK\6\7", 4) != 0) return HIL_OK; /* the 32-bit form is enough */
    HIL_TRY(read_at(f, number(locator + 8, 8), record, sizeof record));
    if (memcmp(record, "PK\6\6", 4) != 0) return damaged(f, "its directory is missing");
    *out = (place){number(record + 48, 8), number(record + 40, 8), number(record + 32, 8)};
    return HIL_OK;
}

/* Fails with what the file is instead. */
static hil_status no_archive(const hil_torch *f)
{
    static const char old[] = "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    static const char pointer[] = "version https://git-lfs";
    char head[sizeof pointer] = "";
    size_t size = f->size < sizeof head - 1 ? (size_t)f->size : sizeof head - 1;
    HIL_TRY(read_at(f, 0, head, size));
    if (memcmp(head, old, sizeof old - 1) == 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s has the form of PyTorch before 1.6, which is not read: write it again "
                        "with python3 -c \"import torch; torch.save(torch.load('FILE', "
                        "map_location='cpu'), 'FILE')\"",
                        f->what);
    if (strcmp(head, pointer) == 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: a Git LFS pointer, not the weights; fetch them with git lfs pull",
                        f->what);
    return damaged(f, "it is no zip archive");
}

static hil_status find_place(const hil_torch *f, place *out)
{
    char tail[END_BYTES + 65535];
    size_t size = f->size < sizeof tail ? (size_t)f->size : sizeof tail;
    HIL_TRY(read_at(f, f->size - size, tail, size));
    for (size_t i = size < END_BYTES ? 0 : size - END_BYTES + 1; i-- > 0;) {
        if (memcmp(tail + i, "PK\5\6", 4) != 0) continue;
        *out =
            (place){number(tail + i + 16, 4), number(tail + i + 12, 4), number(tail + i + 10, 2)};
        return find_place64(f, f->size - size + i, out);
    }
    return no_archive(f);
}

/* Sizes and offset that do not fit into 32 bits are in an extra field. */
static hil_status read_extra(const hil_torch *f, const char *extra, size_t size, uint64_t *wide[3])
{
    while (size >= 4) {
        size_t id = number(extra, 2), bytes = number(extra + 2, 2);
        if (bytes > size - 4) break;
        const char *at = extra + 4;
        for (int i = 0; id == 1 && i < 3; ++i) {
            if (!wide[i]) continue;
            if (at + 8 > extra + 4 + bytes) return damaged(f, "a size is missing");
            *wide[i] = number(at, 8);
            wide[i] = NULL;
            at += 8;
        }
        extra += 4 + bytes;
        size -= 4 + bytes;
    }
    if (wide[0] || wide[1] || wide[2]) return damaged(f, "a size is missing");
    return HIL_OK;
}

/* Reads a member of the directory; *used is the number of its bytes, `name` gets its name. */
static hil_status read_member(const hil_torch *f, const char *at, size_t left, member *out,
                              size_t *used, char *name)
{
    if (left < CENTRAL_BYTES || memcmp(at, "PK\1\2", 4) != 0)
        return damaged(f, "its directory is damaged");
    size_t length = number(at + 28, 2), extra = number(at + 30, 2), comment = number(at + 32, 2);
    *used = CENTRAL_BYTES + length + extra + comment;
    if (*used > left) return damaged(f, "its directory is damaged");
    uint64_t packed = number(at + 20, 4), bytes = number(at + 24, 4), offset = number(at + 42, 4);
    uint64_t *wide[3] = {bytes == UINT32_MAX ? &bytes : NULL, packed == UINT32_MAX ? &packed : NULL,
                         offset == UINT32_MAX ? &offset : NULL};
    HIL_TRY(read_extra(f, at + CENTRAL_BYTES + length, extra, wide));
    memcpy(name, at + CENTRAL_BYTES, length);
    name[length] = 0;
    *out = (member){name, offset, bytes, number(at + 10, 2) == 0 && packed == bytes};
    return HIL_OK;
}

static int compare_member(const void *left, const void *right)
{
    return strcmp(((const member *)left)->name, ((const member *)right)->name);
}

static hil_status read_directory(hil_torch *f)
{
    place at = {0};
    HIL_TRY(find_place(f, &at));
    if (at.bytes > MOST || at.members > at.bytes / CENTRAL_BYTES)
        return damaged(f, "its directory is too large");
    HIL_TRY(HIL_ALLOC(at.bytes, &f->directory));
    HIL_TRY(HIL_ALLOC(at.bytes + at.members, &f->names));
    HIL_TRY(HIL_ALLOC(at.members, &f->member));
    HIL_TRY(read_at(f, at.offset, f->directory, (size_t)at.bytes));
    size_t done = 0, used = 0, named = 0;
    for (; f->members < at.members; done += used, ++f->members) {
        member *m = &f->member[f->members];
        HIL_TRY(read_member(f, f->directory + done, (size_t)at.bytes - done, m, &used,
                            f->names + named));
        named += strlen(m->name) + 1;
    }
    if (f->members) qsort(f->member, f->members, sizeof *f->member, compare_member);
    return HIL_OK;
}

/* The data of a member: its name follows "archive/". */
static hil_status find_data(const hil_torch *f, const char *name, uint64_t *offset, uint64_t *bytes)
{
    char local[LOCAL_BYTES], path[512];
    snprintf(path, sizeof path, "%.*s%s", (int)f->prefix, f->member->name, name);
    const member key = {.name = path};
    const member *m = bsearch(&key, f->member, f->members, sizeof key, compare_member);
    if (!m) return hil_fail(HIL_ERR_INPUT, "%s has no %s", f->what, name);
    if (!m->stored)
        return hil_fail(HIL_ERR_INPUT, "%s: %s is compressed, which torch.save never does", f->what,
                        name);
    HIL_TRY(read_at(f, m->offset, local, sizeof local));
    if (memcmp(local, "PK\3\4", 4) != 0) return damaged(f, "a member is missing");
    *offset = m->offset + LOCAL_BYTES + number(local + 26, 2) + number(local + 28, 2);
    *bytes = m->bytes;
    if (*offset > f->size || *bytes > f->size - *offset) return damaged(f, "it ends too early");
    return HIL_OK;
}

/* All members are in one folder of the archive. */
static hil_status find_prefix(hil_torch *f)
{
    static const char name[] = "/data.pkl";
    for (size_t i = 0; i < f->members; ++i) {
        const char *slash = strchr(f->member[i].name, '/');
        if (!slash || strcmp(slash, name) != 0) continue;
        f->prefix = (size_t)(slash - f->member[i].name) + 1;
        if (strncmp(f->member[0].name, f->member[i].name, f->prefix) == 0 && f->prefix < 400)
            return HIL_OK;
    }
    return damaged(f, "it has no data.pkl");
}

static hil_status check_order(const hil_torch *f)
{
    char word[8] = "";
    uint64_t offset, bytes;
    if (find_data(f, "byteorder", &offset, &bytes) != HIL_OK) return HIL_OK; /* older versions */
    if (bytes < sizeof word) HIL_TRY(read_at(f, offset, word, (size_t)bytes));
    if (strcmp(word, "little") == 0) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s was written on a machine of another byte order", f->what);
}

static hil_status open_archive(hil_torch *f)
{
    uint64_t offset, bytes;
    char *text = NULL;
    HIL_TRY(read_directory(f));
    HIL_TRY(find_prefix(f));
    HIL_TRY(check_order(f));
    HIL_TRY(find_data(f, "data.pkl", &offset, &bytes));
    if (bytes > MOST) return damaged(f, "its pickle is too large");
    HIL_TRY(HIL_ALLOC(bytes, &text));
    hil_status status = read_at(f, offset, text, (size_t)bytes);
    if (status == HIL_OK) status = hil_pickle_parse(&f->pickle, text, (size_t)bytes, f->what);
    hil_free(text);
    return status;
}

static hil_status make(hil_torch **out, hil_torch *f)
{
    hil_status status = open_archive(f);
    *out = status == HIL_OK ? f : NULL;
    if (status != HIL_OK) hil_torch_close(f);
    return status;
}

hil_status hil_torch_open(hil_torch **out, const char *path)
{
    hil_torch *f;
    *out = NULL;
    HIL_TRY(HIL_ALLOC(1, &f));
    hil_status status = hil_text_copy(path, &f->what);
    if (status == HIL_OK) status = hil_reader_open(&f->reader, path);
    if (status != HIL_OK) {
        hil_torch_close(f);
        return status;
    }
    f->size = hil_reader_size(f->reader);
    return make(out, f);
}

hil_status hil_torch_parse(hil_torch **out, const char *bytes, size_t size, const char *what)
{
    hil_torch *f;
    *out = NULL;
    HIL_TRY(HIL_ALLOC(1, &f));
    f->memory = bytes;
    f->size = size;
    hil_status status = hil_text_copy(what, &f->what);
    if (status == HIL_OK) return make(out, f);
    hil_torch_close(f);
    return status;
}

void hil_torch_close(hil_torch *f)
{
    if (!f) return;
    hil_reader_close(f->reader);
    hil_pickle_free(&f->pickle);
    hil_free(f->directory);
    hil_free(f->names);
    hil_free(f->member);
    hil_free(f->what);
    hil_free(f);
}

const char *hil_torch_name(const hil_torch *f)
{
    return f->what;
}

const hil_pickle_value *hil_torch_root(const hil_torch *f)
{
    return f->pickle.root;
}

static const struct storage {
    const char *name, *dtype;
    size_t bytes;
} storages[] = {
    {"torch FloatStorage", "F32", 4}, {"torch BFloat16Storage", "BF16", 2},
    {"torch HalfStorage", "F16", 2},  {"torch DoubleStorage", "F64", 8},
    {"torch LongStorage", "I64", 8},  {"torch IntStorage", "I32", 4},
    {"torch ShortStorage", "I16", 2}, {"torch CharStorage", "I8", 1},
    {"torch ByteStorage", "U8", 1},   {"torch BoolStorage", "BOOL", 1},
};
enum { FLOATS = 3 }; /* of them, the first */

/* NULL: none that is known. */
static const struct storage *find_storage(const hil_pickle_value *class)
{
    for (size_t i = 0; i < sizeof storages / sizeof *storages; ++i)
        if (class && class->kind == HIL_PICKLE_GLOBAL && strcmp(class->text, storages[i].name) == 0)
            return &storages[i];
    return NULL;
}

static hil_status no_tensor(const hil_torch *f, const char *why)
{
    return hil_fail(HIL_ERR_INPUT, "%s: a tensor cannot be read: %s", f->what, why);
}

/* Shape and strides of a contiguous tensor. */
static hil_status read_shape(const hil_torch *f, const hil_pickle_value *shape,
                             const hil_pickle_value *stride, hil_torch_tensor *out)
{
    int64_t next = 1, dim, step;
    bool contiguous = true;
    if (!shape || shape->kind != HIL_PICKLE_LIST || !stride || stride->kind != HIL_PICKLE_LIST ||
        shape->count != stride->count || shape->count > HIL_TORCH_DIMS)
        return no_tensor(f, "it has too many dimensions");
    out->ndim = (int)shape->count;
    for (size_t i = shape->count; i-- > 0;) {
        if (!hil_pickle_whole(shape->item[i], &dim) || dim < 0 ||
            (dim && next > (INT64_C(1) << 40) / dim))
            return no_tensor(f, "its shape makes no sense");
        contiguous &= hil_pickle_whole(stride->item[i], &step) && (dim < 2 || step == next);
        out->dim[i] = dim;
        next = dim ? next * dim : next;
        if (!dim) out->elements = 0;
    }
    if (out->elements) out->elements = next;
    if (contiguous || !out->elements) return HIL_OK;
    return no_tensor(f, "it is not contiguous (save a .contiguous() copy of it)");
}

hil_status hil_torch_find(const hil_torch *f, const hil_pickle_value *v, hil_torch_tensor *out)
{
    const hil_pickle_value *storage =
        v && v->kind == HIL_PICKLE_TENSOR ? hil_pickle_at(v, 0) : NULL;
    const hil_pickle_value *key = hil_pickle_at(storage, 2);
    const struct storage *type = find_storage(hil_pickle_at(storage, 1));
    int64_t first;
    uint64_t bytes;
    char name[128];
    *out = (hil_torch_tensor){.file = f, .elements = 1};
    if (!storage || storage->kind != HIL_PICKLE_STORAGE || !key || key->kind != HIL_PICKLE_TEXT)
        return no_tensor(f, "it has no storage");
    if (!type) return no_tensor(f, "it is of a type that is not known");
    out->dtype = type->dtype;
    out->element_bytes = type->bytes;
    HIL_TRY(read_shape(f, hil_pickle_at(v, 2), hil_pickle_at(v, 3), out));
    snprintf(name, sizeof name, "data/%.100s", key->text);
    HIL_TRY(find_data(f, name, &out->offset, &bytes));
    uint64_t room = bytes / type->bytes;
    if (!hil_pickle_whole(hil_pickle_at(v, 1), &first) || first < 0 || (uint64_t)first > room ||
        (uint64_t)out->elements > room - (uint64_t)first)
        return no_tensor(f, "it reaches beyond its storage");
    out->offset += (uint64_t)first * type->bytes;
    return HIL_OK;
}

hil_status hil_torch_find_floats(const hil_torch *f, const hil_pickle_value *v,
                                 hil_torch_tensor *out)
{
    HIL_TRY(hil_torch_find(f, v, out));
    for (int i = 0; i < FLOATS; ++i)
        if (out->dtype == storages[i].dtype) return HIL_OK;
    return no_tensor(f, "it is not of fp32, bf16 or fp16");
}

hil_status hil_torch_read(const hil_torch_tensor *t, int64_t first, int64_t count, float *out)
{
    size_t each = t->element_bytes;
    hil_dtype dtype = t->dtype[0] == 'B' ? HIL_BF16 : HIL_F16;
    uint16_t half[4096];
    assert(first >= 0 && count >= 0 && first + count <= t->elements);
    uint64_t offset = t->offset + (uint64_t)first * each;
    if (each == 4) return read_at(t->file, offset, out, (size_t)count * each);
    for (int64_t done = 0; done < count; done += 4096) {
        int64_t some = count - done < 4096 ? count - done : 4096;
        HIL_TRY(read_at(t->file, offset + (uint64_t)done * each, half, (size_t)some * each));
        hil_dtype_to_f32(out + done, half, dtype, some);
    }
    return HIL_OK;
}

hil_status hil_torch_read_bytes(const hil_torch *f, uint64_t offset, void *out, size_t size)
{
    return read_at(f, offset, out, size);
}
