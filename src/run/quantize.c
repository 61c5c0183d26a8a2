/* quantize.c - hilbert quantize: writes a model folder whose weights are in few bits.

   Every matrix is read twice: once for its scales, which the header and the first part of a file
   need, and once for its codes. Only the small scales of all matrices are kept in between. */
#include "base/alloc.h"
#include "base/sized.h"
#include "format/quantized.h"
#include "format/stacked.h"
#include "format/weights.h"
#include "run/model_source.h"
#include "run/staged_folder.h"
#include "tensor/quant_matrix.h"

#include <string.h>

void hil_quantize_defaults_sized(hil_quantize_options *options, size_t size)
{
    const hil_quantize_options defaults = {.base_dtype = "nf4"};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

/* A parameter; of one that is not quantized, all but param and entry is unused. */
typedef struct source_matrix {
    hil_param *param;
    const hil_entry *entry;
    hil_quantized_matrix described;
    float *small; /* nf4: nested scales, else scales */
} source_matrix;

/* One tensor of the result. */
typedef struct written {
    source_matrix *matrix;
    hil_quantized_part part;
    bool quantized;
} written;

typedef struct job {
    const hil_observer *observer;
    const volatile int *stop;
    hil_quant quant;
    hil_source source;
    hil_model *model;
    hil_pool *pool;
    hil_safetensors *base;
    source_matrix *matrix;
    size_t matrices;
    written *tensor;
    hil_export_tensor *exported;
    size_t count;
    uint64_t done, total;         /* numbers read */
    const source_matrix *current; /* that `quantizing` belongs to */
    hil_quant_matrix quantizing;
} job;

static hil_status report(job *j, int64_t numbers)
{
    const hil_observer *o = j->observer;
    j->done += (uint64_t)numbers;
    if (j->done > j->total) j->done = j->total;
    if (o && o->progress) o->progress(o->context, "quantizing", j->done, j->total);
    if (!j->stop || !*j->stop) return HIL_OK;
    return hil_fail(HIL_ERR_INTERRUPTED, "stopped while quantizing");
}

static hil_status read_numbers(void *context, int64_t first, int64_t count, float *out)
{
    job *j = context;
    hil_weights_range range = {.param = j->current->param,
                               .entry = j->current->entry,
                               .pool = j->pool,
                               .first = first,
                               .count = count};
    HIL_TRY(hil_weights_read(&range, out));
    return report(j, count);
}

static hil_status open_matrix(job *j, const source_matrix *m, bool no_codes)
{
    const hil_shape *shape = &hil_param_spec_of(m->param)->shape;
    hil_quant_matrix_close(&j->quantizing);
    j->current = m;
    j->quantizing = (hil_quant_matrix){.quant = j->quant,
                                       .rows = shape->dim[0],
                                       .cols = shape->dim[1],
                                       .tile_rows = shape->dim[0],
                                       .no_codes = no_codes,
                                       .pool = j->pool,
                                       .read = read_numbers,
                                       .context = j};
    return hil_quant_matrix_open(&j->quantizing);
}

/* The next piece; with the last one the scales of nf4 are quantized, too. */
static hil_status quantize_piece(job *j)
{
    hil_quant_matrix *q = &j->quantizing;
    HIL_TRY(hil_quant_matrix_next(q));
    bool last = q->first + q->count == q->rows * q->cols;
    return last && q->quant == HIL_QUANT_NF4 && !q->code ? hil_quant_matrix_nest(q) : HIL_OK;
}

static hil_status find_scales(job *j, const source_matrix *m)
{
    HIL_TRY(open_matrix(j, m, true));
    do HIL_TRY(quantize_piece(j));
    while (j->quantizing.count);
    return HIL_OK;
}

/* Bytes [offset, offset + *size) of a matrix's codes. */
static hil_status read_codes(job *j, const source_matrix *m, size_t offset, size_t *size, void *out)
{
    hil_quant_matrix *q = &j->quantizing;
    if (offset == 0) HIL_TRY(open_matrix(j, m, false));
    size_t begin = hil_quant_codes(j->quant, q->first);
    size_t end = begin + hil_quant_codes(j->quant, q->count);
    if (offset == end) {
        HIL_TRY(quantize_piece(j));
        begin = end;
        end = begin + hil_quant_codes(j->quant, q->count);
    }
    assert(j->current == m && offset >= begin && offset < end);
    if (*size > end - offset) *size = end - offset;
    memcpy(out, q->codes + (offset - begin), *size);
    return HIL_OK;
}

/* A part that is whole in memory. */
static hil_status find_part(job *j, const written *t, hil_text *state, const void **out)
{
    static const unsigned char row_by_row = 0;
    const source_matrix *m = t->matrix;
    switch (t->part) {
    case HIL_QUANTIZED_SCALES:
        *out = m->small;
        if (j->quant != HIL_QUANT_NF4) return HIL_OK;
        if (j->current != m || !j->quantizing.code) HIL_TRY(find_scales(j, m));
        *out = j->quantizing.code;
        return HIL_OK;
    case HIL_QUANTIZED_NESTED:
        *out = m->small;
        return HIL_OK;
    case HIL_QUANTIZED_TABLE:
        *out = hil_quant_nf4_table;
        return HIL_OK;
    case HIL_QUANTIZED_NESTED_TABLE:
        *out = hil_quant_nest_table;
        return HIL_OK;
    case HIL_QUANTIZED_STATE:
        HIL_TRY(hil_quantized_state_write(&m->described, state));
        *out = state->data;
        return HIL_OK;
    default:
        *out = &row_by_row;
        return HIL_OK;
    }
}

static hil_status read_tensor(void *context, size_t i, size_t offset, size_t *size, void *out)
{
    job *j = context;
    const written *t = &j->tensor[i];
    hil_text state = {0};
    const void *part = NULL;
    if (!t->quantized) {
        HIL_TRY(hil_entry_read(t->matrix->entry, offset, out, *size));
        return report(j, (int64_t)(*size / hil_dtype_size(j->exported[i].dtype)));
    }
    if (t->part == HIL_QUANTIZED_CODES) return read_codes(j, t->matrix, offset, size, out);
    hil_status status = find_part(j, t, &state, &part);
    if (status == HIL_OK) memcpy(out, (const char *)part + offset, *size);
    hil_text_free(&state);
    return status;
}

/* The first reading: scales of all matrices, of which the small ones are kept. */
static hil_status measure(job *j)
{
    for (size_t i = 0; i < j->matrices; ++i) {
        source_matrix *m = &j->matrix[i];
        if (!hil_param_quantizes(m->param)) continue;
        HIL_TRY(find_scales(j, m));
        float **small = j->quant == HIL_QUANT_NF4 ? &j->quantizing.nested : &j->quantizing.scale;
        m->small = *small;
        *small = NULL;
        m->described.offset = j->quantizing.offset;
        j->current = NULL;
    }
    return HIL_OK;
}

static hil_status list_numbers(job *j, source_matrix *m)
{
    hil_export_tensor *next = &j->exported[j->count];
    char *name;
    HIL_TRY(hil_entry_dtype(m->entry, &next->dtype));
    HIL_TRY(hil_entry_shape(m->entry, &next->shape));
    HIL_TRY(hil_text_copy(hil_param_spec_of(m->param)->name, &name));
    next->name = name;
    j->tensor[j->count++] = (written){.matrix = m};
    return HIL_OK;
}

static hil_status list_parts(job *j, source_matrix *m)
{
    for (int part = 0; part < HIL_QUANTIZED_PARTS; ++part) {
        hil_export_tensor *next = &j->exported[j->count];
        HIL_TRY(hil_quantized_tensor(&m->described, (hil_quantized_part)part, next));
        if (next->name) j->tensor[j->count++] = (written){m, (hil_quantized_part)part, true};
    }
    return HIL_OK;
}

/* Lists the tensors of the result. */
static hil_status list_tensors(job *j)
{
    size_t most = j->matrices * HIL_QUANTIZED_PARTS;
    HIL_TRY(HIL_ALLOC(most, &j->tensor));
    HIL_TRY(HIL_ALLOC(most, &j->exported));
    for (size_t i = 0; i < j->matrices; ++i) {
        source_matrix *m = &j->matrix[i];
        HIL_TRY(hil_param_quantizes(m->param) ? list_parts(j, m) : list_numbers(j, m));
    }
    return HIL_OK;
}

/* Finds the tensor of each parameter. */
static hil_status find_matrices(job *j, hil_quantize_result *result)
{
    const hil_store *store = j->model->store;
    j->matrices = hil_store_count(store);
    HIL_TRY(HIL_ALLOC(j->matrices, &j->matrix));
    for (size_t i = 0; i < j->matrices; ++i) {
        source_matrix *m = &j->matrix[i];
        m->param = hil_store_at(store, i);
        const char *name = hil_param_spec_of(m->param)->name;
        bool quantizes = hil_param_quantizes(m->param);
        m->entry = hil_weights_find(j->base, name);
        if (!m->entry) return hil_fail(HIL_ERR_INPUT, "the model folder has no tensor %s", name);
        hil_shape shape, expected = hil_weights_shape(m->param);
        HIL_TRY(hil_entry_shape(m->entry, &shape));
        if (!hil_shape_equal(&shape, &expected))
            return hil_fail(HIL_ERR_INPUT, "tensor %s does not fit config.json", m->entry->name);
        m->described = (hil_quantized_matrix){.param = m->param, .quant = j->quant};
        HIL_TRY(hil_entry_dtype(m->entry, &m->described.dtype));
        j->total += (uint64_t)hil_param_elements(m->param) * (quantizes ? 2 : 1);
        result->matrices += quantizes;
    }
    return HIL_OK;
}

static hil_status open_job(job *j, const hil_quantize_options *o, hil_quantize_result *result)
{
    if (!o->model || !o->out)
        return hil_fail(HIL_ERR_USAGE, "quantize needs a model and a folder to write to");
    HIL_TRY(hil_quant_parse(o->base_dtype, HIL_F32, &j->quant));
    if (!j->quant || j->quant == HIL_QUANT_BF16)
        return hil_fail(HIL_ERR_USAGE, "quantize writes nf4, int8 or fp8");
    HIL_TRY(hil_source_open(&j->source, o->model));
    HIL_TRY(hil_source_need_weights(&j->source, "quantize"));
    if (j->source.config.quant)
        return hil_fail(HIL_ERR_USAGE, "%s is quantized already: take the original model",
                        o->model);
    HIL_TRY(hil_source_keep(&j->source));
    hil_bytes_free(&j->source.files.file[HIL_SIDECAR_ADAPTER]);
    HIL_TRY(hil_source_build(&j->source, &j->model));
    HIL_TRY(hil_stacked_open(&j->base, j->source.folder, &j->source.config));
    HIL_TRY(hil_pool_create(&j->pool, o->threads));
    return find_matrices(j, result);
}

static hil_status write_folder(job *j, const hil_staged *staged, hil_quantize_result *result)
{
    HIL_TRY(measure(j));
    HIL_TRY(list_tensors(j));
    hil_export export = {
        .tensor = j->exported, .count = j->count, .read = read_tensor, .context = j};
    result->dtype = hil_quant_name(j->quant);
    HIL_TRY(hil_export_bytes(&export, &result->bytes));
    return hil_staged_write(staged, &export, &j->source.files, j->source.config.dtype, j->quant);
}

static void close_job(job *j)
{
    hil_quant_matrix_close(&j->quantizing);
    for (size_t i = 0; j->matrix && i < j->matrices; ++i) hil_free(j->matrix[i].small);
    for (size_t i = 0; i < j->count; ++i) hil_free((char *)(uintptr_t)j->exported[i].name);
    hil_free(j->matrix);
    hil_free(j->tensor);
    hil_free(j->exported);
    hil_safetensors_close(j->base);
    hil_pool_destroy(j->pool);
    hil_model_destroy(j->model);
    hil_source_close(&j->source);
}

hil_status hil_quantize(const hil_quantize_options *options, const hil_observer *observer,
                        hil_quantize_result *result)
{
    hil_quantize_options own;
    HIL_TRY(HIL_SIZED_TAKE(hil_quantize, &own, options));
    job j = {.observer = observer, .stop = own.stop};
    *result = (hil_quantize_result){0};
    hil_status status = open_job(&j, &own, result);
    if (status == HIL_OK) {
        hil_staged staged = {.out = own.out, .source = {own.model}, .overwrite = own.overwrite};
        status = hil_staged_begin(&staged);
        if (status == HIL_OK) status = write_folder(&j, &staged, result);
        status = hil_staged_end(&staged, status);
    }
    close_job(&j);
    return status;
}
