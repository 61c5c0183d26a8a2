/* rehearse.c - the engine, the store and the tiers as in a real run, on a virtual clock. */
#include "train/rehearse.h"

#include "autograd/engine.h"
#include "base/alloc.h"

#include <string.h>

/* Address space: nothing is touched. More than any machine has. */
#define ENDLESS ((size_t)1 << 44)

#define STEPS 2 /* the second runs beside the update of the first */

typedef struct stage {
    const hil_rehearsal *r;
    hil_plan *plan;
    hil_tiers tiers;
    hil_pool *pool;
    hil_engine *engine;
    int64_t groups, left_out; /* groups of a step: rehearsed, and not */
    hil_micro *micro;
    int64_t micros;
} stage;

static int64_t micros_of(const hil_rehearsal *r)
{
    return (r->sequences + r->micro_batch - 1) / r->micro_batch;
}

static int64_t group_of(const hil_rehearsal *r, const hil_plan *plan)
{
    return plan->group ? plan->group : micros_of(r);
}

static int64_t groups_of(const hil_rehearsal *r, const hil_plan *plan)
{
    return (micros_of(r) + group_of(r, plan) - 1) / group_of(r, plan);
}

/* The first groups of the step, and the last. */
static hil_status list_micros(stage *s)
{
    const hil_rehearsal *r = s->r;
    int64_t group = group_of(r, s->plan), skipped = s->left_out * group;
    s->micros = micros_of(r) - skipped;
    HIL_TRY(HIL_ALLOC(s->micros, &s->micro));
    for (int64_t i = 0; i < s->micros; ++i) {
        int64_t m = i + (i / group == s->groups - 1 ? skipped : 0);
        int64_t rest = r->sequences - m * r->micro_batch;
        s->micro[i] = (hil_micro){.sequences = rest < r->micro_batch ? rest : r->micro_batch,
                                  .length = r->length,
                                  .sequence = m * r->micro_batch};
    }
    return HIL_OK;
}

static hil_status open_stage(stage *s)
{
    const hil_rehearsal *r = s->r;
    hil_plan *plan = s->plan;
    HIL_TRY(list_micros(s));
    HIL_TRY(hil_pool_create_dry(&s->pool));
    hil_tiers_options tiers = {.device_bytes = ENDLESS,
                               .host_bytes = ENDLESS,
                               .drives = r->drives,
                               .drive_count = r->drive_count,
                               .speeds = r->speeds,
                               .device = r->device};
    HIL_TRY(hil_tiers_open(&s->tiers, &tiers));
    plan->work = plan->parked = plan->spilled = ENDLESS / 8;
    hil_store_opening opening = {
        .tiers = &s->tiers, .plan = plan, .pool = s->pool, .update = s->pool, .speeds = r->speeds};
    HIL_TRY(hil_store_open(r->model->store, &opening));
    hil_engine_options engine = {.pool = s->pool,
                                 .compute = r->compute,
                                 .group = plan->group,
                                 .segment = plan->segment,
                                 .tiers = &s->tiers,
                                 .work = plan->work,
                                 .ring = hil_store_ring(r->model->store),
                                 .parked = plan->parked,
                                 .prefetch = plan->prefetch,
                                 .speeds = r->speeds};
    return hil_engine_create(&s->engine, r->model, &engine);
}

static void close_stage(stage *s)
{
    hil_engine_destroy(s->engine);
    hil_store_close(s->r->model->store);
    hil_tiers_close(&s->tiers);
    hil_pool_destroy(s->pool);
    hil_free(s->micro);
}

static void no_update(const void *rule, const hil_block *block)
{
    (void)rule;
    (void)block;
}

/* A prompt, and a token after it. */
static hil_status generate(stage *s)
{
    hil_micro micro = {.sequences = 1, .length = s->r->length};
    HIL_TRY(hil_engine_cache_begin(s->engine, s->r->cache));
    HIL_TRY(hil_engine_extend(s->engine, &micro, NULL));
    micro.length = 1;
    return s->r->cache > s->r->length ? hil_engine_extend(s->engine, &micro, NULL) : HIL_OK;
}

static hil_status pass(stage *s)
{
    double loss;
    if (s->r->cache) return generate(s);
    if (!s->r->training) return hil_engine_loss(s->engine, &s->micro[0], &loss);
    hil_step step = {.micro = s->micro, .count = s->micros, .scale = 1};
    return hil_engine_train(s->engine, &step, &loss);
}

static hil_status take_step(stage *s)
{
    double norm;
    hil_store *store = s->r->model->store;
    HIL_TRY(pass(s));
    if (s->r->cache || !s->r->training) return HIL_OK;
    HIL_TRY(hil_store_norm(store, &norm));
    HIL_TRY(hil_store_update(store, no_update, "", 1, NULL));
    hil_store_step_end(store);
    return HIL_OK;
}

/* What tensors needed so far. */
static void note_tensors(stage *s)
{
    s->plan->work = hil_engine_work(s->engine);
    s->plan->parked = hil_engine_parked(s->engine);
}

/* What the stage needed so far, and what its last step did. */
static void note(stage *s, const hil_account *account, double seconds)
{
    hil_plan *plan = s->plan;
    const hil_store *store = s->r->model->store;
    note_tensors(s);
    plan->spilled = hil_store_spill_extent(store);
    hil_store_peaks(store, plan->peak);
    plan->peak[HIL_DEVICE] += plan->work;
    plan->peak[HIL_HOST] += plan->parked;
    memset(plan->drive_bytes, 0, sizeof plan->drive_bytes);
    if (s->tiers.disk) hil_disk_extent(s->tiers.disk, plan->drive_bytes);
    plan->disk_read = account->disk_read;
    plan->disk_written = account->disk_written;
    plan->to_device = account->to_device;
    plan->to_host = account->to_host;
    plan->gathered = account->bytes[HIL_LINK_GATHER];
    plan->reduced = account->bytes[HIL_LINK_REDUCE];
    plan->step_seconds = seconds;
    plan->compute_seconds = seconds;
    for (int w = 0; w < HIL_WAITS; ++w) {
        plan->wait[w] = account->wait[w];
        plan->compute_seconds -= account->wait[w];
    }
    memcpy(plan->busy, account->busy, sizeof plan->busy);
    plan->update_seconds = account->busy[HIL_LINK_UPDATE];
}

/* Peaks are the same in every step: with more than the budgets the rest need not be known. */
static bool is_over(const hil_plan *plan)
{
    return plan->device_budget &&
           (plan->peak[HIL_DEVICE] > plan->device_budget ||
            plan->peak[HIL_HOST] > plan->host_budget || plan->peak[HIL_DISK] > plan->disk_budget);
}

static hil_status run(const hil_rehearsal *r, hil_plan *plan, int steps)
{
    stage s = {.r = r, .plan = plan, .groups = groups_of(r, plan)};
    hil_account account = {0};
    double began = 0;
    hil_status status = HIL_OK;
    HIL_TRY_DONE(open_stage(&s));
    bool over = false;
    for (int i = 0; i < steps && !over; ++i) {
        began = hil_links_now(s.tiers.links);
        HIL_TRY_DONE(take_step(&s));
        hil_links_take_account(s.tiers.links, &account);
        note(&s, &account, hil_links_now(s.tiers.links) - began);
        over = is_over(plan);
    }
done:
    close_stage(&s);
    return status;
}

hil_status hil_rehearse(const hil_rehearsal *r, hil_plan *plan)
{
    hil_store_forget(r->model->store); /* other plans must not decide what this one does */
    HIL_TRY(run(r, plan, 1));
    return run(r, plan, STEPS);
}

hil_status hil_rehearse_tensors(const hil_rehearsal *r, hil_plan *plan)
{
    int64_t all = groups_of(r, plan), groups = all < 2 ? all : 2; /* a whole one, and the last */
    stage s = {.r = r, .plan = plan, .groups = groups, .left_out = all - groups};
    hil_status status = HIL_OK;
    hil_store_forget(r->model->store);
    HIL_TRY_DONE(open_stage(&s));
    HIL_TRY_DONE(pass(&s));
    note_tensors(&s);
done:
    close_stage(&s);
    return status;
}
