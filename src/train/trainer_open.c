/* trainer_open.c - opens a trainer: pools, plan, tiers, store and engine. */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/memory.h"
#include "base/text.h"
#include "machine/devices.h"
#include "tensor/fp8.h"
#include "train/freeze.h"
#include "train/pairs.h"
#include "base/note.h"
#include "store/store.h"

/* Default shapes to plan for: several micro-batches. */
#define SEQUENCES 2
#define LENGTH 128
#define PINNED_ROOM ((size_t)64 << 20)

static hil_status make_plan(hil_trainer *t, const hil_observer *observer)
{
    const hil_trainer_options *o = &t->options;
    hil_plan_request request = {
        .model = t->model,
        .device = t->device,
        .comm = o->comm,
        .connected = t->connection.device_comm != NULL,
        .network = t->connection.speed,
        .compute = t->dtype,
        .training = o->training,
        .recompute = o->recompute,
        .sequences = o->sequences ? o->sequences : SEQUENCES,
        .length = o->length ? o->length : LENGTH,
        .micro_batch = o->micro_batch ? o->micro_batch : 1,
        .cache = o->cache,
        .preference = o->preference,
        .allowance = {.memory = o->memory, .sharers = 1, .room_sharers = t->sharers},
        .zero = o->zero,
        .threads = o->threads,
        .prefetch = o->prefetch,
        .spare = o->spare,
        .file = o->plan,
        .probe_cache = o->probe_cache,
        .stop = o->stop,
    };
    HIL_TRY(hil_plan_make(&request, observer, &t->planned));
    return hil_planned_compare(o->comm, &t->planned);
}

/* Uses host memory that the plan leaves free for what it could not foresee: offloaded tensors and
   gradient sums of other steps, and gradients of undeclared uses, a third each. With a device the
   memory is pinned at once, so it is capped at the planned amount or PINNED_ROOM, whichever is
   larger. */
static void share_host(hil_planned *p, const hil_device *device)
{
    uint64_t need[HIL_TIERS];
    hil_plan_needs(&p->plan, &p->outline, need);
    if (need[HIL_HOST] >= p->budget.host) return;
    size_t third = (size_t)((p->budget.host - need[HIL_HOST]) / 3);
    size_t foreseen = p->plan.offloaded + p->plan.spilled;
    size_t most = foreseen > PINNED_ROOM ? foreseen : PINNED_ROOM;
    if (device && third > most) third = most;
    third = third / HIL_IO_ALIGN * HIL_IO_ALIGN;
    p->plan.offloaded += third;
    p->plan.spilled += third;
}

static void note_drives(const hil_trainer *t, const hil_observer *observer)
{
    for (int i = 0; i < t->planned.drive_count; ++i)
        if (!hil_disk_is_direct(t->tiers.disk, i))
            hil_note(observer,
                     "%s refuses O_DIRECT: its swap file goes through the page cache, which takes "
                     "memory beside the budgets",
                     t->planned.drives[i].path);
}

/* Fails before the first step if a limit on the process would kill it in the middle of one. */
static hil_status check_limits(const hil_trainer *t)
{
    const hil_plan *plan = &t->planned.plan;
    uint64_t need = plan->peak[HIL_HOST] + (t->device ? 0 : plan->peak[HIL_DEVICE]);
    uint64_t left = hil_memory_left(hil_comm_local_size(t->options.comm));
    char needs[32], has[32];
    if (need <= left) return HIL_OK;
    return hil_fail(HIL_ERR_BUDGET,
                    "the plan needs %s of memory, but the limits on this process (its control "
                    "group or ulimit) leave %s: raise them, or give less --%s-memory",
                    hil_text_bytes(needs, need), hil_text_bytes(has, left),
                    t->device ? "host" : "device");
}

static hil_status open_store(hil_trainer *t, const hil_observer *observer)
{
    hil_planned *p = &t->planned;
    HIL_TRY(check_limits(t));
    share_host(p, t->device);
    hil_tiers_options tiers = {.device_bytes = p->budget.device,
                               .host_bytes = p->budget.host,
                               .drives = p->drives,
                               .drive_count = p->drive_count,
                               .drive_bytes = p->plan.drive_bytes,
                               .io = t->options.memory.io,
                               .device = t->device};
    HIL_TRY(hil_tiers_open(&t->tiers, &tiers));
    note_drives(t, observer);
    hil_store_opening opening = {.tiers = &t->tiers,
                                 .plan = &p->plan,
                                 .pool = t->pool,
                                 .update = t->update,
                                 .comm = t->options.comm,
                                 .device_comm = t->connection.device_comm};
    return hil_store_open(t->model->store, &opening);
}

/* Device memory for tensors: also what the plan leaves free, for steps that it did not foresee. On
   a device with memory of its own, a quarter of that stays free for gradients of undeclared uses
   (hil_home_open_late). */
static size_t work_bytes(const hil_trainer *t)
{
    size_t rest = t->tiers.device_bytes - hil_region_used(t->tiers.device_region);
    size_t work = t->planned.plan.work;
    if (rest <= work) return work;
    if (t->device) rest -= (rest - work) / 4;
    rest = rest / HIL_IO_ALIGN * HIL_IO_ALIGN;
    return rest > work ? rest : work;
}

static hil_status open_engine(hil_trainer *t)
{
    const hil_plan *plan = &t->planned.plan;
    hil_engine_options engine = {.pool = t->pool,
                                 .compute = t->dtype,
                                 .group = plan->group,
                                 .segment = plan->segment,
                                 .tiers = &t->tiers,
                                 .work = work_bytes(t),
                                 .expanded = plan->expanded,
                                 .ring = hil_store_ring(t->model->store),
                                 .offloaded = plan->offloaded,
                                 .prefetch = plan->prefetch,
                                 .comm = t->options.comm,
                                 .preference = t->options.preference};
    return hil_engine_create(&t->engine, t->model, &engine);
}

static hil_status prepare(hil_trainer *t)
{
    const hil_trainer_options *o = &t->options;
    hil_store_options store = {.compute = t->dtype,
                               .training = o->training,
                               .tile_size = o->tile_size,
                               .moments = t->optimizer.rule->moments,
                               .codec = t->optimizer.rule->codec,
                               .in_parts = t->optimizer.rule->in_parts,
                               .matrix = t->optimizer.rule->matrix,
                               .fp8 = t->fp8,
                               .rank = hil_comm_rank(o->comm),
                               .ranks = hil_comm_size(o->comm)};
    HIL_TRY(hil_quant_parse(o->base_dtype, t->dtype, &store.base));
    HIL_TRY(hil_pool_create(&t->pool, o->threads));
    HIL_TRY(hil_pool_create(&t->update, o->threads));
    HIL_TRY(hil_store_arrange(t->model->store, &store));
    return hil_engine_trace(t->model, t->dtype);
}

static hil_status open_memory(hil_trainer *t, const hil_observer *observer)
{
    HIL_TRY(open_store(t, observer));
    return open_engine(t);
}

static hil_status open_parts(hil_trainer *t, const hil_observer *observer)
{
    hil_comm *comm = t->options.comm;
    HIL_TRY(
        hil_ranks_agree(comm, hil_devices_open(&t->options.device, comm, observer, &t->device)));
    if (t->fp8) HIL_TRY(hil_ranks_agree(comm, hil_devices_check_fp8(t->device)));
    HIL_TRY(hil_devices_share(comm, observer, &t->device, &t->sharers));
    if (hil_devices_gpu(t->device) && t->options.micro_batch_gpu)
        t->options.micro_batch = t->options.micro_batch_gpu;
    HIL_TRY(hil_device_connection_open(
        &t->connection, &(hil_device_connection_options){.choice = &t->options.device,
                                                         .device = t->device,
                                                         .sharers = t->sharers,
                                                         .comm = comm,
                                                         .observer = observer}));
    HIL_TRY(hil_ranks_threads(comm, t->options.threads, &t->options.threads));
    HIL_TRY(hil_ranks_agree(comm, prepare(t)));
    HIL_TRY(make_plan(t, observer));
    return hil_ranks_agree(comm, open_memory(t, observer));
}

static hil_status create(hil_trainer **out, hil_model *model, const hil_trainer_options *options)
{
    hil_dtype dtype;
    bool fp8;
    HIL_TRY(hil_fp8_parse(options->dtype, &dtype, &fp8));
    const hil_rule *rule;
    HIL_TRY(hil_rule_find(options->optimizer, &rule));
    if (options->training)
        HIL_TRY(hil_freeze(model->store, options->freeze, options->freeze_count));
    HIL_TRY(hil_pairs_check(model, &options->preference));
    hil_trainer *t;
    HIL_TRY(HIL_ALLOC(1, &t));
    t->model = model;
    t->options = *options;
    t->dtype = dtype;
    t->fp8 = fp8;
    t->scaling = hil_scaling_begin(dtype, &t->options.loss_scale);
    t->optimizer = (hil_optimizer){.rule = rule,
                                   .beta1 = options->beta1,
                                   .beta2 = options->beta2 < 0 ? rule->beta2 : options->beta2,
                                   .eps = options->eps,
                                   .weight_decay = options->weight_decay,
                                   .clip = options->clip};
    *out = t;
    return HIL_OK;
}

hil_status hil_trainer_open(hil_trainer **out, hil_model *model, const hil_trainer_options *options,
                            const hil_observer *observer)
{
    hil_trainer *t = NULL;
    *out = NULL;
    hil_comm_set_activity(options->comm, "opening the model");
    hil_status status = hil_ranks_agree(options->comm, create(&t, model, options));
    if (status == HIL_OK) status = open_parts(t, observer);
    if (status == HIL_OK)
        *out = t;
    else
        hil_trainer_destroy(t);
    return status;
}

void hil_trainer_destroy(hil_trainer *t)
{
    if (!t) return;
    hil_engine_destroy(t->engine);
    hil_store_close(t->model->store);
    hil_tiers_close(&t->tiers);
    hil_device_connection_close(&t->connection);
    hil_devices_close(t->device);
    hil_pool_destroy(t->pool);
    hil_pool_destroy(t->update);
    hil_planned_free(&t->planned);
    hil_free(t->micro);
    hil_free(t->filled);
    hil_free(t->mismatched);
    hil_free(t->reference.value);
    hil_free(t->mismatched_reference.value);
    hil_free(t);
}
