/* placed.h - an engine with its own tiers. It is rehearsed first; the real one gets exactly the
   memory that the rehearsal needed. */
#ifndef HIL_TESTS_PLACED_H
#define HIL_TESTS_PLACED_H

#include "check.h"
#include "numbers.h"
#include "train/trainer.h"
#include "store/update.h"

#define PLACED_RING ((size_t)32 << 10) /* smaller than a tensor */
#define PLACED_SEGMENTS 16

/* What differs between runs that must give the same bits. */
typedef struct placement {
    int64_t group;
    int64_t keep[3];  /* of segments 0, 1, 2, 0, ... */
    int64_t lean[3];  /* likewise; negative: as many thin ones */
    hil_tier tier[3]; /* likewise */
    bool prefetch;
    hil_tier tapes[3]; /* likewise */
} placement;

typedef struct placed_need {
    size_t work, offloaded;
    uint64_t drive[HIL_DRIVES];
    hil_account account; /* of the last step */
    double seconds;
} placed_need;

typedef struct placed {
    hil_tiers tiers;
    hil_ring *ring;
    hil_pool *dry;
    hil_engine *engine;
} placed;

/* Rounds up to whole pages, which is what tiers allocate. */
static size_t placed_pages(size_t bytes)
{
    return (bytes + HIL_IO_ALIGN - 1) / HIL_IO_ALIGN * HIL_IO_ALIGN;
}

/* `need` is NULL for a rehearsal. */
static void placed_open(placed *out, hil_trainer *t, const placement *p, const placed_need *need)
{
    const hil_drive drive = {.path = ".", .bytes = 64 << 20, .speed = 1};
    hil_tiers_options options = {.device_bytes = need ? placed_pages(need->work) : (size_t)1 << 30,
                                 .host_bytes =
                                     PLACED_RING + (need ? placed_pages(need->offloaded) : 1 << 30),
                                 .drives = &drive,
                                 .drive_count = 1,
                                 .drive_bytes = need ? need->drive : NULL,
                                 .speeds = need ? NULL : &any_speeds};
    *out = (placed){0};
    CHECK_OK(hil_tiers_open(&out->tiers, &options));
    CHECK_OK(hil_ring_create(&out->ring, &out->tiers, PLACED_RING));
    if (!need) CHECK_OK(hil_pool_create_dry(&out->dry));
    hil_segment_place place[PLACED_SEGMENTS] = {{0}};
    size_t segments = t->model->count;
    CHECK(segments <= PLACED_SEGMENTS);
    for (size_t s = 0; s < segments; ++s)
        place[s] = (hil_segment_place){.keep = p->keep[s % 3],
                                       .lean = llabs(p->lean[s % 3]),
                                       .tier = (unsigned char)p->tier[s % 3],
                                       .tapes = (unsigned char)p->tapes[s % 3],
                                       .thin = p->lean[s % 3] < 0};
    hil_engine_options engine = {.pool = need ? t->pool : out->dry,
                                 .compute = t->dtype,
                                 .group = p->group,
                                 .segment = place,
                                 .tiers = &out->tiers,
                                 .work = need ? need->work : (size_t)1 << 30,
                                 .ring = out->ring,
                                 .offloaded = need ? need->offloaded : 1 << 30,
                                 .prefetch = p->prefetch,
                                 .speeds = options.speeds};
    CHECK_OK(hil_engine_create(&out->engine, t->model, &engine));
}

static void placed_close(placed *p)
{
    hil_engine_destroy(p->engine);
    hil_ring_destroy(p->ring);
    hil_tiers_close(&p->tiers);
    hil_pool_destroy(p->dry);
}

/* Rehearses steps of micro-batches without data. */
static placed_need placed_rehearse(hil_trainer *t, const placement *p, const hil_micro *micro,
                                   int64_t count, int steps)
{
    placed run;
    placed_need need = {0};
    placed_open(&run, t, p, NULL);
    for (int s = 0; s < steps; ++s) {
        double loss, began = hil_links_now(run.tiers.links);
        hil_links_take_account(run.tiers.links, &need.account);
        CHECK_OK(hil_engine_train(run.engine, &(hil_step){micro, count, 1, s + 1, 1, 0}, &loss));
        CHECK(loss == 0);
        hil_store_step_end(t->model->store);
        need.seconds = hil_links_now(run.tiers.links) - began;
    }
    hil_links_take_account(run.tiers.links, &need.account);
    need.work = hil_engine_work(run.engine);
    need.offloaded = hil_engine_offloaded(run.engine);
    hil_disk_extent(run.tiers.disk, need.drive);
    placed_close(&run);
    return need;
}

/* Checks after the same number of real steps that peak memory and bytes moved equal the
   rehearsal's. */
static void placed_check(placed *run, const placed_need *need)
{
    hil_account account;
    CHECK_OK(hil_links_drain(run->tiers.links));
    hil_links_take_account(run->tiers.links, &account);
    CHECK_INT(hil_engine_work(run->engine), need->work);
    CHECK_INT(hil_engine_offloaded(run->engine), need->offloaded);
    CHECK_INT(account.to_host, need->account.to_host);
    CHECK_INT(account.to_device, need->account.to_device);
    CHECK_INT(account.disk_read, need->account.disk_read);
    CHECK_INT(account.disk_written, need->account.disk_written);
}

#endif
