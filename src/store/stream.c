/* stream.c - the sweep: chunks of states pass through a circle of slots (read, update, write and
   save), in the order of the next forward, beside whatever follows.

   States in memory that the CPU reaches are updated in place by chunks; the others are staged in a
   slot of host memory. Where the device is apart, a unit whose states all live there is updated
   there, whole, and its chunks are staged only to be saved; states on the host that visit the
   device pass through slots there. */
#include "base/alloc.h"
#include "io/align.h"
#include "store/param.h"

#include <math.h>
#include <string.h>

#define TASK 16384 /* elements of one task of the pool */

typedef struct slot {
    char *memory;
    hil_fence free;
    hil_event *used; /* by a stage */
} slot;

/* Elements [first, first + count) of the slice that are worked on together. */
typedef struct record {
    hil_unit *unit;
    int64_t first, count;
    bool copy;   /* of states that live on the device, to save them */
    bool here;   /* what lives on the device is worked on there */
    bool visits; /* and what lives on the host comes there: [Note: visits] in plan.h */
    slot *slot;
} record;

/* Used in turn. */
typedef struct circle {
    slot *slot;
    int slots, next;
} circle;

struct hil_sweep {
    circle host, device; /* device: for what visits it */
    size_t guest;        /* bytes of a slot there */
    record *record;
    size_t records;
    hil_unit **order;
    bool *listed;
    hil_update_fn *update;
    _Alignas(16) char rule[HIL_RULE_BYTES];
    hil_fence told; /* computing that all jobs follow */
    bool saving;    /* this sweep does, too */
    hil_fence all;  /* over: the last sweep is done */
};

/* Where the states of a chunk are while they are worked on. */
typedef struct places {
    char *state[HIL_GRADIENT];
    char *gradient[HIL_USES]; /* by use */
    size_t staged;            /* bytes of the slot */
} places;

/* Whether the state is worked on in a slot and not at home. */
static bool is_staged(const hil_store *store, const record *r, const hil_home *home)
{
    if (r->visits) return home->exists && home->tier == HIL_HOST;
    if (!home->exists || home->tier == HIL_HOST) return false;
    return home->tier == HIL_DISK || (store->apart && !r->here);
}

/* Whether the device itself updates the unit. */
static bool stays(const hil_store *store, const hil_unit *unit)
{
    return store->apart && hil_unit_on_device(unit);
}

static record chunk_of(const hil_store *store, hil_unit *unit, int64_t chunk)
{
    return (record){.unit = unit,
                    .first = chunk * store->plan->chunk,
                    .count = hil_chunk_count(store, unit, chunk)};
}

/* A slot that is being filled; without memory only measured. */
typedef struct staging {
    char *memory;
    size_t used;
} staging;

static char *place(const hil_store *store, const record *r, hil_unit_state state,
                   const hil_home *home, staging *slot_used)
{
    if (!home->exists) return NULL;
    if (!is_staged(store, r, home))
        return home->memory + hil_chunk_bytes(store, r->unit, state, r->first);
    char *at = slot_used->memory ? slot_used->memory + slot_used->used : NULL;
    slot_used->used += hil_align_up(hil_chunk_bytes(store, r->unit, state, r->count));
    return at;
}

static places locate(const hil_store *store, const record *r)
{
    places p = {0};
    staging s = {.memory = r->slot ? r->slot->memory : NULL};
    hil_unit *unit = r->unit;
    for (int i = 0; i < HIL_GRADIENT; ++i)
        p.state[i] = place(store, r, (hil_unit_state)i, &unit->home[i], &s);
    for (int i = 0; i < unit->uses && !r->copy; ++i)
        p.gradient[i] = place(store, r, HIL_GRADIENT, &unit->use[i].home, &s);
    p.staged = s.used;
    return p;
}

static void add_part(const hil_store *store, hil_job *job, const hil_home *home,
                     hil_unit_state state, const record *r, char *at)
{
    bool in = job->link == HIL_LINK_READ;
    size_t bytes = hil_chunk_bytes(store, r->unit, state, r->count);
    hil_part *part = &job->part[job->parts++];
    if (home->tier == HIL_DISK) {
        *part = (hil_part){.kind = in ? HIL_PART_READ : HIL_PART_WRITE,
                           .to = in ? at : NULL,
                           .from = in ? NULL : at,
                           .bytes = bytes,
                           .disk = &home->extent,
                           .first = r->first / store->plan->chunk,
                           .count = 1};
        return;
    }
    char *memory = home->memory + hil_chunk_bytes(store, r->unit, state, r->first);
    *part = (hil_part){
        .kind = HIL_PART_COPY, .to = in ? at : memory, .from = in ? memory : at, .bytes = bytes};
}

enum { STATES = 1, GRADIENTS = 2 };

/* The job that fills or empties the slot; without parts there is nothing to do. */
static hil_job stage_job(const hil_store *store, hil_link link, const record *r, unsigned what)
{
    hil_job job = {.link = link, .turned = r->visits, .name = "states"};
    const hil_unit *unit = r->unit;
    places p = locate(store, r);
    for (int s = 0; s < HIL_GRADIENT && (what & STATES); ++s)
        if (is_staged(store, r, &unit->home[s]))
            add_part(store, &job, &unit->home[s], (hil_unit_state)s, r, p.state[s]);
    for (int i = 0; i < unit->uses && (what & GRADIENTS); ++i)
        if ((unit->sweeping >> i & 1) && is_staged(store, r, &unit->use[i].home))
            add_part(store, &job, &unit->use[i].home, HIL_GRADIENT, r, p.gradient[i]);
    return job;
}

/* A chunk that is being worked on. */
typedef struct updating {
    hil_store *store;
    const hil_unit *unit;
    places places;
    int64_t base, count; /* elements of the unit */
} updating;

static updating work_on(hil_store *store, const record *r)
{
    int64_t base = hil_unit_begin(store, r->unit) + r->first;
    return (updating){store, r->unit, locate(store, r), base, r->count};
}

/* The use of the lowest segment above `last`. */
static int following_use(const hil_unit *unit, int last)
{
    int best = -1;
    for (int i = 0; i < unit->uses; ++i)
        if (unit->use[i].segment > last &&
            (best < 0 || unit->use[i].segment < unit->use[best].segment))
            best = i;
    return best;
}

/* Elements [from, to) of the unit as a block of one member; gradients in the order of segments. */
static hil_block make_block(const updating *job, const hil_member *member, int64_t from, int64_t to)
{
    const hil_unit *unit = job->unit;
    hil_block b = {
        .count = to - from, .dtype = unit->dtype, .decay = !member->param->spec.no_decay};
    char *state[HIL_GRADIENT];
    for (int s = 0; s < HIL_GRADIENT; ++s) {
        size_t at = hil_chunk_bytes(job->store, unit, (hil_unit_state)s, from - job->base);
        state[s] = job->places.state[s] ? job->places.state[s] + at : NULL;
    }
    b.weight = state[HIL_WEIGHT];
    b.rest = state[HIL_REST];
    b.moment[0] = state[HIL_STATE1];
    b.moment[1] = state[HIL_STATE2];
    size_t at = (size_t)(from - job->base) * hil_dtype_size(unit->dtype);
    for (int i = following_use(unit, -1); i >= 0; i = following_use(unit, unit->use[i].segment))
        if (member->sweeping >> i & 1) b.gradient[b.gradients++] = job->places.gradient[i] + at;
    return b;
}

static void update_task(void *context, int64_t i, int thread)
{
    (void)thread;
    const updating *job = context;
    int64_t first = job->base + i * TASK, last = job->base + job->count, from, to;
    if (last > first + TASK) last = first + TASK;
    for (int m = 0; m < job->unit->members; ++m) {
        if (!hil_member_overlap(&job->unit->member[m], first, last, &from, &to)) continue;
        hil_block block = make_block(job, &job->unit->member[m], from, to);
        if (block.gradients) job->store->stream->update(job->store->stream->rule, &block);
    }
}

static hil_status update_chunk(void *context, int64_t index)
{
    hil_store *store = context;
    updating job = work_on(store, &store->stream->record[index]);
    hil_pool_run(store->opening.update, update_task, &job, (job.count + TASK - 1) / TASK);
    return HIL_OK;
}

/* The same, queued on the device where the chunk is. */
static hil_status queue_update(void *context, int64_t index)
{
    hil_store *store = context;
    hil_device *device = store->device;
    const struct hil_sweep *s = store->stream;
    updating job = work_on(store, &s->record[index]);
    hil_stream stream = s->record[index].visits ? HIL_STREAM_READ : HIL_STREAM_UPDATE;
    for (int m = 0; m < job.unit->members; ++m) {
        int64_t from, to;
        const hil_member *member = &job.unit->member[m];
        if (!hil_member_overlap(member, job.base, job.base + job.count, &from, &to)) continue;
        hil_block block = make_block(&job, member, from, to);
        if (block.gradients) HIL_TRY(device->math->update(device, stream, s->rule, &block));
    }
    return HIL_OK;
}

static hil_status submit(hil_store *store, hil_job *job, hil_fence *over)
{
    job->told = true;
    hil_fence_join(&job->after, &store->stream->told);
    return hil_links_submit(store->links, job, over);
}

static slot *next_slot(circle *c)
{
    slot *next = &c->slot[c->next];
    c->next = (c->next + 1) % c->slots;
    return next;
}

/* Seconds of an update in the rehearsal. */
static double seconds_of(const hil_store *store, const record *r)
{
    const hil_speeds *speeds = store->opening.speeds;
    if (!speeds) return 0;
    bool device = r->here && speeds->update_device > 0;
    return (double)r->count / (device ? speeds->update_device : speeds->update);
}

/* Updates the chunk after `before`. */
static hil_status update_job(hil_store *store, size_t index, const hil_fence *before,
                             hil_fence *over)
{
    const record *r = &store->stream->record[index];
    bool queues = r->here && store->device;
    hil_job update = {.link = HIL_LINK_UPDATE,
                      .after = *before,
                      .run = queues ? queue_update : update_chunk,
                      .queues = queues,
                      .context = store,
                      .index = (int64_t)index,
                      .seconds = seconds_of(store, r),
                      .name = "update"};
    return submit(store, &update, over);
}

static hil_status save_job(hil_store *store, const record *r, const hil_fence *after,
                           hil_fence *over)
{
    updating at = work_on(store, r);
    hil_chunk chunk = {.unit = r->unit, .base = at.base, .count = at.count};
    memcpy(chunk.state, at.places.state, sizeof chunk.state);
    return hil_save_chunk(store, &chunk, after, over);
}

/* Fills the slot of a chunk that needs one. *ready: what it waits for, then when it is there. What
   visits the device is also updated there at once. */
static hil_status fill_slot(hil_store *store, record *r, unsigned what, hil_fence *ready)
{
    struct hil_sweep *s = store->stream;
    hil_job read = stage_job(store, HIL_LINK_READ, r, what);
    if (!read.parts) return HIL_OK;
    r->slot = next_slot(r->visits ? &s->device : &s->host);
    read = stage_job(store, HIL_LINK_READ, r, what); /* now with its memory */
    if (r->visits) {
        read.run = queue_update;
        read.queues = true;
        read.context = store;
        read.index = r - s->record;
        read.seconds = seconds_of(store, r);
    }
    read.after = *ready;
    hil_fence_join(&read.after, &r->slot->free);
    return submit(store, &read, ready);
}

/* Read; update; write and save one chunk. What has no gradient is not updated and not written.
 *saved is joined: nothing at home is read any more to be saved. */
static hil_status sweep_chunk(hil_store *store, const record *chunk, hil_fence *saved)
{
    struct hil_sweep *s = store->stream;
    size_t index = s->records++;
    record *r = &s->record[index];
    hil_unit *unit = chunk->unit;
    bool updates = unit->sweeping && !chunk->copy, saves = s->saving && !chunk->here;
    hil_status status = HIL_OK;
    hil_fence ready = {0}, over = {0}, copied = {0};
    *r = *chunk;
    if (updates) ready = unit->reading;
    if (r->copy) ready = unit->swept;
    for (int i = 0; i < unit->uses && updates; ++i)
        if (unit->sweeping >> i & 1) hil_fence_join(&ready, &unit->use[i].left);
    HIL_TRY_DONE(fill_slot(store, r, r->copy ? STATES : STATES | GRADIENTS, &ready));
    over = ready;
    if (updates && !r->visits) HIL_TRY_DONE(update_job(store, index, &ready, &over));
    hil_fence_join(&ready, &over);
    if (r->copy) hil_fence_join(saved, &ready);
    if (saves) HIL_TRY_DONE(save_job(store, r, &ready, &copied));
    if (r->slot && updates) {
        hil_job write = stage_job(store, HIL_LINK_WRITE, r, STATES);
        write.after = ready;
        if (write.parts) HIL_TRY_DONE(submit(store, &write, &over));
    }
    if (r->visits && s->saving) { /* from home, where it is again */
        record home = {.unit = unit, .first = r->first, .count = r->count};
        HIL_TRY_DONE(save_job(store, &home, &over, &copied));
    }
done:
    if (r->slot) hil_fence_join(&r->slot->free, &over);
    if (r->slot) hil_fence_join(&r->slot->free, &copied);
    if (!r->copy) hil_fence_join(saved, &copied);
    if (!updates) return status;
    hil_fence_join(&unit->swept, &over);
    hil_fence_join(&s->all, &over);
    return status;
}

/* Remembers what this step gave: the step ends while the sweep goes on. */
static void note_given(hil_unit *unit)
{
    unit->sweeping = 0;
    for (int i = 0; i < unit->uses; ++i)
        if (unit->use[i].given) unit->sweeping |= 1u << i;
    for (int m = 0; m < unit->members; ++m) unit->member[m].sweeping = unit->member[m].summed;
}

/* A gradient that came late may be too much for a slot. */
static bool may_visit(const hil_store *store, hil_unit *unit)
{
    record first = chunk_of(store, unit, 0);
    first.visits = true;
    return unit->sweeping && hil_unit_visits(store, unit) &&
           locate(store, &first).staged <= store->stream->guest;
}

/* A unit that is saved is read at home until that is over. */
static hil_status sweep_unit(hil_store *store, hil_unit *unit)
{
    hil_fence saved = {0};
    hil_status status = HIL_OK;
    bool here = stays(store, unit), visits = may_visit(store, unit);
    if (unit->sweeping) hil_window_forget(store, unit);
    record whole = {.unit = unit, .count = unit->slice, .here = true};
    if (here && unit->sweeping) status = sweep_chunk(store, &whole, &saved);
    bool chunks = !here || store->stream->saving;
    for (int64_t c = 0; chunks && c * store->plan->chunk < unit->slice && status == HIL_OK; ++c) {
        record chunk = chunk_of(store, unit, c);
        chunk.copy = here;
        chunk.here = chunk.visits = visits;
        status = sweep_chunk(store, &chunk, &saved);
    }
    if (unit->sweeping && status == HIL_OK) unit->reading = (hil_fence){0};
    hil_fence_join(&unit->reading, &saved);
    return status;
}

/* The units in the order in which the next forward uses them. */
static void sort_units(hil_store *store)
{
    struct hil_sweep *s = store->stream;
    const hil_uses_list *known = &store->order[HIL_PASS_TRAIN].known;
    size_t count = 0;
    memset(s->listed, 0, store->units * sizeof *s->listed);
    for (size_t i = 0; i < known->count + store->units; ++i) {
        size_t u = i < known->count ? (size_t)(known->use[i] / HIL_ENTITIES) : i - known->count;
        if (s->listed[u]) continue;
        s->listed[u] = true;
        s->order[count++] = &store->unit[u];
    }
}

static hil_status begin_sweep(hil_store *store, const hil_saving *saving)
{
    struct hil_sweep *s = store->stream;
    HIL_TRY(hil_links_wait(store->links, &s->all, HIL_WAIT_UPDATE));
    if (saving) HIL_TRY(hil_save_begin(store, saving));
    s->saving = saving != NULL;
    s->records = 0;
    sort_units(store);
    return hil_links_told(store->links, &s->told);
}

hil_status hil_store_update(hil_store *store, hil_update_fn *update, const void *rule,
                            size_t rule_bytes, const hil_saving *saving)
{
    struct hil_sweep *s = store->stream;
    assert(rule_bytes <= sizeof s->rule);
    HIL_TRY(begin_sweep(store, saving));
    s->update = update;
    memcpy(s->rule, rule, rule_bytes);
    for (size_t u = 0; u < store->units; ++u) {
        note_given(s->order[u]);
        if (saving || s->order[u]->sweeping) HIL_TRY(sweep_unit(store, s->order[u]));
    }
    return HIL_OK;
}

hil_status hil_store_save(hil_store *store, const hil_saving *saving)
{
    struct hil_sweep *s = store->stream;
    HIL_TRY(begin_sweep(store, saving));
    for (size_t u = 0; u < store->units; ++u) {
        s->order[u]->sweeping = 0;
        HIL_TRY(sweep_unit(store, s->order[u]));
    }
    return HIL_OK;
}

hil_status hil_store_settle(hil_store *store)
{
    return hil_links_wait(store->links, &store->stream->all, HIL_WAIT_UPDATE);
}

/* Squares a piece of gradients on the device, or where the CPU reaches them. */
static hil_status square_chunk(hil_store *store, record *r)
{
    hil_unit *unit = r->unit;
    hil_worker worker = hil_worker_compute(store);
    hil_fence ready = {0};
    for (int i = 0; i < unit->uses; ++i)
        if (unit->sweeping >> i & 1) hil_fence_join(&ready, &unit->use[i].left);
    if (r->here) {
        HIL_TRY(hil_links_follow(store->links, &ready, HIL_WAIT_GRADIENTS));
    } else {
        HIL_TRY(fill_slot(store, r, GRADIENTS, &ready));
        HIL_TRY(hil_links_wait(store->links, &ready, HIL_WAIT_GRADIENTS));
        worker.device = NULL;
    }
    updating job = work_on(store, r);
    if (r->first == 0) HIL_TRY(hil_squares_begin(store, &worker, unit));
    for (int m = 0; m < unit->members; ++m) {
        const hil_member *member = &unit->member[m];
        int64_t from, to;
        if (!hil_member_overlap(member, job.base, job.base + job.count, &from, &to)) continue;
        hil_block block = make_block(&job, member, from, to);
        if (block.gradients)
            HIL_TRY(hil_squares_add(store, &worker, unit, m, &block, from - member->offset));
    }
    return r->first + r->count == unit->slice ? hil_squares_end(store, &worker, unit) : HIL_OK;
}

/* A unit that is used in several segments: its gradients are added before they are squared. */
static hil_status square_shared(hil_store *store, hil_unit *unit)
{
    bool here = store->apart;
    note_given(unit);
    HIL_TRY(hil_links_told(store->links, &store->stream->told));
    for (int i = 0; i < unit->uses; ++i)
        if (unit->sweeping >> i & 1) here &= unit->use[i].home.tier == HIL_DEVICE;
    record whole = {.unit = unit, .count = unit->slice, .here = true};
    if (here) return square_chunk(store, &whole);
    for (int64_t c = 0; c * store->plan->chunk < unit->slice; ++c) {
        record chunk = chunk_of(store, unit, c);
        HIL_TRY(square_chunk(store, &chunk));
    }
    return HIL_OK;
}

static bool is_given(const hil_unit *unit)
{
    bool given = false;
    for (int i = 0; i < unit->uses; ++i) given |= unit->use[i].given;
    return given;
}

hil_status hil_store_norm(hil_store *store, double *norm)
{
    double sum = 0;
    if (!hil_store_alone(store)) HIL_TRY(hil_reduce_agree(store));
    for (size_t u = 0; u < store->units; ++u)
        if (store->unit[u].uses > 1 && is_given(&store->unit[u]))
            HIL_TRY(square_shared(store, &store->unit[u]));
    if (store->device) HIL_TRY(store->device->engine->finish(store->device));
    for (size_t u = 0; u < store->units; ++u) {
        const hil_unit *unit = &store->unit[u];
        int64_t blocks = is_given(unit) ? hil_unit_blocks(unit) : 0;
        for (int64_t b = 0; b < blocks; ++b) sum += unit->square[b];
    }
    HIL_TRY(hil_comm_sum(store->opening.comm, &sum, 1));
    *norm = sqrt(sum);
    return HIL_OK;
}

/* A slot is waited for by the clock: what filled or emptied it may have been the CPU or a drive. */
hil_status hil_stage_begin(hil_store *store, hil_stage *stage)
{
    const slot *next = next_slot(&store->stream->host);
    *stage = (hil_stage){next->memory, next->used};
    HIL_TRY(hil_links_wait(store->links, &next->free, HIL_WAIT_MEMORY));
    return store->device->engine->wait(store->device, next->used);
}

hil_status hil_stage_end(hil_store *store, const hil_stage *stage)
{
    return store->device->engine->record(store->device, HIL_STREAM_COMPUTE, stage->used);
}

static hil_status open_slot(hil_store *store, slot *s, size_t bytes)
{
    HIL_TRY(
        hil_tiers_take(store->tiers, HIL_HOST, bytes, "staging of states", (void **)&s->memory));
    store->resident[HIL_HOST] += bytes;
    HIL_TRY(hil_tiers_pin(store->tiers, s->memory, bytes));
    if (!store->device) return HIL_OK;
    HIL_TRY(store->device->engine->create_event(store->device, &s->used));
    return store->device->engine->record(store->device, HIL_STREAM_COMPUTE, s->used);
}

/* Slots on the device. */
static hil_status open_guests(hil_store *store)
{
    struct hil_sweep *s = store->stream;
    for (size_t u = 0; u < store->units && store->options.training; ++u) {
        record first = chunk_of(store, &store->unit[u], 0);
        first.visits = hil_unit_visits(store, first.unit);
        size_t staged = first.visits ? locate(store, &first).staged : 0;
        if (staged > s->guest) s->guest = staged;
    }
    if (!s->guest) return HIL_OK;
    HIL_TRY(HIL_ALLOC(store->plan->guests, &s->device.slot));
    for (; s->device.slots < store->plan->guests; ++s->device.slots) {
        void **memory = (void **)&s->device.slot[s->device.slots].memory;
        HIL_TRY(hil_tiers_take(store->tiers, HIL_DEVICE, s->guest, "states that visit", memory));
        store->resident[HIL_DEVICE] += s->guest;
    }
    return HIL_OK;
}

hil_status hil_stream_open(hil_store *store)
{
    struct hil_sweep *s;
    HIL_TRY(HIL_ALLOC(1, &s));
    store->stream = s;
    HIL_TRY(HIL_ALLOC(store->units, &s->order));
    HIL_TRY(HIL_ALLOC(store->units, &s->listed));
    size_t most = 0;
    int64_t chunks = 0;
    for (size_t u = 0; u < store->units && (store->options.training || store->apart); ++u) {
        record first = chunk_of(store, &store->unit[u], 0);
        first.copy = stays(store, first.unit);
        size_t staged = locate(store, &first).staged;
        if (staged > most) most = staged;
        chunks += 1 + (store->unit[u].slice + store->plan->chunk - 1) / store->plan->chunk;
    }
    HIL_TRY(HIL_ALLOC(chunks, &s->record));
    HIL_TRY(open_guests(store));
    if (!most) return HIL_OK;
    HIL_TRY(HIL_ALLOC(store->plan->slots, &s->host.slot));
    for (; s->host.slots < store->plan->slots; ++s->host.slots)
        HIL_TRY(open_slot(store, &s->host.slot[s->host.slots], most));
    return HIL_OK;
}

void hil_stream_close(hil_store *store)
{
    struct hil_sweep *s = store->stream;
    if (!s) return;
    for (int i = 0; s->host.slot && i < store->plan->slots; ++i)
        if (s->host.slot[i].used)
            store->device->engine->destroy_event(store->device, s->host.slot[i].used);
    hil_free(s->host.slot);
    hil_free(s->device.slot);
    hil_free(s->record);
    hil_free(s->order);
    hil_free(s->listed);
    hil_free(s);
    store->stream = NULL;
}
