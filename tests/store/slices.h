/* slices.h - several ranks as threads, each with its own store; a small model, and an oracle that
   trains it on plain arrays. */
#ifndef TESTS_STORE_SLICES_H
#define TESTS_STORE_SLICES_H

#include "base/alloc.h"
#include "adding.h"
#include "base/philox.h"
#include "comm/comm_threads.h"
#include "comm/device_comm_threads.h"
#include "io/io_fixture.h"
#include "optim/update.h"
#include "store/pass.h"
#include "store/store.h"
#include "store/unit.h"
#include "store/update.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS = 9, SEGMENTS = 3, MICROS = 2, STEPS = 4, PEERS = 8, TIED = 0, FROZEN = 6, IDLE = 7 };

/* Parameters smaller than the number of ranks, sizes that do not divide, a matrix of several tiles
   that is used in two segments, one that is frozen and one that is never used. */
static const hil_param_spec specs[PARAMS] = {
    {.name = "tied", .shape = {2, {300, 72}}},
    {.name = "tiles", .shape = {2, {500, 33}}},
    {.name = "small", .shape = {2, {7, 5}}},
    {.name = "three", .shape = {1, {3}}, .no_decay = true},
    {.name = "vector", .shape = {1, {700}}},
    {.name = "other", .shape = {1, {45}}, .group = 1},
    {.name = "frozen", .shape = {2, {64, 72}}},
    {.name = "idle", .shape = {1, {10}}, .group = 2},
    {.name = "middle", .shape = {2, {130, 72}}},
};
static const int segment_of[PARAMS] = {0, 0, 2, 1, 1, 2, 0, 0, 1};

/* Settings that all ranks of a run share. */
typedef struct setting {
    int ranks;
    hil_dtype dtype;
    hil_rule_kind rule;
    bool by_segment;
    bool prefetch, discrete;
    bool device;    /* every rank has a device of threads */
    bool connected; /* the devices are connected */
    int tiers;      /* of the states: one hil_tier for all; HIL_TIERS and above: random mixes */
    size_t window;
    int64_t chunk;
} setting;

/* Whether a rank uses a parameter for a micro-batch. Paths differ between ranks and steps only
   where the plan goes by segment. */
static inline bool uses(const setting *s, int step, int rank, int micro, int p)
{
    if (p == IDLE) return false;
    if (!s->by_segment || step == 0) return true;
    if (step == 1 && p == 1) return false;
    uint32_t word[4];
    hil_philox(5, (uint64_t)(step * PARAMS + p), (uint64_t)(rank * MICROS + micro), word);
    return word[0] % 3 != 0;
}

/* Powers of two: products are exact. */
static inline float factor_of(int rank, int micro)
{
    return 0.25f * (float)(1 << ((rank + micro) % 3)) * (rank % 4 == 3 ? -1.0f : 1.0f);
}

static inline hil_optimizer optimizer_of(hil_rule_kind kind)
{
    return (hil_optimizer){&hil_rules[kind], 0.9, 0.99, 1e-6, 0.1, 0};
}

static inline hil_update update_of(int step)
{
    return (hil_update){.lr = 0.01, .loss_scale = 1, .updates = step + 1};
}

/* One rank, on a thread of its own. */
typedef struct peer {
    const setting *setting;
    int rank;
    hil_comm *comm;
    bool dry; /* a rehearsal: memory is only address space */
    hil_store *store;
    hil_param *param[PARAMS];
    hil_pool *pool, *update;
    hil_tiers tiers;
    hil_device *device;
    hil_device_comm *device_comm;
    hil_device_comm_watch *watch;
    hil_plan plan;
    hil_drive drive;
    double norm[STEPS];
    float *state[PARAMS][HIL_STATES]; /* the elements of the result that it holds */
    unsigned char *held[PARAMS];      /* 1: it holds this element */
    uint64_t link[STEPS][HIL_LINKS], peak[HIL_TIERS], drive_bytes[HIL_DRIVES];
    hil_status status;
    char message[256];
} peer;

static inline void peer_create(peer *m, const setting *s, int rank, hil_comm *comm)
{
    *m = (peer){.setting = s, .rank = rank, .comm = comm};
    const hil_rule *rule = &hil_rules[s->rule];
    CHECK_OK(hil_pool_create(&m->pool, 2));
    CHECK_OK(hil_pool_create(&m->update, 2));
    CHECK_OK(hil_store_create(&m->store));
    for (int p = 0; p < PARAMS; ++p) {
        hil_param_spec spec = specs[p];
        spec.init = HIL_INIT_NORMAL;
        spec.std = 1;
        CHECK_OK(hil_store_add(m->store, &spec, &m->param[p]));
        if (p == FROZEN) hil_param_freeze(m->param[p]);
    }
    hil_store_options options = {.compute = s->dtype,
                                 .training = true,
                                 .tile_size = 128 * 72 * 2,
                                 .moments = rule->moments,
                                 .codec = rule->codec,
                                 .in_parts = rule->in_parts,
                                 .rank = rank,
                                 .ranks = s->ranks};
    CHECK_OK(hil_store_arrange(m->store, &options));
    for (int p = 0; p < PARAMS; ++p)
        CHECK_OK(hil_store_declare_use(m->store, m->param[p], segment_of[p]));
    CHECK_OK(hil_store_declare_use(m->store, m->param[TIED], 2));
    m->plan = (hil_plan){.prefetch = s->prefetch,
                         .discrete = s->discrete,
                         .late_moments = s->discrete,
                         .connected = s->connected,
                         .by_segment = s->by_segment,
                         .ranks = s->ranks,
                         .window = s->window,
                         .ring = (size_t)s->chunk * 8,
                         .spilled = 4 << 20,
                         .chunk = s->chunk,
                         .slots = 3,
                         .spill = s->tiers % 2 ? HIL_HOST : HIL_DISK,
                         .units = hil_store_units(m->store)};
    CHECK_OK(HIL_ALLOC(m->plan.units, &m->plan.unit));
    for (size_t u = 0; u < m->plan.units; ++u)
        for (int k = 0; k < HIL_UNIT_STATES; ++k) {
            uint32_t word[4];
            hil_philox((uint64_t)s->tiers, u, (uint64_t)k, word);
            m->plan.unit[u].tier[k] =
                (unsigned char)(s->tiers < HIL_TIERS ? (uint32_t)s->tiers : word[0] % 3);
        }
    m->drive = (hil_drive){folder, 64 << 20, 1};
    if (s->device) m->device = adding_device((uint64_t)(s->tiers * PEERS + rank), 100);
    if (!s->connected) return;
    CHECK_OK(hil_device_comm_threads_open(&m->device_comm, m->device, comm));
    CHECK_OK(hil_device_comm_watch_start(&m->watch, m->device_comm, comm));
}

static inline hil_status peer_open(peer *m)
{
    uint64_t bytes[HIL_DRIVES] = {4 << 20};
    hil_tiers_options tiers = {.device_bytes = 8 << 20,
                               .host_bytes = 16 << 20,
                               .drives = &m->drive,
                               .drive_count = 1,
                               .drive_bytes = bytes,
                               .device = m->device};
    HIL_TRY(hil_tiers_open(&m->tiers, &tiers));
    hil_store_opening opening = {.tiers = &m->tiers,
                                 .plan = &m->plan,
                                 .pool = m->pool,
                                 .update = m->update,
                                 .comm = m->comm,
                                 .device_comm = m->device_comm};
    HIL_TRY(hil_store_open(m->store, &opening));
    return hil_store_initialise(m->store, 3);
}

static inline void peer_close(peer *m)
{
    hil_store_close(m->store);
    hil_tiers_close(&m->tiers);
}

static inline void peer_destroy(peer *m)
{
    hil_store_destroy(m->store);
    hil_pool_destroy(m->pool);
    hil_pool_destroy(m->update);
    hil_free(m->plan.unit);
    hil_device_comm_watch_stop(m->watch);
    if (m->device_comm) m->device_comm->engine->close(m->device_comm);
    if (m->device) m->device->close(m->device);
    for (int p = 0; p < PARAMS; ++p) {
        for (int k = 0; k < HIL_STATES; ++k) free(m->state[p][k]);
        free(m->held[p]);
    }
    hil_comm_close(m->comm);
}

/* All ranks of a setting, connected by comms of threads. */
static inline void peers_create(peer *peers, const setting *s)
{
    hil_comm *comms[PEERS] = {NULL};
    if (s->ranks > 1) CHECK_OK(hil_comm_threads_create(s->ranks, comms));
    for (int r = 0; r < s->ranks; ++r) peer_create(&peers[r], s, r, comms[r]);
}

/* Elements of a tile; 0: no such tile. */
static inline int64_t tile_count(const hil_param *p, int64_t tile, int64_t *first)
{
    int64_t each = hil_param_tile_rows(p) * hil_shape_cols(&hil_param_spec_of(p)->shape);
    *first = tile * each;
    int64_t rest = hil_param_elements(p) - *first;
    return rest <= 0 ? 0 : rest < each ? rest : each;
}

/* Adds to each tile's sum a number that depends on its weights. */
static inline hil_status peer_use(peer *m, int p, int segment, float factor, bool back)
{
    int64_t first, count;
    for (int64_t t = 0; (count = tile_count(m->param[p], t, &first)); ++t) {
        const void *w;
        float *sum = NULL;
        bool add = false;
        HIL_TRY(hil_store_acquire(m->store, m->param[p], t, &w));
        hil_status status = HIL_OK;
        if (back && hil_param_trainable(m->param[p])) {
            status = hil_store_sum_acquire(m->store, m->param[p], segment, t, &sum, &add);
            adding a = {w, hil_param_dtype(m->param[p]), sum, count, factor, add};
            if (status == HIL_OK && !m->dry) CHECK_OK(adding_do(m->device, &a));
            if (status == HIL_OK) hil_store_sum_release(m->store, m->param[p], segment, t);
        }
        hil_store_release(m->store, m->param[p], t);
        HIL_TRY(status);
    }
    return HIL_OK;
}

static inline hil_status peer_visit(peer *m, int step, int segment, int micro, hil_direction way)
{
    const setting *s = m->setting;
    bool back = way == HIL_BACKWARD;
    float factor = factor_of(m->rank, micro);
    HIL_TRY(hil_store_pass_enter(m->store, &(hil_segment_visit){segment, way, "a segment"}));
    for (int p = 0; p < PARAMS; ++p)
        if (segment_of[p] == segment && uses(s, step, m->rank, micro, p))
            HIL_TRY(peer_use(m, p, segment, factor, back));
    return segment == 2 ? peer_use(m, TIED, 2, factor / 2, back) : HIL_OK;
}

static inline hil_status peer_step(peer *m, int step, double *norm)
{
    HIL_TRY(hil_store_pass_begin(m->store, HIL_PASS_TRAIN));
    for (int s = 0; s < SEGMENTS; ++s)
        for (int micro = 0; micro < MICROS; ++micro)
            HIL_TRY(peer_visit(m, step, s, micro, HIL_FORWARD));
    for (int s = SEGMENTS - 1; s >= 0; --s) {
        for (int micro = 0; micro < MICROS; ++micro)
            HIL_TRY(peer_visit(m, step, s, micro, HIL_BACKWARD));
        HIL_TRY(hil_store_pass_exit(m->store));
        HIL_TRY(hil_store_give_gradients(m->store, s));
    }
    HIL_TRY(hil_store_pass_end(m->store));
    HIL_TRY(hil_store_norm(m->store, norm));
    hil_optimizer optimizer = optimizer_of(m->setting->rule);
    hil_update update = update_of(step);
    hil_status status = hil_optimizer_update(m->store, &optimizer, &update);
    hil_store_step_end(m->store);
    return status;
}

/* Reads every state that this rank holds. */
static inline hil_status peer_read(peer *m)
{
    for (int p = 0; p < PARAMS; ++p) {
        int64_t n = hil_param_elements(m->param[p]);
        CHECK((m->held[p] = calloc((size_t)n, 1)) != NULL);
        for (int64_t at = 0, count; (count = hil_param_held(m->param[p], &at)); at += count)
            for (int64_t i = at; i < at + count; ++i) CHECK_INT(m->held[p][i]++, 0);
        for (int k = 0; k < HIL_STATES; ++k) {
            CHECK((m->state[p][k] = calloc((size_t)n, 4)) != NULL);
            if (!hil_param_has(m->param[p], (hil_state)k)) continue;
            HIL_TRY(hil_store_read(m->store, m->param[p], (hil_state)k, 0, n, m->state[p][k]));
        }
    }
    return HIL_OK;
}

/* Keeps the rank's status and message, makes the others fail with it, and closes. */
static inline void *peer_end(peer *m, hil_status status)
{
    m->status = status;
    if (status != HIL_OK) snprintf(m->message, sizeof m->message, "%s", hil_status_message());
    hil_comm_fail(m->comm, status);
    peer_close(m);
    return NULL;
}

/* Runs `body` on one thread per rank. */
static inline void peers_run(peer *peers, int ranks, void *(*body)(void *))
{
    pthread_t thread[PEERS];
    for (int r = 0; r < ranks; ++r) CHECK_INT(pthread_create(&thread[r], NULL, body, &peers[r]), 0);
    for (int r = 0; r < ranks; ++r) CHECK_INT(pthread_join(thread[r], NULL), 0);
}

static inline void peers_check(const peer *peers, int ranks)
{
    for (int r = 0; r < ranks; ++r)
        if (peers[r].status != HIL_OK) check_die(__FILE__, __LINE__, peers[r].message);
}

/* [Note: oracle] The same training on whole arrays, without a store: each rank's sum is rounded,
   the rounded sums are added in rank order in fp32, and the result is rounded. */
typedef struct oracle {
    const setting *setting;
    char *weight[PARAMS], *rest[PARAMS], *moment[PARAMS][HIL_MOMENTS];
    double norm[STEPS];
} oracle;

/* Copies the initial weights of a store with one rank. */
static inline void oracle_create(oracle *o, const setting *s)
{
    setting alone = *s;
    alone.ranks = 1;
    alone.tiers = HIL_DEVICE;
    alone.window = 4 << 20;
    alone.chunk = 4096;
    alone.device = alone.connected = false;
    peer m;
    peer_create(&m, &alone, 0, NULL);
    CHECK_OK(peer_open(&m));
    *o = (oracle){.setting = s};
    for (int p = 0; p < PARAMS; ++p) {
        int64_t n = hil_param_elements(m.param[p]);
        size_t room = ((size_t)n + 16 * HIL_CODEC_GROUP) * 4;
        float *master = calloc(1, room);
        CHECK(master && (o->weight[p] = calloc(1, room)) && (o->rest[p] = calloc(1, room)) &&
              (o->moment[p][0] = calloc(1, room)) && (o->moment[p][1] = calloc(1, room)));
        CHECK_OK(hil_store_read(m.store, m.param[p], HIL_MASTER, 0, n, master));
        for (int64_t i = 0; i < n; ++i) {
            if (hil_param_dtype(m.param[p]) == HIL_F32) {
                memcpy(o->weight[p] + i * 4, &master[i], 4);
            } else {
                ((uint16_t *)(void *)o->weight[p])[i] = hil_bf16_high(master[i]);
                ((uint16_t *)(void *)o->rest[p])[i] = hil_bf16_low(master[i]);
            }
        }
        free(master);
    }
    peer_close(&m);
    peer_destroy(&m);
}

static inline void oracle_destroy(oracle *o)
{
    for (int p = 0; p < PARAMS; ++p) {
        free(o->weight[p]);
        free(o->rest[p]);
        for (int k = 0; k < HIL_MOMENTS; ++k) free(o->moment[p][k]);
    }
}

/* The gradient of a tile for its first or second use; false when no rank has one. */
static inline bool oracle_gradient(const oracle *o, int step, int p, int use, const hil_block *b,
                                   char *out)
{
    hil_dtype dtype = b->dtype;
    int64_t count = b->count;
    float scale = use ? 0.5f : 1.0f;
    static float weight[128 * 72];
    hil_dtype_to_f32(weight, b->weight, dtype, count);
    static float sum[128 * 72], rounded[128 * 72], all[128 * 72];
    bool any = false;
    memset(all, 0, sizeof all);
    for (int r = 0; r < o->setting->ranks; ++r) {
        memset(sum, 0, sizeof sum);
        for (int m = 0; m < MICROS; ++m) {
            if (use == 0 && !uses(o->setting, step, r, m, p)) continue;
            any = true;
            for (int64_t i = 0; i < count; ++i) sum[i] += factor_of(r, m) * scale * weight[i];
        }
        hil_dtype_from_f32(out, sum, dtype, count);
        hil_dtype_to_f32(rounded, out, dtype, count);
        for (int64_t i = 0; i < count; ++i) all[i] = r ? all[i] + rounded[i] : rounded[i];
    }
    hil_dtype_from_f32(out, all, dtype, count);
    return any;
}

static inline void oracle_step(oracle *o, hil_param *const *param, int step)
{
    static char gradient[2][128 * 72 * 4];
    static float one[128 * 72], two[128 * 72];
    hil_optimizer optimizer = optimizer_of(o->setting->rule);
    hil_update update = update_of(step);
    double squares = 0;
    for (int p = 0; p < PARAMS; ++p) {
        int64_t first, count;
        hil_dtype dtype = hil_param_dtype(param[p]);
        size_t size = hil_dtype_size(dtype), coded = 0;
        for (int64_t t = 0; p != FROZEN && (count = tile_count(param[p], t, &first)); ++t) {
            hil_block b = {.count = count, .dtype = dtype, .numbers = !specs[p].no_decay};
            b.weight = o->weight[p] + (size_t)first * size;
            b.rest = dtype == HIL_F32 ? NULL : o->rest[p] + first * 2;
            for (int k = 0; k < HIL_MOMENTS; ++k) b.moment[k] = o->moment[p][k] + coded;
            coded += hil_codec_bytes(optimizer.rule->codec, (count + HIL_CODEC_GROUP - 1) /
                                                                HIL_CODEC_GROUP * HIL_CODEC_GROUP);
            for (int u = 0; u < (p == TIED ? 2 : 1); ++u)
                if (oracle_gradient(o, step, p, u, &b, gradient[b.gradients]))
                    b.gradient[b.gradients] = gradient[b.gradients], ++b.gradients;
            if (!b.gradients) continue;
            hil_dtype_to_f32(one, gradient[0], dtype, count);
            hil_dtype_to_f32(two, gradient[1], dtype, count);
            for (int64_t i = 0; i < count; ++i) {
                double g = (double)(b.gradients == 2 ? one[i] + two[i] : one[i]);
                squares += g * g;
            }
            hil_rule_step numbers = hil_update_numbers(&update, &optimizer, b.numbers != 0);
            hil_rule_update(optimizer.rule, &numbers, &b);
        }
    }
    o->norm[step] = sqrt(squares);
}

/* One state as fp32, as hil_store_read gives it. */
static inline void oracle_read(const oracle *o, const hil_param *param, int p, hil_state state,
                               float *out)
{
    const hil_rule *rule = &hil_rules[o->setting->rule];
    hil_q8_kind kind = state == HIL_MOMENT1 ? HIL_Q8_SIGNED : HIL_Q8_UNSIGNED;
    bool full = hil_param_dtype(param) == HIL_F32;
    const uint16_t *high = (const void *)o->weight[p], *low = (const void *)o->rest[p];
    int64_t n = hil_param_elements(param), first, count;
    size_t coded = 0;
    if (state == HIL_MASTER) {
        for (int64_t i = 0; i < n; ++i)
            out[i] = full          ? ((const float *)(const void *)high)[i]
                     : p == FROZEN ? hil_bf16_load(high[i])
                                   : hil_bf16_join(high[i], low[i]);
        return;
    }
    for (int64_t t = 0; (count = tile_count(param, t, &first)); ++t) {
        int64_t whole = (count + HIL_CODEC_GROUP - 1) / HIL_CODEC_GROUP * HIL_CODEC_GROUP;
        const char *from = o->moment[p][state - HIL_MOMENT1] + coded;
        static float decoded[128 * 72 + HIL_CODEC_GROUP];
        if (rule->codec == HIL_CODEC_Q8)
            hil_q8_decode(decoded, from, kind, whole);
        else
            memcpy(decoded, from, (size_t)whole * 4);
        memcpy(out + first, decoded, (size_t)count * 4);
        coded += hil_codec_bytes(rule->codec, whole);
    }
}

#endif
