/* coded.c - expands the codes of GPTQ and AWQ where they are asked for. */
#include "format/coded.h"

#include "base/alloc.h"
#include "format/safetensors_file.h"

#include <stdio.h>
#include <string.h>

#define CODES ".qweight"
#define SCALES ".scales"

enum { RUN = 128, NAME_MOST = 512 }; /* outputs that are expanded together */

/* The tensors of one matrix. */
typedef struct matrix {
    const hil_entry *codes, *zeros, *scales;
    int32_t *order; /* the group of each input; NULL: they follow each other */
    int64_t group;
    hil_quant_packing form;
    hil_dtype dtype;
    int64_t in, out, groups, dim[2];
    char name[NAME_MOST];
} matrix;

/* All of a file. */
typedef struct matrices {
    size_t count;
    matrix *matrix;
} matrices;

/* Some outputs, with what the group of the inputs that are expanded now says of them. */
typedef struct run {
    int64_t first, count, group;
    float scale[RUN], zero[RUN];
    uint32_t word[RUN];
    int64_t row; /* of the words */
} run;

/* Outputs, or inputs, that share a word. */
static int64_t in_word(const matrix *m)
{
    return 32 / m->form.bits;
}

/* The code of an output of AWQ, or of any zero, in its word. */
static uint32_t output_code(const matrix *m, uint32_t word, int64_t output)
{
    int place = (int)(output % in_word(m));
    if (m->form.method == HIL_PACKING_AWQ) place = place % 2 ? 4 + place / 2 : place / 2;
    return word >> place * m->form.bits & ((1u << m->form.bits) - 1);
}

static hil_status read_words(const hil_entry *entry, int64_t row, int64_t column, int64_t count,
                             uint32_t *out)
{
    size_t at = (size_t)(row * entry->dim[1] + column) * sizeof *out;
    return hil_entry_read(entry, at, out, (size_t)count * sizeof *out);
}

/* Scales and zeros of a group for the outputs of a run. */
static hil_status load_group(const matrix *m, int64_t group, run *r)
{
    static const uint32_t ones[] = {[2] = 0x55555555u, [4] = 0x11111111u, [8] = 0x01010101u};
    int64_t begin = r->first / in_word(m), end = (r->first + r->count - 1) / in_word(m) + 1;
    size_t size = hil_dtype_size(m->dtype);
    uint32_t word[RUN];
    uint16_t half[RUN];
    HIL_TRY(read_words(m->zeros, group, begin, end - begin, word));
    HIL_TRY(hil_entry_read(m->scales, (size_t)(group * m->out + r->first) * size,
                           size == 4 ? (void *)r->scale : half, (size_t)r->count * size));
    if (size != 4) hil_dtype_to_f32(r->scale, half, m->dtype, r->count);
    for (int64_t i = 0; i < r->count; ++i) {
        int64_t output = r->first + i;
        uint32_t packed = word[output / in_word(m) - begin];
        if (m->form.less_one) packed += ones[m->form.bits];
        r->zero[i] = (float)output_code(m, packed, output);
    }
    r->group = group;
    return HIL_OK;
}

/* The numbers of one input and the outputs of a run. */
static hil_status expand(const matrix *m, int64_t input, run *r, float *number)
{
    bool awq = m->form.method == HIL_PACKING_AWQ;
    int64_t group = m->order ? m->order[input] : input / m->group;
    int64_t row = awq ? input : input / in_word(m), begin = awq ? r->first / in_word(m) : r->first;
    int64_t last = r->first + r->count - 1, words = (awq ? last / in_word(m) : last) + 1 - begin;
    if (group != r->group) HIL_TRY(load_group(m, group, r));
    if (row != r->row) HIL_TRY(read_words(m->codes, row, begin, words, r->word));
    r->row = row;
    int shift = (int)(input % in_word(m)) * m->form.bits;
    for (int64_t i = 0; i < r->count; ++i) {
        uint32_t code =
            awq ? output_code(m, r->word[(r->first + i) / in_word(m) - begin], r->first + i)
                : r->word[i] >> shift & ((1u << m->form.bits) - 1);
        number[i] = ((float)code - r->zero[i]) * r->scale[i];
    }
    return HIL_OK;
}

/* The bytes [first, first + size) of a matrix that are being read. */
typedef struct part {
    char *bytes;
    size_t first, size;
} part;

/* Puts an element of the matrix into the part, as far as it lies in it. */
static void put(const part *p, size_t at, const char *element, size_t size)
{
    for (size_t i = 0; i < size; ++i)
        if (at + i >= p->first && at + i - p->first < p->size)
            p->bytes[at + i - p->first] = element[i];
}

static hil_status read_run(const matrix *m, const part *p, run *r, int64_t begin, int64_t end)
{
    size_t size = hil_dtype_size(m->dtype);
    float number[RUN];
    char element[RUN * sizeof(float)];
    for (int64_t input = begin; input < end; ++input) {
        HIL_TRY(expand(m, input, r, number));
        hil_dtype_from_f32(element, number, m->dtype, r->count);
        for (int64_t i = 0; i < r->count; ++i)
            put(p, (size_t)((r->first + i) * m->in + input) * size, element + (size_t)i * size,
                size);
    }
    return HIL_OK;
}

static hil_status read_matrix(const void *context, const hil_entry *entry, size_t first, void *out,
                              size_t size)
{
    const matrix *m = &((const matrices *)context)->matrix[entry->offset];
    const part p = {out, first, size};
    size_t each = hil_dtype_size(m->dtype);
    if (size == 0) return HIL_OK;
    int64_t begin = (int64_t)(first / each), last = (int64_t)((first + size - 1) / each);
    int64_t end = last / m->in + 1; /* of the outputs */
    run r = {.first = begin / m->in};
    bool one = r.first + 1 == end; /* then not all inputs are needed */
    for (; r.first < end; r.first += r.count) {
        r.count = end - r.first < RUN ? end - r.first : RUN;
        r.group = r.row = -1;
        HIL_TRY(read_run(m, &p, &r, one ? begin % m->in : 0, one ? last % m->in + 1 : m->in));
    }
    return HIL_OK;
}

/* The tensor with another ending than that of the codes; NULL: none. */
static const hil_entry *beside(const hil_safetensors *base, const hil_entry *codes,
                               const char *ending)
{
    char name[NAME_MOST];
    snprintf(name, sizeof name, "%.*s%s", (int)(strlen(codes->name) - strlen(CODES)), codes->name,
             ending);
    return hil_safetensors_find(base, name);
}

static bool is_shape(const hil_entry *entry, const char *dtype, int64_t rows, int64_t cols)
{
    return entry && strcmp(entry->dtype, dtype) == 0 && entry->ndim == 2 && entry->dim[0] == rows &&
           entry->dim[1] == cols;
}

/* Keeps the groups of inputs, if they are not in order. Some files name group 0 for all inputs and
   mean that order: other programs take it so, too. */
static hil_status read_order(matrix *m, const hil_entry *order)
{
    bool plain = true, zero = true;
    if (!order) return HIL_OK;
    if (strcmp(order->dtype, "I32") != 0 || order->bytes != (size_t)m->in * sizeof *m->order)
        return hil_fail(HIL_ERR_INPUT, "tensor %.200s is not a group for each of %lld inputs",
                        order->name, (long long)m->in);
    HIL_TRY(HIL_ALLOC(m->in, &m->order));
    HIL_TRY(hil_entry_read(order, 0, m->order, order->bytes));
    for (int64_t i = 0; i < m->in; ++i) {
        plain &= m->order[i] == i / m->group;
        zero &= m->order[i] == 0;
        if (m->order[i] < 0 || m->order[i] >= m->groups)
            return hil_fail(HIL_ERR_INPUT, "tensor %.200s names group %d of %lld", order->name,
                            (int)m->order[i], (long long)m->groups);
    }
    if (!plain && !zero) return HIL_OK;
    hil_free(m->order);
    m->order = NULL;
    return HIL_OK;
}

/* Finds the tensors of a matrix; all shapes follow from that of the codes. */
static hil_status find_matrix(const hil_safetensors *base, const hil_entry *codes,
                              const hil_quant_packing *form, matrix *m)
{
    bool awq = form->method == HIL_PACKING_AWQ;
    m->form = *form;
    m->codes = codes;
    m->zeros = beside(base, codes, ".qzeros");
    m->scales = beside(base, codes, SCALES);
    bool words = strcmp(codes->dtype, "I32") == 0 && codes->ndim == 2 && codes->bytes > 0;
    if (words && strlen(codes->name) < NAME_MOST && m->scales) {
        m->in = codes->dim[0] * (awq ? 1 : in_word(m));
        m->out = codes->dim[1] * (awq ? in_word(m) : 1);
        m->group = form->group > 0 ? form->group : m->in;
        m->groups = m->in > 0 ? (m->in - 1) / m->group + 1 : 0;
    }
    bool fits = m->groups > 0 && m->out > 0 && m->out % in_word(m) == 0 &&
                is_shape(m->zeros, "I32", m->groups, m->out / in_word(m)) &&
                is_shape(m->scales, m->scales->dtype, m->groups, m->out) &&
                !beside(base, codes, ".weight");
    if (!fits)
        return hil_fail(HIL_ERR_INPUT,
                        "tensor %.200s and those beside it are no matrix in %d bits with groups of "
                        "%lld",
                        codes->name, form->bits, (long long)form->group);
    HIL_TRY(hil_entry_dtype(m->scales, &m->dtype));
    snprintf(m->name, sizeof m->name, "%.*s.weight", (int)(strlen(codes->name) - strlen(CODES)),
             codes->name);
    m->dim[0] = m->out;
    m->dim[1] = m->in;
    return read_order(m, awq ? NULL : beside(base, codes, ".g_idx"));
}

static bool ends(const char *name, const char *ending)
{
    size_t size = strlen(name), tail = strlen(ending);
    return size > tail && strcmp(name + size - tail, ending) == 0;
}

/* Whether a tensor is one of those beside the codes of a matrix. */
static bool is_part(const hil_safetensors *base, const hil_entry *entry)
{
    static const char *const endings[] = {".qzeros", SCALES, ".g_idx"};
    char name[NAME_MOST];
    for (size_t i = 0; i < sizeof endings / sizeof *endings; ++i) {
        if (!ends(entry->name, endings[i])) continue;
        size_t stem = strlen(entry->name) - strlen(endings[i]);
        if (stem + sizeof CODES > sizeof name) return false;
        snprintf(name, sizeof name, "%.*s" CODES, (int)stem, entry->name);
        if (hil_safetensors_find(base, name)) return true;
    }
    return false;
}

static hil_status add_entry(hil_safetensors *file, matrices *all, const hil_entry *entry,
                            const hil_quant_packing *form)
{
    hil_entry *own = &file->entry[file->count];
    const hil_safetensors *base = file->shard[0];
    *own = *entry;
    if (is_part(base, entry)) return HIL_OK;
    if (ends(entry->name, SCALES)) /* of AWQ, where an MLP has no gate to take them */
        return hil_fail(HIL_ERR_INPUT,
                        "tensor %.200s divides what an activation gives, which is not supported; "
                        "take the original model with --base-dtype nf4",
                        entry->name);
    ++file->count;
    if (!ends(entry->name, CODES)) return HIL_OK;
    matrix *m = &all->matrix[all->count++];
    HIL_TRY(find_matrix(base, entry, form, m));
    *own = (hil_entry){.name = m->name,
                       .dtype = m->scales->dtype,
                       .ndim = 2,
                       .dim = m->dim,
                       .offset = all->count - 1,
                       .bytes = (size_t)(m->in * m->out) * hil_dtype_size(m->dtype),
                       .file = file,
                       .piece = RUN * m->in};
    return HIL_OK;
}

static hil_status add_all(hil_safetensors *file, matrices *all, const hil_quant_packing *form)
{
    const hil_safetensors *base = file->shard[0];
    size_t count = hil_safetensors_count(base), codes = 0;
    for (size_t i = 0; i < count; ++i) codes += ends(hil_safetensors_at(base, i)->name, CODES);
    HIL_TRY(HIL_ALLOC(codes, &all->matrix));
    HIL_TRY(HIL_ALLOC(count, &file->entry));
    for (size_t i = 0; i < count; ++i)
        HIL_TRY(add_entry(file, all, hil_safetensors_at(base, i), form));
    return hil_safetensors_index(file);
}

static void release(void *own)
{
    matrices *all = own;
    for (size_t i = 0; all && i < all->count; ++i) hil_free(all->matrix[i].order);
    if (all) hil_free(all->matrix);
    hil_free(all);
}

/* Room for a view whose base is its only shard. */
static hil_status make_view(hil_safetensors **out, hil_safetensors *base)
{
    hil_safetensors *file;
    HIL_TRY(HIL_ALLOC(1, &file));
    hil_status status = HIL_ALLOC(1, &file->shard);
    if (status == HIL_OK) {
        file->shard[file->shards++] = base;
        *out = file;
    } else {
        hil_free(file);
    }
    return status;
}

hil_status hil_coded_open(hil_safetensors **out, hil_safetensors *base,
                          const hil_quant_packing *form)
{
    hil_safetensors *file = NULL;
    matrices *all = NULL;
    *out = NULL;
    hil_status status = make_view(&file, base);
    if (status != HIL_OK) {
        hil_safetensors_close(base);
        return status;
    }
    status = HIL_ALLOC(1, &all);
    file->own = all;
    file->release = release;
    file->source = (hil_safetensors_source){read_matrix, all};
    if (status == HIL_OK) status = add_all(file, all, form);
    if (status == HIL_OK)
        *out = file;
    else
        hil_safetensors_close(file);
    return status;
}
