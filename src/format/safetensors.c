/* safetensors.c - reads one file: an 8-byte length, a JSON header, the data. Validates all of it.
 */
#include "format/safetensors_file.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX ((uint64_t)100000000)
#define FRONT_LEAST ((size_t)64) /* enough to tell what kind of file it is */

static const struct {
    const char *name;
    int bits;
} dtypes[] = {
    {"F32", 32},    {"BF16", 16},   {"F16", 16},        {"F64", 64},        {"I64", 64},
    {"U64", 64},    {"C64", 64},    {"I32", 32},        {"U32", 32},        {"I16", 16},
    {"U16", 16},    {"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"F8_E5M2", 8},
    {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6},
    {"F6_E3M2", 6}, {"F4", 4},
};

/* The header's tensors while they are read; offsets are relative to the data. */
typedef struct reading {
    hil_safetensors *file;
    const char *what;
    uint64_t data; /* where it begins in the file */
    size_t data_bytes;
    size_t names_used, dims_used;
} reading;

static hil_status bad_tensor(const reading *r, const char *name, const char *problem)
{
    return hil_fail(HIL_ERR_INPUT, "%s: tensor \"%.200s\" %s", r->what, name, problem);
}

static hil_status read_dtype(const reading *r, const char *name, const json_t *value, hil_entry *e,
                             int *bits)
{
    if (!json_is_string(value)) return bad_tensor(r, name, "has no dtype");
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; ++i)
        if (strcmp(json_string_value(value), dtypes[i].name) == 0) {
            e->dtype = dtypes[i].name;
            *bits = dtypes[i].bits;
            return HIL_OK;
        }
    return hil_fail(HIL_ERR_INPUT, "%s: tensor \"%.200s\" has the unknown dtype \"%.40s\"", r->what,
                    name, json_string_value(value));
}

/* Computes the number of elements; the product of the sizes that are not zero must not overflow. */
static hil_status read_shape(reading *r, const char *name, const json_t *value, hil_entry *e,
                             int64_t *count)
{
    if (!json_is_array(value)) return bad_tensor(r, name, "has no shape");
    int64_t *dim = r->file->dims + r->dims_used;
    int64_t product = 1;
    bool empty = false;
    size_t n = json_array_size(value);
    for (size_t i = 0; i < n; ++i) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_integer(item) || json_integer_value(item) < 0)
            return bad_tensor(r, name, "has a shape that is not a list of whole numbers from 0");
        dim[i] = json_integer_value(item);
        if (dim[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(product, dim[i], &product))
            return bad_tensor(r, name, "has a shape whose product overflows");
    }
    e->ndim = (int)n;
    e->dim = dim;
    r->dims_used += n;
    *count = empty ? 0 : product;
    return HIL_OK;
}

static hil_status read_offsets(const reading *r, const char *name, const json_t *value,
                               hil_entry *e)
{
    const json_t *first = json_array_get(value, 0), *last = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return bad_tensor(r, name, "has no data_offsets of two whole numbers");
    int64_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin) return bad_tensor(r, name, "has data_offsets that run backwards");
    if ((uint64_t)end > r->data_bytes)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: tensor \"%.200s\" ends at byte %lld of the data, but the file holds "
                        "only %zu (truncated or damaged)",
                        r->what, name, (long long)end, r->data_bytes);
    e->offset = r->data + (uint64_t)begin;
    e->bytes = (size_t)(end - begin);
    e->file = r->file;
    return HIL_OK;
}

static hil_status read_tensor(reading *r, const char *name, const json_t *value, hil_entry *e)
{
    int bits = 0;
    int64_t count = 0, all_bits;
    if (!json_is_object(value)) return bad_tensor(r, name, "is not an object");
    size_t name_bytes = strlen(name) + 1;
    memcpy(r->file->names + r->names_used, name, name_bytes);
    e->name = r->file->names + r->names_used;
    r->names_used += name_bytes;
    HIL_TRY(read_dtype(r, name, json_object_get(value, "dtype"), e, &bits));
    HIL_TRY(read_shape(r, name, json_object_get(value, "shape"), e, &count));
    HIL_TRY(read_offsets(r, name, json_object_get(value, "data_offsets"), e));
    if (__builtin_mul_overflow(count, bits, &all_bits))
        return bad_tensor(r, name, "has a shape whose product overflows");
    if (all_bits % 8 != 0) return bad_tensor(r, name, "does not fill whole bytes");
    if ((uint64_t)all_bits / 8 != e->bytes)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: tensor \"%.200s\" has a shape of %lld bytes, but its data_offsets "
                        "span %zu",
                        r->what, name, (long long)(all_bits / 8), e->bytes);
    return HIL_OK;
}

static hil_status check_metadata(const reading *r, json_t *value)
{
    const char *key;
    json_t *item;
    if (json_is_null(value)) return HIL_OK;
    if (!json_is_object(value))
        return hil_fail(HIL_ERR_INPUT, "%s: __metadata__ is not an object", r->what);
    json_object_foreach(value, key, item) if (!json_is_string(item)) return hil_fail(
        HIL_ERR_INPUT, "%s: __metadata__ \"%.80s\" is not a string", r->what, key);
    return HIL_OK;
}

static int compare_offset(const void *left, const void *right)
{
    const hil_entry *a = left, *b = right;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* The tensors must cover the data without gaps or overlaps. */
static hil_status check_layout(const reading *r)
{
    size_t at = 0;
    hil_safetensors *file = r->file;
    if (file->count) qsort(file->entry, file->count, sizeof *file->entry, compare_offset);
    for (size_t i = 0; i < file->count; ++i) {
        const hil_entry *e = &file->entry[i];
        size_t begin = (size_t)(e->offset - r->data);
        if (begin < at)
            return hil_fail(HIL_ERR_INPUT, "%s: tensors \"%.200s\" and \"%.200s\" overlap", r->what,
                            file->entry[i - 1].name, e->name);
        if (begin > at)
            return hil_fail(HIL_ERR_INPUT, "%s: %zu unused bytes before tensor \"%.200s\"", r->what,
                            begin - at, e->name);
        at += e->bytes;
    }
    if (at != r->data_bytes)
        return hil_fail(HIL_ERR_INPUT, "%s: %zu bytes follow the last tensor", r->what,
                        r->data_bytes - at);
    return HIL_OK;
}

/* Allocates all names and dims at once; the header's size bounds their number. */
static hil_status make_room(hil_safetensors *file, json_t *header)
{
    const char *name;
    json_t *value;
    size_t names = 0, dims = 0, count = 0;
    json_object_foreach(header, name, value)
    {
        names += strlen(name) + 1;
        dims += json_array_size(json_object_get(value, "shape"));
        ++count;
    }
    HIL_TRY(HIL_ALLOC(names, &file->names));
    HIL_TRY(HIL_ALLOC(dims, &file->dims));
    return HIL_ALLOC(count, &file->entry);
}

static hil_status read_header(reading *r, json_t *header)
{
    const char *name;
    json_t *value;
    if (!json_is_object(header))
        return hil_fail(HIL_ERR_INPUT, "%s: the header is not a JSON object", r->what);
    HIL_TRY(make_room(r->file, header));
    json_object_foreach(header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0) {
            HIL_TRY(check_metadata(r, value));
            continue;
        }
        HIL_TRY(read_tensor(r, name, value, &r->file->entry[r->file->count]));
        ++r->file->count;
    }
    HIL_TRY(check_layout(r));
    return hil_safetensors_index(r->file);
}

static uint64_t header_length(const char *bytes)
{
    uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | (unsigned char)bytes[i];
    return length;
}

/* `bytes` begin a file of `size` bytes, and include its whole header if that is valid. */
static hil_status read_file(hil_safetensors *file, const char *bytes, size_t size, const char *what)
{
    static const char pointer[] = "version https://git-lfs";
    if (size >= sizeof pointer && memcmp(bytes, pointer, sizeof pointer - 1) == 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: a Git LFS pointer, not the weights; fetch them with git lfs pull",
                        what);
    if (size < 8) return hil_fail(HIL_ERR_INPUT, "%s: truncated: only %zu bytes", what, size);
    uint64_t length = header_length(bytes);
    if (length > HEADER_MAX)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: not a safetensors file: its header would be %llu bytes long", what,
                        (unsigned long long)length);
    if (length > size - 8)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: truncated: the header of %llu bytes reaches beyond the file's %zu",
                        what, (unsigned long long)length, size);
    json_t *header;
    char place[HIL_PATH_MAX];
    snprintf(place, sizeof place, "%s: damaged header", what);
    HIL_TRY(hil_json_parse(bytes + 8, (size_t)length, place, &header));
    reading r = {.file = file, .what = what};
    r.data = 8 + length;
    r.data_bytes = size - 8 - (size_t)length;
    hil_status status = read_header(&r, header);
    json_decref(header);
    return status;
}

static int compare_name(const void *left, const void *right)
{
    return strcmp((*(const hil_entry *const *)left)->name,
                  (*(const hil_entry *const *)right)->name);
}

hil_status hil_safetensors_reserve(hil_safetensors *file, size_t entries, size_t name)
{
    HIL_TRY(HIL_ALLOC(entries, &file->entry));
    HIL_TRY(HIL_ALLOC(entries * name, &file->names));
    return HIL_ALLOC(entries * HIL_DIMS, &file->dims);
}

hil_status hil_safetensors_index(hil_safetensors *file)
{
    HIL_TRY(HIL_ALLOC(file->count, &file->by_name));
    for (size_t i = 0; i < file->count; ++i) file->by_name[i] = &file->entry[i];
    if (file->count) qsort(file->by_name, file->count, sizeof *file->by_name, compare_name);
    return HIL_OK;
}

hil_status hil_safetensors_parse(hil_safetensors **out, const char *bytes, size_t size,
                                 const char *what)
{
    *out = NULL;
    hil_safetensors *file;
    HIL_TRY(HIL_ALLOC(1, &file));
    file->memory = bytes;
    hil_status status = read_file(file, bytes, size, what);
    if (status == HIL_OK)
        *out = file;
    else
        hil_safetensors_close(file);
    return status;
}

hil_status hil_safetensors_view(hil_safetensors **out, const hil_entry *entry, size_t count,
                                const hil_safetensors_source *source)
{
    *out = NULL;
    hil_safetensors *file;
    HIL_TRY(HIL_ALLOC(1, &file));
    file->source = *source;
    hil_status status = HIL_ALLOC(count, &file->entry);
    if (status == HIL_OK) {
        for (size_t i = 0; i < count; ++i) {
            file->entry[i] = entry[i];
            file->entry[i].file = file;
        }
        file->count = count;
        status = hil_safetensors_index(file);
    }
    if (status == HIL_OK)
        *out = file;
    else
        hil_safetensors_close(file);
    return status;
}

static hil_status cut_short(const hil_reader *reader)
{
    return hil_fail(HIL_ERR_IO, "%s was cut short while it was being read",
                    hil_reader_path(reader));
}

/* The first bytes of a file, up to the end of its header, for read_file; the caller frees them. */
static hil_status read_front(const hil_reader *reader, char **out)
{
    uint64_t size = hil_reader_size(reader), length = 0;
    size_t need = size < FRONT_LEAST ? (size_t)size : FRONT_LEAST, got;
    HIL_TRY(HIL_ALLOC(FRONT_LEAST, out));
    HIL_TRY(hil_reader_read(reader, 0, *out, need, &got));
    if (got == FRONT_LEAST) length = header_length(*out);
    if (got == need && length <= HEADER_MAX && length <= size && 8 + length > need &&
        8 + length <= size) {
        hil_free(*out);
        need = 8 + (size_t)length;
        HIL_TRY(HIL_ALLOC(need, out));
        HIL_TRY(hil_reader_read(reader, 0, *out, need, &got));
    }
    return got == need ? HIL_OK : cut_short(reader);
}

hil_status hil_safetensors_open(hil_safetensors **out, const char *path)
{
    *out = NULL;
    char *front = NULL;
    hil_safetensors *file = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &file));
    HIL_TRY_DONE(hil_reader_open(&file->reader, path));
    HIL_TRY_DONE(read_front(file->reader, &front));
    HIL_TRY_DONE(read_file(file, front, (size_t)hil_reader_size(file->reader), path));
    *out = file;
    file = NULL;
done:
    hil_free(front);
    hil_safetensors_close(file);
    return status;
}

void hil_safetensors_close(hil_safetensors *file)
{
    if (!file) return;
    for (size_t i = 0; i < file->shards; ++i) hil_safetensors_close(file->shard[i]);
    hil_free(file->shard);
    hil_free(file->by_name);
    hil_free(file->entry);
    hil_free(file->dims);
    hil_free(file->names);
    if (file->release)
        file->release(file->own);
    else
        hil_free(file->own);
    hil_reader_close(file->reader);
    hil_free(file);
}

size_t hil_safetensors_count(const hil_safetensors *file)
{
    return file->count;
}

const hil_entry *hil_safetensors_at(const hil_safetensors *file, size_t i)
{
    assert(i < file->count);
    return &file->entry[i];
}

const hil_entry *hil_safetensors_find(const hil_safetensors *file, const char *name)
{
    hil_entry key = {.name = name};
    const hil_entry *wanted = &key, **found = NULL;
    if (file->count)
        found = bsearch(&wanted, file->by_name, file->count, sizeof *found, compare_name);
    return found ? *found : NULL;
}

hil_status hil_entry_read(const hil_entry *entry, size_t first, void *out, size_t size)
{
    assert(first <= entry->bytes && size <= entry->bytes - first);
    const hil_safetensors *file = entry->file;
    size_t got;
    if (file->source.read) return file->source.read(file->source.context, entry, first, out, size);
    if (!file->reader) {
        memcpy(out, file->memory + entry->offset + first, size);
        return HIL_OK;
    }
    HIL_TRY(hil_reader_read(file->reader, entry->offset + first, out, size, &got));
    return got == size ? HIL_OK : cut_short(file->reader);
}

hil_status hil_entry_dtype(const hil_entry *entry, hil_dtype *out)
{
    static const hil_dtype same[] = {HIL_F32, HIL_BF16, HIL_F16};
    for (size_t i = 0; i < sizeof same / sizeof *same; ++i)
        if (strcmp(entry->dtype, dtypes[i].name) == 0) {
            *out = same[i];
            return HIL_OK;
        }
    return hil_fail(HIL_ERR_INPUT,
                    "tensor \"%.200s\" has dtype %s; weights must be F32, BF16 or F16", entry->name,
                    entry->dtype);
}

hil_status hil_entry_shape(const hil_entry *entry, hil_shape *out)
{
    if (entry->ndim > HIL_DIMS)
        return hil_fail(HIL_ERR_INPUT,
                        "tensor \"%.200s\" has %d dimensions; at most %d are supported",
                        entry->name, entry->ndim, HIL_DIMS);
    *out = (hil_shape){.ndim = entry->ndim};
    for (int i = 0; i < entry->ndim; ++i) out->dim[i] = entry->dim[i];
    return HIL_OK;
}

const char *hil_entry_shape_text(const hil_entry *entry, char out[64])
{
    int used = snprintf(out, 64, "[");
    for (int i = 0; i < entry->ndim && used < 64; ++i)
        used += snprintf(out + used, (size_t)(64 - used), i ? ", %lld" : "%lld",
                         (long long)entry->dim[i]);
    if (used < 64) snprintf(out + used, (size_t)(64 - used), "]");
    return out;
}
