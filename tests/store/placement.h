/* placement.h - a test rig: a few parameters, a simple training step, and a plan for any
   placement. */
#ifndef TESTS_STORE_PLACEMENT_H
#define TESTS_STORE_PLACEMENT_H

#include "base/alloc.h"
#include "base/philox.h"
#include "adding.h"
#include "check.h"
#include "store/pass.h"
#include "store/store.h"
#include "store/unit.h"
#include "store/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifndef RIG_MATRICES
#define RIG_MATRICES 4 /* those after the fourth are small */
#endif
enum { MATRICES = RIG_MATRICES, VECTORS = 3, PARAMS = MATRICES + VECTORS, SEGMENTS = 3 };

typedef struct rig {
    hil_store *store;
    hil_param *param[PARAMS];
    hil_pool *pool, *update;
    hil_tiers tiers;
    hil_device *device; /* borrowed; NULL: the CPU */
    hil_plan plan;
    hil_drive drive[2];
    bool dry;                 /* a rehearsal: memory is only address space, nothing is computed */
    const hil_saving *saving; /* of the next sweeps; NULL: none */
    hil_status (*sweep)(struct rig *r, double norm); /* the update of a step */
} rig;

/* m = m / 2 + g, v = v + g^2, w = w - m / (4 + v). */
static inline void rig_rule(const void *rule, const hil_block *b)
{
    float scale = *(const float *)rule;
    float *m = b->moment[0], *v = b->moment[1];
    for (int64_t i = 0; i < b->count; ++i) {
        float g = 0, w;
        bool full = b->dtype == HIL_F32;
        uint16_t *high = b->weight, *low = b->rest;
        for (int u = 0; u < b->gradients; ++u)
            g += full ? ((const float *)b->gradient[u])[i]
                      : hil_bf16_load(((const uint16_t *)b->gradient[u])[i]);
        w = full ? ((float *)b->weight)[i] : hil_bf16_join(high[i], low[i]);
        m[i] = m[i] / 2 + scale * g;
        v[i] = v[i] + g * g;
        w -= m[i] / (4 + v[i]);
        if (full) {
            ((float *)b->weight)[i] = w;
        } else {
            high[i] = hil_bf16_high(w);
            low[i] = hil_bf16_low(w);
        }
    }
}

/* Segment 0 uses the tied matrix 0 and its own; segment 2 uses matrix 0 again. */
static inline int rig_segment(int p)
{
    return p < MATRICES ? p % SEGMENTS : p - MATRICES;
}

static inline hil_status rig_sweep(rig *r, double norm)
{
    float scale = (float)(1 / (1 + norm));
    if (r->saving) hil_store_save_next(r->store, r->saving);
    return hil_store_update(r->store, rig_rule, &scale, sizeof scale);
}

/* Freezes parameter number `frozen`, if there is one. */
static inline void rig_create_as(rig *r, const hil_store_options *options, int frozen)
{
    memset(r, 0, sizeof *r);
    r->sweep = rig_sweep;
    CHECK_OK(hil_pool_create(&r->pool, 2));
    CHECK_OK(hil_pool_create(&r->update, 2));
    CHECK_OK(hil_store_create(&r->store));
    const int64_t rows[] = {300, 130, 64, 500};
    for (int p = 0; p < PARAMS; ++p) {
        char name[16];
        snprintf(name, sizeof name, "p%d", p);
        hil_param_spec spec = {.name = name,
                               .shape = {2, {p < 4 ? rows[p] : 1 + p % 7, 72}},
                               .init = HIL_INIT_NORMAL,
                               .std = 1,
                               .no_decay = p % 2,
                               .group = p % 2};
        if (p >= MATRICES) spec.shape = (hil_shape){1, {40 + p}};
        CHECK_OK(hil_store_add(r->store, &spec, &r->param[p]));
        if (p == frozen) hil_param_freeze(r->param[p]);
    }
    CHECK_OK(hil_store_arrange(r->store, options));
    for (int p = 0; p < PARAMS; ++p)
        CHECK_OK(hil_store_declare_use(r->store, r->param[p], rig_segment(p)));
    CHECK_OK(hil_store_declare_use(r->store, r->param[0], 2));
    r->plan = (hil_plan){.prefetch = true,
                         .saves = true,
                         .window = 1 << 20,
                         .ring = 256 << 10,
                         .spilled = 4 << 20,
                         .chunk = 4096,
                         .slots = 3,
                         .spill = HIL_HOST,
                         .units = hil_store_units(r->store)};
    CHECK_OK(HIL_ALLOC(r->plan.units, &r->plan.unit));
    r->drive[0] = (hil_drive){"/tmp", 64 << 20, 1};
    r->drive[1] = (hil_drive){".", 64 << 20, 2};
}

static inline void rig_create(rig *r, hil_dtype dtype)
{
    hil_store_options options = {
        .compute = dtype, .training = true, .tile_size = 128 * 72 * 2, .moments = 2};
    rig_create_as(r, &options, -1);
}

/* Gives every state of every unit a tier. A number not divisible by 4 puts all of them on one
   tier. */
static inline void rig_place(rig *r, uint64_t number)
{
    uint32_t word[4], uniform = number % 4;
    for (size_t u = 0; u < r->plan.units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s) {
            hil_philox(number, u, (uint64_t)s, word);
            r->plan.unit[u].tier[s] = (unsigned char)(uniform ? uniform - 1 : word[0] % 3);
        }
}

static inline hil_status rig_open(rig *r, int drives, hil_io_kind io)
{
    static const uint64_t bytes[HIL_DRIVES] = {32 << 20, 32 << 20};
    hil_tiers_options tiers = {.device_bytes = 8 << 20,
                               .host_bytes = 16 << 20,
                               .drives = r->drive,
                               .drive_count = drives,
                               .drive_bytes = bytes,
                               .io = io,
                               .device = r->device};
    HIL_TRY(hil_tiers_open(&r->tiers, &tiers));
    hil_store_opening opening = {
        .tiers = &r->tiers, .plan = &r->plan, .pool = r->pool, .update = r->update};
    HIL_TRY(hil_store_open(r->store, &opening));
    return hil_store_initialise(r->store, 3);
}

static inline void rig_close(rig *r)
{
    hil_store_close(r->store);
    hil_tiers_close(&r->tiers);
    hil_store_destroy(r->store);
    hil_pool_destroy(r->pool);
    hil_pool_destroy(r->update);
    hil_free(r->plan.unit);
}

static inline int64_t rig_tiles(const hil_param *p)
{
    int64_t rows = hil_shape_rows(&hil_param_spec_of(p)->shape), tile = hil_param_tile_rows(p);
    return (rows + tile - 1) / tile;
}

/* Adds to each tile's sum a number that depends on its weights; segment -1: acquires weights
   only. */
static inline hil_status rig_use(rig *r, int p, int segment, float factor)
{
    hil_param *param = r->param[p];
    int64_t cols = hil_shape_cols(&hil_param_spec_of(param)->shape);
    int64_t tile = hil_param_tile_rows(param) * cols, elements = hil_param_elements(param);
    for (int64_t t = 0; t < rig_tiles(param); ++t) {
        const void *w;
        float *sum = NULL;
        bool add = false;
        HIL_TRY(hil_store_acquire(r->store, param, t, &w));
        if (segment < 0 || !hil_param_trainable(param)) {
            hil_store_release(r->store, param, t);
            continue;
        }
        hil_status status = hil_store_sum_acquire(r->store, param, segment, t, &sum, &add);
        int64_t count = elements - t * tile < tile ? elements - t * tile : tile;
        adding a = {w, hil_param_dtype(param), sum, count, factor, add};
        if (status == HIL_OK && !r->dry) CHECK_OK(adding_do(r->device, &a));
        if (status == HIL_OK) hil_store_sum_release(r->store, param, segment, t);
        hil_store_release(r->store, param, t);
        HIL_TRY(status);
    }
    return HIL_OK;
}

static inline hil_status rig_segment_run(rig *r, int segment, float factor, int skip)
{
    HIL_TRY(hil_store_pass_mark(r->store));
    for (int p = 0; p < PARAMS; ++p)
        if (p != skip && rig_segment(p) == segment) HIL_TRY(rig_use(r, p, segment, factor));
    return segment == 2 ? rig_use(r, 0, 2, factor / 2) : HIL_OK;
}

/* The rest of a step, after all gradients were given. */
static inline hil_status rig_finish(rig *r, double *norm)
{
    HIL_TRY(hil_store_pass_end(r->store));
    HIL_TRY(hil_store_norm(r->store, norm));
    hil_status status = r->sweep(r, *norm);
    hil_store_step_end(r->store);
    return status;
}

/* A training step of two micro-batches; parameter `skip` stays unused. */
static inline hil_status rig_step(rig *r, int skip, double *norm)
{
    HIL_TRY(hil_store_pass_begin(r->store, HIL_PASS_TRAIN));
    for (int s = SEGMENTS - 1; s >= 0; --s) {
        for (int m = 0; m < 2; ++m) HIL_TRY(rig_segment_run(r, s, (float)(m + 1) * 0.25f, skip));
        HIL_TRY(hil_store_give_gradients(r->store, s));
    }
    return rig_finish(r, norm);
}

#endif
