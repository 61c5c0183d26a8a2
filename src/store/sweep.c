/* sweep.c - the sweep: reads, updates, writes and saves the states of all units chunk by chunk, in
   the order of the next forward, while that runs. The caller submits the jobs; links run them.

   States in memory that the CPU can access are updated in place; the others are staged in slots of
   host memory. A unit whose states are all kept on a GPU is updated there as a whole, and its
   chunks are staged only to be saved. Device updates ([Note: device updates] in plan.h) are staged
   in slots on the device. */
#include "base/alloc.h"
#include "store/gradient.h"
#include "store/home.h"
#include "store/save.h"
#include "store/sweep.h"
#include "store/window.h"

#include <string.h>

static int64_t tasks_of(int64_t count)
{
    return (count + HIL_SWEEP_TASK - 1) / HIL_SWEEP_TASK;
}

static void update_task(void *context, int64_t i, int thread)
{
    (void)thread;
    const hil_sweep_work *job = context;
    int64_t first = job->base + i * HIL_SWEEP_TASK, last = job->base + job->count, from, to;
    if (last > first + HIL_SWEEP_TASK) last = first + HIL_SWEEP_TASK;
    for (int m = 0; m < job->unit->members; ++m) {
        if (!hil_member_overlap(&job->unit->member[m], first, last, &from, &to)) continue;
        hil_block block = hil_sweep_work_block(job, &job->unit->member[m], from, to);
        if (block.gradients) job->store->sweep->update(job->store->sweep->rule, &block);
    }
}

void hil_sweep_work_run(hil_sweep_work *work, hil_pool *pool)
{
    hil_pool_run(pool, update_task, work, tasks_of(work->count));
}

/* [Note: late moments] What the CPU updates where it is kept, beside a GPU, is updated in two parts
   if the plan says so. First, in the order of the next forward, the weights, from moments that are
   computed and not written: of an element in bf16 14 bytes are read and 4 written, where a whole
   update writes 12. The GPU waits for this part only. Then, in the order of the next backward,
   whose gradients take the place of these, the moments. Bits are the same: new moments do not
   depend on weights. */
typedef struct joint_update {
    hil_store *store;
    const hil_sweep_chunk *chunk;
    bool moments; /* the second part of late moments */
} joint_update;

/* Task i of all chunks together. */
static void joint_task(void *context, int64_t i, int thread)
{
    const joint_update *u = context;
    const hil_sweep_chunk *r = u->chunk;
    for (; i >= tasks_of(r->count); ++r) i -= tasks_of(r->count);
    hil_sweep_work work = hil_sweep_chunk_work(u->store, r);
    if (r->late) work.scope = u->moments ? HIL_SCOPE_MOMENTS : HIL_SCOPE_WEIGHTS;
    update_task(&work, i, thread);
}

/* Of this chunk and those that are updated with it. */
static int64_t joint_tasks(const hil_sweep_chunk *r)
{
    int64_t tasks = 0;
    for (size_t i = 0; i < r->together; ++i) tasks += tasks_of(r[i].count);
    return tasks;
}

static void run_update(joint_update update)
{
    hil_pool_run(update.store->opening.update, joint_task, &update, joint_tasks(update.chunk));
}

static hil_status update_chunk(void *context, int64_t index)
{
    hil_store *store = context;
    run_update((joint_update){store, &store->sweep->chunk[index], false});
    return HIL_OK;
}

static hil_status update_moments(void *context, int64_t index)
{
    hil_store *store = context;
    run_update((joint_update){store, &store->sweep->chunk[index], true});
    return HIL_OK;
}

/* How many times as long the CPU takes for an update that codes moments in 8 bits, where that was
   not measured. */
#define CODING_FACTOR 3
/* Of the time of an update, each part of one with late moments: measured on 16 cores. */
#define LATE_PART 0.75
/* Elements of a joint update on a GPU and on the CPU: some tenths of a millisecond. */
#define JOINT_ELEMENTS ((int64_t)1 << 26)
#define JOINT_ON_CPU ((int64_t)1 << 18)
#define JOINT_CHUNKS 256 /* on the CPU */

/* Blocks on their way to the device. */
typedef struct queueing {
    hil_store *store;
    hil_stream stream;
    int blocks;
    hil_block block[HIL_UPDATE_BLOCKS];
} queueing;

static hil_status queue_blocks(queueing *q)
{
    hil_device *device = q->store->device;
    int blocks = q->blocks;
    q->blocks = 0;
    return hil_device_math_of(device)->update(device, q->stream, q->store->sweep->rule, q->block,
                                              blocks);
}

static hil_status queue_work(queueing *q, const hil_sweep_work *job)
{
    for (int m = 0; m < job->unit->members; ++m) {
        int64_t from, to;
        const hil_member *member = &job->unit->member[m];
        if (!hil_member_overlap(member, job->base, job->base + job->count, &from, &to)) continue;
        if (q->blocks == HIL_UPDATE_BLOCKS) HIL_TRY(queue_blocks(q));
        q->block[q->blocks] = hil_sweep_work_block(job, member, from, to);
        if (q->block[q->blocks].gradients) ++q->blocks;
    }
    return HIL_OK;
}

hil_status hil_sweep_work_queue(const hil_sweep_work *work, hil_stream stream)
{
    queueing q = {.store = work->store, .stream = stream};
    HIL_TRY(queue_work(&q, work));
    return queue_blocks(&q);
}

/* update_chunk of this chunk and of those that are updated with it, queued on the device's stream.
 */
static hil_status queue_update(void *context, int64_t index)
{
    hil_store *store = context;
    const hil_sweep_chunk *r = &store->sweep->chunk[index];
    queueing q = {.store = store, .stream = r->from_host ? HIL_STREAM_READ : HIL_STREAM_UPDATE};
    for (size_t i = 0; i < r->together; ++i) {
        hil_sweep_work work = hil_sweep_chunk_work(store, &r[i]);
        HIL_TRY(queue_work(&q, &work));
    }
    return queue_blocks(&q);
}

hil_status hil_sweep_submit(hil_store *store, hil_job *job, hil_fence *over)
{
    job->marked = true;
    hil_fence_join(&job->after, &store->sweep->marked);
    return hil_links_submit(store->links, job, over);
}

static double stretch_of(const hil_store *store, int64_t tasks)
{
    const hil_speeds *speeds = store->opening.speeds;
    return speeds ? hil_pool_stretch(tasks, (int)speeds->threads) : 1;
}

static double update_seconds(const hil_store *store, int64_t count, int64_t tasks, bool here)
{
    const hil_speeds *speeds = store->opening.speeds;
    if (!speeds) return 0;
    if (here && speeds->update_device > 0) return (double)count / speeds->update_device;
    double speed = speeds->update;
    if (store->options.codec == HIL_CODEC_Q8)
        speed = speeds->update_8bit > 0 ? speeds->update_8bit : speed / CODING_FACTOR;
    return speeds->pool_run + stretch_of(store, tasks) * (double)count / speed;
}

double hil_sweep_seconds(const hil_store *store, int64_t count, bool here)
{
    return update_seconds(store, count, tasks_of(count), here);
}

/* The update of this chunk and those that are updated with it. */
static hil_job update_of(hil_store *store, size_t index)
{
    hil_sweep_chunk *r = &store->sweep->chunk[index];
    /* A rehearsal has no device, but its plan is one of a device. */
    bool device = store->device || (store->opening.speeds && store->discrete);
    bool queues = r->here && device;
    int64_t count = 0;
    for (size_t i = 0; i < r->together; ++i) count += r[i].count;
    int64_t tasks = joint_tasks(r);
    return (hil_job){.link = HIL_LINK_UPDATE,
                     .run = queues ? queue_update : update_chunk,
                     .queues = queues,
                     .context = store,
                     .index = (int64_t)index,
                     .seconds =
                         update_seconds(store, count, tasks, r->here) * (r->late ? LATE_PART : 1),
                     .busy = 1 / stretch_of(store, tasks),
                     .name = "update"};
}

static hil_status save_job(hil_store *store, const hil_sweep_chunk *r, const hil_fence *after,
                           hil_fence *over)
{
    hil_sweep_work at = hil_sweep_chunk_work(store, r);
    hil_saved_chunk chunk = {.unit = r->unit, .base = at.base, .count = at.count};
    memcpy(chunk.state, at.places.state, sizeof chunk.state);
    return hil_save_chunk(store, &chunk, after, over);
}

/* [Note: joint updates] A mixture of experts has thousands of small units. Units next to each other
   in the sweep's order that a GPU updates in its own memory, or the CPU where they are, are updated
   by one job: they wait until there are enough of them, or the next one is updated elsewhere. */
static hil_status update_waiting(hil_store *store)
{
    struct hil_sweep *s = store->sweep;
    if (!s->waiting) return HIL_OK;
    size_t first = s->chunks - s->waiting;
    hil_fence over = {0};
    s->chunk[first].together = s->waiting;
    hil_job update = update_of(store, first);
    update.after = s->ready;
    s->waiting = 0;
    s->elements = 0;
    s->ready = (hil_fence){0};
    hil_status status = hil_sweep_submit(store, &update, &over);
    for (size_t i = first; i < s->chunks; ++i) {
        hil_fence_join(&s->chunk[i].unit->swept, &over);
        hil_fence_join(&s->chunk[i].unit->settled, &over);
        hil_gradient_free_kept(store, s->chunk[i].unit);
    }
    hil_fence_join(&s->all, &over);
    return status;
}

/* Whether the CPU updates the unit where its states are, in one job with others. */
static bool joins_on_cpu(const hil_store *store, hil_unit *unit)
{
    hil_sweep_chunk whole = {.unit = unit, .count = unit->slice};
    return unit->sweeping && !store->sweep->saving && unit->slice <= JOINT_ON_CPU &&
           hil_sweep_chunk_staged(store, &whole) == 0;
}

/* The whole unit waits for its update, with others; `here`: by a GPU. */
static hil_status join_waiting(hil_store *store, hil_unit *unit, bool here)
{
    struct hil_sweep *s = store->sweep;
    bool other = s->waiting && s->chunk[s->chunks - 1].here != here;
    if (s->elements + unit->slice > (here ? JOINT_ELEMENTS : JOINT_ON_CPU) || other ||
        (!here && s->waiting == JOINT_CHUNKS))
        HIL_TRY(update_waiting(store));
    s->chunk[s->chunks++] = (hil_sweep_chunk){
        .unit = unit, .count = unit->slice, .here = here, .late = s->late && !here};
    ++s->waiting;
    s->elements += unit->slice;
    hil_fence_join(&s->ready, &unit->reading);
    for (int i = 0; i < unit->uses; ++i)
        if (unit->sweeping >> i & 1) hil_fence_join(&s->ready, &unit->use[i].left);
    return HIL_OK;
}

/* Submits the read, update, write and save of one chunk. A chunk without a gradient is only saved.
   Joins to *saved the end of the reads of its homes by the save. */
static hil_status sweep_chunk(hil_store *store, const hil_sweep_chunk *chunk, hil_fence *saved)
{
    struct hil_sweep *s = store->sweep;
    size_t index = s->chunks++;
    hil_sweep_chunk *r = &s->chunk[index];
    hil_unit *unit = chunk->unit;
    bool updates = unit->sweeping && !chunk->copy, saves = s->saving && !chunk->here;
    hil_status status = HIL_OK;
    hil_fence ready = {0}, over = {0}, copied = {0};
    *r = *chunk;
    r->late = s->late && updates && !r->here && hil_sweep_chunk_staged(store, r) == 0;
    r->together = 1;
    hil_job update = update_of(store, index); /* a job, or for device updates part of the read */
    unsigned what = HIL_STAGE_STATES | (r->copy ? 0 : HIL_STAGE_GRADIENTS);
    if (hil_unit_is_matrix(unit) && !s->saving) what &= ~(1u << HIL_STATE1); /* was updated */
    if (updates) ready = unit->reading;
    if (r->copy) ready = unit->swept;
    for (int i = 0; i < unit->uses && updates; ++i)
        if (unit->sweeping >> i & 1) hil_fence_join(&ready, &unit->use[i].left);
    HIL_TRY_DONE(hil_sweep_chunk_fill(store, r, what, r->from_host ? &update : NULL, &ready));
    over = update.after = ready;
    if (updates && !r->from_host) HIL_TRY_DONE(hil_sweep_submit(store, &update, &over));
    hil_fence_join(&ready, &over);
    if (r->copy) hil_fence_join(saved, &ready);
    if (saves) HIL_TRY_DONE(save_job(store, r, &ready, &copied));
    if (r->slot && updates) HIL_TRY_DONE(hil_sweep_chunk_empty(store, r, what, &ready, &over));
    if (r->from_host && s->saving) { /* saved from the host, after the write-back */
        hil_sweep_chunk home = {.unit = unit, .first = r->first, .count = r->count};
        HIL_TRY_DONE(save_job(store, &home, &over, &copied));
    }
done:
    if (r->slot) hil_fence_join(&r->slot->free, &over);
    if (r->slot) hil_fence_join(&r->slot->free, &copied);
    if (!r->copy) hil_fence_join(saved, &copied);
    if (!updates) return status;
    hil_fence_join(&unit->swept, &over);
    hil_fence_join(&unit->settled, &over);
    hil_fence_join(&s->all, &over);
    return status;
}

/* A gradient of zeros is not at home: beside those of other uses it is left out. */
void hil_unit_note_given(hil_unit *unit)
{
    bool alone = unit->uses == 1;
    unit->sweeping = 0;
    for (int i = 0; i < unit->uses; ++i)
        if (unit->use[i].given && (alone || !unit->use[i].none)) unit->sweeping |= 1u << i;
    unit->sweeping_none = alone && unit->use[0].none;
    for (int m = 0; m < unit->members; ++m) {
        hil_member *member = &unit->member[m];
        member->sweeping = member->summed & unit->sweeping;
        member->numbers = member->param->numbers;
    }
}

/* A gradient whose use was declared late may not fit into a slot on the device. */
static bool may_update_on_device(const hil_store *store, hil_unit *unit)
{
    hil_sweep_chunk first = hil_sweep_chunk_of(store, unit, 0);
    first.from_host = true;
    return unit->sweeping && hil_unit_device_updates(store, unit) &&
           hil_sweep_chunk_staged(store, &first) <= store->sweep->device_slot_bytes;
}

/* Until a save of the unit is over, unit->reading keeps the next update from overwriting its homes.
 */
static hil_status sweep_unit(hil_store *store, hil_unit *unit)
{
    hil_fence saved = {0};
    hil_status status = HIL_OK;
    bool here = hil_unit_stays(store, unit), from_host = may_update_on_device(store, unit);
    if (unit->sweeping) hil_window_forget(store, unit);
    bool joins = !here && !from_host && joins_on_cpu(store, unit);
    bool chunks = (!here && !joins) || store->sweep->saving;
    if ((here && unit->sweeping) || joins) status = join_waiting(store, unit, here);
    if (chunks && status == HIL_OK) status = update_waiting(store);
    for (int64_t c = 0; chunks && c * store->plan->chunk < unit->slice && status == HIL_OK;
         c += store->merge) {
        hil_sweep_chunk chunk = hil_sweep_chunk_of(store, unit, c);
        chunk.count = hil_merged_count(store, unit, c);
        chunk.copy = here;
        chunk.here = chunk.from_host = from_host;
        status = sweep_chunk(store, &chunk, &saved);
    }
    if (unit->sweeping && status == HIL_OK) unit->reading = (hil_fence){0};
    hil_fence_join(&unit->reading, &saved);
    return status;
}

/* Sorts the units by their first use in the next forward; unused ones come last. */
static void sort_units(hil_store *store)
{
    struct hil_sweep *s = store->sweep;
    const hil_uses_list *known = &store->order[HIL_PASS_TRAIN].known;
    size_t count = 0;
    memset(s->listed, 0, store->units * sizeof *s->listed);
    for (size_t i = 0; i < known->count + store->units; ++i) {
        size_t u = i - known->count;
        if (i < known->count) u = (size_t)(hil_order_entity(known->use[i]) / HIL_ENTITIES);
        if (s->listed[u]) continue;
        s->listed[u] = true;
        s->order[count++] = &store->unit[u];
    }
}

/* Sweeps in a row that were not over when the next one began. In all late moments take longer:
   where nothing was rehearsed, they end after so many. */
#define CROWDED_MOST 3

/* Before the update waits for the sweep before. */
static void choose_late(hil_store *store)
{
    struct hil_sweep *s = store->sweep;
    bool crowded = s->late && store->plan->unrehearsed && !hil_links_over(store->links, &s->all);
    if (s->late && s->crowded < CROWDED_MOST) s->crowded = crowded ? s->crowded + 1 : 0;
    s->late = store->plan->late_moments && s->crowded < CROWDED_MOST && store->options.in_parts;
}

static hil_status begin_sweep(hil_store *store)
{
    struct hil_sweep *s = store->sweep;
    HIL_TRY(hil_links_wait(store->links, &s->all, HIL_WAIT_UPDATE));
    HIL_TRY(hil_save_begin(store, &s->saving));
    if (s->saving) s->late = false;
    s->chunks = s->waiting = 0;
    s->elements = 0;
    s->ready = (hil_fence){0};
    sort_units(store);
    return hil_links_mark(store->links, &s->marked);
}

/* The second part of this chunk's update and of those that are updated with it. */
static hil_status sweep_moments(hil_store *store, size_t index)
{
    hil_sweep_chunk *r = &store->sweep->chunk[index];
    hil_job job = update_of(store, index);
    hil_fence over = {0};
    job.run = update_moments;
    job.name = "moments";
    for (size_t i = 0; i < r->together; ++i) hil_fence_join(&job.after, &r[i].unit->swept);
    HIL_TRY(hil_sweep_submit(store, &job, &over));
    for (size_t i = 0; i < r->together; ++i) hil_fence_join(&r[i].unit->settled, &over);
    hil_fence_join(&store->sweep->all, &over);
    return HIL_OK;
}

/* In the order in which backward gives gradients. Of what several segments use, as a tied
   embedding, the last segment gives one first. */
static hil_status sweep_all_moments(hil_store *store)
{
    struct hil_sweep *s = store->sweep;
    for (int shared = 1; shared >= 0; --shared)
        for (size_t i = s->chunks; i-- > 0;) {
            const hil_sweep_chunk *r = &s->chunk[i];
            if (r->late && r->together && (r->unit->uses > 1) == shared)
                HIL_TRY(sweep_moments(store, i));
        }
    return HIL_OK;
}

hil_status hil_store_update(hil_store *store, hil_update_fn *update, const void *rule,
                            size_t rule_bytes)
{
    struct hil_sweep *s = store->sweep;
    choose_late(store);
    HIL_TRY(begin_sweep(store));
    HIL_TRY(HIL_GROW(&s->rule, &s->rule_room, rule_bytes));
    s->update = update;
    memcpy(s->rule, rule, rule_bytes);
    HIL_TRY(hil_sweep_matrices(store));
    for (size_t u = 0; u < store->units; ++u) {
        hil_unit_note_given(s->order[u]);
        bool saves = s->saving && hil_unit_is_saved(store, s->order[u]);
        if (saves || s->order[u]->sweeping) HIL_TRY(sweep_unit(store, s->order[u]));
    }
    HIL_TRY(update_waiting(store));
    return sweep_all_moments(store);
}

hil_status hil_store_save(hil_store *store)
{
    struct hil_sweep *s = store->sweep;
    if (!hil_save_is_asked(store)) return HIL_OK;
    HIL_TRY(begin_sweep(store));
    for (size_t u = 0; u < store->units; ++u) {
        s->order[u]->sweeping = 0;
        if (hil_unit_is_saved(store, s->order[u])) HIL_TRY(sweep_unit(store, s->order[u]));
    }
    return HIL_OK;
}

hil_status hil_store_sweep_wait(hil_store *store)
{
    return hil_links_wait(store->links, &store->sweep->all, HIL_WAIT_UPDATE);
}
