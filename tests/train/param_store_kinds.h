/* param_store_kinds.h - a parameter store of parameters of several kinds (shapes, groups, rates,
   dtypes of gradients), each one tile, and a few steps on it; on the CPU or on a device. */
#ifndef TESTS_TRAIN_PARAM_STORE_KINDS_H
#define TESTS_TRAIN_PARAM_STORE_KINDS_H

#include "hilbert/store.h"

#include "check.h"
#include "tensor/tensor.h"

enum { PARAMS = 7, STEPS = 6, MOST = 300 * 64, MICROS = 2, SLOTS = MICROS * PARAMS };
#define M ((uint64_t)1 << 20)

typedef struct kinds_row {
    int ndim;
    int64_t shape[5];
    int group, rates;
    bool no_decay;
    hil_dtype gradient;
} kinds_row;

static const kinds_row kinds[PARAMS] = {
    {2, {300, 64}, 0, 0, false, HIL_BF16},     {1, {64}, 0, 1, true, HIL_F32},
    {4, {24, 3, 5, 5}, 1, 1, false, HIL_F16},  {0, {0}, 1, 2, false, HIL_F32},
    {3, {96, 4, 20}, 1, 2, false, HIL_F32},    {1, {100}, 2, 0, false, HIL_BF16},
    {5, {2, 3, 4, 5, 6}, 2, 1, true, HIL_F16},
};

static const hil_param_store_rates rates[3] = {
    {.lr = 0.02, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8},
    {.lr = 0.05, .weight_decay = 0, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6},
    {.lr = 0.01, .weight_decay = 0.3, .beta1 = 0.95, .beta2 = 0.9, .eps = 1e-8},
};

/* How the program of the test computes. On a device both only queue work. */
typedef struct kinds_side {
    const char *device;
    void *stream;
    /* Memory with these bytes that gradients are read from, until the end of the step. */
    const void *(*lend)(hil_param_store *store, int slot, const void *bytes, size_t count);
    /* Copies weights to `out`, which is complete after hil_param_store_step. */
    void (*look)(hil_param_store *store, void *out, const void *weights, size_t bytes);
    hil_comm *comm; /* several ranks: each has one of the micro-batches, further ones zeros */
} kinds_side;

typedef struct placement {
    uint64_t device, host;
    int drives;
    bool early; /* gives a group's gradients as soon as they are complete */
    uint64_t window;
    bool late; /* gives some before they are complete: the rest makes sums of its own */
    uint64_t keep_window, keep_host;
    const char *probe_cache;
    uint64_t grow; /* bytes of the device that come after GROWN steps */
} placement;

typedef struct outcome {
    double norm[STEPS];
    float state[3][PARAMS][MOST];
    char seen[STEPS][PARAMS][64]; /* weights that a step acquired */
    int64_t updates[PARAMS];
} outcome;

static inline const void *kinds_lend(hil_param_store *store, int slot, const void *bytes,
                                     size_t count)
{
    static _Thread_local char memory[MOST * sizeof(float)];
    (void)store, (void)slot;
    memset(memory, 0x7f, sizeof memory); /* the store has read what was there */
    return memcpy(memory, bytes, count);
}

static inline void kinds_look(hil_param_store *store, void *out, const void *weights, size_t bytes)
{
    (void)store;
    memcpy(out, weights, bytes);
}

static const kinds_side kinds_cpu = {"cpu", NULL, kinds_lend, kinds_look, NULL};

static inline int64_t elements(int p)
{
    int64_t n = 1;
    for (int d = 0; d < kinds[p].ndim; ++d) n *= kinds[p].shape[d];
    return n;
}

/* Rates 2 are frozen in steps 2 and 3; parameter 5 has a gradient in every third step only. */
static inline bool is_frozen(int step, int p)
{
    return kinds[p].rates == 2 && (step == 2 || step == 3);
}

static inline bool has_gradient(int step, int p)
{
    return !is_frozen(step, p) && (p != 5 || step % 3 == 1);
}

/* A multiple of 1/64 below 2: exact in all dtypes, and so are its sums. */
static inline float gradient_of(int step, int micro, int p, int64_t i)
{
    if (micro >= MICROS) return 0;
    return (float)((i * 7 + p * 13 + step * 31 + micro * 5) % 127 - 63) / 64.0f;
}

static inline void give(hil_param_store *store, const kinds_side *side, hil_stored_param *param,
                        int step, int micro, int p)
{
    static _Thread_local uint16_t half[MOST];
    static _Thread_local float full[MOST];
    hil_dtype dtype = kinds[p].gradient;
    int64_t n = elements(p);
    const void *data = dtype == HIL_F32 ? (const void *)full : half;
    for (int64_t i = 0; i < n; ++i) {
        full[i] = gradient_of(step, micro, p, i);
        half[i] = dtype == HIL_F16 ? hil_f16_round(full[i]) : hil_bf16_round(full[i]);
    }
    data = side->lend(store, micro * PARAMS + p, data, (size_t)n * hil_dtype_size(dtype));
    CHECK_OK(hil_param_store_add_gradient(store, param, 0, data, hil_dtype_name(dtype)));
}

/* Several ranks: gives the group of parameter p, and adds zeros to it all the same. */
static inline void add_late(hil_param_store *store, const kinds_side *side,
                            hil_stored_param *param[PARAMS], int step, int p)
{
    CHECK_OK(hil_param_store_give_gradients(store, kinds[p].group));
    if (has_gradient(step, p)) give(store, side, param[p], step, MICROS, p);
}

static inline hil_param_store *open_store(const char *dtype, const kinds_side *side,
                                          const placement *at, hil_stored_param *param[PARAMS])
{
    hil_param_store *store;
    hil_param_store_options options;
    const hil_disk_budget disk[] = {{.path = "/tmp", .bytes = 8 * M}, {".", 8 * M}};
    hil_param_store_defaults(&options);
    options.dtype = dtype;
    options.device.name = side->device;
    options.stream = side->stream;
    options.window = at->window;
    options.saves = at->host > 0;
    options.grows = at->grow > 0;
    options.comm = side->comm;
    options.keep_window = at->keep_window;
    options.keep_host = at->keep_host;
    options.probe_cache = at->probe_cache;
    options.tile_size = UINT64_MAX;
    options.clip = 1;
    options.threads = 2;
    options.memory.device = at->device;
    options.memory.host = at->host;
    options.memory.disks = disk;
    options.memory.disk_count = (size_t)at->drives;
    CHECK_OK(hil_param_store_create(&store, &options));
    for (int p = 0; p < PARAMS; ++p) {
        char name[16];
        snprintf(name, sizeof name, "p%d", p);
        hil_param_store_form form = {.shape = kinds[p].shape,
                                     .ndim = kinds[p].ndim,
                                     .group = kinds[p].group,
                                     .rates = kinds[p].rates,
                                     .no_decay = kinds[p].no_decay};
        CHECK_OK(hil_param_store_add(store, name, &form, &param[p]));
    }
    CHECK_OK(hil_param_store_place(store));
    for (int p = 0; p < PARAMS; ++p) {
        static _Thread_local float start[MOST];
        CHECK_INT(hil_param_store_tiles(param[p]), 1);
        for (int64_t i = 0; i < elements(p); ++i) start[i] = (float)(i % 11) / 4.0f - 1;
        CHECK_OK(
            hil_param_store_write(store, param[p], HIL_PARAM_STORE_WEIGHT, 0, elements(p), start));
    }
    return store;
}

static inline void set_rates(hil_param_store *store, int step)
{
    for (int k = 0; k < 3; ++k) {
        hil_param_store_rates own = rates[k];
        own.frozen = k == 2 && (step == 2 || step == 3);
        CHECK_OK(hil_param_store_set_rates(store, k, &own));
    }
}

static inline double take_step(hil_param_store *store, const kinds_side *side, const placement *at,
                               hil_stored_param *param[PARAMS], int step, char seen[PARAMS][64])
{
    double norm;
    set_rates(store, step);
    CHECK_OK(hil_param_store_begin(store, HIL_PARAM_STORE_TRAIN));
    bool ranks = hil_comm_size(side->comm) > 1;
    for (int i = 0; i < (ranks ? 1 : MICROS); ++i)
        for (int p = 0; p < PARAMS; ++p) {
            const void *weights;
            int micro = ranks ? hil_comm_rank(side->comm) : i;
            CHECK_OK(hil_param_store_acquire(store, param[p], 0, &weights));
            if (is_frozen(step, p))
                CHECK_FAILS(hil_param_store_add_gradient(store, param[p], 0, weights, "fp32"),
                            HIL_ERR_USAGE, "rates, number 2, are frozen");
            size_t bytes = (size_t)elements(p) * 2;
            side->look(store, seen[p], weights, bytes < 64 ? bytes : 64);
            if (has_gradient(step, p)) give(store, side, param[p], step, micro, p);
            hil_param_store_release(store, param[p], 0);
            bool last = p + 1 == PARAMS || kinds[p + 1].group != kinds[p].group;
            bool complete = ranks || i + 1 == MICROS;
            if (last && (complete ? at->early && !at->late : at->late && step % 2))
                CHECK_OK(hil_param_store_give_gradients(store, kinds[p].group));
            if (last && ranks && at->late && step % 2) add_late(store, side, param, step, p);
        }
    CHECK_OK(hil_param_store_step(store, 0.5, &norm));
    CHECK_OK(hil_param_store_end(store));
    return norm;
}

static inline void read_states(hil_param_store *store, hil_stored_param *param[PARAMS],
                               outcome *out)
{
    for (int p = 0; p < PARAMS; ++p) {
        out->updates[p] = hil_param_store_updates(param[p]);
        for (int k = 0; k < 3; ++k)
            CHECK_OK(hil_param_store_read(store, param[p], (hil_param_store_state)k, 0, elements(p),
                                          out->state[k][p]));
    }
}

enum { GROWN = 2 };

static inline void grow(hil_param_store *store, const placement *at)
{
    uint64_t taken;
    hil_param_store_bytes before = hil_param_store_placed(store), after;
    CHECK_OK(hil_param_store_grow(store, at->grow, &taken));
    after = hil_param_store_placed(store);
    CHECK(taken > 0 && taken <= at->grow && after.device > before.device);
    CHECK(after.device + after.host + after.disk == before.device + before.host + before.disk);
    CHECK(!before.disk || after.disk < before.disk);
    CHECK_FAILS(hil_param_store_grow(store, at->grow, &taken), HIL_ERR_USAGE, "once");
}

static inline void run(const char *dtype, const kinds_side *side, const placement *at, outcome *out)
{
    hil_stored_param *param[PARAMS];
    hil_param_store *store = open_store(dtype, side, at, param);
    memset(out, 0, sizeof *out);
    for (int s = 0; s < STEPS; ++s) {
        if (s == GROWN && at->grow) grow(store, at);
        out->norm[s] = take_step(store, side, at, param, s, out->seen[s]);
    }
    read_states(store, param, out);
    CHECK_INT(hil_param_store_get_progress(store).updates, STEPS);
    hil_param_store_destroy(store);
}

enum { HALF = STEPS / 2 };

/* The same, and saves after HALF of the steps. */
static inline void run_saving(const char *dtype, const kinds_side *side, const placement *at,
                              const char *folder, const char *text, outcome *out)
{
    hil_stored_param *param[PARAMS];
    hil_param_store *store = open_store(dtype, side, at, param);
    memset(out, 0, sizeof *out);
    for (int s = 0; s < STEPS; ++s) {
        out->norm[s] = take_step(store, side, at, param, s, out->seen[s]);
        if (s + 1 == GROWN && at->grow) grow(store, at);
        if (s + 1 == HALF) CHECK_OK(hil_param_store_save(store, folder, text, 1));
    }
    read_states(store, param, out);
    CHECK_OK(hil_param_store_saved(store));
    hil_param_store_destroy(store);
}

/* The steps from HALF on, of another store that loads what was saved. */
static inline void run_loaded(const char *dtype, const kinds_side *side, const placement *at,
                              const char *folder, const char *text, outcome *out)
{
    hil_stored_param *param[PARAMS];
    hil_param_store_loaded loaded;
    hil_param_store *store = open_store(dtype, side, at, param);
    CHECK_OK(hil_param_store_load(store, folder, &loaded));
    CHECK_INT(loaded.step, HALF);
    CHECK_TEXT(loaded.extra, text);
    CHECK(loaded.warning == NULL);
    for (int s = HALF; s < STEPS; ++s)
        out->norm[s] = take_step(store, side, at, param, s, out->seen[s]);
    read_states(store, param, out);
    hil_param_store_destroy(store);
}

/* Runs every placement; all must give the bits of *first, unless `fill`: then the first one fills
 * it. */
static inline void check_placements(const char *dtype, const kinds_side *side, const placement *row,
                                    size_t rows, bool fill, outcome *first)
{
    static outcome other;
    for (size_t i = 0; i < rows; ++i) {
        run(dtype, side, &row[i], &other);
        if (fill && i == 0) *first = other;
        if (memcmp(first, &other, sizeof other) == 0) continue;
        fprintf(stderr, "%s on %s: placement %zu gives other bits\n", dtype, side->device, i);
        exit(1);
    }
}

/* All dtypes on a device, from everything there to much on disk, give the CPU's bits; *last gets
   those of fp16. */
static inline void check_device(const kinds_side *side, outcome *last)
{
    static const placement on_cpu = {.device = 8 * M};
    static const placement row[] = {
        {.device = 64 * M, .host = 8 * M},
        {.device = 64 * M, .host = 8 * M, .early = true},
        {.device = 500 << 10, .host = 4 * M, .early = true},
        {.device = 500 << 10, .host = 4 * M, .window = 330 << 10},
        {.device = 500 << 10, .host = 400 << 10, .drives = 1},
        {.device = 500 << 10, .host = 400 << 10, .drives = 2, .early = true, .window = 330 << 10},
        {.device = 500 << 10, .host = 4 * M, .window = 330 << 10, .grow = 8 * M},
        {.device = 500 << 10, .host = 400 << 10, .drives = 1, .early = true, .grow = 400 << 10},
    };
    static const char *const dtype[] = {"fp32", "bf16", "fp16"};
    for (int d = 0; d < 3; ++d) {
        check_placements(dtype[d], &kinds_cpu, &on_cpu, 1, true, last);
        check_placements(dtype[d], side, row, sizeof row / sizeof *row, false, last);
    }
}

#endif
