/* device_net.h - a small model with store and engine, on the CPU or on a device of threads. It is
   rehearsed first; the engine gets exactly the memory that the rehearsal needed. */
#ifndef HIL_TESTS_DEVICE_NET_H
#define HIL_TESTS_DEVICE_NET_H

#include "autograd/engine.h"
#include "base/alloc.h"
#include "device/device_threads.h"
#include "golden.h"
#include "model/build.h"
#include "numbers.h"
#include "ops/ops_threads.h"
#include "optim/math_threads.h"
#include "optim/update.h"
#include "shared_net.h"
#include "plan/rehearse.h"
#include "store/store.h"
#include "store/unit.h"
#include "store/update.h"

enum { NET_SEQ = 24, NET_BATCH = 5, NET_MICRO = 2, NET_MICROS = 3, NET_CACHE = 40 };

#define NET_LOGITS ((size_t)8 << 20) /* room for the logits */

/* The model and its settings; those from `delay` on must not change any number. */
typedef struct net_how {
    const char *model;              /* a golden model, or "shared" */
    void (*build)(hil_model **out); /* instead of `model`, unless NULL */
    hil_dtype dtype;
    bool training;
    bool documents;            /* sequences of several documents */
    bool generates;            /* instead of training or evaluating */
    bool logits;               /* of all positions, which takes more memory than the rehearsal */
    const hil_device_ops *ops; /* of the device; NULL: hil_ops_threads */
    bool dora;                 /* the projections to queries have adapters with magnitudes */
    uint64_t delay; /* 0: on the CPU; 1: on a device without delays; else the seed of its random
                       delays */
    int64_t group, keep[3], lean[3];     /* lean: negative: as many thin ones */
    size_t window;                       /* 0: room for everything */
    hil_tier values[3], weights, states; /* tiers of segments 0, 1, 2, 0, ... and of units */
    hil_tier tapes[3];
    bool late; /* no prefetch */
} net_how;

typedef struct net_rig {
    net_how how;
    hil_device *device;
    hil_model *model;
    hil_pool *pool;
    hil_plan plan;
    hil_tiers tiers;
    hil_engine *engine;
    int64_t steps;
    int32_t token[NET_BATCH * NET_SEQ], target[NET_BATCH * NET_SEQ];
    int32_t position[NET_BATCH * NET_SEQ], first[NET_BATCH * NET_SEQ];
    hil_micro micro[NET_MICROS];
} net_rig;

static const hil_drive net_drive = {.path = ".", .bytes = 64 << 20, .speed = 1};

static inline hil_param *net_add(hil_model *model, const hil_param *weight, const char *part,
                                 hil_param_spec spec)
{
    char name[256];
    hil_param *out;
    snprintf(name, sizeof name, "%s.%s", hil_param_spec_of(weight)->name, part);
    spec.name = name;
    spec.group = hil_param_spec_of(weight)->group;
    CHECK_OK(hil_store_add(model->store, &spec, &out));
    return out;
}

static inline void net_adapt(hil_model *model)
{
    size_t count = hil_store_count(model->store);
    for (size_t i = 0; i < count; ++i) {
        hil_param *p = hil_store_at(model->store, i);
        const hil_shape *shape = &hil_param_spec_of(p)->shape;
        if (!strstr(hil_param_spec_of(p)->name, "q_proj.weight")) continue;
        hil_param_spec a = {
            .shape = {2, {2, shape->dim[1]}}, .init = HIL_INIT_UNIFORM, .bound = 0.2};
        hil_param_spec b = {
            .shape = {2, {shape->dim[0], 2}}, .init = HIL_INIT_UNIFORM, .bound = 0.2};
        hil_param_spec m = {.shape = {1, {shape->dim[0]}}, .init = HIL_INIT_ONE};
        hil_adapter adapter = {.a = net_add(model, p, "a", a),
                               .b = net_add(model, p, "b", b),
                               .magnitude = net_add(model, p, "m", m),
                               .scale = 0.5};
        CHECK_OK(hil_model_adapt(model, p, &adapter));
    }
}

static inline void net_build(net_rig *r)
{
    hil_config config;
    if (r->how.build) {
        r->how.build(&r->model);
        return;
    }
    if (strcmp(r->how.model, "shared") == 0) {
        shared_net_build(&r->model);
        return;
    }
    char *folder = golden_path(r->how.model, NULL);
    CHECK_OK(hil_config_open(&config, folder));
    hil_free(folder);
    config.layers = 3;
    config.dropout_residual = config.dropout_attention = config.arch == &hil_arch_gpt2 ? 0.1 : 0;
    CHECK_OK(hil_build_model(&r->model, &config));
    if (r->how.dora) net_adapt(r->model);
}

/* Sequences of one document, or of three. */
static inline void net_fill(net_rig *r)
{
    for (int i = 0; i < NET_BATCH * NET_SEQ; ++i) {
        int at = i % NET_SEQ, begin = r->how.documents ? at / 8 * 8 : 0;
        r->token[i] = (i * i * 7 + i / 3) % V;
        r->target[i] = at % 7 == 6 ? -1 : (i * 5 + 2) % V;
        r->position[i] = at - begin;
        r->first[i] = begin;
    }
    for (int m = 0; m < NET_MICROS; ++m) {
        int from = m * NET_MICRO, count = m + 1 < NET_MICROS ? NET_MICRO : NET_BATCH - from;
        r->micro[m] = (hil_micro){.sequences = count,
                                  .length = NET_SEQ,
                                  .token = r->token + from * NET_SEQ,
                                  .target = r->target + from * NET_SEQ,
                                  .position = r->position + from * NET_SEQ,
                                  .first = r->first + from * NET_SEQ,
                                  .sequence = from};
    }
}

static inline void net_plan(net_rig *r)
{
    const net_how *how = &r->how;
    hil_plan *plan = &r->plan;
    *plan = (hil_plan){.prefetch = !how->late,
                       .discrete = r->device != NULL,
                       .group = how->group,
                       .window = how->window ? how->window : 2 << 20,
                       .ring = 128 << 10,
                       .chunk = 8192,
                       .slots = 2,
                       .spill = HIL_HOST,
                       .units = hil_store_units(r->model->store),
                       .segments = r->model->count};
    CHECK_OK(HIL_ALLOC(plan->units, &plan->unit));
    CHECK_OK(HIL_ALLOC(plan->segments, &plan->segment));
    for (size_t u = 0; u < plan->units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            plan->unit[u].tier[s] = (unsigned char)(s == HIL_WEIGHT ? how->weights : how->states);
    for (size_t s = 0; s < plan->segments; ++s)
        plan->segment[s] = (hil_segment_place){.keep = how->keep[s % 3],
                                               .lean = llabs(how->lean[s % 3]),
                                               .tier = (unsigned char)how->values[s % 3],
                                               .tapes = (unsigned char)how->tapes[s % 3],
                                               .thin = how->lean[s % 3] < 0};
    hil_rehearsal rehearsal = {.model = r->model,
                               .device = r->device,
                               .compute = how->dtype,
                               .training = how->training,
                               .sequences = how->generates ? 1 : NET_BATCH,
                               .length = NET_SEQ,
                               .micro_batch = how->training ? NET_MICRO : NET_BATCH,
                               .cache = how->generates ? NET_CACHE : 0,
                               .speeds = &any_speeds,
                               .drives = &net_drive,
                               .drive_count = 1};
    CHECK_OK(hil_rehearse(&rehearsal, plan));
}

static inline void net_open(net_rig *r, const net_how *how)
{
    *r = (net_rig){.how = *how};
    if (how->delay) {
        CHECK_OK(hil_device_threads_open(&r->device));
        hil_device_ops_set(r->device, how->ops ? how->ops : &hil_ops_threads);
        hil_device_math_set(r->device, &hil_math_threads);
        if (how->delay > 1) hil_device_threads_delay(r->device, how->delay, 40);
    }
    net_build(r);
    net_fill(r);
    hil_store_options options = {
        .compute = how->dtype, .training = how->training, .tile_size = 16 << 10, .moments = 2};
    CHECK_OK(hil_store_arrange(r->model->store, &options));
    CHECK_OK(hil_engine_trace(r->model, how->dtype));
    net_plan(r);
    hil_tiers_options tiers = {.device_bytes = 32 << 20,
                               .host_bytes = 32 << 20,
                               .drives = &net_drive,
                               .drive_count = 1,
                               .drive_bytes = r->plan.drive_bytes,
                               .device = r->device};
    CHECK_OK(hil_pool_create(&r->pool, 2));
    CHECK_OK(hil_tiers_open(&r->tiers, &tiers));
    hil_store_opening opening = {
        .tiers = &r->tiers, .plan = &r->plan, .pool = r->pool, .update = r->pool};
    CHECK_OK(hil_store_open(r->model->store, &opening));
    hil_engine_options engine = {.pool = r->pool,
                                 .compute = how->dtype,
                                 .group = how->group,
                                 .segment = r->plan.segment,
                                 .tiers = &r->tiers,
                                 .work = r->plan.work + (how->logits ? NET_LOGITS : 0),
                                 .ring = hil_store_ring(r->model->store),
                                 .offloaded = r->plan.offloaded,
                                 .prefetch = !r->how.late};
    CHECK_OK(hil_engine_create(&r->engine, r->model, &engine));
    CHECK_OK(hil_store_initialise(r->model->store, 5));
}

static inline void net_close(net_rig *r)
{
    hil_engine_destroy(r->engine);
    hil_store_close(r->model->store);
    hil_tiers_close(&r->tiers);
    hil_model_destroy(r->model);
    hil_pool_destroy(r->pool);
    hil_free(r->plan.unit);
    hil_free(r->plan.segment);
    if (r->device) r->device->close(r->device);
}

static inline void net_step(net_rig *r, double *loss, double *norm)
{
    const hil_optimizer adamw = {
        .rule = &hil_rules[HIL_ADAMW], .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .clip = 1};
    hil_store *store = r->model->store;
    hil_step step = {r->micro, NET_MICROS, 9, ++r->steps, 4.0f / (NET_BATCH * NET_SEQ), 0};
    CHECK_OK(hil_engine_train(r->engine, &step, loss));
    CHECK_OK(hil_store_norm(store, norm));
    hil_update update = {.lr = 1e-2, .norm = *norm / 4, .loss_scale = 4, .updates = r->steps};
    CHECK_OK(hil_optimizer_update(store, &adamw, &update));
    hil_store_step_end(store);
}

#endif
