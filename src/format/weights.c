/* weights.c - tensors of files to parameters of the store and back. */
#include "format/weights.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define CHUNK 4096
#define BAND 32 /* rows that are turned at once */

hil_shape hil_weights_shape(const hil_param *param)
{
    hil_shape shape = hil_param_spec_of(param)->shape;
    if (!hil_param_spec_of(param)->transposed) return shape;
    return (hil_shape){2, {shape.dim[1], shape.dim[0]}};
}

static const hil_entry *find_entry(const hil_safetensors *file, const char *name)
{
    static const char prefix[] = "transformer.";
    const hil_entry *entry = hil_safetensors_find(file, name);
    if (!entry && strncmp(name, prefix, sizeof prefix - 1) == 0)
        entry = hil_safetensors_find(file, name + sizeof prefix - 1);
    return entry;
}

static void print_shape(char out[80], int ndim, const int64_t *dim)
{
    size_t used = (size_t)snprintf(out, 80, "[");
    for (int i = 0; i < ndim && used < 60; ++i)
        used += (size_t)snprintf(out + used, 80 - used, "%s%lld", i ? ", " : "", (long long)dim[i]);
    snprintf(out + used, 80 - used, "]");
}

static hil_status check_shape(const hil_param *param, const hil_entry *entry)
{
    hil_shape shape = hil_weights_shape(param);
    bool same = entry->ndim == shape.ndim;
    for (int i = 0; same && i < shape.ndim; ++i) same = entry->dim[i] == shape.dim[i];
    if (same) return HIL_OK;
    char got[80], expected[80];
    print_shape(got, entry->ndim, entry->dim);
    print_shape(expected, shape.ndim, shape.dim);
    return hil_fail(HIL_ERR_INPUT, "tensor %s has shape %s, but config.json makes it %s",
                    entry->name, got, expected);
}

typedef struct loading {
    hil_store *store;
    hil_pool *pool;
    hil_param *param;
    const char *data;
    hil_dtype dtype;
    int64_t rows, cols; /* of the parameter */
    atomic_int status;  /* of the tasks: any failure */
} loading;

/* Numbers in files may lie at any address. */
static void fetch(const loading *job, int64_t first, int64_t count, float *out)
{
    size_t size = hil_dtype_size(job->dtype);
    uint16_t half[CHUNK];
    const char *from = job->data + (size_t)first * size;
    if (size == 4) {
        memcpy(out, from, (size_t)count * 4);
        return;
    }
    memcpy(half, from, (size_t)count * 2);
    hil_to_f32(out, half, job->dtype, count);
}

static void load_chunk(void *context, int64_t i, int thread)
{
    (void)thread;
    loading *job = context;
    float chunk[CHUNK];
    int64_t first = i * CHUNK, rest = job->rows * job->cols - first;
    int64_t count = rest < CHUNK ? rest : CHUNK;
    fetch(job, first, count, chunk);
    hil_status status = hil_store_write(job->store, job->param, HIL_MASTER, first, count, chunk);
    if (status != HIL_OK) atomic_store(&job->status, (int)status);
}

/* Rows [i * BAND, ...) of the parameter are columns of the file's matrix (cols x rows). */
static void load_turned(void *context, int64_t i, int thread)
{
    loading *job = context;
    float *band = hil_pool_scratch(job->pool, thread), line[BAND];
    int64_t first = i * BAND, count = job->rows - first < BAND ? job->rows - first : BAND;
    for (int64_t c = 0; c < job->cols; ++c) {
        fetch(job, c * job->rows + first, count, line);
        for (int64_t r = 0; r < count; ++r) band[r * job->cols + c] = line[r];
    }
    hil_status status = hil_store_write(job->store, job->param, HIL_MASTER, first * job->cols,
                                        count * job->cols, band);
    if (status != HIL_OK) atomic_store(&job->status, (int)status);
}

static hil_status load_param(loading *job, const hil_safetensors *file)
{
    const hil_param_spec *spec = hil_param_spec_of(job->param);
    const hil_entry *entry = find_entry(file, spec->name);
    if (!entry) return hil_fail(HIL_ERR_INPUT, "the model folder has no tensor %s", spec->name);
    HIL_TRY(hil_entry_dtype(entry, &job->dtype));
    HIL_TRY(check_shape(job->param, entry));
    job->data = entry->data;
    job->rows = hil_shape_rows(&spec->shape);
    job->cols = hil_shape_cols(&spec->shape);
    if (spec->transposed) {
        HIL_TRY(hil_pool_reserve(job->pool, (size_t)job->cols * BAND * sizeof(float)));
        hil_pool_run(job->pool, load_turned, job, (job->rows + BAND - 1) / BAND);
    } else {
        hil_pool_run(job->pool, load_chunk, job, (job->rows * job->cols + CHUNK - 1) / CHUNK);
    }
    hil_status status = (hil_status)atomic_load(&job->status);
    return status == HIL_OK ? status : hil_fail(status, "cannot store tensor %s", spec->name);
}

hil_status hil_weights_load(hil_store *store, hil_pool *pool, const hil_safetensors *file)
{
    for (size_t i = 0; i < hil_store_count(store); ++i)
        HIL_TRY(load_param(
            &(loading){store, pool, hil_store_at(store, i), NULL, HIL_F32, 0, 0, HIL_OK}, file));
    return HIL_OK;
}

hil_status hil_weights_read(hil_store *store, hil_param *param, hil_state state, int64_t first,
                            int64_t count, float *out)
{
    const hil_param_spec *spec = hil_param_spec_of(param);
    if (!spec->transposed) return hil_store_read(store, param, state, first, count, out);
    int64_t rows = spec->shape.dim[0], cols = spec->shape.dim[1];
    for (int64_t i = 0; i < count; ++i) {
        int64_t at = first + i;
        HIL_TRY(hil_store_read(store, param, state, at % rows * cols + at / rows, 1, out + i));
    }
    return HIL_OK;
}
