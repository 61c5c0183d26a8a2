/* param_store.c - creates a store, registers and places parameters; reads and writes their states.
 */
#include "train/param_store.h"

#include "base/alloc.h"
#include "hilbert/trainer.h"
#include "io/align.h"
#include "machine/devices.h"
#include "plan/ranks.h"
#include "train/account.h"
#include "base/sized.h"
#include "store/state.h"
#include "store/store.h"

#include <string.h>

void hil_param_store_defaults_sized(hil_param_store_options *options, size_t size)
{
    hil_trainer_options trainer;
    hil_trainer_defaults(&trainer);
    const hil_param_store_options defaults = {
        .dtype = trainer.dtype,
        .optimizer = trainer.optimizer,
        .weight_decay = trainer.weight_decay,
        .clip = trainer.clip,
        .beta1 = trainer.beta1,
        .beta2 = trainer.beta2,
        .eps = trainer.eps,
        .tile_size = trainer.tile_size,
        .device = {.name = "cpu"},
    };
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

/* Budgets that are not set: on a device what is free less a margin, on the CPU none. */
static hil_status find_budgets(hil_param_store *store, const hil_param_store_options *options)
{
    bool connected = store->connection.device_comm != NULL;
    hil_allowance allowance = {.memory = options->memory,
                               .sharers = hil_comm_local_size(store->comm),
                               .room_sharers = store->sharers};
    if (store->device) allowance.room = hil_devices_room(store->device, store->sharers, connected);
    HIL_TRY(hil_budget_find(&allowance, &store->budget, store->drive));
    if (!store->device && !options->memory.device) store->budget.device = 0;
    if (!store->device && !options->memory.host) store->budget.host = 0;
    for (size_t d = 0; d < options->memory.disk_count; ++d) {
        double speed = options->disk_speeds ? options->disk_speeds[d] : 1;
        if (!(speed > 0))
            return hil_fail(HIL_ERR_USAGE, "disk %zu: a speed of %g is invalid", d, speed);
        HIL_TRY(hil_text_copy(store->drive[d].path, &store->path[d]));
        store->drive[d].path = store->path[d];
        store->drive[d].speed = speed;
        ++store->drive_count;
    }
    return HIL_OK;
}

static hil_status open_device(hil_param_store *store, const hil_param_store_options *options)
{
    HIL_TRY(hil_devices_open(&options->device, store->comm, NULL, &store->device));
    if (store->device && store->device->adopt)
        return store->device->adopt(store->device, options->stream);
    if (options->stream)
        return hil_fail(HIL_ERR_USAGE, "a stream is for a GPU, and this store has none: name a "
                                       "device \"cuda\", or no stream");
    return HIL_OK;
}

/* Measured speeds decide how much each drive gets, and which states a GPU updates. Several ranks
   assume them, so that they place alike. */
static hil_status find_speeds(hil_param_store *store, const hil_param_store_options *options,
                              int threads)
{
    const hil_budget *budget = &store->budget;
    hil_machine machine;
    hil_probe_options probe = {
        .memory = options->memory, .threads = threads, .cache = options->probe_cache};
    hil_effort effort = {.states = true,
                         .drives = true,
                         .memory = budget->host + (store->device ? 0 : budget->device),
                         .device_memory = budget->device};
    if (!options->probe_cache || store->comm) {
        hil_machine_assume(&probe, store->device, &machine);
        store->speeds = machine.speeds;
        return HIL_OK;
    }
    HIL_TRY(hil_machine_find(&probe, store->device, &effort, NULL, &machine));
    store->speeds = machine.speeds;
    if (!options->disk_speeds)
        hil_budget_speeds(&machine, store->drive, (size_t)store->drive_count);
    return HIL_OK;
}

/* All ranks get the least budgets of any, so that they place alike. */
static hil_status open_machine(hil_param_store *store, const hil_param_store_options *options)
{
    hil_comm *comm = store->comm;
    int threads;
    HIL_TRY(hil_ranks_agree(comm, open_device(store, options)));
    HIL_TRY(hil_devices_share(comm, NULL, &store->device, &store->sharers));
    HIL_TRY(hil_device_connection_open(&store->connection,
                                       &(hil_device_connection_options){.choice = &options->device,
                                                                        .device = store->device,
                                                                        .sharers = store->sharers,
                                                                        .comm = comm}));
    HIL_TRY(hil_ranks_agree(comm, find_budgets(store, options)));
    HIL_TRY(hil_ranks_level_budget(comm, &store->budget, store->drive, store->drive_count));
    HIL_TRY(hil_ranks_threads(comm, options->threads, &threads));
    HIL_TRY(find_speeds(store, options, threads));
    HIL_TRY(hil_pool_create(&store->pool, threads));
    return hil_pool_create(&store->update, threads);
}

hil_status hil_param_store_create(hil_param_store **out, const hil_param_store_options *options)
{
    *out = NULL;
    hil_dtype dtype;
    const hil_rule *rule;
    hil_param_store_options own;
    hil_param_store *store = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_SIZED_TAKE(hil_param_store, &own, options));
    options = &own;
    HIL_TRY_DONE(hil_dtype_parse(options->dtype, &dtype));
    HIL_TRY_DONE(hil_rule_find(options->optimizer, &rule));
    HIL_TRY_DONE(HIL_ALLOC(1, &store));
    if (hil_comm_size(options->comm) > 1) store->comm = options->comm;
    store->dtype = dtype;
    store->window = options->window;
    store->io = options->memory.io;
    store->tile_size = options->tile_size;
    store->saves = options->saves;
    store->grows = options->grows;
    store->average = options->average;
    store->kept.window = hil_align_up((size_t)options->keep_window);
    store->kept.host = hil_align_up((size_t)options->keep_host);
    store->saver.saved = -1;
    store->scaling = hil_scaling_begin(dtype, &options->loss_scale);
    store->optimizer = (hil_optimizer){.rule = rule,
                                       .beta1 = options->beta1,
                                       .beta2 = options->beta2 < 0 ? rule->beta2 : options->beta2,
                                       .eps = options->eps,
                                       .weight_decay = options->weight_decay,
                                       .clip = options->clip};
    HIL_TRY_DONE(hil_store_create(&store->states));
    HIL_TRY_DONE(open_machine(store, options));
    *out = store;
    store = NULL;
done:
    hil_param_store_destroy(store);
    return status;
}

void hil_param_store_destroy(hil_param_store *store)
{
    if (!store) return;
    hil_saver_close(&store->saver);
    if (store->states) hil_store_close(store->states);
    hil_param_store_close_kept(store);
    hil_tiers_close(&store->tiers);
    hil_device_connection_close(&store->connection);
    hil_devices_close(store->device);
    hil_store_destroy(store->states);
    hil_pool_destroy(store->pool);
    hil_pool_destroy(store->update);
    hil_plan_free(&store->plan);
    hil_free(store->unit);
    for (size_t i = 0; i < store->params; ++i) {
        hil_free(store->param[i]->pins);
        hil_free(store->param[i]);
    }
    hil_free(store->param);
    hil_free(store->group);
    hil_free(store->rates);
    hil_free(store->numbers);
    hil_free(store->folder);
    json_decref(store->loaded);
    for (int d = 0; d < HIL_DRIVES; ++d) hil_free(store->path[d]);
    hil_free(store);
}

static hil_status find_group(hil_param_store *store, int number, size_t *out)
{
    for (*out = 0; *out < store->groups; ++*out)
        if (store->group[*out].number == number) return HIL_OK;
    HIL_TRY(HIL_GROW(&store->group, &store->groups_room, store->groups + 1));
    store->group[store->groups++] = (hil_param_store_group){.number = number};
    return HIL_OK;
}

/* The shape in the store: a vector, or a matrix with the first dimension as rows. */
static hil_status flatten(const char *name, const hil_param_store_form *form, hil_shape *out,
                          hil_shape *filed)
{
    int64_t rows = form->rows, cols = form->cols;
    if (form->shape) {
        rows = form->ndim > 1 ? form->shape[0] : 0;
        cols = 1;
        bool valid = form->ndim >= 0 && (form->ndim < 2 || rows > 0);
        for (int d = form->ndim > 1; d < form->ndim && valid; ++d)
            valid = form->shape[d] > 0 && !__builtin_mul_overflow(cols, form->shape[d], &cols);
        if (!valid) cols = 0;
    }
    if (rows < 0 || cols < 1)
        return hil_fail(HIL_ERR_USAGE,
                        "parameter %s: a shape of %lld x %lld is invalid: every dimension must be "
                        "above 0",
                        name, (long long)rows, (long long)cols);
    *out =
        rows ? (hil_shape){.ndim = 2, .dim = {rows, cols}} : (hil_shape){.ndim = 1, .dim = {cols}};
    *filed = (hil_shape){0};
    if (!form->shape || form->ndim > HIL_DIMS) return HIL_OK;
    filed->ndim = form->ndim;
    for (int d = 0; d < form->ndim; ++d) filed->dim[d] = form->shape[d];
    return HIL_OK;
}

hil_status hil_param_store_add(hil_param_store *store, const char *name,
                               const hil_param_store_form *form, hil_stored_param **out)
{
    *out = NULL;
    if (store->phase != HIL_PARAM_STORE_NEW)
        return hil_fail(HIL_ERR_USAGE, "%s comes too late: add it before hil_param_store_place",
                        name);
    hil_param_spec spec = {.name = name, .no_decay = form->no_decay, .group = form->group};
    HIL_TRY(flatten(name, form, &spec.shape, &spec.filed));
    if (form->group < 0)
        return hil_fail(HIL_ERR_USAGE, "parameter %s: group %d is invalid", name, form->group);
    HIL_TRY(hil_param_store_reserve_rates(store, form->rates));
    HIL_TRY(HIL_GROW(&store->param, &store->params_room, store->params + 1));
    hil_stored_param *p;
    HIL_TRY(HIL_ALLOC(1, &p));
    p->store = store;
    p->rates = form->rates;
    store->param[store->params++] = p;
    hil_status status = hil_store_add(store->states, &spec, &p->param);
    if (status == HIL_OK) status = find_group(store, form->group, &p->group);
    if (status != HIL_OK) {
        hil_free(p);
        --store->params;
        return status;
    }
    if (form->frozen) hil_param_freeze(p->param);
    *out = p;
    return HIL_OK;
}

hil_stored_param *hil_param_store_find(const hil_param_store *store, const char *name)
{
    for (size_t i = 0; i < store->params; ++i)
        if (strcmp(hil_param_spec_of(store->param[i]->param)->name, name) == 0)
            return store->param[i];
    return NULL;
}

/* Cuts the parameters into units. A trainable parameter has one gradient, in its group. */
static hil_status cut(hil_param_store *store)
{
    const hil_rule *rule = store->optimizer.rule;
    hil_store_options options = {.compute = store->dtype,
                                 .training = true,
                                 .tile_size = store->tile_size,
                                 .moments = rule->moments,
                                 .codec = rule->codec,
                                 .in_parts = rule->in_parts,
                                 .matrix = rule->matrix,
                                 .rank = hil_comm_rank(store->comm),
                                 .ranks = hil_comm_size(store->comm)};
    HIL_TRY(hil_store_arrange(store->states, &options));
    for (size_t i = 0; i < store->params; ++i) {
        hil_stored_param *p = store->param[i];
        int64_t rows = hil_shape_rows(&hil_param_spec_of(p->param)->shape);
        p->tiles = (rows + hil_param_tile_rows(p->param) - 1) / hil_param_tile_rows(p->param);
        HIL_TRY(HIL_ALLOC(2 * p->tiles, &p->pins));
        p->sum_pins = p->pins + p->tiles;
        if (hil_param_trainable(p->param))
            HIL_TRY(hil_store_declare_use(store->states, p->param, store->group[p->group].number));
    }
    return HIL_OK;
}

static hil_status open_states(hil_param_store *store)
{
    uint64_t drive_bytes[HIL_DRIVES] = {0}, need[HIL_TIERS];
    HIL_TRY(cut(store));
    HIL_TRY(hil_param_store_plan(store, drive_bytes));
    hil_plan_needs(&store->plan, &store->outline, need);
    /* A GPU's memory is allocated at once, so no more of it than is needed. */
    hil_tiers_options tiers = {.device_bytes =
                                   store->device ? need[HIL_DEVICE] : store->budget.device,
                               .host_bytes = store->budget.host,
                               .drives = store->drive,
                               .drive_count = store->drive_count,
                               .drive_bytes = drive_bytes,
                               .io = store->io,
                               .device = store->device};
    HIL_TRY(hil_tiers_open(&store->tiers, &tiers));
    hil_store_opening opening = {.tiers = &store->tiers,
                                 .plan = &store->plan,
                                 .pool = store->pool,
                                 .update = store->update,
                                 .comm = store->comm,
                                 .device_comm = store->connection.device_comm};
    HIL_TRY(hil_store_open(store->states, &opening));
    return hil_param_store_open_kept(store);
}

hil_status hil_param_store_place(hil_param_store *store)
{
    if (store->phase != HIL_PARAM_STORE_NEW)
        return hil_fail(HIL_ERR_USAGE, "hil_param_store_place was called already");
    store->phase = HIL_PARAM_STORE_BROKEN;
    HIL_TRY(hil_ranks_agree(store->comm, open_states(store)));
    store->phase = HIL_PARAM_STORE_IDLE;
    return HIL_OK;
}

hil_status hil_param_store_estimate_place(hil_param_store *store, hil_param_store_estimate *out)
{
    uint64_t drive_bytes[HIL_DRIVES] = {0}, need[HIL_TIERS];
    if (store->phase != HIL_PARAM_STORE_NEW || store->comm)
        return hil_fail(HIL_ERR_USAGE, "an estimate is of a new store, on one rank");
    store->phase = HIL_PARAM_STORE_BROKEN;
    HIL_TRY(cut(store));
    HIL_TRY(hil_param_store_plan(store, drive_bytes));
    hil_plan_needs(&store->plan, &store->outline, need);
    uint64_t disk = 0;
    for (int d = 0; d < store->drive_count; ++d) disk += drive_bytes[d];
    *out = (hil_param_store_estimate){.states = hil_param_store_placed(store),
                                      .taken = {need[HIL_DEVICE], need[HIL_HOST], disk},
                                      .window = store->plan.window,
                                      .least_window = hil_param_store_least_window(store)};
    return HIL_OK;
}

hil_param_store_bytes hil_param_store_placed(const hil_param_store *store)
{
    hil_plan_table table;
    uint64_t sum[HIL_TIERS] = {0};
    hil_plan_count(&store->outline, &store->plan, &table);
    for (int s = 0; s < HIL_UNIT_STATES; ++s)
        for (int t = 0; t < HIL_TIERS; ++t) sum[t] += table.bytes[s][t];
    return (hil_param_store_bytes){sum[HIL_DEVICE], sum[HIL_HOST], sum[HIL_DISK]};
}

int64_t hil_param_store_tiles(const hil_stored_param *param)
{
    return param->tiles;
}

int64_t hil_param_store_tile_rows(const hil_stored_param *param)
{
    return hil_param_tile_rows(param->param);
}

bool hil_param_store_has(const hil_param_store *store, const hil_stored_param *param,
                         hil_param_store_state state)
{
    assert(param->store == store);
    (void)store;
    return state >= HIL_PARAM_STORE_WEIGHT && state <= HIL_PARAM_STORE_MOMENT2 &&
           hil_param_has(param->param, (hil_state)state);
}

static hil_status check_range(const hil_param_store *store, const hil_stored_param *p,
                              hil_param_store_state state, int64_t first, int64_t count)
{
    const char *name = hil_param_spec_of(p->param)->name;
    int64_t elements = hil_param_elements(p->param);
    assert(p->store == store);
    if (store->phase != HIL_PARAM_STORE_IDLE)
        return hil_fail(HIL_ERR_USAGE, "%s can be read and written between steps only", name);
    if (!hil_param_store_has(store, p, state))
        return hil_fail(HIL_ERR_USAGE, "%s has no state %d", name, (int)state);
    if (first < 0 || count < 0 || first > elements || count > elements - first)
        return hil_fail(HIL_ERR_USAGE, "%s has %lld elements: cannot access %lld from element %lld",
                        name, (long long)elements, (long long)count, (long long)first);
    return HIL_OK;
}

_Static_assert((int)HIL_PARAM_STORE_WEIGHT == HIL_MASTER &&
                   (int)HIL_PARAM_STORE_MOMENT1 == HIL_MOMENT1 &&
                   (int)HIL_PARAM_STORE_MOMENT2 == HIL_MOMENT2,
               "the store's states under their public names");

#define JOINED ((int64_t)1 << 16) /* numbers of each rank at once */

/* Every rank has some of the numbers, and zeros for the others: the OR of all is whole. */
static hil_status join_ranks(const hil_param_store *store, uint32_t *bits, int64_t count)
{
    int ranks = hil_comm_size(store->comm);
    uint32_t *all = NULL;
    hil_status status = hil_ranks_agree(store->comm, HIL_ALLOC(ranks * JOINED, &all));
    for (int64_t at = 0; at < count && status == HIL_OK; at += JOINED) {
        int64_t n = count - at < JOINED ? count - at : JOINED;
        status = hil_comm_gather(store->comm, HIL_CHANNEL_CONTROL, bits + at, all, (size_t)n * 4);
        for (int64_t i = 0; i < ranks * n && status == HIL_OK; ++i) bits[at + i % n] |= all[i];
    }
    hil_free(all);
    return status;
}

hil_status hil_param_store_read(hil_param_store *store, hil_stored_param *param,
                                hil_param_store_state state, int64_t first, int64_t count,
                                float *out)
{
    HIL_TRY(check_range(store, param, state, first, count));
    if (store->comm) memset(out, 0, (size_t)count * sizeof *out);
    HIL_TRY(hil_store_read(store->states, param->param, (hil_state)state, first, count, out));
    return store->comm ? join_ranks(store, (uint32_t *)(void *)out, count) : HIL_OK;
}

hil_status hil_param_store_write(hil_param_store *store, hil_stored_param *param,
                                 hil_param_store_state state, int64_t first, int64_t count,
                                 const float *in)
{
    HIL_TRY(check_range(store, param, state, first, count));
    return hil_store_write(store->states, param->param, (hil_state)state, first, count, in);
}

hil_param_store_progress hil_param_store_get_progress(const hil_param_store *store)
{
    return (hil_param_store_progress){store->updates, store->scaling.scale, store->scaling.good};
}

hil_status hil_param_store_set_progress(hil_param_store *store,
                                        const hil_param_store_progress *progress)
{
    int64_t most = store->scaling.rule.start ? INT64_MAX : HIL_SCALING_MOST;
    if (store->dtype != HIL_F16) most = 1;
    if (progress->updates < 0 || progress->since < -1 || progress->loss_scale < 1 ||
        progress->loss_scale > most)
        return hil_fail(HIL_ERR_INPUT, "%lld updates with a loss scale of %lld are invalid",
                        (long long)progress->updates, (long long)progress->loss_scale);
    store->updates = progress->updates;
    store->scaling.scale = progress->loss_scale;
    store->scaling.good = progress->since;
    for (size_t i = 0; i < store->params; ++i) store->param[i]->updates = progress->updates;
    return HIL_OK;
}

void hil_param_store_account(hil_param_store *store, hil_step_account *out)
{
    *out = (hil_step_account){0};
    if (store->phase < HIL_PARAM_STORE_IDLE) return;
    uint64_t peak[HIL_TIERS];
    hil_plan spent = {0};
    hil_account_take(store->tiers.links, out, &spent);
    hil_store_peaks(store->states, peak);
    out->device_peak = peak[HIL_DEVICE];
    out->host_peak = peak[HIL_HOST];
    out->disk_peak = peak[HIL_DISK];
    if (!store->kept.buffers) return;
    out->device_peak += hil_buffers_peak(store->kept.buffers);
    out->host_peak += hil_ring_bytes(store->kept.ring) + hil_offload_peak(store->kept.offload);
}
