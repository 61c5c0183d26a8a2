/* stage.c - where the states of a chunk are during its update: at home, or staged in a slot;
   filling and emptying the slots. */
#include "base/alloc.h"
#include "io/align.h"
#include "store/home.h"
#include "store/sweep.h"

/* Whether the state is updated in a slot and not at home. */
static bool is_staged(const hil_store *store, const hil_sweep_chunk *r, const hil_home *home)
{
    if (r->from_host) return home->exists && home->tier == HIL_HOST;
    if (!home->exists || home->tier == HIL_HOST) return false;
    return home->tier == HIL_DISK || (store->discrete && !r->here);
}

bool hil_unit_stays(const hil_store *store, const hil_unit *unit)
{
    return store->discrete && hil_unit_on_device(unit);
}

hil_sweep_chunk hil_sweep_chunk_of(const hil_store *store, hil_unit *unit, int64_t chunk)
{
    return (hil_sweep_chunk){.unit = unit,
                             .first = chunk * store->plan->chunk,
                             .count = hil_chunk_count(store, unit, chunk)};
}

/* Lays out states in a slot; with NULL for memory it only measures. */
typedef struct staging {
    char *memory;
    size_t used;
} staging;

static char *place(const hil_store *store, const hil_sweep_chunk *r, hil_unit_state state,
                   const hil_home *home, staging *slot_used)
{
    if (!home->exists) return NULL;
    if (home->sum) return home->memory; /* of a unit that is processed as a whole */
    if (!is_staged(store, r, home))
        return home->memory + hil_chunk_bytes(store, r->unit, state, r->first);
    char *at = slot_used->memory ? slot_used->memory + slot_used->used : NULL;
    slot_used->used += hil_align_up(hil_chunk_bytes(store, r->unit, state, r->count));
    return at;
}

static hil_places locate(const hil_store *store, const hil_sweep_chunk *r)
{
    hil_places p = {0};
    staging s = {.memory = r->slot ? r->slot->memory : NULL};
    hil_unit *unit = r->unit;
    for (int i = 0; i < HIL_GRADIENT; ++i)
        p.state[i] = place(store, r, (hil_unit_state)i, &unit->home[i], &s);
    for (int i = 0; i < unit->uses && !r->copy; ++i)
        p.gradient[i] = place(store, r, HIL_GRADIENT, &unit->use[i].home, &s);
    p.staged = s.used;
    return p;
}

size_t hil_sweep_chunk_staged(const hil_store *store, const hil_sweep_chunk *r)
{
    return locate(store, r).staged;
}

static void add_part(const hil_store *store, hil_job *job, const hil_home *home,
                     hil_unit_state state, const hil_sweep_chunk *r, char *at)
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
                           .count = hil_pages_of(store, r->count)};
        return;
    }
    char *memory = home->memory + hil_chunk_bytes(store, r->unit, state, r->first);
    *part = (hil_part){
        .kind = HIL_PART_COPY, .to = in ? at : memory, .from = in ? memory : at, .bytes = bytes};
}

/* The job that fills or empties the slot. A job without parts need not be submitted. */
static hil_job stage_job(const hil_store *store, hil_link link, const hil_sweep_chunk *r,
                         unsigned what)
{
    hil_job job = {.link = link, .reversed = r->from_host, .name = "states"};
    const hil_unit *unit = r->unit;
    hil_places p = locate(store, r);
    for (int s = 0; s < HIL_GRADIENT; ++s)
        if ((what >> s & 1) && is_staged(store, r, &unit->home[s]))
            add_part(store, &job, &unit->home[s], (hil_unit_state)s, r, p.state[s]);
    if (unit->sweeping_none) what &= ~(unsigned)HIL_STAGE_GRADIENTS;
    for (int i = 0; i < unit->uses && (what & HIL_STAGE_GRADIENTS); ++i)
        if ((unit->sweeping >> i & 1) && is_staged(store, r, &unit->use[i].home))
            add_part(store, &job, &unit->use[i].home, HIL_GRADIENT, r, p.gradient[i]);
    return job;
}

hil_sweep_work hil_sweep_chunk_work(hil_store *store, const hil_sweep_chunk *r)
{
    int64_t base = hil_unit_begin(store, r->unit) + r->first;
    hil_block_scope scope = hil_unit_is_matrix(r->unit) ? HIL_SCOPE_MATRIX : HIL_SCOPE_ELEMENTS;
    return (hil_sweep_work){store, r->unit, locate(store, r), base, r->count, scope};
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

/* The gradient of an idle expert, in any dtype. */
static const float zeros[HIL_SWEEP_TASK];

int hil_unit_first_use(const hil_unit *unit)
{
    int i = following_use(unit, -1);
    while (i >= 0 && !(unit->member[0].sweeping >> i & 1))
        i = following_use(unit, unit->use[i].segment);
    return i;
}

hil_block hil_sweep_work_block(const hil_sweep_work *job, const hil_member *member, int64_t from,
                               int64_t to)
{
    const hil_unit *unit = job->unit;
    hil_block b = {
        .count = to - from, .dtype = unit->dtype, .numbers = member->numbers, .scope = job->scope};
    char *state[HIL_GRADIENT];
    for (int s = 0; s < HIL_GRADIENT; ++s) {
        size_t at = hil_chunk_bytes(job->store, unit, (hil_unit_state)s, from - job->base);
        state[s] = job->places.state[s] ? job->places.state[s] + at : NULL;
    }
    b.weight = state[HIL_WEIGHT];
    b.rest = state[HIL_REST];
    b.moment[0] = state[HIL_STATE1];
    b.moment[1] = state[HIL_STATE2];
    for (int i = following_use(unit, -1); i >= 0; i = following_use(unit, unit->use[i].segment)) {
        if (!(member->sweeping >> i & 1)) continue;
        b.sums = unit->use[i].home.sum; /* the same for all */
        size_t size = hil_dtype_size(b.sums ? HIL_F32 : unit->dtype);
        b.gradient[b.gradients++] = job->places.gradient[i] + (size_t)(from - job->base) * size;
    }
    assert(!unit->sweeping_none || b.count <= HIL_SWEEP_TASK);
    if (unit->sweeping_none) b.gradient[0] = zeros;
    return b;
}

static hil_slot *next_slot(hil_slot_ring *c)
{
    hil_slot *next = &c->slot[c->next];
    c->next = (c->next + 1) % c->slots;
    return next;
}

hil_status hil_sweep_chunk_fill(hil_store *store, hil_sweep_chunk *r, unsigned what,
                                const hil_job *then, hil_fence *ready)
{
    struct hil_sweep *s = store->sweep;
    hil_job read = stage_job(store, HIL_LINK_READ, r, what);
    if (!read.parts) return HIL_OK;
    r->slot = next_slot(r->from_host ? &s->device : &s->host);
    read = stage_job(store, HIL_LINK_READ, r, what); /* now with its memory */
    if (then) {
        read.run = then->run;
        read.queues = then->queues;
        read.context = then->context;
        read.index = then->index;
        read.seconds = then->seconds;
    }
    read.after = *ready;
    hil_fence_join(&read.after, &r->slot->free);
    return hil_sweep_submit(store, &read, ready);
}

hil_status hil_sweep_chunk_empty(hil_store *store, const hil_sweep_chunk *r, unsigned what,
                                 const hil_fence *after, hil_fence *over)
{
    hil_job write = stage_job(store, HIL_LINK_WRITE, r, what & HIL_STAGE_STATES);
    write.after = *after;
    return write.parts ? hil_sweep_submit(store, &write, over) : HIL_OK;
}

/* The caller blocks until the slot is free, because the CPU or a drive may use it: stream order is
   not enough. */
hil_status hil_stage_begin(hil_store *store, hil_stage *stage)
{
    const hil_slot *next = next_slot(&store->sweep->host);
    *stage = (hil_stage){next->memory, next->used};
    HIL_TRY(hil_links_wait(store->links, &next->free, HIL_WAIT_MEMORY));
    return store->device->events->wait(store->device, next->used);
}

hil_status hil_stage_end(hil_store *store, const hil_stage *stage)
{
    return store->device->events->record(store->device, HIL_STREAM_COMPUTE, stage->used);
}

static hil_status open_slot(hil_store *store, hil_slot *s, size_t bytes)
{
    HIL_TRY(
        hil_tiers_take(store->tiers, HIL_HOST, bytes, "staging of states", (void **)&s->memory));
    store->resident[HIL_HOST] += bytes;
    HIL_TRY(hil_tiers_pin(store->tiers, s->memory, bytes, HIL_PIN_FIRST));
    if (!store->device) return HIL_OK;
    HIL_TRY(store->device->events->create(store->device, &s->used));
    return store->device->events->record(store->device, HIL_STREAM_COMPUTE, s->used);
}

/* Slots on the device, for device updates. */
static hil_status open_device_slots(hil_store *store)
{
    struct hil_sweep *s = store->sweep;
    for (size_t u = 0; u < store->units && store->options.training; ++u) {
        hil_sweep_chunk first = hil_sweep_chunk_of(store, &store->unit[u], 0);
        first.from_host = hil_unit_device_updates(store, first.unit);
        size_t staged = first.from_host ? hil_sweep_chunk_staged(store, &first) : 0;
        if (staged > s->device_slot_bytes) s->device_slot_bytes = staged;
    }
    if (!s->device_slot_bytes) return HIL_OK;
    HIL_TRY(HIL_ALLOC(store->plan->device_slots, &s->device.slot));
    for (; s->device.slots < store->plan->device_slots; ++s->device.slots) {
        void **memory = (void **)&s->device.slot[s->device.slots].memory;
        HIL_TRY(hil_tiers_take(store->tiers, HIL_DEVICE, s->device_slot_bytes,
                               "states updated on the device", memory));
        store->resident[HIL_DEVICE] += s->device_slot_bytes;
    }
    return HIL_OK;
}

size_t hil_unit_saved_staged(const hil_store *store, const hil_unit *unit)
{
    size_t bytes = 0;
    int64_t count = hil_chunk_count(store, unit, 0);
    for (int s = 0; s < HIL_GRADIENT && store->discrete; ++s)
        if (unit->home[s].exists)
            bytes += hil_align_up(hil_chunk_bytes(store, unit, (hil_unit_state)s, count));
    return bytes;
}

hil_status hil_sweep_open(hil_store *store)
{
    struct hil_sweep *s;
    HIL_TRY(HIL_ALLOC(1, &s));
    store->sweep = s;
    HIL_TRY(HIL_ALLOC(store->units, &s->order));
    HIL_TRY(HIL_ALLOC(store->units, &s->listed));
    size_t most = 0;
    int64_t chunks = 0;
    for (size_t u = 0; u < store->units && (store->options.training || store->discrete); ++u) {
        hil_sweep_chunk first = hil_sweep_chunk_of(store, &store->unit[u], 0);
        first.copy = hil_unit_stays(store, first.unit);
        size_t staged = hil_sweep_chunk_staged(store, &first);
        size_t promoted = store->plan->grows ? hil_unit_saved_staged(store, first.unit) : 0;
        if (staged < promoted) staged = promoted;
        if (staged > most) most = staged;
        chunks += 1 + (store->unit[u].slice + store->plan->chunk - 1) / store->plan->chunk;
    }
    HIL_TRY(HIL_ALLOC(chunks, &s->chunk));
    HIL_TRY(open_device_slots(store));
    s->host_slot_bytes = most;
    if (!most) return HIL_OK;
    HIL_TRY(HIL_ALLOC(store->plan->slots, &s->host.slot));
    for (; s->host.slots < store->plan->slots; ++s->host.slots)
        HIL_TRY(open_slot(store, &s->host.slot[s->host.slots], most));
    return HIL_OK;
}

void hil_sweep_close(hil_store *store)
{
    struct hil_sweep *s = store->sweep;
    if (!s) return;
    for (int i = 0; s->host.slot && i < store->plan->slots; ++i)
        if (s->host.slot[i].used)
            store->device->events->destroy(store->device, s->host.slot[i].used);
    hil_free(s->host.slot);
    hil_free(s->device.slot);
    hil_free(s->chunk);
    hil_free(s->rule);
    hil_free(s->order);
    hil_free(s->listed);
    hil_free(s);
    store->sweep = NULL;
}
