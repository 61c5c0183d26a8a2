/* Random jobs on all links give the same bytes as the same jobs in sequence; a repeated pattern
   allocates nothing; failures and early destroys are clean. */
/* soak: --full */
#include "base/alloc.h"
#include "io/io_fixture.h"

#include <stdatomic.h>

#define WORDS 2560
#define PAGE ((size_t)8192)
#include "blocks.h"

typedef struct world {
    hil_tiers tiers;
    blocks all;
    hil_account account;
} world;

static uint64_t draw(world *w, uint64_t below)
{
    return blocks_draw(&w->all, below);
}

static void open_world(world *w, hil_io_kind engine, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->all.state = seed;
    hil_drive drive[2] = {{folder, 3 * BLOCKS * PAGE, 1}, {folder, 3 * BLOCKS * PAGE, 1}};
    uint64_t bytes[HIL_DRIVES] = {2 * BLOCKS * PAGE, 2 * BLOCKS * PAGE};
    hil_tiers_options options = {.device_bytes = BLOCKS * 24 * KIB,
                                 .host_bytes = BLOCKS * 24 * KIB,
                                 .drives = drive,
                                 .drive_count = 2,
                                 .drive_bytes = bytes,
                                 .io = engine};
    CHECK_OK(hil_tiers_open(&w->tiers, &options));
    for (int i = 0; i < BLOCKS; ++i) {
        for (int t = HIL_DEVICE; t <= HIL_HOST; ++t)
            CHECK_OK(hil_tiers_take(&w->tiers, (hil_tier)t, 24 * KIB, "a block",
                                    (void **)&w->all.block[t][i].at));
        block *disk = &w->all.block[HIL_DISK][i];
        CHECK_OK(hil_disk_take(w->tiers.disk, BLOCK, PAGE, &disk->extent, &disk->written));
    }
}

static void add_part(world *w, hil_job *job, hil_tier from, hil_tier to, uint64_t *taken)
{
    blocks_add(&w->all, job, from, to, taken);
    w->account.bytes[job->link] += BLOCK;
    if (from == HIL_DISK) w->account.disk_read += BLOCK;
    if (to == HIL_DISK) w->account.disk_written += BLOCK;
    if (to == HIL_DEVICE) w->account.to_device += BLOCK;
    if (from == HIL_DEVICE) w->account.to_host += BLOCK;
}

/* The fence of a job goes to every block in it. */
static void note_use(world *w, const uint64_t *taken, const hil_fence *fence, uint64_t writes)
{
    for (int t = 0; t < HIL_TIERS; ++t)
        for (int i = 0; i < BLOCKS; ++i) {
            block *b = &w->all.block[t][i];
            if (!(taken[t] >> i & 1)) continue;
            hil_fence_join(&b->used, fence);
            if (writes >> t & 1) b->written = b->used;
        }
}

static hil_status change(void *context, int64_t index)
{
    uint64_t *words = context;
    for (int i = 0; i < WORDS; ++i) words[i] = words[i] * 3 + (uint64_t)index;
    return HIL_OK;
}

static void random_update(world *w, int64_t index)
{
    block *b = &w->all.block[HIL_HOST][draw(w, BLOCKS)];
    hil_job job = {.link = HIL_LINK_UPDATE, .run = change, .context = b->at, .index = index};
    job.after = b->written;
    hil_fence_join(&job.after, &b->used);
    CHECK_OK(change(b->words, index));
    CHECK_OK(hil_links_submit(w->tiers.links, &job, &b->used));
    b->written = b->used;
}

static void random_transfer(world *w)
{
    static const hil_tier way[HIL_LINKS][2] = {
        [HIL_LINK_FETCH] = {HIL_DISK, HIL_HOST}, [HIL_LINK_STASH] = {HIL_HOST, HIL_DISK},
        [HIL_LINK_IN] = {HIL_HOST, HIL_DEVICE},  [HIL_LINK_OUT] = {HIL_DEVICE, HIL_HOST},
        [HIL_LINK_READ] = {HIL_DISK, HIL_HOST},  [HIL_LINK_WRITE] = {HIL_HOST, HIL_DISK},
    };
    static const hil_link link[] = {HIL_LINK_FETCH, HIL_LINK_STASH, HIL_LINK_IN,
                                    HIL_LINK_OUT,   HIL_LINK_READ,  HIL_LINK_WRITE};
    hil_job job = {.link = link[draw(w, 6)], .name = "random"};
    uint64_t taken[HIL_TIERS] = {0};
    hil_fence fence = {0};
    hil_tier from = way[job.link][0], to = way[job.link][1];
    for (uint64_t i = 1 + draw(w, 2); i > 0; --i) add_part(w, &job, from, to, taken);
    if (job.link == HIL_LINK_READ && draw(w, 2)) add_part(w, &job, HIL_DEVICE, HIL_HOST, taken);
    if (job.link == HIL_LINK_WRITE && draw(w, 2)) add_part(w, &job, HIL_HOST, HIL_DEVICE, taken);
    CHECK_OK(hil_links_submit(w->tiers.links, &job, &fence));
    uint64_t writes = (uint64_t)1 << to;
    if (job.link == HIL_LINK_WRITE) writes |= 1 << HIL_DEVICE;
    note_use(w, taken, &fence, writes);
}

/* Gives an extent back while transfers still use it, and takes another. */
static void replace_extent(world *w)
{
    block *b = &w->all.block[HIL_DISK][draw(w, BLOCKS)];
    hil_fence fence = b->used;
    hil_fence_join(&fence, &b->written);
    hil_disk_give(w->tiers.disk, &b->extent, &fence);
    CHECK_OK(hil_disk_take(w->tiers.disk, BLOCK, PAGE, &b->extent, &b->written));
    b->used = (hil_fence){0};
    memset(b->words, 0, BLOCK);
}

static void check_memory(world *w)
{
    block *b = &w->all.block[draw(w, 2)][draw(w, BLOCKS)];
    hil_fence fence = b->written;
    CHECK_OK(hil_links_wait(w->tiers.links, &fence, HIL_WAIT_MEMORY));
    CHECK(hil_links_over(w->tiers.links, &fence));
    CHECK(memcmp(b->at, b->words, BLOCK) == 0);
}

static void check_all(world *w)
{
    static uint64_t memory[3 * PAGE / 8] __attribute__((aligned(HIL_IO_ALIGN)));
    CHECK_OK(hil_links_drain(w->tiers.links));
    for (int i = 0; i < BLOCKS; ++i) {
        block *disk = &w->all.block[HIL_DISK][i];
        hil_disk_transfer transfer = {
            .extent = &disk->extent, .count = 3, .memory = (char *)memory};
        for (int t = HIL_DEVICE; t <= HIL_HOST; ++t)
            CHECK(memcmp(w->all.block[t][i].at, w->all.block[t][i].words, BLOCK) == 0);
        CHECK_OK(hil_disk_start(w->tiers.disk, &transfer));
        CHECK_OK(hil_disk_wait(w->tiers.disk, &transfer));
        CHECK(memcmp(memory, disk->words, BLOCK) == 0);
    }
    hil_account account;
    hil_links_take_account(w->tiers.links, &account);
    for (int i = 0; i < HIL_LINKS; ++i) CHECK_INT(account.bytes[i], w->account.bytes[i]);
    CHECK_INT(account.disk_read, w->account.disk_read);
    CHECK_INT(account.disk_written, w->account.disk_written);
    CHECK_INT(account.to_device, w->account.to_device);
    CHECK_INT(account.to_host, w->account.to_host);
    CHECK(account.busy[HIL_LINK_FETCH] > 0 && account.busy[HIL_LINK_UPDATE] > 0);
}

static int rounds = 1, jobs = 1500;

static void random_jobs(hil_io_kind engine)
{
    static world w;
    for (int round = 0; round < rounds; ++round) {
        open_world(&w, engine, (uint64_t)round + 1);
        for (int i = 0; i < jobs; ++i) {
            if (draw(&w, 5) == 0)
                random_update(&w, i);
            else
                random_transfer(&w);
            if (draw(&w, 40) == 0) replace_extent(&w);
            if (draw(&w, 50) == 0) check_memory(&w);
        }
        check_all(&w);
        hil_tiers_close(&w.tiers);
    }
}

/* The third round of the same calls allocates nothing, however slow the links are. */
static void steady_state(hil_io_kind engine)
{
    static world w;
    open_world(&w, engine, 5);
    long made = 0;
    for (int round = 0; round < 6; ++round) {
        if (round == 2) made = hil_alloc_count();
        w.all.state = 77;
        for (int i = 0; i < 300; ++i) {
            random_transfer(&w);
            random_update(&w, i);
            if (i % 50 == 49) replace_extent(&w);
            if (i % 60 == 59) check_memory(&w);
        }
        usleep((unsigned)round % 3 * 3000);
    }
    CHECK_INT(hil_alloc_count(), made);
    check_all(&w);
    hil_tiers_close(&w.tiers);
}

/* Waiting for the end of a chain of jobs implies that its beginning is complete. */
static void known_chain(hil_io_kind engine)
{
    static world w;
    open_world(&w, engine, 5);
    long made = 0;
    for (int i = 0; i < 500; ++i) {
        if (i == 50) made = hil_alloc_count();
        block *disk = &w.all.block[HIL_DISK][0], *host = &w.all.block[HIL_HOST][0];
        hil_fence fetched = {0}, here = {0};
        hil_job job = {.link = HIL_LINK_FETCH, .parts = 1};
        job.part[0] = (hil_part){HIL_PART_READ, host->at, NULL, BLOCK, &disk->extent, 0, 3};
        CHECK_OK(hil_links_submit(w.tiers.links, &job, &fetched));
        job = (hil_job){.link = HIL_LINK_IN, .after = fetched, .parts = 1};
        job.part[0].to = w.all.block[HIL_DEVICE][0].at;
        job.part[0].from = host->at;
        job.part[0].bytes = BLOCK;
        CHECK_OK(hil_links_submit(w.tiers.links, &job, &here));
        CHECK_OK(hil_links_wait(w.tiers.links, &here, HIL_WAIT_WEIGHTS));
    }
    CHECK_INT(hil_alloc_count(), made);
    hil_tiers_close(&w.tiers);
}

/* Destroys the links with jobs queued and nothing waited for. */
static void early_end(hil_io_kind engine)
{
    static world w;
    int before = open_descriptors();
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        open_world(&w, engine, seed);
        for (uint64_t i = 0; i < 10 * seed; ++i) {
            random_transfer(&w);
            random_update(&w, (int64_t)i);
        }
        hil_tiers_close(&w.tiers);
    }
    CHECK_INT(open_descriptors(), before);
}

static hil_status sleep_a_while(void *context, int64_t index)
{
    (void)context, (void)index;
    usleep(50000);
    return HIL_OK;
}

/* Extents are given back, and their pages reused, before their transfers start. */
static void late_transfers(hil_io_kind engine)
{
    enum { COUNT = 5 };
    static char memory[COUNT][3 * PAGE] __attribute__((aligned(HIL_IO_ALIGN)));
    static world w;
    hil_extent extent[COUNT], other;
    hil_fence start = {0}, end = {0}, after;
    hil_job job = {.link = HIL_LINK_UPDATE, .run = sleep_a_while};
    open_world(&w, engine, 1);
    for (int i = 0; i < COUNT; ++i) {
        CHECK_OK(hil_disk_take(w.tiers.disk, BLOCK, PAGE, &extent[i], &after));
        memset(memory[i], i + 1, sizeof memory[i]);
        hil_disk_transfer write = {
            .extent = &extent[i], .count = 3, .memory = memory[i], .write = true};
        CHECK_OK(hil_disk_start(w.tiers.disk, &write));
        CHECK_OK(hil_disk_wait(w.tiers.disk, &write));
        memset(memory[i], 0, sizeof memory[i]);
    }
    CHECK_OK(hil_links_submit(w.tiers.links, &job, &start));
    for (int i = 0; i < COUNT; ++i) {
        job = (hil_job){.link = HIL_LINK_FETCH, .after = start, .parts = 1};
        job.part[0] = (hil_part){HIL_PART_READ, memory[i], NULL, BLOCK, &extent[i], 0, 3};
        CHECK_OK(hil_links_submit(w.tiers.links, &job, &end));
        hil_disk_give(w.tiers.disk, &extent[i], &end);
    }
    for (int i = 0; i < 30; ++i) {
        CHECK_OK(hil_disk_take(w.tiers.disk, BLOCK, PAGE, &other, &after));
        hil_disk_give(w.tiers.disk, &other, &after);
    }
    CHECK_OK(hil_links_wait(w.tiers.links, &end, HIL_WAIT_ACTIVATIONS));
    for (int i = 0; i < COUNT; ++i)
        for (size_t k = 0; k < BLOCK; ++k) CHECK_INT(memory[i][k], i + 1);
    hil_account account;
    hil_links_take_account(w.tiers.links, &account);
    CHECK(account.busy[HIL_LINK_UPDATE] >= 0.05);
    hil_tiers_close(&w.tiers);
}

static atomic_int executed;

static hil_status fail_at_three(void *context, int64_t index)
{
    (void)context;
    atomic_fetch_add(&executed, 1);
    return index == 3 ? hil_fail(HIL_ERR_INPUT, "job %d will not", (int)index) : HIL_OK;
}

/* After a failure, jobs of every link count as complete without being executed. */
static void failed_update(hil_io_kind engine)
{
    static world w;
    open_world(&w, engine, 1);
    hil_fence fence = {0};
    for (int i = 0; i < 10; ++i) {
        hil_job job = {.link = HIL_LINK_UPDATE, .run = fail_at_three, .index = i};
        CHECK_OK(hil_links_submit(w.tiers.links, &job, &fence));
    }
    block *from = &w.all.block[HIL_HOST][0], *to = &w.all.block[HIL_DEVICE][0];
    memset(from->at, 5, BLOCK);
    hil_job copy = {.link = HIL_LINK_IN, .after = fence, .parts = 1};
    copy.part[0] = (hil_part){.to = to->at, .from = from->at, .bytes = BLOCK};
    CHECK_OK(hil_links_submit(w.tiers.links, &copy, &fence));
    for (int i = 0; i < 2; ++i)
        CHECK_FAILS(hil_links_wait(w.tiers.links, &fence, HIL_WAIT_UPDATE), HIL_ERR_INPUT,
                    "job 3 will not");
    CHECK(hil_links_over(w.tiers.links, &fence));
    CHECK_INT(atomic_exchange(&executed, 0), 4);
    CHECK_INT(to->at[0], 0);
    CHECK_FAILS(hil_links_drain(w.tiers.links), HIL_ERR_INPUT, "job 3 will not");
    hil_tiers_close(&w.tiers);
}

int main(int count, char **arguments)
{
    if (count > 1 && strcmp(arguments[1], "--full") == 0) rounds = 50, jobs = 5000;
    fixture_open();
    with_engines(failed_update);
    with_engines(late_transfers);
    with_engines(random_jobs);
    with_engines(steady_state);
    with_engines(known_chain);
    with_engines(early_end);
    fixture_close();
    return 0;
}
