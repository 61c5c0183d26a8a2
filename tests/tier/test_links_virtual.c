/* The rehearsal's clock against times worked out by hand. */
#include "check.h"
#include "tier/tiers.h"

static const hil_speeds speeds = {
    .disk_read = 100, .disk_write = 50, .disk_mixed = 80, .to_device = 1000, .to_host = 500};
/* A bus: copies in one direction are faster while there are none in the other. */
static const hil_speeds bus = {
    .to_device = 1000, .to_host = 500, .update_device = 1, .one_way = 2000};
static hil_tiers tiers;
static hil_extent extent;

static void begin_at(const hil_speeds *at)
{
    static const hil_drive drive = {"/nowhere", 1 << 20, 1};
    hil_tiers_options options = {.device_bytes = 1 << 20,
                                 .host_bytes = 1 << 20,
                                 .drives = &drive,
                                 .drive_count = 1,
                                 .speeds = at};
    hil_fence after;
    CHECK_OK(hil_tiers_open(&tiers, &options));
    CHECK_OK(hil_disk_take(tiers.disk, 8192, 4096, &extent, &after));
    CHECK(tiers.rehearse);
}

static void begin(void)
{
    begin_at(&speeds);
}

static void end(void)
{
    hil_tiers_close(&tiers);
}

/* A job of one part; bytes on a disk link are the disk's. `after` may be NULL. */
static hil_fence submit(hil_link link, size_t bytes, const hil_fence *after)
{
    hil_job job = {.link = link, .parts = 1};
    hil_fence fence = {0};
    job.part[0] = (hil_part){.bytes = bytes, .disk = &extent, .count = 2};
    if (link == HIL_LINK_FETCH || link == HIL_LINK_READ) job.part[0].kind = HIL_PART_READ;
    if (link == HIL_LINK_STASH || link == HIL_LINK_WRITE) job.part[0].kind = HIL_PART_WRITE;
    if (after) job.after = *after;
    CHECK_OK(hil_links_submit(tiers.links, &job, &fence));
    return fence;
}

static hil_status never(void *context, int64_t index)
{
    (void)context, (void)index;
    check_die(__FILE__, __LINE__, "a rehearsal executed a job");
    return HIL_OK;
}

static hil_fence update(double seconds, const hil_fence *after)
{
    hil_job job = {.link = HIL_LINK_UPDATE, .run = never, .seconds = seconds};
    hil_fence fence = {0};
    if (after) job.after = *after;
    CHECK_OK(hil_links_submit(tiers.links, &job, &fence));
    return fence;
}

static void wait_until(const hil_fence *fence, double when)
{
    CHECK_OK(hil_links_wait(tiers.links, fence, HIL_WAIT_WEIGHTS));
    CHECK_NEAR(hil_links_now(tiers.links), when, 1e-9);
}

/* 200 bytes are read in 2 s and copied in 0.2 s; half of that overlaps with compute. */
static void chain(void)
{
    begin();
    hil_fence fetched = submit(HIL_LINK_FETCH, 200, NULL);
    hil_fence here = submit(HIL_LINK_IN, 200, &fetched);
    hil_links_compute(tiers.links, 1.5);
    CHECK(!hil_links_over(tiers.links, &fetched));
    hil_links_compute(tiers.links, 0.5);
    CHECK(hil_links_over(tiers.links, &fetched) && !hil_links_over(tiers.links, &here));
    wait_until(&here, 2.2);
    wait_until(&fetched, 2.2);
    hil_fence out = submit(HIL_LINK_OUT, 500, NULL);
    hil_links_compute(tiers.links, 5);
    wait_until(&out, 7.2);
    hil_account account;
    hil_links_take_account(tiers.links, &account);
    CHECK_NEAR(account.wait[HIL_WAIT_WEIGHTS], 0.2, 1e-9);
    CHECK_NEAR(account.busy[HIL_LINK_FETCH], 2, 1e-9);
    CHECK_NEAR(account.busy[HIL_LINK_IN], 0.2, 1e-9);
    CHECK_NEAR(account.busy[HIL_LINK_OUT], 1, 1e-9);
    CHECK_INT(account.disk_read, 200);
    CHECK_INT(account.to_device, 200);
    CHECK_INT(account.to_host, 500);
    hil_links_take_account(tiers.links, &account);
    CHECK_INT(account.disk_read, 0);
    end();
}

static void shared_disk(void)
{
    begin(); /* two readers: 50 each until the first ends, then 100 */
    hil_fence a = submit(HIL_LINK_FETCH, 100, NULL), b = submit(HIL_LINK_READ, 300, NULL);
    wait_until(&a, 2);
    wait_until(&b, 4);
    end();
    begin(); /* both ways: 40 each until the first ends */
    a = submit(HIL_LINK_FETCH, 80, NULL), b = submit(HIL_LINK_STASH, 40, NULL);
    wait_until(&b, 1);
    wait_until(&a, 1.4);
    end();
    begin(); /* two readers and a writer */
    a = submit(HIL_LINK_FETCH, 40, NULL), b = submit(HIL_LINK_WRITE, 100, NULL);
    hil_fence c = submit(HIL_LINK_READ, 80, NULL);
    wait_until(&a, 2);   /* 40 at 20 */
    wait_until(&b, 2.5); /* 100 at 40 */
    wait_until(&c, 2.7); /* 40 at 20, 20 at 40, 20 at 100 */
    end();
}

static void shared_bus(void)
{
    begin_at(&bus);
    hil_fence in = submit(HIL_LINK_IN, 4000, NULL), out = submit(HIL_LINK_OUT, 500, NULL);
    wait_until(&out, 1);
    wait_until(&in, 2.5); /* 1000 at 1000, 3000 at 2000 */
    in = submit(HIL_LINK_IN, 1000, NULL);
    hil_fence back = submit(HIL_LINK_BACK, 1000, NULL);
    wait_until(&back, 3.5); /* two at 1000 each */
    CHECK(hil_links_over(tiers.links, &in));
    end();
}

/* A job that waits for its fence blocks only its own link. */
static void late_fence(void)
{
    begin();
    hil_fence read = submit(HIL_LINK_READ, 100, NULL);
    hil_fence updated = update(10, &read);
    hil_fence written = submit(HIL_LINK_WRITE, 50, &updated);
    hil_fence fetched = submit(HIL_LINK_FETCH, 100, NULL);
    wait_until(&fetched, 2);
    wait_until(&read, 2);
    wait_until(&written, 13);
    hil_fence five = update(5, NULL);
    hil_fence first = submit(HIL_LINK_IN, 1000, &five), second = submit(HIL_LINK_IN, 1000, NULL);
    wait_until(&second, 20);
    CHECK(hil_links_over(tiers.links, &first));
    end();
}

/* The parts of a job move together; those of one kind one after the other. */
static void parts(void)
{
    begin();
    hil_job job = {.link = HIL_LINK_READ, .parts = 4};
    hil_fence fence = {0};
    for (int i = 0; i < 4; ++i) {
        hil_part part = {.kind = i < 2 ? HIL_PART_READ : HIL_PART_COPY, .disk = &extent};
        part.bytes = i < 2 ? 50 : 500;
        job.part[i] = part;
    }
    CHECK_OK(hil_links_submit(tiers.links, &job, &fence));
    wait_until(&fence, 2);
    job.link = HIL_LINK_WRITE;
    job.part[0].kind = job.part[1].kind = HIL_PART_WRITE;
    CHECK_OK(hil_links_submit(tiers.links, &job, &fence));
    wait_until(&fence, 4);
    hil_account account;
    hil_links_take_account(tiers.links, &account);
    CHECK_INT(account.bytes[HIL_LINK_READ], 1100);
    CHECK_INT(account.to_host, 1000);
    CHECK_INT(account.to_device, 1000);
    CHECK_INT(account.disk_written, 100);
    end();
}

static hil_fence exchange(hil_link link, uint64_t bytes)
{
    hil_job job = {.link = link, .run = never, .bytes = bytes};
    hil_fence fence = {0};
    CHECK_OK(hil_links_submit(tiers.links, &job, &fence));
    return fence;
}

/* 100 bytes/s, half a second before the first byte. */
static void shared_network(void)
{
    static const hil_speeds network = {.network = 100, .network_call = 0.5};
    begin_at(&network);
    hil_fence gathered = exchange(HIL_LINK_GATHER, 100);
    wait_until(&gathered, 1.5);
    hil_fence reduced = exchange(HIL_LINK_REDUCE, 300);
    gathered = exchange(HIL_LINK_GATHER, 100);
    wait_until(&gathered, 4); /* half of the network each */
    wait_until(&reduced, 6);
    gathered = exchange(HIL_LINK_GATHER, 10);
    wait_until(&gathered, 6.6);
    end();
}

/* Where the CPU computes, the update takes half of its cores, unless there are enough for both. */
static void shared_cores(void)
{
    hil_speeds cpu = {.threads = 2, .cpus = 2};
    begin_at(&cpu);
    hil_fence over = update(1, NULL);
    hil_links_compute(tiers.links, 1.5); /* the update's second at half speed, 1 s alone */
    CHECK(hil_links_over(tiers.links, &over));
    CHECK_NEAR(hil_links_now(tiers.links), 2.5, 1e-9);
    over = update(1, NULL);
    hil_links_compute(tiers.links, 0.25);
    CHECK_NEAR(hil_links_now(tiers.links), 3, 1e-9);
    wait_until(&over, 3.75); /* nobody computes meanwhile */
    hil_job lone = {.link = HIL_LINK_UPDATE, .run = never, .seconds = 1, .busy = 0.5};
    CHECK_OK(hil_links_submit(tiers.links, &lone, &over));
    hil_links_compute(tiers.links, 1.5); /* three threads on two cores, and then 0.5 s alone */
    CHECK_NEAR(hil_links_now(tiers.links), 3.75 + 2, 1e-9);
    end();
    cpu.cpus = 3; /* for four threads */
    begin_at(&cpu);
    over = update(0.75, NULL);
    hil_links_compute(tiers.links, 0.75);
    CHECK_NEAR(hil_links_now(tiers.links), 1, 1e-9);
    end();
    cpu.cpus = 4;
    begin_at(&cpu);
    over = update(1, NULL);
    hil_links_compute(tiers.links, 1);
    CHECK_NEAR(hil_links_now(tiers.links), 1, 1e-9);
    end();
    cpu.update_device = 1; /* a GPU computes */
    cpu.cpus = 1;
    begin_at(&cpu);
    over = update(1, NULL);
    hil_links_compute(tiers.links, 1);
    CHECK_NEAR(hil_links_now(tiers.links), 1, 1e-9);
    end();
}

/* Copies over the bus take bandwidth of the RAM from an update on the CPU, not from the GPU's. */
static void shared_memory(void)
{
    hil_speeds gpu = {.to_device = 320, .to_host = 320, .update = 20, .update_device = 1};
    begin_at(&gpu);
    hil_fence over = update(1, NULL);
    hil_fence copied = submit(HIL_LINK_IN, 160, NULL); /* 0.5 s, with half of 20 x 32 bytes/s */
    wait_until(&copied, 0.5);
    wait_until(&over, 1.25);
    over = update(1, NULL);
    submit(HIL_LINK_IN, 320, NULL);
    submit(HIL_LINK_OUT, 320, NULL); /* 1 s; all of the RAM's, of which the update keeps 0.3 */
    hil_links_compute(tiers.links, 1.5);
    CHECK_NEAR(hil_links_now(tiers.links), 2.75, 1e-9);
    wait_until(&over, 2.95);
    hil_job job = {.link = HIL_LINK_UPDATE, .run = never, .seconds = 1, .queues = true};
    CHECK_OK(hil_links_submit(tiers.links, &job, &over));
    submit(HIL_LINK_IN, 640, NULL);
    wait_until(&over, 3.95);
    end();
}

/* A transfer takes as long as a small one at least, longer where no core is idle; and where the CPU
   computes, drives take their part of its cores. */
static void small_transfers(void)
{
    hil_speeds drive = {.disk_read = 100, .disk_call = 0.5, .threads = 1, .cpus = 2};
    begin_at(&drive);
    hil_fence over = submit(HIL_LINK_FETCH, 10, NULL);
    wait_until(&over, 0.5);
    over = submit(HIL_LINK_FETCH, 100, NULL);
    wait_until(&over, 1.5);
    end();
    drive.threads = 2;
    begin_at(&drive);
    over = submit(HIL_LINK_FETCH, 10, NULL);
    wait_until(&over, 2);
    end();
    drive = (hil_speeds){.disk_read = 4e9, .threads = 2, .cpus = 2};
    begin_at(&drive);
    submit(HIL_LINK_FETCH, (size_t)40 << 30, NULL); /* longer than what is computed */
    hil_links_compute(tiers.links, 0.76);           /* 0.48 of two cores read */
    CHECK_NEAR(hil_links_now(tiers.links), 1, 1e-9);
    end();
    drive.cpus = 3; /* one is idle */
    begin_at(&drive);
    submit(HIL_LINK_FETCH, (size_t)40 << 30, NULL);
    hil_links_compute(tiers.links, 1);
    CHECK_NEAR(hil_links_now(tiers.links), 1, 1e-9);
    end();
}

/* Thousands of jobs at a large clock: no time is lost, and an empty job takes none. */
static void many(void)
{
    begin();
    hil_fence last = {0};
    hil_links_compute(tiers.links, 1e6);
    for (int i = 0; i < 5000; ++i) {
        hil_fence read = submit(HIL_LINK_FETCH, 10, NULL);
        last = submit(HIL_LINK_IN, 0, &read);
        if (i % 7 == 0) hil_links_compute(tiers.links, 0.01);
    }
    CHECK_OK(hil_links_wait(tiers.links, &last, HIL_WAIT_WEIGHTS));
    CHECK_NEAR(hil_links_now(tiers.links), 1e6 + 500, 1e-5);
    CHECK_OK(hil_links_drain(tiers.links));
    CHECK_NEAR(hil_links_now(tiers.links), 1e6 + 500, 1e-5);
    end();
}

int main(void)
{
    chain();
    shared_disk();
    shared_bus();
    shared_network();
    late_fence();
    parts();
    shared_cores();
    shared_memory();
    small_transfers();
    many();
    return 0;
}
