/* Random jobs and random compute on a device with randomly slow streams give the same bytes as the
   same calls in sequence; hil_links_follow does not block the caller; failures and early destroys
   are clean. */
/* soak: --full */
#include "base/alloc.h"
#include "device/device_threads.h"
#include "io/io_fixture.h"
#include "tier/buffers.h"

#include <semaphore.h>

#define WORDS 10240 /* more than may be copied without being pinned */
#define PAGE ((size_t)32768)
#include "blocks.h"

typedef struct world {
    hil_device *device;
    hil_tiers tiers;
    blocks all;
    uint64_t *seen;  /* shared memory: what compute found */
    uint64_t *looks; /* what it must find */
    uint64_t count;
    hil_fence marked; /* computing, up to some moment */
    bool computed;    /* since then */
} world;

static hil_device *the_device; /* of the world that is open */
static int rounds = 3, steps = 700;

static uint64_t draw(world *w, uint64_t below)
{
    return blocks_draw(&w->all, below);
}

static void open_world(world *w, unsigned delay, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->all.state = seed;
    hil_drive drive = {folder, 3 * BLOCKS * BLOCK, 1};
    uint64_t bytes[HIL_DRIVES] = {2 * BLOCKS * BLOCK};
    CHECK_OK(hil_device_threads_open(&w->device));
    hil_device_threads_delay(w->device, seed, delay);
    the_device = w->device;
    hil_tiers_options options = {.device_bytes = BLOCKS * BLOCK,
                                 .host_bytes = BLOCKS * BLOCK,
                                 .drives = &drive,
                                 .drive_count = 1,
                                 .drive_bytes = bytes,
                                 .io = HIL_IO_THREADS,
                                 .device = w->device};
    CHECK_OK(hil_tiers_open(&w->tiers, &options));
    CHECK_OK(w->device->heap->share(w->device, MIB, (void **)&w->seen));
    CHECK_OK(hil_alloc(MIB, 1, (void **)&w->looks));
    w->computed = true; /* zeros */
    for (int i = 0; i < BLOCKS; ++i) {
        for (int t = HIL_DEVICE; t <= HIL_HOST; ++t)
            CHECK_OK(hil_tiers_take(&w->tiers, (hil_tier)t, BLOCK, "a block",
                                    (void **)&w->all.block[t][i].at));
        CHECK_OK(w->device->queue->zero(w->device, HIL_STREAM_COMPUTE,
                                        w->all.block[HIL_DEVICE][i].at, BLOCK));
        CHECK_OK(hil_tiers_pin(&w->tiers, w->all.block[HIL_HOST][i].at, BLOCK, HIL_PIN_FIRST));
        block *disk = &w->all.block[HIL_DISK][i];
        CHECK_OK(hil_disk_take(w->tiers.disk, BLOCK, PAGE, &disk->extent, &disk->written));
    }
    CHECK_OK(hil_tiers_pin_all(&w->tiers));
    CHECK_OK(hil_tiers_pin(&w->tiers, w->all.block[HIL_HOST][1].at, 9, HIL_PIN_FIRST));
    CHECK_OK(hil_tiers_pin_all(&w->tiers));
}

static void close_world(world *w)
{
    hil_tiers_close(&w->tiers);
    w->device->heap->unshare(w->device, w->seen);
    w->device->close(w->device);
    hil_free(w->looks);
}

/* to = to * 3 + from + index; the old last word of `to` goes to *seen. */
typedef struct change {
    uint64_t *to;
    const uint64_t *from;
    uint64_t index, *seen;
} change;

static hil_status apply(void *args)
{
    const change *c = args;
    if (c->seen) *c->seen = c->to[WORDS - 1];
    for (int i = 0; i < WORDS; ++i) c->to[i] = c->to[i] * 3 + c->from[i] + c->index;
    return HIL_OK;
}

/* Issues compute on two blocks of the device; later jobs follow it without a fence. */
static void compute(world *w, uint64_t index)
{
    block *to = &w->all.block[HIL_DEVICE][draw(w, BLOCKS)];
    block *from = &w->all.block[HIL_DEVICE][draw(w, BLOCKS)];
    CHECK_OK(hil_links_follow(w->tiers.links, &to->used, HIL_WAIT_WEIGHTS));
    CHECK_OK(hil_links_follow(w->tiers.links, &from->written, HIL_WAIT_WEIGHTS));
    change c = {to->at, from->at, index, &w->seen[w->count]};
    CHECK_OK(hil_device_threads_call(w->device, HIL_STREAM_COMPUTE, apply, &c, sizeof c));
    c = (change){to->words, from->words, index, &w->looks[w->count++]};
    CHECK_OK(apply(&c));
    w->computed = true;
}

/* Orders the job after all compute: by a mark of its own, or by one that several share. */
static void submit(world *w, hil_job *job, hil_fence *fence)
{
    job->marked = draw(w, 2);
    if (job->marked && w->computed) {
        CHECK_OK(hil_links_mark(w->tiers.links, &w->marked));
        w->computed = false;
    }
    if (job->marked) hil_fence_join(&job->after, &w->marked);
    CHECK_OK(hil_links_submit(w->tiers.links, job, fence));
}

static hil_status run_here(void *context, int64_t index)
{
    return apply(&(change){context, context, (uint64_t)index, NULL});
}

static hil_status run_there(void *context, int64_t index)
{
    change c = {context, context, (uint64_t)index, NULL};
    return hil_device_threads_call(the_device, HIL_STREAM_UPDATE, apply, &c, sizeof c);
}

/* An update in parallel with compute: on the CPU, or on the device's stream. */
static void update(world *w, int64_t index)
{
    bool queues = draw(w, 2);
    block *b = &w->all.block[queues ? HIL_DEVICE : HIL_HOST][draw(w, BLOCKS)];
    hil_job job = {.link = HIL_LINK_UPDATE,
                   .after = b->used,
                   .run = queues ? run_there : run_here,
                   .queues = queues,
                   .context = b->at,
                   .index = index};
    submit(w, &job, &b->used);
    b->written = b->used;
    CHECK_OK(run_here(b->words, index));
}

/* Random transfers of each link; some jobs have parts of both kinds, some copy within the host. */
static void transfer(world *w)
{
    static const struct {
        hil_link link;
        hil_tier from, to;
    } way[] = {{HIL_LINK_FETCH, HIL_DISK, HIL_HOST},  {HIL_LINK_STASH, HIL_HOST, HIL_DISK},
               {HIL_LINK_IN, HIL_HOST, HIL_DEVICE},   {HIL_LINK_OUT, HIL_DEVICE, HIL_HOST},
               {HIL_LINK_BACK, HIL_HOST, HIL_DEVICE}, {HIL_LINK_READ, HIL_DISK, HIL_HOST},
               {HIL_LINK_READ, HIL_DEVICE, HIL_HOST}, {HIL_LINK_READ, HIL_HOST, HIL_HOST},
               {HIL_LINK_WRITE, HIL_HOST, HIL_DISK},  {HIL_LINK_WRITE, HIL_HOST, HIL_DEVICE}};
    uint64_t taken[HIL_TIERS] = {0}, one = draw(w, 10), other = draw(w, 10);
    hil_job job = {.link = way[one].link};
    hil_fence fence = {0};
    blocks_add(&w->all, &job, way[one].from, way[one].to, taken);
    if (way[other].link == job.link)
        blocks_add(&w->all, &job, way[other].from, way[other].to, taken);
    submit(w, &job, &fence);
    for (int t = 0; t < HIL_TIERS; ++t)
        for (int i = 0; i < BLOCKS; ++i) {
            block *b = &w->all.block[t][i];
            if (!(taken[t] >> i & 1)) continue;
            hil_fence_join(&b->used, &fence);
            b->written = b->used; /* as far as the others are concerned */
        }
}

/* The host checks its own memory, and changes it. */
static void touch(world *w)
{
    block *b = &w->all.block[HIL_HOST][draw(w, BLOCKS)];
    CHECK_OK(hil_links_wait(w->tiers.links, &b->used, HIL_WAIT_MEMORY));
    CHECK(hil_links_over(w->tiers.links, &b->used));
    CHECK(memcmp(b->at, b->words, BLOCK) == 0);
    CHECK_OK(run_here(b->at, 1));
    CHECK_OK(run_here(b->words, 1));
}

static void check_all(world *w)
{
    static uint64_t memory[3 * PAGE / 8] __attribute__((aligned(HIL_IO_ALIGN)));
    hil_device *d = w->device;
    CHECK_OK(hil_links_drain(w->tiers.links));
    CHECK(memcmp(w->seen, w->looks, w->count * sizeof(uint64_t)) == 0);
    for (int i = 0; i < BLOCKS; ++i) {
        block *disk = &w->all.block[HIL_DISK][i], *host = &w->all.block[HIL_HOST][i];
        hil_disk_transfer read = {.extent = &disk->extent, .count = 3, .memory = (char *)memory};
        CHECK(memcmp(host->at, host->words, BLOCK) == 0);
        CHECK_OK(hil_disk_start(w->tiers.disk, &read));
        CHECK_OK(hil_disk_wait(w->tiers.disk, &read));
        CHECK(memcmp(memory, disk->words, BLOCK) == 0);
    }
    for (int i = 0; i < BLOCKS; ++i) {
        block *device = &w->all.block[HIL_DEVICE][i], *host = &w->all.block[HIL_HOST][i];
        CHECK_OK(d->queue->copy(d, HIL_STREAM_COMPUTE, host->at, device->at, BLOCK));
        CHECK_OK(d->queue->finish(d));
        CHECK(memcmp(host->at, device->words, BLOCK) == 0);
        memcpy(host->words, device->words, BLOCK);
    }
    w->count = 0;
}

static void random_steps(world *w, int count)
{
    for (int i = 0; i < count; ++i) {
        uint64_t what = draw(w, 100);
        if (what < 40)
            compute(w, (uint64_t)i);
        else if (what < 55)
            update(w, i);
        else if (what < 98)
            transfer(w);
        else
            touch(w);
    }
}

static void check_contents(void)
{
    static world w;
    static const unsigned delay[] = {0, 100, 700};
    for (int round = 0; round < rounds; ++round) {
        open_world(&w, delay[round % 3], (uint64_t)round + 1);
        for (int i = 0; i < 2; ++i) {
            random_steps(&w, steps / 2);
            check_all(&w);
        }
        close_world(&w);
    }
}

/* From the third round on the same calls allocate nothing, however slow the streams are. */
static void check_steady(void)
{
    static world w;
    long made = 0;
    open_world(&w, 0, 5);
    for (int round = 0; round < 6; ++round) {
        if (round == 2) made = hil_alloc_count();
        hil_device_threads_delay(w.device, (uint64_t)round, (unsigned)round % 3 * 100);
        w.all.state = 77;
        random_steps(&w, 200);
        check_all(&w);
    }
    CHECK_INT(hil_alloc_count(), made);
    close_world(&w);
}

static sem_t gate;

static hil_status pass_gate(void *args)
{
    (void)args;
    while (sem_wait(&gate) != 0) continue;
    return HIL_OK;
}

static void copy_job(world *w, hil_link link, int number, hil_fence *fence)
{
    bool in = link == HIL_LINK_IN;
    uint64_t *device = w->all.block[HIL_DEVICE][number].at,
             *host = w->all.block[HIL_HOST][number].at;
    hil_job job = {.link = link, .after = *fence, .parts = 1};
    job.part[0].to = in ? device : host;
    job.part[0].from = in ? host : device;
    job.part[0].bytes = BLOCK;
    CHECK_OK(hil_links_submit(w->tiers.links, &job, fence));
}

/* While compute is blocked: copies in both directions that depend on it and on each other are
   queued without blocking the caller, disk jobs that do not depend on it run, the rest waits. */
static void check_ahead(void)
{
    static world w;
    open_world(&w, 0, 1);
    hil_links *links = w.tiers.links;
    hil_device *d = w.device;
    hil_fence fence = {0}, stashed = {0}, fetched = {0};
    CHECK_OK(hil_device_threads_call(d, HIL_STREAM_COMPUTE, pass_gate, NULL, 0));
    for (int i = 0; i < 20; ++i) {
        copy_job(&w, i % 2 ? HIL_LINK_OUT : HIL_LINK_IN, 0, &fence);
        CHECK_OK(hil_links_follow(links, &fence, HIL_WAIT_WEIGHTS));
        CHECK_OK(d->queue->zero(d, HIL_STREAM_COMPUTE, w.all.block[HIL_DEVICE][1].at, BLOCK));
    }
    hil_job job = {.link = HIL_LINK_STASH, .parts = 1};
    block *disk = &w.all.block[HIL_DISK][0];
    job.part[0] =
        (hil_part){HIL_PART_WRITE, NULL, w.all.block[HIL_HOST][1].at, BLOCK, &disk->extent, 0, 3};
    CHECK_OK(hil_links_submit(links, &job, &stashed));
    CHECK_OK(hil_links_wait(links, &stashed, HIL_WAIT_MEMORY));
    job = (hil_job){.link = HIL_LINK_FETCH, .after = fence, .parts = 1};
    job.part[0] =
        (hil_part){HIL_PART_READ, w.all.block[HIL_HOST][0].at, NULL, BLOCK, &disk->extent, 0, 3};
    CHECK_OK(hil_links_submit(links, &job, &fetched));
    usleep(20000);
    CHECK(!hil_links_over(links, &fence) && !hil_links_over(links, &fetched));
    hil_account account;
    hil_links_take_account(links, &account);
    CHECK(account.wait[HIL_WAIT_WEIGHTS] < 1);
    CHECK_INT(account.to_device, 10 * BLOCK);
    CHECK_INT(account.to_host, 10 * BLOCK);
    sem_post(&gate);
    CHECK_OK(hil_links_drain(links));
    CHECK(hil_links_over(links, &fetched));
    close_world(&w);
}

static hil_status linger(void *args)
{
    usleep(*(useconds_t *)args);
    return HIL_OK;
}

static hil_status read_shared(void *context, int64_t index)
{
    const world *w = context;
    w->looks[0] = w->seen[0] + (uint64_t)index;
    return HIL_OK;
}

static hil_status write_shared(void *args)
{
    usleep(50000);
    **(uint64_t **)args = 41;
    return HIL_OK;
}

static hil_status write_there(void *context, int64_t index)
{
    const world *w = context;
    (void)index;
    return hil_device_threads_call(w->device, HIL_STREAM_REDUCE, write_shared, &w->seen,
                                   sizeof w->seen);
}

static hil_status note_run(void *context, int64_t index)
{
    (void)index;
    sem_post(context);
    return HIL_OK;
}

static hil_status pass_there(void *context, int64_t index)
{
    (void)index;
    return hil_device_threads_call(context, HIL_STREAM_UPDATE, pass_gate, NULL, 0);
}

/* A stall of compute behind a copy is counted, and does not block the caller. */
static void check_waits(void)
{
    static world w;
    open_world(&w, 0, 1);
    hil_links *links = w.tiers.links;
    hil_fence fence = {0};
    hil_account account;
    useconds_t pause = 60000;
    CHECK_OK(hil_links_drain(links));
    hil_links_take_account(links, &account);
    CHECK_OK(hil_device_threads_call(w.device, HIL_STREAM_IN, linger, &pause, sizeof pause));
    copy_job(&w, HIL_LINK_IN, 0, &fence);
    CHECK_OK(hil_links_follow(links, &fence, HIL_WAIT_ACTIVATIONS));
    CHECK(!hil_links_over(links, &fence));
    CHECK_OK(hil_links_drain(links));
    hil_links_take_account(links, &account);
    CHECK(account.wait[HIL_WAIT_ACTIVATIONS] > 0.03);
    CHECK(account.wait[HIL_WAIT_WEIGHTS] < 0.001);
    pause = 60000; /* compute's own time is no stall */
    CHECK_OK(hil_device_threads_call(w.device, HIL_STREAM_COMPUTE, linger, &pause, sizeof pause));
    copy_job(&w, HIL_LINK_IN, 0, &fence);
    CHECK_OK(hil_links_follow(links, &fence, HIL_WAIT_GRADIENTS));
    CHECK_OK(hil_links_drain(links));
    hil_links_take_account(links, &account);
    CHECK(account.wait[HIL_WAIT_GRADIENTS] < 0.05);
    close_world(&w);
}

/* Updates on the CPU and on the device overlap. */
static void check_updates_beside(void)
{
    static world w;
    sem_t ran;
    open_world(&w, 0, 1);
    CHECK(sem_init(&ran, 0, 0) == 0);
    hil_fence fence = {0};
    hil_job there = {
        .link = HIL_LINK_UPDATE, .run = pass_there, .queues = true, .context = w.device};
    hil_job here = {.link = HIL_LINK_UPDATE, .run = note_run, .context = &ran};
    CHECK_OK(hil_links_submit(w.tiers.links, &there, &fence));
    CHECK_OK(hil_links_submit(w.tiers.links, &here, &fence));
    while (sem_wait(&ran) != 0) continue;
    CHECK(!hil_links_over(w.tiers.links, &fence));
    sem_post(&gate);
    CHECK_OK(hil_links_wait(w.tiers.links, &fence, HIL_WAIT_UPDATE));
    sem_destroy(&ran);
    close_world(&w);
}

/* An exchange on the CPU runs after exchanges that were queued on the stream, without a fence. */
static void check_link_order(void)
{
    static world w;
    open_world(&w, 0, 1);
    hil_fence fence = {0};
    hil_job there = {.link = HIL_LINK_REDUCE, .run = write_there, .queues = true, .context = &w};
    hil_job here = {.link = HIL_LINK_REDUCE, .run = read_shared, .context = &w, .index = 1};
    CHECK_OK(hil_links_submit(w.tiers.links, &there, NULL));
    CHECK_OK(hil_links_submit(w.tiers.links, &here, &fence));
    CHECK_OK(hil_links_wait(w.tiers.links, &fence, HIL_WAIT_UPDATE));
    CHECK_INT(w.looks[0], 42);
    close_world(&w);
}

/* The caller is ahead of the device by at most HIL_MARKS marks, then blocks on the oldest. */
static void check_many_marks(void)
{
    static world w;
    open_world(&w, 0, 1);
    hil_fence fence = {0};
    useconds_t pause = 100000;
    CHECK_OK(hil_device_threads_call(w.device, HIL_STREAM_COMPUTE, linger, &pause, sizeof pause));
    for (int i = 0; i < 4000; ++i) {
        bool queues = i % 50 > 0;
        hil_job job = {.link = HIL_LINK_UPDATE,
                       .run = queues ? run_there : run_here,
                       .queues = queues,
                       .context = w.all.block[queues ? HIL_DEVICE : HIL_HOST][0].at,
                       .index = i};
        CHECK_OK(hil_links_submit(w.tiers.links, &job, &fence));
    }
    CHECK_OK(hil_links_drain(w.tiers.links));
    close_world(&w);
}

static hil_status refuse(void *args)
{
    return hil_fail(HIL_ERR_INPUT, "number %d will not", *(int *)args);
}

/* A failure of compute, a copy or a queued update surfaces in every later call; nothing hangs. */
static void check_failures(void)
{
    static world w;
    static char pageable[BLOCK];
    int number = 7;
    for (int kind = 0; kind < 3; ++kind) {
        open_world(&w, 200, 3);
        hil_links *links = w.tiers.links;
        hil_fence fence = {0};
        copy_job(&w, HIL_LINK_IN, 0, &fence);
        if (kind < 2) {
            hil_stream stream = kind ? HIL_STREAM_COMPUTE : HIL_STREAM_OUT;
            CHECK_OK(hil_device_threads_call(w.device, stream, refuse, &number, sizeof number));
        } else {
            hil_job job = {.link = HIL_LINK_IN, .parts = 1};
            job.part[0].to = w.all.block[HIL_DEVICE][0].at;
            job.part[0].from = pageable;
            job.part[0].bytes = BLOCK;
            CHECK_OK(hil_links_submit(links, &job, &fence));
        }
        for (int i = 0; i < 40; ++i) copy_job(&w, i % 2 ? HIL_LINK_OUT : HIL_LINK_IN, 1, &fence);
        (void)!hil_links_follow(links, &fence, HIL_WAIT_WEIGHTS);
        const char *words = kind < 2 ? "number 7 will not" : "not pinned";
        hil_status status = kind < 2 ? HIL_ERR_INPUT : HIL_ERR_USAGE;
        CHECK_FAILS(hil_links_drain(links), status, words);
        CHECK_FAILS(hil_links_follow(links, &fence, HIL_WAIT_WEIGHTS), status, words);
        close_world(&w);
    }
}

/* Destroys the links with work queued and nothing waited for. */
static void check_early_end(void)
{
    static world w;
    for (uint64_t seed = 1; seed <= 8; ++seed) {
        open_world(&w, 300, seed);
        random_steps(&w, (int)(15 * seed));
        close_world(&w);
    }
}

/* The n-th allocation fails, for n from 1 until none does. */
static void check_memory(void)
{
    hil_device *d;
    CHECK_OK(hil_device_threads_open(&d));
    for (long n = 1;; ++n) {
        hil_tiers tiers;
        hil_tiers_options options = {.device_bytes = MIB, .host_bytes = MIB, .device = d};
        hil_alloc_fail_at(n);
        hil_status status = hil_tiers_open(&tiers, &options);
        hil_alloc_fail_at(0);
        CHECK(status == HIL_OK || status == HIL_ERR_MEMORY);
        if (status != HIL_OK) {
            n += n > 20 ? 250 : 0; /* events, mostly */
            continue;
        }
        hil_tiers_close(&tiers);
        break;
    }
    d->close(d);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--full") == 0) {
        rounds = 60;
        steps = 3000;
    }
    fixture_open();
    CHECK(sem_init(&gate, 0, 0) == 0);
    check_ahead();
    check_contents();
    check_steady();
    check_waits();
    check_updates_beside();
    check_link_order();
    check_many_marks();
    check_failures();
    check_early_end();
    check_memory();
    fixture_close();
    return 0;
}
