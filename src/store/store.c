/* store.c - registration of parameters; opening and closing; passes. */
#include "store/expert.h"
#include "store/home.h"
#include "store/rank_exchange.h"
#include "store/reduce.h"
#include "store/save.h"
#include "store/segment.h"
#include "store/sweep.h"
#include "store/window.h"
#include "store/worker.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/text.h"

#include <string.h>

hil_status hil_store_create(hil_store **out)
{
    return HIL_ALLOC(1, out);
}

void hil_store_destroy(hil_store *store)
{
    if (!store) return;
    hil_store_close(store);
    hil_store_forget(store);
    hil_units_free(store);
    hil_segments_free(store);
    for (size_t i = 0; i < store->count; ++i) {
        hil_free(store->params[i]->name);
        hil_free(store->params[i]);
    }
    hil_free(store->params);
    hil_free(store->name);
    hil_free(store);
}

/* Where the table of names has this one, or would have it: half of its places are empty. */
static size_t *name_at(const hil_store *store, const char *name)
{
    size_t mask = store->names - 1, i = (size_t)hil_hash(0, name, strlen(name)) & mask;
    while (store->name[i] && strcmp(store->params[store->name[i] - 1]->name, name) != 0)
        i = (i + 1) & mask;
    return &store->name[i];
}

/* Makes place for one more name. */
static hil_status grow_names(hil_store *store)
{
    enum { LEAST = 64 };
    if (2 * (store->count + 1) <= store->names) return HIL_OK;
    size_t *table, names = store->names ? 2 * store->names : LEAST;
    HIL_TRY(HIL_ALLOC(names, &table));
    hil_free(store->name);
    store->name = table;
    store->names = names;
    for (size_t i = 0; i < store->count; ++i) *name_at(store, store->params[i]->name) = i + 1;
    return HIL_OK;
}

hil_status hil_store_add(hil_store *store, const hil_param_spec *spec, hil_param **out)
{
    assert(!store->arranged);
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
    HIL_TRY(grow_names(store));
    hil_param *p;
    HIL_TRY(HIL_ALLOC(1, &p));
    hil_status status = hil_text_copy(spec->name, &p->name);
    if (status != HIL_OK) {
        hil_free(p);
        return status;
    }
    p->store = store;
    p->spec = *spec;
    p->spec.name = p->name;
    p->index = (int)store->count;
    p->elements = elements;
    p->trainable = true;
    p->numbers = spec->no_decay ? 0 : 1;
    store->adapted |= spec->adapter;
    store->params[store->count++] = p;
    *name_at(store, p->name) = store->count;
    *out = p;
    return HIL_OK;
}

void hil_param_freeze(hil_param *param)
{
    param->trainable = false;
}

void hil_param_mark_linear(hil_param *param)
{
    param->spec.linear = true;
}

void hil_param_set_numbers(hil_param *param, int numbers)
{
    param->numbers = numbers;
}

bool hil_param_is_matrix(const hil_param *param)
{
    return param->matrix;
}

void hil_param_quantize(hil_param *param, hil_quant quant)
{
    assert(!param->store->arranged && param->spec.shape.ndim == 2);
    param->quant = quant;
}

hil_status hil_store_arrange(hil_store *store, const hil_store_options *options)
{
    if (store->arranged) return hil_fail(HIL_ERR_USAGE, "the model has a trainer already");
    store->options = *options;
    if (!store->options.ranks) store->options.ranks = 1;
    assert(options->rank >= 0 && options->rank < store->options.ranks);
    store->arranged = true;
    return hil_units_arrange(store);
}

/* After a transfer of a pass failed, makes the other ranks fail too: they would wait for this one
   forever. Before the first pass no rank waits for another, and the ranks agree on failures. */
static void fail_ranks(void *comm, hil_status status)
{
    hil_comm_fail(comm, status);
}

/* See [Note: merged chunks]. */
static int64_t merged_chunks(const hil_store *store)
{
    int64_t chunks = 0, chunk = store->plan->chunk;
    for (size_t u = 0; u < store->units && store->opening.speeds; ++u)
        chunks += (store->unit[u].slice + chunk - 1) / chunk;
    return 1 + chunks / HIL_REHEARSED_CHUNKS;
}

hil_status hil_store_open(hil_store *store, const hil_store_opening *opening)
{
    assert(!store->open && opening->plan->units == store->units);
    store->open = true;
    store->opening = *opening;
    store->tiers = opening->tiers;
    store->links = opening->tiers->links;
    store->plan = opening->plan;
    store->device = opening->tiers->rehearse ? NULL : opening->tiers->device;
    store->discrete = opening->plan->discrete || opening->tiers->device;
    store->turn = store->written = (hil_fence){0};
    store->skipped = 0;
    store->last = (hil_written){0};
    store->merge = merged_chunks(store);
    assert(!opening->plan->connected || opening->tiers->rehearse || opening->device_comm);
    hil_links_set_failed(store->links, NULL, NULL);
    HIL_TRY(hil_homes_open(store));
    HIL_TRY(hil_worker_open(store));
    HIL_TRY(hil_sweep_open(store));
    HIL_TRY(hil_reduce_open(store));
    HIL_TRY(hil_exchange_open(store));
    HIL_TRY(hil_save_open(store));
    HIL_TRY(hil_ring_create(&store->ring, store->tiers, store->plan->ring));
    HIL_TRY(hil_buffers_create(&store->window, store->tiers, store->plan->window));
    HIL_TRY(hil_offload_create(&store->spilled, store->tiers, store->window, store->ring,
                               store->plan->spilled,
                               store->plan->unrehearsed ? HIL_PIN_ON_USE : HIL_PIN_FIRST));
    return hil_tiers_pin_all(store->tiers);
}

void hil_store_close(hil_store *store)
{
    if (!store->open) return;
    (void)hil_links_drain(store->links); /* a failure has been reported already */
    hil_links_set_failed(store->links, NULL, NULL);
    if (store->spilled) hil_store_step_end(store);
    for (size_t u = 0; u < store->units && store->window; ++u)
        hil_window_forget(store, &store->unit[u]);
    hil_window_reclaim(store);
    hil_offload_destroy(store->spilled);
    hil_buffers_destroy(store->window);
    hil_ring_destroy(store->ring);
    hil_save_close(store);
    hil_exchange_close(store);
    hil_reduce_close(store);
    hil_sweep_close(store);
    hil_worker_close(store);
    hil_homes_close(store);
    hil_free(store->here.entity);
    hil_free(store->summing.entity);
    store->here = store->summing = (hil_entities){0};
    store->spilled = NULL;
    store->window = NULL;
    store->ring = NULL;
    store->pass = NULL;
    store->open = false;
}

hil_ring *hil_store_ring(const hil_store *store)
{
    return store->ring;
}

void hil_store_forget(hil_store *store)
{
    for (int i = 0; i < HIL_PASSES; ++i) hil_order_free(&store->order[i]);
}

void hil_store_peaks(const hil_store *store, uint64_t peak[HIL_TIERS])
{
    for (int t = 0; t < HIL_TIERS; ++t) peak[t] = store->resident[t];
    peak[HIL_DEVICE] += hil_buffers_peak(store->window);
    peak[HIL_HOST] += hil_ring_bytes(store->ring) + hil_offload_peak(store->spilled);
    if (store->tiers->disk) peak[HIL_DISK] = hil_disk_peak(store->tiers->disk);
}

size_t hil_store_window_peak(const hil_store *store)
{
    return hil_buffers_peak(store->window);
}

size_t hil_store_hold(const hil_store *store)
{
    return store->open ? store->plan->window / 4 : 0;
}

size_t hil_store_spill_extent(const hil_store *store)
{
    return hil_offload_peak(store->spilled);
}

/* Every training step begins with an empty window, so that all steps, and the rehearsal, transfer
   the same bytes between the same addresses. */
static hil_status empty_window(hil_store *store)
{
    for (size_t u = 0; u < store->units; ++u) hil_window_forget(store, &store->unit[u]);
    return hil_ring_rewind(store->ring);
}

/* A rank forgets a copy when it writes its slice of the unit. One whose slice is padding writes
   nothing, and would keep the copy. */
static hil_status forget_rewritten(hil_store *store, hil_pass pass)
{
    unsigned char any = store->rewritten;
    store->rewritten = false;
    if (hil_store_alone(store) || store->tiers->rehearse || pass == HIL_PASS_TRAIN) return HIL_OK;
    HIL_TRY(hil_comm_any(store->opening.comm, &any, 1));
    for (size_t u = 0; u < store->units && any; ++u) hil_window_forget(store, &store->unit[u]);
    return HIL_OK;
}

hil_status hil_store_pass_begin(hil_store *store, hil_pass pass)
{
    HIL_TRY(hil_store_finish_writes(store));
    HIL_TRY(forget_rewritten(store, pass));
    hil_links_set_failed(store->links, store->opening.comm ? fail_ranks : NULL,
                         store->opening.comm);
    HIL_TRY(hil_order_begin(&store->order[pass], store->units * HIL_ENTITIES));
    if (pass == HIL_PASS_TRAIN) HIL_TRY(empty_window(store));
    store->spilling = false;
    store->pass = &store->order[pass];
    store->visit = (hil_segment_visit){.segment = HIL_NOWHERE};
    hil_experts_begin(store);
    return hil_window_prefetch(store);
}

void hil_store_set_tokens(hil_store *store, int64_t tokens)
{
    store->tokens = tokens;
}

hil_status hil_store_pass_mark(hil_store *store)
{
    return hil_order_mark(store->pass);
}

hil_status hil_store_pass_end(hil_store *store)
{
    HIL_TRY(hil_segment_exit(store));
    hil_order *pass = store->pass;
    store->pass = NULL;
    hil_window_reclaim(store);
    return hil_order_end(pass);
}

void hil_store_pass_drop(hil_store *store)
{
    hil_segment_drop(store);
    store->pass = NULL;
}

int64_t hil_store_repairs(const hil_store *store)
{
    int64_t repairs = 0;
    for (int i = 0; i < HIL_PASSES; ++i) repairs += store->order[i].repairs;
    return repairs;
}

int64_t hil_store_misses(const hil_store *store)
{
    return store->misses;
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
    size_t number = store->names ? *name_at(store, name) : 0;
    return number ? store->params[number - 1] : NULL;
}

size_t hil_param_index(const hil_param *param)
{
    return (size_t)param->index;
}

const hil_param_spec *hil_param_spec_of(const hil_param *param)
{
    return &param->spec;
}

const hil_shape *hil_param_filed(const hil_param *param)
{
    return param->spec.filed.ndim ? &param->spec.filed : &param->spec.shape;
}

int64_t hil_param_elements(const hil_param *param)
{
    return param->elements;
}

hil_dtype hil_param_dtype(const hil_param *param)
{
    return param->dtype;
}

int64_t hil_param_tile_rows(const hil_param *param)
{
    return param->tile_rows;
}

bool hil_param_trainable(const hil_param *param)
{
    return param->trainable;
}

int64_t hil_param_writes(const hil_param *param)
{
    return param->writes;
}

bool hil_param_fp8(const hil_param *param)
{
    return param->fp8;
}

hil_quant hil_param_quant(const hil_param *param)
{
    return param->quant;
}

void hil_param_quant_tile(const hil_param *param, int64_t tile, hil_quant_tile *out)
{
    int64_t row = tile * param->tile_rows, rows = hil_shape_rows(&param->spec.shape) - row;
    if (rows > param->tile_rows) rows = param->tile_rows;
    hil_quant_place(out, param->quant, row, rows, hil_shape_cols(&param->spec.shape));
}
