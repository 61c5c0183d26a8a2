/* Tensors come back unchanged from host memory and disk, for any order of calls and any budgets; a
   rehearsal of the same calls has the same peaks, addresses and bytes. */
#include "tier/offload.h"

#include "base/alloc.h"
#include "base/philox.h"

#include "check.h"

#include <time.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)
#define MOVABLES 12

typedef struct setting {
    size_t device, host, ring, most; /* bytes; `most` of one tensor */
    uint64_t disk;
    int steps;
} setting;

/* What must not differ between a run and its rehearsal. */
typedef struct outcome {
    uint64_t trail; /* a hash of every address and every refusal */
    size_t device_peak, host_peak;
    uint64_t disk_peak, disk_extent[HIL_DRIVES];
    uint64_t bytes[HIL_LINKS], disk_read, disk_written, to_device, to_host;
    int refused_device, refused_host, refused_disk;
} outcome;

typedef struct world {
    const setting *set;
    hil_tiers tiers;
    hil_buffers *buffers;
    hil_ring *ring;
    hil_offload *offload;
    hil_movable movable[MOVABLES];
    uint32_t version[MOVABLES]; /* of the contents; 0: there is no such tensor */
    bool changed[MOVABLES];     /* since it was sent last */
    uint64_t seed, draw;
    outcome out;
} world;

static uint32_t dice(world *w, uint32_t sides)
{
    uint32_t four[4];
    hil_philox(w->seed, w->draw++, 0, four);
    return four[0] % sides;
}

static void note(world *w, uint64_t what)
{
    w->out.trail = (w->out.trail ^ what) * 0x100000001b3u;
    w->out.trail ^= w->out.trail >> 29;
}

static void note_place(world *w, const void *data)
{
    note(w, data ? (uint64_t)((const char *)data - w->tiers.device_base) + 1 : 0);
}

/* Byte k of version v of tensor i. */
static char content(int i, uint32_t v, size_t k)
{
    return (char)((k >> 12) * 31 + k * 7 + v * 13 + (uint32_t)i * 101);
}

static void fill(world *w, int i)
{
    ++w->version[i];
    w->changed[i] = true;
    if (w->tiers.rehearse) return;
    char *data = w->movable[i].data;
    for (size_t k = 0; k < w->movable[i].bytes; ++k) data[k] = content(i, w->version[i], k);
}

static void verify(const world *w, int i)
{
    if (w->tiers.rehearse) return;
    const char *data = w->movable[i].data;
    for (size_t k = 0; k < w->movable[i].bytes; ++k) CHECK(data[k] == content(i, w->version[i], k));
}

/* Whether the call succeeded; the only failure allowed is HIL_ERR_BUDGET. */
static bool worked(world *w, hil_status status)
{
    note(w, status == HIL_OK);
    if (status == HIL_OK) return true;
    CHECK_INT(status, HIL_ERR_BUDGET);
    if (strstr(hil_status_message(), "--device-memory"))
        ++w->out.refused_device;
    else if (strstr(hil_status_message(), "--host-memory"))
        ++w->out.refused_host;
    else if (strstr(hil_status_message(), "--disk"))
        ++w->out.refused_disk;
    else
        check_die(__FILE__, __LINE__, hil_status_message());
    return false;
}

static void make(world *w, int i)
{
    hil_movable *p = &w->movable[i];
    CHECK(p->data == NULL && !p->stored);
    p->bytes = 1 + dice(w, (uint32_t)(dice(w, 4) ? w->set->most / 4 : w->set->most));
    if (dice(w, 3) == 0) p->bytes = w->set->most / 3;
    if (!worked(w, hil_buffers_take(w->buffers, p->bytes, &p->data))) {
        *p = (hil_movable){0};
        return;
    }
    w->version[i] = (uint32_t)w->draw;
    fill(w, i);
}

static void leave(world *w, int i)
{
    hil_movable *p = &w->movable[i];
    if (!p->data) return;
    if (!p->stored) CHECK(w->changed[i]);
    hil_tier home = dice(w, 2) ? HIL_HOST : HIL_DISK;
    bool late = dice(w, 2);
    const hil_movable before = *p;
    hil_status status = late ? hil_movable_offload_later(w->offload, p, home)
                             : hil_movable_offload(w->offload, p, home);
    if (worked(w, status)) {
        CHECK(p->data == NULL && p->stored && !p->stale);
        w->changed[i] = false;
        if (before.stale) CHECK(p->home == before.home && p->host == before.host);
        if (before.stale) CHECK(p->extent.at == before.extent.at);
    } else {
        CHECK(p->data != NULL && p->stored == before.stale && p->stale == before.stale);
    }
}

/* One random call on one random tensor. */
static void act(world *w)
{
    int i = (int)dice(w, MOVABLES);
    hil_movable *p = &w->movable[i];
    uint32_t what = dice(w, 100);
    note(w, what);
    if (w->version[i] == 0) {
        make(w, i);
    } else if (what < 45) {
        leave(w, i);
    } else if (what < 60) {
        worked(w, hil_movable_prefetch(w->offload, p));
    } else if (what < 65) {
        hil_offload_turn(w->offload);
    } else if (what < 90) {
        if (worked(w, hil_movable_wait(w->offload, p, HIL_WAIT_ACTIVATIONS))) {
            verify(w, i);
            if (what >= 85) {
                hil_movable_discard_copy(w->offload, p);
                CHECK(!p->stored);
                fill(w, i);
            } else if (what >= 80) {
                hil_movable_set_dirty(p);
                fill(w, i);
            }
        }
    } else {
        hil_movable_free(w->offload, p);
        w->version[i] = 0;
        CHECK(p->data == NULL && p->bytes == 0);
    }
    hil_links_compute(w->tiers.links, 1e-6);
    note_place(w, p->data);
    note(w, p->stored ? (uint64_t)p->home * MIB + p->host : 0);
}

static void summarise(world *w)
{
    hil_account account;
    outcome *o = &w->out;
    CHECK_OK(hil_links_drain(w->tiers.links));
    hil_links_take_account(w->tiers.links, &account);
    memcpy(o->bytes, account.bytes, sizeof o->bytes);
    o->disk_read = account.disk_read;
    o->disk_written = account.disk_written;
    o->to_device = account.to_device;
    o->to_host = account.to_host;
    o->device_peak = hil_buffers_peak(w->buffers);
    o->host_peak = hil_offload_peak(w->offload);
    o->disk_peak = hil_disk_peak(w->tiers.disk);
    hil_disk_extent(w->tiers.disk, o->disk_extent);
}

/* `needed`: of each drive, by the rehearsal; NULL: this is the rehearsal. */
static outcome run(const setting *set, uint64_t seed, const uint64_t *needed)
{
    static world w;
    w = (world){.set = set, .seed = seed};
    hil_drive drives[2] = {{".", set->disk / 2, 1e9}, {".", set->disk / 2, 2e9}};
    hil_speeds speeds = {.disk_read = 1e9,
                         .disk_write = 5e8,
                         .disk_mixed = 8e8,
                         .to_device = 1e10,
                         .to_host = 1e10,
                         .memory = 2e10,
                         .update = 1e9};
    hil_tiers_options options = {.device_bytes = set->device,
                                 .host_bytes = set->host + set->ring + 2 * HIL_IO_ALIGN,
                                 .drives = drives,
                                 .drive_count = 2,
                                 .drive_bytes = needed,
                                 .speeds = needed ? NULL : &speeds};
    CHECK_OK(hil_tiers_open(&w.tiers, &options));
    CHECK_OK(hil_buffers_create(&w.buffers, &w.tiers, set->device));
    CHECK_OK(hil_ring_create(&w.ring, &w.tiers, set->ring));
    CHECK_OK(hil_offload_create(&w.offload, &w.tiers, w.buffers, w.ring, set->host, HIL_PIN_FIRST));
    for (int step = 0; step < set->steps; ++step) act(&w);
    hil_offload_reclaim(w.offload);
    for (int i = 0; i < MOVABLES; ++i) {
        if (w.version[i] &&
            worked(&w, hil_movable_wait(w.offload, &w.movable[i], HIL_WAIT_ACTIVATIONS)))
            verify(&w, i);
        hil_movable_free(w.offload, &w.movable[i]);
    }
    summarise(&w);
    CHECK_INT(hil_disk_used(w.tiers.disk), 0);
    CHECK_INT(hil_buffers_bytes(w.buffers), 0);
    hil_offload_destroy(w.offload);
    hil_ring_destroy(w.ring);
    hil_buffers_destroy(w.buffers);
    hil_tiers_close(&w.tiers);
    return w.out;
}

static hil_status nap(void *context, int64_t index)
{
    (void)context;
    (void)index;
    nanosleep(&(struct timespec){.tv_nsec = 30 * 1000 * 1000}, NULL);
    return HIL_OK;
}

/* Memory that is freed during a prefetch is not reused before the transfer ends: its checksum would
   fail. */
static void check_dropped(void)
{
    hil_tiers tiers;
    hil_buffers *buffers;
    hil_ring *ring;
    hil_offload *offload;
    hil_fence gate = {0};
    void *half;
    const uint64_t reserve[HIL_DRIVES] = {64 * KIB};
    hil_drive drive = {".", 64 * KIB, 1e9};
    hil_tiers_options options = {.device_bytes = 64 * KIB,
                                 .host_bytes = 64 * KIB,
                                 .drives = &drive,
                                 .drive_count = 1,
                                 .drive_bytes = reserve};
    hil_movable old = {.bytes = 16 * KIB}, new = {.bytes = 16 * KIB};
    CHECK_OK(hil_tiers_open(&tiers, &options));
    CHECK_OK(hil_buffers_create(&buffers, &tiers, 64 * KIB));
    CHECK_OK(hil_ring_create(&ring, &tiers, 32 * KIB));
    CHECK_OK(hil_offload_create(&offload, &tiers, buffers, ring, 0, HIL_PIN_FIRST));
    CHECK_OK(hil_buffers_take(buffers, old.bytes, &old.data));
    CHECK_OK(hil_buffers_take(buffers, new.bytes, &new.data));
    memset(old.data, 1, old.bytes);
    memset(new.data, 2, new.bytes);
    CHECK_OK(hil_movable_offload(offload, &old, HIL_DISK));
    CHECK_OK(hil_links_drain(tiers.links));
    uint64_t offset = old.extent.at[0].offset;

    /* The next half of the ring is busy for a while, the other half is free. */
    hil_job job = {.link = HIL_LINK_UPDATE, .run = nap, .name = "nap"};
    hil_fence after;
    CHECK_OK(hil_ring_take(ring, 16 * KIB, &half, &after));
    CHECK_OK(hil_links_submit(tiers.links, &job, &gate));
    hil_ring_give(ring, half, &gate);
    CHECK_OK(hil_ring_take(ring, 16 * KIB, &half, &after));
    hil_ring_give(ring, half, NULL);
    CHECK_OK(hil_movable_prefetch(offload, &old));
    hil_movable_free(offload, &old);
    CHECK_OK(hil_movable_offload(offload, &new, HIL_DISK));
    CHECK_INT(new.extent.at[0].offset, offset);
    CHECK_OK(hil_links_drain(tiers.links));
    CHECK_OK(hil_movable_wait(offload, &new, HIL_WAIT_ACTIVATIONS));
    for (size_t k = 0; k < new.bytes; ++k) CHECK_INT(((char *)new.data)[k], 2);
    hil_movable_free(offload, &new);
    hil_offload_destroy(offload);
    hil_ring_destroy(ring);
    hil_buffers_destroy(buffers);
    hil_tiers_close(&tiers);
}

/* Sends tensors to both homes and back; the first failure ends it. */
static hil_status round_trips(hil_offload *offload, hil_buffers *buffers, hil_movable *movable)
{
    for (int i = 0; i < MOVABLES; ++i) {
        hil_movable *p = &movable[i];
        p->bytes = 20 * KIB + (size_t)i;
        HIL_TRY(hil_buffers_take(buffers, p->bytes, &p->data));
        memset(p->data, i, p->bytes);
        HIL_TRY(hil_movable_offload(offload, p, i % 2 ? HIL_HOST : HIL_DISK));
    }
    for (int i = 0; i < MOVABLES; ++i) {
        hil_movable *p = &movable[i];
        HIL_TRY(hil_movable_wait(offload, p, HIL_WAIT_ACTIVATIONS));
        for (size_t k = 0; k < p->bytes; ++k) CHECK_INT(((char *)p->data)[k], i);
        hil_movable_free(offload, p);
    }
    return HIL_OK;
}

/* Any failed allocation is returned as a failure, and everything can be freed. */
static void check_refused(void)
{
    hil_status status = HIL_ERR_MEMORY;
    const uint64_t reserve[HIL_DRIVES] = {MIB};
    hil_drive drive = {".", MIB, 1e9};
    hil_tiers_options options = {.device_bytes = MIB,
                                 .host_bytes = MIB,
                                 .drives = &drive,
                                 .drive_count = 1,
                                 .drive_bytes = reserve,
                                 .io = HIL_IO_THREADS};
    for (long n = 1; status != HIL_OK; ++n) {
        hil_tiers tiers;
        hil_buffers *buffers = NULL;
        hil_ring *ring = NULL;
        hil_offload *offload = NULL;
        hil_movable movable[MOVABLES] = {{0}};
        CHECK_OK(hil_tiers_open(&tiers, &options));
        hil_alloc_fail_at(n);
        status = hil_buffers_create(&buffers, &tiers, MIB);
        if (status == HIL_OK) status = hil_ring_create(&ring, &tiers, 16 * KIB);
        if (status == HIL_OK)
            status = hil_offload_create(&offload, &tiers, buffers, ring, MIB / 2, HIL_PIN_FIRST);
        if (status == HIL_OK) status = round_trips(offload, buffers, movable);
        hil_alloc_fail_at(0);
        CHECK(status == HIL_OK || status == HIL_ERR_MEMORY);
        for (int i = 0; offload && i < MOVABLES; ++i) hil_movable_free(offload, &movable[i]);
        hil_offload_destroy(offload);
        hil_ring_destroy(ring);
        hil_buffers_destroy(buffers);
        hil_tiers_close(&tiers);
    }
}

/* By the rehearsal's clock: offloaded tensors do not wait for weights that wait for their update; a
   take stalls on the copy-out of hil_movable_offload, but not on that of hil_movable_offload_later.
 */
static void check_waits(bool late)
{
    hil_tiers tiers;
    hil_buffers *buffers;
    hil_offload *offload;
    hil_fence updated = {0};
    hil_speeds speeds = {.to_device = 1e9, .to_host = 1e6, .memory = 1e10, .update = 1e9};
    hil_tiers_options options = {.device_bytes = MIB, .host_bytes = MIB, .speeds = &speeds};
    hil_movable movable = {.bytes = 100 * KIB};
    void *next;
    CHECK_OK(hil_tiers_open(&tiers, &options));
    CHECK_OK(hil_buffers_create(&buffers, &tiers, MIB));
    CHECK_OK(hil_offload_create(&offload, &tiers, buffers, NULL, MIB / 2, HIL_PIN_FIRST));
    CHECK_OK(hil_buffers_take(buffers, movable.bytes, &movable.data));
    CHECK_OK((late ? hil_movable_offload_later : hil_movable_offload)(offload, &movable, HIL_HOST));
    double began = hil_links_now(tiers.links); /* the copy takes 0.1 s */
    CHECK_OK(hil_buffers_take(buffers, movable.bytes, &next));
    CHECK((hil_links_now(tiers.links) - began > 0.05) == !late);
    hil_links_compute(tiers.links, 1);
    hil_offload_reclaim(offload);
    hil_job update = {.link = HIL_LINK_UPDATE, .seconds = 5, .name = "update"};
    CHECK_OK(hil_links_submit(tiers.links, &update, &updated));
    hil_job weights = {.link = HIL_LINK_IN, .after = updated, .name = "weights"};
    CHECK_OK(hil_links_submit(tiers.links, &weights, NULL));
    began = hil_links_now(tiers.links);
    CHECK_OK(hil_movable_wait(offload, &movable, HIL_WAIT_ACTIVATIONS));
    double waited = hil_links_now(tiers.links) - began;
    CHECK(waited > 0 && waited < 0.01);
    hil_movable_free(offload, &movable);
    hil_buffers_give(buffers, next);
    hil_offload_destroy(offload);
    hil_buffers_destroy(buffers);
    hil_tiers_close(&tiers);
}

static void check_settings(const setting *set, int seeds, outcome *total)
{
    for (uint64_t seed = 1; seed <= (uint64_t)seeds; ++seed) {
        outcome plan = run(set, seed, NULL);
        outcome real = run(set, seed, plan.disk_extent);
        CHECK_INT(real.trail, plan.trail);
        CHECK_INT(real.device_peak, plan.device_peak);
        CHECK_INT(real.host_peak, plan.host_peak);
        CHECK_INT(real.disk_peak, plan.disk_peak);
        CHECK_INT(real.disk_read, plan.disk_read);
        CHECK_INT(real.disk_written, plan.disk_written);
        CHECK_INT(real.to_device, plan.to_device);
        CHECK_INT(real.to_host, plan.to_host);
        CHECK(memcmp(&real, &plan, sizeof real) == 0);
        CHECK(real.device_peak <= set->device && real.host_peak <= set->host);
        CHECK(real.disk_peak <= set->disk);
        CHECK(real.to_device > 0 && real.to_host > 0);
        total->disk_read += real.disk_read;
        total->disk_written += real.disk_written;
        total->refused_device += real.refused_device;
        total->refused_host += real.refused_host;
        total->refused_disk += real.refused_disk;
    }
}

int main(void)
{
    const setting tiny[] = {
        {256 * KIB, 96 * KIB, 4 * KIB, 100 * KIB, 512 * KIB, 400},
        {160 * KIB, 64 * KIB, 8 * KIB, 64 * KIB, 128 * KIB, 1500},
        {256 * KIB, 200 * KIB, 60 * KIB, 100 * KIB, 1024 * KIB, 1500},
    };
    const setting large = {32 * MIB, 8 * MIB, 20 * MIB, 18 * MIB, 64 * MIB, 60};
    outcome total = {0};
    for (size_t i = 0; i < sizeof tiny / sizeof *tiny; ++i) check_settings(&tiny[i], 3, &total);
    check_settings(&large, 1, &total);
    check_dropped();
    check_refused();
    check_waits(false);
    check_waits(true);
    CHECK(total.disk_read > 0 && total.disk_written > 0);
    CHECK(total.refused_device > 0 && total.refused_host > 0 && total.refused_disk > 0);
    return 0;
}
