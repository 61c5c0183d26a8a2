/* For every n, the n-th operation on the drives fails in a small mix of jobs: transient errors
   change nothing, others are one clear error at wait, and nothing hangs. A flipped bit on a drive
   is an error too. */
#include "base/alloc.h"
#include "io/io_faulty.h"
#include "io/io_fixture.h"
#include "tier/tiers.h"

#include <errno.h>

#define PAGE ((size_t)16384)
#define PAGES 3
#define BYTES (PAGES * PAGE - 1000)
#define EXTENTS 4

typedef struct run {
    hil_tiers tiers;
    hil_extent extent[EXTENTS];
    char *memory[EXTENTS]; /* host */
    hil_fence fence[EXTENTS];
    int damage; /* page that is damaged between write and read; -1: none */
} run;

static hil_status open_run(run *r, hil_io_kind engine)
{
    hil_drive drive[2] = {{folder, MIB, 1}, {folder, MIB, 2}};
    uint64_t bytes[HIL_DRIVES] = {128 * KIB, 256 * KIB};
    hil_tiers_options options = {.host_bytes = EXTENTS * PAGES * PAGE,
                                 .drives = drive,
                                 .drive_count = 2,
                                 .drive_bytes = bytes,
                                 .io = engine};
    HIL_TRY(hil_tiers_open(&r->tiers, &options));
    for (int i = 0; i < EXTENTS; ++i) {
        HIL_TRY(hil_tiers_take(&r->tiers, HIL_HOST, PAGES * PAGE, "x", (void **)&r->memory[i]));
        HIL_TRY(hil_disk_take(r->tiers.disk, BYTES, PAGE, &r->extent[i], &r->fence[i]));
        fill(r->memory[i], (uint64_t)i * BYTES, BYTES, 1);
    }
    return HIL_OK;
}

static hil_status submit(run *r, hil_link link, int i, int64_t first, int64_t count)
{
    bool read = link == HIL_LINK_FETCH || link == HIL_LINK_READ;
    char *memory = r->memory[i] + (size_t)first * PAGE;
    size_t bytes = first + count == PAGES ? BYTES - (size_t)first * PAGE : (size_t)count * PAGE;
    hil_job job = {.link = link, .after = r->fence[i], .parts = 1};
    job.part[0] = (hil_part){.kind = read ? HIL_PART_READ : HIL_PART_WRITE,
                             .to = memory,
                             .from = memory,
                             .bytes = bytes,
                             .disk = &r->extent[i],
                             .first = first,
                             .count = count};
    return hil_links_submit(r->tiers.links, &job, &r->fence[i]);
}

static hil_status wipe(void *context, int64_t index)
{
    run *r = context;
    memset(r->memory[index], 0, BYTES);
    return HIL_OK;
}

/* Writes all extents by pages, wipes their memory, and reads them back whole. */
static hil_status small_run(run *r)
{
    static const hil_link out[] = {HIL_LINK_STASH, HIL_LINK_WRITE};
    static const hil_link in[] = {HIL_LINK_FETCH, HIL_LINK_READ};
    hil_fence all = {0};
    for (int i = 0; i < EXTENTS; ++i) {
        for (int64_t page = 0; page < PAGES; ++page) HIL_TRY(submit(r, out[i % 2], i, page, 1));
        hil_job job = {.link = HIL_LINK_UPDATE, .after = r->fence[i], .run = wipe};
        job.context = r;
        job.index = i;
        HIL_TRY(hil_links_submit(r->tiers.links, &job, &r->fence[i]));
    }
    if (r->damage >= 0) {
        HIL_TRY(hil_links_drain(r->tiers.links));
        HIL_TRY(hil_disk_damage(r->tiers.disk, &r->extent[r->damage / PAGES], r->damage % PAGES,
                                (size_t)r->damage * 1237 % (BYTES % PAGE)));
    }
    for (int i = 0; i < EXTENTS; ++i) {
        HIL_TRY(submit(r, in[i / 2], i, 0, PAGES));
        hil_fence_join(&all, &r->fence[i]);
    }
    hil_status status = hil_links_wait(r->tiers.links, &all, HIL_WAIT_WEIGHTS);
    CHECK(hil_links_over(r->tiers.links, &all));
    if (status != HIL_OK) {
        char words[1024];
        snprintf(words, sizeof words, "%s", hil_status_message());
        CHECK_FAILS(hil_links_drain(r->tiers.links), status, words);
        return status;
    }
    for (int i = 0; i < EXTENTS; ++i) expect(r->memory[i], (uint64_t)i * BYTES, BYTES, 1);
    return HIL_OK;
}

static hil_status whole_run(run *r, hil_io_kind engine)
{
    hil_status status = open_run(r, engine);
    if (status == HIL_OK) status = small_run(r);
    if (r->tiers.links) hil_tiers_close(&r->tiers);
    return status;
}

static void every_operation(hil_io_kind engine, int error, const char *words)
{
    static run r;
    int before = open_descriptors();
    bool passing = error == 0 || error == EAGAIN, reached = true;
    long n = 1, step = 1;
    if (CHECK_SLOW) n += error % 3, step = 3; /* other operations for other errors */
    for (; reached; n += step) {
        memset(&r, 0, sizeof r);
        r.damage = -1;
        hil_io_fail_at(n, error);
        hil_status status = whole_run(&r, engine);
        reached = hil_io_fail_count() >= n;
        if (reached && !passing) {
            CHECK_FAILS(status, HIL_ERR_IO, words);
            CHECK(strstr(hil_status_message(), folder) != NULL);
        } else {
            CHECK_OK(status);
        }
    }
    CHECK(n > EXTENTS * PAGES + EXTENTS);
    hil_io_fail_at(0, 0);
    CHECK_INT(open_descriptors(), before);
}

static void faults(hil_io_kind engine)
{
    every_operation(engine, 0, "");
    every_operation(engine, EAGAIN, "");
    every_operation(engine, EIO, ": Input/output error");
    every_operation(engine, ENOSPC, ": No space left on device");
}

static void damage(hil_io_kind engine)
{
    static run r;
    for (int page = -1; page < EXTENTS * PAGES; page += CHECK_SLOW ? 3 : 1) {
        memset(&r, 0, sizeof r);
        r.damage = page;
        hil_status status = whole_run(&r, engine);
        if (page < 0)
            CHECK_OK(status);
        else
            CHECK_FAILS(status, HIL_ERR_IO, "checksum error in ");
    }
}

static void no_memory(hil_io_kind engine)
{
    static run r;
    int before = open_descriptors();
    for (long n = 1;; n += CHECK_SLOW ? 3 : 1) {
        memset(&r, 0, sizeof r);
        r.damage = -1;
        hil_alloc_fail_at(n);
        hil_status status = whole_run(&r, engine);
        hil_alloc_fail_at(0);
        CHECK_INT(open_descriptors(), before);
        if (status == HIL_OK) break;
        CHECK_FAILS(status, HIL_ERR_MEMORY, "out of memory");
        CHECK(n < 1000);
    }
}

int main(void)
{
    fixture_open();
    with_engines(faults);
    with_engines(damage);
    with_engines(no_memory);
    fixture_close();
    return 0;
}
