/* merge.c - hilbert merge: writes a model folder whose weights contain an adapter. */
#include "base/alloc.h"
#include "base/sized.h"
#include "format/peft_experts.h"
#include "format/stacked.h"
#include "format/weights.h"
#include "run/model_source.h"
#include "run/staged_folder.h"

#include <math.h>
#include <string.h>

void hil_merge_defaults_sized(hil_merge_options *options, size_t size)
{
    const hil_merge_options defaults = {0};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

/* One tensor of the result. */
typedef struct merged {
    const hil_param *param;
    const hil_entry *entry;     /* of the base, or of the adapter where it has the whole tensor */
    const hil_adapter *adapter; /* NULL: none changes it */
} merged;

/* delta (rows x cols, as the file holds the weight) = left (rows x rank) * right (rank x cols).
   With DoRA all is multiplied by factor[], by row or by column. */
typedef struct delta {
    int64_t rows, cols, rank;
    float *left, *right, *factor;
    bool by_column;
} delta;

typedef struct job {
    const hil_observer *observer;
    const volatile int *stop;
    hil_source source;
    hil_model *model;
    hil_safetensors *base, *adapter;
    merged *tensor;
    hil_export_tensor *exported;
    size_t count;
    uint64_t done, total;
    size_t current; /* tensor that `delta` belongs to */
    delta delta;
    float *piece;
    char *raw;
} job;

static void free_delta(delta *d)
{
    hil_free(d->left);
    hil_free(d->right);
    hil_free(d->factor);
    *d = (delta){0};
}

/* Elements [first, first + count) of a tensor as fp32. */
static hil_status read_numbers(job *j, const hil_entry *entry, int64_t first, int64_t count,
                               float *out)
{
    hil_dtype dtype;
    HIL_TRY(hil_entry_dtype(entry, &dtype));
    size_t size = hil_dtype_size(dtype);
    HIL_TRY(hil_entry_read(entry, (size_t)first * size, j->raw, (size_t)count * size));
    hil_dtype_to_f32(out, j->raw, dtype, count);
    return HIL_OK;
}

/* A whole tensor of the adapter; the caller frees it. */
static hil_status read_adapter(job *j, const hil_param *p, float **out)
{
    const hil_param_spec *spec = hil_param_spec_of(p);
    const hil_entry *entry = hil_safetensors_find(j->adapter, spec->name);
    int64_t most = (int64_t)(HIL_EXPORT_PIECE / sizeof(float)), all = hil_param_elements(p);
    hil_shape shape;
    *out = NULL;
    if (!entry) return hil_fail(HIL_ERR_INPUT, "the adapter folder has no tensor %s", spec->name);
    HIL_TRY(hil_entry_shape(entry, &shape));
    if (!hil_shape_equal(&shape, &spec->shape))
        return hil_fail(HIL_ERR_INPUT, "the adapter's tensor %s does not fit the model",
                        spec->name);
    HIL_TRY(HIL_ALLOC(all, out));
    for (int64_t at = 0; at < all; at += most)
        HIL_TRY(read_numbers(j, entry, at, all - at < most ? all - at : most, *out + at));
    return HIL_OK;
}

/* Transposes a matrix (rows x cols) in place. */
static hil_status transpose(float **matrix, int64_t rows, int64_t cols)
{
    float *turned;
    HIL_TRY(HIL_ALLOC(rows * cols, &turned));
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) turned[c * rows + r] = (*matrix)[r * cols + c];
    hil_free(*matrix);
    *matrix = turned;
    return HIL_OK;
}

/* Adds the delta to elements [first, first + count) of the tensor. */
static void add_delta(const delta *d, int64_t first, int64_t count, float *x)
{
    for (int64_t at = first; at < first + count;) {
        int64_t row = at / d->cols, col = at % d->cols, n = d->cols - col;
        if (n > first + count - at) n = first + count - at;
        float *to = x + (at - first);
        for (int64_t k = 0; k < d->rank; ++k) {
            float factor = d->left[row * d->rank + k];
            const float *from = d->right + k * d->cols + col;
            for (int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
        }
        at += n;
    }
}

static int64_t unit_of(const delta *d, int64_t element)
{
    return d->by_column ? element % d->cols : element / d->cols;
}

/* DoRA: factor = magnitude / norm of the sum, for which the tensor is read once more. */
static hil_status find_factors(job *j, const merged *t)
{
    delta *d = &j->delta;
    int64_t units = d->by_column ? d->cols : d->rows, all = d->rows * d->cols;
    int64_t most = (int64_t)(HIL_EXPORT_PIECE / sizeof(float));
    double *square;
    HIL_TRY(read_adapter(j, t->adapter->magnitude, &d->factor));
    HIL_TRY(HIL_ALLOC(units, &square));
    hil_status status = HIL_OK;
    for (int64_t at = 0; at < all && status == HIL_OK; at += most) {
        int64_t n = all - at < most ? all - at : most;
        status = read_numbers(j, t->entry, at, n, j->piece);
        if (status == HIL_OK) add_delta(d, at, n, j->piece);
        for (int64_t i = 0; i < n && status == HIL_OK; ++i)
            square[unit_of(d, at + i)] += (double)j->piece[i] * (double)j->piece[i];
    }
    for (int64_t i = 0; i < units; ++i)
        d->factor[i] = (float)((double)d->factor[i] / sqrt(square[i]));
    hil_free(square);
    return status;
}

static hil_status open_delta(job *j, size_t i)
{
    const merged *t = &j->tensor[i];
    const hil_adapter *a = t->adapter;
    const hil_param_spec *spec = hil_param_spec_of(t->param);
    delta *d = &j->delta;
    int64_t out = spec->shape.dim[0], in = spec->shape.dim[1];
    int64_t rank = hil_param_spec_of(a->a)->shape.dim[0];
    float scale = (float)a->scale;
    free_delta(d);
    j->current = i;
    d->rank = rank;
    d->by_column = spec->transposed;
    d->rows = spec->transposed ? in : out;
    d->cols = spec->transposed ? out : in;
    HIL_TRY(read_adapter(j, a->b, spec->transposed ? &d->right : &d->left));
    HIL_TRY(read_adapter(j, a->a, spec->transposed ? &d->left : &d->right));
    if (spec->transposed) {
        HIL_TRY(transpose(&d->left, rank, in));
        HIL_TRY(transpose(&d->right, out, rank));
    }
    for (int64_t k = 0; k < d->rows * rank; ++k) d->left[k] *= scale;
    return a->magnitude ? find_factors(j, t) : HIL_OK;
}

static hil_status report(job *j, size_t bytes)
{
    const hil_observer *o = j->observer;
    j->done += bytes;
    if (o && o->progress) o->progress(o->context, "merging", j->done, j->total);
    if (!j->stop || !*j->stop) return HIL_OK;
    return hil_fail(HIL_ERR_INTERRUPTED, "stopped while merging");
}

static hil_status read_tensor(void *context, size_t i, size_t offset, size_t *size, void *out)
{
    job *j = context;
    const merged *t = &j->tensor[i];
    hil_dtype dtype = j->exported[i].dtype, own;
    size_t most = HIL_EXPORT_PIECE / sizeof(float) * hil_dtype_size(dtype);
    if (*size > most) *size = most;
    HIL_TRY(hil_entry_dtype(t->entry, &own));
    if (!t->adapter && own == dtype) {
        HIL_TRY(hil_entry_read(t->entry, offset, out, *size));
        return report(j, *size);
    }
    if (t->adapter && (!j->delta.left || j->current != i)) HIL_TRY(open_delta(j, i));
    int64_t first = (int64_t)(offset / hil_dtype_size(dtype));
    int64_t count = (int64_t)(*size / hil_dtype_size(dtype));
    HIL_TRY(read_numbers(j, t->entry, first, count, j->piece));
    if (t->adapter) add_delta(&j->delta, first, count, j->piece);
    for (int64_t k = 0; k < count && t->adapter && j->delta.factor; ++k)
        j->piece[k] *= j->delta.factor[unit_of(&j->delta, first + k)];
    hil_dtype_from_f32(out, j->piece, dtype, count);
    return report(j, *size);
}

/* Lists the tensors of the result: those of the model. */
static hil_status list_tensors(job *j, hil_dtype dtype, hil_merge_result *result)
{
    const hil_store *store = j->model->store;
    char name[HIL_PEFT_NAME];
    HIL_TRY(HIL_ALLOC(hil_store_count(store), &j->tensor));
    HIL_TRY(HIL_ALLOC(hil_store_count(store), &j->exported));
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        const hil_param *p = hil_store_at(store, i);
        const hil_param_spec *spec = hil_param_spec_of(p);
        if (spec->adapter) continue;
        merged t = {.param = p, .adapter = hil_model_adapter(j->model, p)};
        hil_peft_tensor_name(&j->source.adapter, spec->name, name);
        t.entry = hil_safetensors_find(j->adapter, name);
        result->merged += t.entry || t.adapter;
        if (!t.entry) t.entry = hil_weights_find(j->base, spec->name);
        if (!t.entry)
            return hil_fail(HIL_ERR_INPUT, "the model folder has no tensor %s", spec->name);
        hil_shape shape, expected = hil_weights_shape(p);
        HIL_TRY(hil_entry_shape(t.entry, &shape));
        if (!hil_shape_equal(&shape, &expected))
            return hil_fail(HIL_ERR_INPUT, "tensor %s does not fit config.json", t.entry->name);
        j->total += (uint64_t)hil_param_elements(p) * hil_dtype_size(dtype);
        j->exported[j->count] = (hil_export_tensor){spec->name, dtype, shape};
        j->tensor[j->count++] = t;
    }
    result->tensors = (int64_t)j->count;
    return HIL_OK;
}

/* Model and adapter are easily swapped. */
static hil_status check_order(const hil_merge_options *o)
{
    char adapter[HIL_PATH_MAX], config[HIL_PATH_MAX];
    HIL_TRY(hil_path_join(adapter, o->model, HIL_PEFT_CONFIG));
    HIL_TRY(hil_path_join(config, o->adapter, hil_sidecar_file_name(HIL_SIDECAR_CONFIG)));
    if (!hil_file_exists(adapter) || !hil_file_exists(config)) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE,
                    "%s is an adapter: the model comes first (hilbert merge %s %s %s)", o->model,
                    o->adapter, o->model, o->out);
}

static hil_status open_job(job *j, const hil_merge_options *o, hil_merge_result *result)
{
    if (!o->model || !o->adapter || !o->out)
        return hil_fail(HIL_ERR_USAGE, "merge needs a model, an adapter and a folder to write to");
    HIL_TRY(check_order(o));
    HIL_TRY(hil_source_open(&j->source, o->model));
    HIL_TRY(hil_source_need_weights(&j->source, "merge"));
    if (j->source.config.quant != HIL_QUANT_NONE || j->source.config.packing.method)
        return hil_fail(HIL_ERR_USAGE,
                        "%s has quantized weights, into which nothing is merged: give the model "
                        "that it was quantized from",
                        o->model);
    if (j->source.config.mixture.packed)
        return hil_fail(HIL_ERR_USAGE,
                        "%s has experts in MXFP4, into which nothing is merged: give a folder in "
                        "bf16, which transformers writes with dequantize=True",
                        o->model);
    HIL_TRY(hil_source_adapt_folder(&j->source, o->adapter));
    HIL_TRY(hil_source_keep(&j->source));
    hil_bytes_free(&j->source.files.file[HIL_SIDECAR_ADAPTER]);
    HIL_TRY(hil_source_build(&j->source, &j->model));
    HIL_TRY(hil_stacked_open(&j->base, j->source.folder, &j->source.config));
    HIL_TRY(hil_peft_experts_open(&j->adapter, o->adapter, &j->source.adapter, &j->source.config,
                                  j->model->store));
    hil_dtype dtype = j->source.config.dtype;
    if (o->dtype) HIL_TRY(hil_dtype_parse(o->dtype, &dtype));
    result->dtype = hil_dtype_name(dtype);
    HIL_TRY(list_tensors(j, dtype, result));
    HIL_TRY(HIL_ALLOC(HIL_EXPORT_PIECE / sizeof(float), &j->piece));
    return HIL_ALLOC(HIL_EXPORT_PIECE, &j->raw);
}

static hil_status write_folder(job *j, const hil_merge_options *o)
{
    hil_export export = {
        .tensor = j->exported, .count = j->count, .read = read_tensor, .context = j};
    hil_staged staged = {
        .out = o->out, .source = {o->model, o->adapter}, .overwrite = o->overwrite};
    hil_stacked *stacked = NULL;
    hil_status status = hil_staged_begin(&staged);
    if (status == HIL_OK) status = hil_stacked_create(&stacked, &export, &j->source.config, NULL);
    if (status == HIL_OK)
        status = hil_staged_write(&staged, hil_stacked_export(stacked), &j->source.files,
                                  j->exported[0].dtype, HIL_QUANT_NONE);
    hil_stacked_destroy(stacked);
    return hil_staged_end(&staged, status);
}

hil_status hil_merge(const hil_merge_options *options, const hil_observer *observer,
                     hil_merge_result *result)
{
    hil_merge_options own;
    HIL_TRY(HIL_SIZED_TAKE(hil_merge, &own, options));
    job j = {.observer = observer, .stop = own.stop};
    *result = (hil_merge_result){0};
    hil_status status = open_job(&j, &own, result);
    if (status == HIL_OK) status = write_folder(&j, &own);
    free_delta(&j.delta);
    hil_free(j.piece);
    hil_free(j.raw);
    hil_free(j.tensor);
    hil_free(j.exported);
    hil_safetensors_close(j.base);
    hil_safetensors_close(j.adapter);
    hil_model_destroy(j.model);
    hil_source_close(&j.source);
    return status;
}
