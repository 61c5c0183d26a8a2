/* store.c - registration and memory of parameters. */
#include "store/store.h"

#include "base/alloc.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/text.h"
#include "store/param.h"

#include <string.h>

#define INIT_CHUNK 4096

hil_status hil_store_create(hil_store **out)
{
    return HIL_ALLOC(1, out);
}

static size_t weight_bytes(const hil_param *p)
{
    return (size_t)p->elements * hil_dtype_size(p->dtype);
}

static size_t rest_bytes(const hil_param *p)
{
    return hil_rest_bytes(p->dtype, p->elements);
}

static void free_param(hil_store *store, hil_param *p)
{
    hil_memory_unmap(p->weight, weight_bytes(p));
    hil_memory_unmap(p->rest, rest_bytes(p));
    for (int m = 0; m < HIL_MOMENTS; ++m)
        hil_memory_unmap(p->moment[m], hil_codec_bytes(store->options.codec, p->elements));
    for (int u = 0; u < p->uses; ++u) {
        hil_buffers_give(store->buffers, p->use[u].given);
        hil_buffers_give(store->buffers, p->use[u].sum);
    }
    hil_free(p->name);
    hil_free(p);
}

void hil_store_destroy(hil_store *store)
{
    if (!store) return;
    for (size_t i = 0; i < store->count; ++i) free_param(store, store->params[i]);
    hil_buffers_destroy(store->buffers);
    hil_free(store->params);
    hil_free(store);
}

hil_status hil_store_add(hil_store *store, const hil_param_spec *spec, hil_param **out)
{
    assert(!store->allocated);
    *out = NULL;
    if (hil_store_find(store, spec->name))
        return hil_fail(HIL_ERR_USAGE, "parameter %s is registered twice", spec->name);
    int64_t elements = 1;
    for (int i = 0; i < spec->shape.ndim; ++i)
        if (spec->shape.dim[i] < 0 ||
            __builtin_mul_overflow(elements, spec->shape.dim[i], &elements) ||
            elements > INT64_MAX / 64)
            return hil_fail(HIL_ERR_INPUT, "parameter %s is too large", spec->name);
    HIL_TRY(HIL_GROW(&store->params, &store->capacity, store->count + 1));
    hil_param *p;
    HIL_TRY(HIL_ALLOC(1, &p));
    hil_status status = hil_text_copy(spec->name, &p->name);
    if (status != HIL_OK) {
        hil_free(p);
        return status;
    }
    p->spec = *spec;
    p->spec.name = p->name;
    p->index = (int)store->count;
    p->elements = elements;
    p->trainable = true;
    store->params[store->count++] = p;
    *out = p;
    return HIL_OK;
}

static int64_t tile_rows(const hil_param *p, size_t tile_size)
{
    int64_t rows = hil_shape_rows(&p->spec.shape);
    int64_t row_bytes = hil_shape_cols(&p->spec.shape) * (int64_t)hil_dtype_size(p->dtype);
    if (rows <= HIL_TILE_MULTIPLE || row_bytes == 0) return rows ? rows : 1;
    int64_t fit = (int64_t)(tile_size / (size_t)row_bytes) / HIL_TILE_MULTIPLE * HIL_TILE_MULTIPLE;
    if (fit < HIL_TILE_MULTIPLE) fit = HIL_TILE_MULTIPLE;
    return fit < rows ? fit : rows;
}

/* The system hands out more than it has and kills later; better to say so before step 1. Counted
   are the states and one gradient; activations come on top. */
static hil_status check_memory(const hil_store *store)
{
    uint64_t need = 0, available = hil_memory_available();
    for (size_t i = 0; i < store->count; ++i) {
        const hil_param *p = store->params[i];
        const hil_store_options *o = &store->options;
        need += weight_bytes(p);
        if (o->training && p->trainable)
            need += rest_bytes(p) + (size_t)o->moments * hil_codec_bytes(o->codec, p->elements) +
                    (size_t)p->elements * 4;
    }
    char need_text[32], available_text[32];
    if (need <= available) return HIL_OK;
    return hil_fail(HIL_ERR_MEMORY, "the model needs %s of memory %s, but only %s is available",
                    hil_text_bytes(need_text, need),
                    store->options.training ? "to train (weights, optimizer state and gradients)"
                                            : "for its weights",
                    hil_text_bytes(available_text, available));
}

static hil_status allocate_param(hil_store *store, hil_param *p)
{
    HIL_TRY(hil_memory_map(weight_bytes(p), &p->weight));
    if (!store->options.training || !p->trainable) return HIL_OK;
    if (p->dtype != HIL_F32) HIL_TRY(hil_memory_map(rest_bytes(p), &p->rest));
    size_t size = hil_codec_bytes(store->options.codec, p->elements);
    for (int m = 0; m < store->options.moments; ++m) HIL_TRY(hil_memory_map(size, &p->moment[m]));
    return HIL_OK;
}

hil_status hil_store_allocate(hil_store *store, const hil_store_options *options)
{
    if (store->allocated) return hil_fail(HIL_ERR_USAGE, "the model has a trainer already");
    store->options = *options;
    store->allocated = true;
    for (size_t i = 0; i < store->count; ++i) {
        hil_param *p = store->params[i];
        p->dtype = p->spec.shape.ndim == 1 ? HIL_F32 : options->compute;
        p->tile_rows = tile_rows(p, options->tile_size);
    }
    HIL_TRY(check_memory(store));
    if (options->training)
        HIL_TRY(hil_buffers_create(&store->buffers, options->tiers, options->work));
    for (size_t i = 0; i < store->count; ++i) HIL_TRY(allocate_param(store, store->params[i]));
    return HIL_OK;
}

/* Elements 4g .. 4g+3 of parameter p are the two normal pairs of group g of the stream (seed, p).
 */
static void fill_normal(const hil_param *p, uint64_t seed, int64_t first, int64_t count, float *out)
{
    assert(first % 4 == 0);
    for (int64_t i = 0; i < count; i += 4) {
        uint32_t word[4];
        float four[4];
        hil_philox(seed, (uint64_t)(first + i) / 4, (uint64_t)p->index, word);
        hil_philox_normal(word[0], word[1], four);
        hil_philox_normal(word[2], word[3], four + 2);
        for (int64_t k = 0; k < 4 && i + k < count; ++k) out[i + k] = (float)p->spec.std * four[k];
    }
}

typedef struct initialising {
    hil_store *store;
    hil_param *param;
    uint64_t seed;
} initialising;

static void initialise_chunk(void *context, int64_t i, int thread)
{
    (void)thread;
    const initialising *job = context;
    hil_param *p = job->param;
    float chunk[INIT_CHUNK];
    int64_t first = i * INIT_CHUNK;
    int64_t count = p->elements - first < INIT_CHUNK ? p->elements - first : INIT_CHUNK;
    if (p->spec.init == HIL_INIT_NORMAL) {
        fill_normal(p, job->seed, first, count, chunk);
    } else {
        for (int64_t k = 0; k < count; ++k) chunk[k] = p->spec.init == HIL_INIT_ONE ? 1.0f : 0.0f;
    }
    hil_param_set_master(p, first, count, chunk);
}

hil_status hil_store_initialise(hil_store *store, uint64_t seed)
{
    for (size_t i = 0; i < store->count; ++i) {
        initialising job = {store, store->params[i], seed};
        int64_t chunks = (store->params[i]->elements + INIT_CHUNK - 1) / INIT_CHUNK;
        hil_pool_run(store->options.pool, initialise_chunk, &job, chunks);
    }
    return HIL_OK;
}

size_t hil_store_count(const hil_store *store)
{
    return store->count;
}

hil_param *hil_store_at(const hil_store *store, size_t i)
{
    return store->params[i];
}

hil_param *hil_store_find(const hil_store *store, const char *name)
{
    for (size_t i = 0; i < store->count; ++i)
        if (strcmp(store->params[i]->name, name) == 0) return store->params[i];
    return NULL;
}

const hil_param_spec *hil_param_spec_of(const hil_param *param)
{
    return &param->spec;
}

int64_t hil_param_elements(const hil_param *param)
{
    return param->elements;
}

hil_dtype hil_param_dtype(const hil_param *param)
{
    return param->dtype;
}

void hil_param_freeze(hil_param *param)
{
    param->trainable = false;
}

bool hil_param_trainable(const hil_param *param)
{
    return param->trainable;
}

bool hil_param_has(const hil_param *param, hil_state state)
{
    return state == HIL_MASTER || param->moment[state - HIL_MOMENT1];
}

int64_t hil_param_tile_rows(const hil_param *param)
{
    return param->tile_rows;
}
