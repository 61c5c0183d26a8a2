/* param_store_rig.h - a parameter store with a few parameters that are pulled towards fixed
 * numbers. */
#ifndef TESTS_TRAIN_PARAM_STORE_RIG_H
#define TESTS_TRAIN_PARAM_STORE_RIG_H

#include "hilbert/store.h"

#include "check.h"
#include "tensor/tensor.h"

enum { RIG_PARAMS = 6, RIG_GROUPS = 3 };

static const hil_param_store_form rig_form[RIG_PARAMS] = {
    {.rows = 300, .cols = 64, .group = 0}, {.cols = 64, .group = 0, .no_decay = true},
    {.rows = 96, .cols = 80, .group = 1},  {.cols = 100, .group = 1, .no_decay = true},
    {.rows = 256, .cols = 48, .group = 2}, {.rows = 70, .cols = 16, .group = 2, .frozen = true},
};

typedef struct rig {
    hil_param_store *store;
    hil_stored_param *param[RIG_PARAMS];
    hil_param_store_options options;
    hil_disk_budget disk[2];
    double speed[2];
} rig;

static inline int64_t rig_rows(int p)
{
    return rig_form[p].rows ? rig_form[p].rows : 1;
}

static inline int64_t rig_elements(int p)
{
    return rig_rows(p) * rig_form[p].cols;
}

static inline float rig_start(int p, int64_t i)
{
    return (float)((i * 7 + p * 13) % 101) / 50.0f - 1;
}

static inline float rig_goal(int p, int64_t i)
{
    return (float)((i * 3 + p * 5) % 17) / 8.0f - 1;
}

static inline void rig_options(rig *r, const char *dtype, uint64_t device, uint64_t host)
{
    *r = (rig){.disk = {{.path = "/tmp", .bytes = 8 << 20}, {".", 8 << 20}}, .speed = {1, 2}};
    hil_param_store_defaults(&r->options);
    r->options.dtype = dtype;
    r->options.memory.device = device;
    r->options.memory.host = host;
    r->options.tile_size = strcmp(dtype, "fp32") == 0 ? 128 * 64 * 4 : 128 * 64 * 2;
    r->options.threads = 2;
    r->options.memory.disks = r->disk;
    r->options.disk_speeds = r->speed;
}

/* Matrices with such names are those of blocks, for rules that update a matrix as a whole. */
static inline void rig_add(rig *r)
{
    for (int p = 0; p < RIG_PARAMS; ++p) {
        char name[32];
        snprintf(name, sizeof name, "p.%d.w", p);
        CHECK_OK(hil_param_store_add(r->store, name, &rig_form[p], &r->param[p]));
    }
}

static inline void rig_fill(rig *r)
{
    float value[300 * 64];
    for (int p = 0; p < RIG_PARAMS; ++p) {
        int64_t n = rig_elements(p);
        for (int64_t i = 0; i < n; ++i) value[i] = rig_start(p, i);
        CHECK_OK(hil_param_store_write(r->store, r->param[p], HIL_PARAM_STORE_WEIGHT, 0, n, value));
    }
}

static inline void rig_open(rig *r)
{
    CHECK_OK(hil_param_store_create(&r->store, &r->options));
    rig_add(r);
    CHECK_OK(hil_param_store_place(r->store));
    rig_fill(r);
}

static inline float rig_weight(const rig *r, int p, const void *data, int64_t i)
{
    if (!rig_form[p].rows || strcmp(r->options.dtype, "fp32") == 0) return ((const float *)data)[i];
    uint16_t half = ((const uint16_t *)data)[i];
    return strcmp(r->options.dtype, "bf16") == 0 ? hil_bf16_load(half) : hil_f16_load(half);
}

/* Adds factor * (w - goal) to the gradient of every tile. */
static inline void rig_use(rig *r, int p, float factor)
{
    int64_t rows = hil_param_store_tile_rows(r->param[p]), tile = rows * rig_form[p].cols;
    for (int64_t t = 0; t < hil_param_store_tiles(r->param[p]); ++t) {
        const void *w;
        float *sum;
        int64_t left = rig_elements(p) - t * tile;
        CHECK_OK(hil_param_store_acquire(r->store, r->param[p], t, &w));
        CHECK_OK(hil_param_store_gradient_acquire(r->store, r->param[p], t, &sum));
        for (int64_t i = 0; i < tile && i < left; ++i)
            sum[i] += factor * (rig_weight(r, p, w, i) - rig_goal(p, t * tile + i));
        hil_param_store_gradient_release(r->store, r->param[p], t);
        hil_param_store_release(r->store, r->param[p], t);
    }
}

static inline void rig_use_group(rig *r, int group, float factor)
{
    for (int p = 0; p < RIG_PARAMS; ++p)
        if (rig_form[p].group == group && !rig_form[p].frozen) rig_use(r, p, factor);
}

typedef enum rig_order { RIG_GROUP_MAJOR, RIG_MICRO_MAJOR } rig_order;

/* Two micro-batches. Group-major gives gradients early; micro-major holds all sums at once and
   leaves the giving to the step. The sums have the same terms in the same order. */
static inline double rig_step(rig *r, rig_order order)
{
    double norm, scale = (double)hil_param_store_get_progress(r->store).loss_scale;
    float half = (float)(scale / 2);
    CHECK_OK(hil_param_store_begin(r->store, HIL_PARAM_STORE_TRAIN));
    for (int i = 0; i < 2 * RIG_GROUPS; ++i) {
        int group = order == RIG_GROUP_MAJOR ? i / 2 : i % RIG_GROUPS;
        CHECK_OK(hil_param_store_mark(r->store));
        rig_use_group(r, group, half);
        if (order == RIG_GROUP_MAJOR && i % 2)
            CHECK_OK(hil_param_store_give_gradients(r->store, group));
    }
    CHECK_OK(hil_param_store_step(r->store, 0.05, &norm));
    CHECK_OK(hil_param_store_end(r->store));
    return norm;
}

#endif
