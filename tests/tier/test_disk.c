/* Bytes on one to three drives come back or are refused; drives fill in proportion. */
#include "base/alloc.h"
#include "io/io_fixture.h"
#include "tier/disk.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#define PAGE (64 * KIB)

static char name[3][128];

static void make_drives(void)
{
    for (int i = 0; i < 3; ++i) {
        snprintf(name[i], sizeof name[i], "%s/drive%d", folder, i);
        CHECK_INT(mkdir(name[i], 0700), 0);
    }
}

/* Drive i has (i + 1) of 4 MiB and a speed of 3, 1, 2. */
static hil_disk *make_disk(int drives, bool rehearse)
{
    static const double speed[] = {3, 1, 2};
    hil_drive drive[3];
    hil_disk *disk;
    for (int i = 0; i < drives; ++i)
        drive[i] = (hil_drive){name[i], (uint64_t)(i + 1) * 4 * MIB, speed[i]};
    CHECK_OK(hil_disk_create(&disk, drive, drives, rehearse));
    return disk;
}

static void take(hil_disk *disk, size_t bytes, hil_extent *extent)
{
    hil_fence after;
    CHECK_OK(hil_disk_take(disk, bytes, PAGE, extent, &after));
    CHECK_INT(extent->pages, (bytes + PAGE - 1) / PAGE);
}

static hil_status move(hil_disk *disk, const hil_extent *extent, int64_t first, int64_t count,
                       char *memory, bool write)
{
    hil_disk_transfer transfer = {
        .extent = extent, .first = first, .count = count, .memory = memory, .write = write};
    HIL_TRY(hil_disk_start(disk, &transfer));
    return hil_disk_wait(disk, &transfer);
}

/* Extents of many sizes are written whole or by pages, and read back in other ranges; a page that
   was never written reads as zeros, also where another extent was before. */
static void round_trips(hil_io_kind engine)
{
    static const size_t size[] = {1, 4096, PAGE, PAGE + 1, 3 * MIB + 77, 700 * KIB};
    char *memory = aligned_alloc(HIL_IO_ALIGN, 4 * MIB);
    int before = open_descriptors();
    for (int drives = 1; drives <= 3; ++drives) {
        hil_io *io = make_io(engine, 4, 64 * KIB);
        hil_disk *disk = make_disk(drives, false);
        CHECK_OK(hil_disk_open(disk, io, (uint64_t[HIL_DRIVES]){MIB, 0, 2 * MIB}));
        for (unsigned round = 0; round < 3; ++round) {
            hil_extent extent[6];
            for (int i = 0; i < 5; ++i) {
                take(disk, size[i], &extent[i]);
                fill(memory, 0, size[i], round + (unsigned)i);
                CHECK_OK(move(disk, &extent[i], 0, extent[i].pages, memory, true));
            }
            for (int i = 0; i < 5; ++i) {
                for (int64_t page = 0; page < extent[i].pages; page += 3) {
                    int64_t left = extent[i].pages - page;
                    CHECK_OK(move(disk, &extent[i], page, left < 3 ? left : 3,
                                  memory + (size_t)page * PAGE, false));
                }
                expect(memory, 0, size[i], round + (unsigned)i);
            }
            for (int i = 0; i < 5; ++i) hil_disk_give(disk, &extent[i], NULL);
            CHECK_INT(hil_disk_used(disk), 0);
            take(disk, size[5], &extent[5]);
            fill(memory, PAGE, PAGE, 9);
            CHECK_OK(move(disk, &extent[5], 1, 1, memory, true));
            memset(memory, 1, size[5]);
            CHECK_OK(move(disk, &extent[5], 0, extent[5].pages, memory, false));
            expect(memory + PAGE, PAGE, PAGE, 9);
            for (size_t i = 0; i < size[5]; ++i)
                if (i / PAGE != 1) CHECK_INT(memory[i], 0);
            hil_disk_give(disk, &extent[5], NULL);
        }
        hil_disk_destroy(disk);
        hil_io_destroy(io);
    }
    CHECK_INT(open_descriptors(), before);
    free(memory);
}

static void bytes_per_drive(const hil_extent *extent, size_t *bytes)
{
    memset(bytes, 0, 3 * sizeof *bytes);
    for (int64_t i = 0; i < extent->pages; ++i) bytes[extent->at[i].drive] += PAGE;
}

/* While all drives have room, pages are spread 3 : 1 : 2; then the drives with room take the rest,
   up to the last byte of their sizes. No two pages overlap. */
static void proportion(void)
{
    hil_disk *disk = make_disk(3, true);
    hil_extent first, rest, more;
    hil_fence after;
    size_t bytes[3], rest_bytes[3];
    uint64_t reach[HIL_DRIVES];
    take(disk, 6 * MIB, &first);
    bytes_per_drive(&first, bytes);
    CHECK_NEAR((double)bytes[0], 3.0 * MIB, PAGE);
    CHECK_NEAR((double)bytes[1], 1.0 * MIB, PAGE);
    CHECK_NEAR((double)bytes[2], 2.0 * MIB, PAGE);
    take(disk, 18 * MIB, &rest);
    bytes_per_drive(&rest, rest_bytes);
    for (int i = 0; i < 3; ++i) CHECK_INT(bytes[i] + rest_bytes[i], (size_t)(i + 1) * 4 * MIB);
    CHECK_FAILS(hil_disk_take(disk, 1, PAGE, &more, &after), HIL_ERR_BUDGET, "no room on disk");
    CHECK(strstr(hil_status_message(), name[0]) && strstr(hil_status_message(), name[2]));
    CHECK_INT(hil_disk_used(disk), 24 * MIB);
    CHECK_INT(hil_disk_peak(disk), 24 * MIB);
    hil_disk_extent(disk, reach);
    CHECK_INT(reach[0] + reach[1] + reach[2] + reach[3], 24 * MIB);
    static char seen[3][12 * MIB / PAGE];
    hil_extent *both[] = {&first, &rest};
    for (int e = 0; e < 2; ++e)
        for (int64_t i = 0; i < both[e]->pages; ++i) {
            const hil_page *page = &both[e]->at[i];
            CHECK_INT(seen[page->drive][page->offset / PAGE]++, 0);
        }
    hil_disk_give(disk, &rest, NULL);
    hil_disk_give(disk, &first, NULL);
    CHECK_INT(hil_disk_used(disk), 0);
    hil_disk_destroy(disk);
}

/* Fragmented free space is used to the last page, with the fences of the previous users. */
static void pieces(void)
{
    hil_disk *disk = make_disk(1, true);
    hil_extent part[4 * MIB / PAGE], whole, more;
    hil_fence after;
    int count = (int)(4 * MIB / PAGE);
    for (int i = 0; i < count; ++i) take(disk, PAGE, &part[i]);
    for (int i = 0; i < count; i += 2) {
        hil_fence fence = {.after[HIL_LINK_STASH] = (uint64_t)i};
        hil_disk_give(disk, &part[i], &fence);
    }
    CHECK_OK(hil_disk_take(disk, 2 * MIB - 5, PAGE, &whole, &after));
    CHECK_INT(after.after[HIL_LINK_STASH], count - 2);
    CHECK_FAILS(hil_disk_take(disk, 1, PAGE, &more, &after), HIL_ERR_BUDGET, "no room");
    CHECK(more.at == NULL);
    for (int i = 1; i < count; i += 2) hil_disk_give(disk, &part[i], NULL);
    hil_disk_give(disk, &whole, NULL);
    CHECK_INT(hil_disk_used(disk), 0);
    take(disk, 4 * MIB, &whole);
    for (int64_t i = 0; i < whole.pages; ++i) CHECK_INT(whole.at[i].offset, (size_t)i * PAGE);
    hil_disk_give(disk, &whole, NULL);
    hil_disk_destroy(disk);
}

/* One flipped bit anywhere in a page is found when the page is read, and only then. */
static void damage(hil_io_kind engine)
{
    hil_io *io = make_io(engine, 4, 64 * KIB);
    hil_disk *disk = make_disk(2, false);
    hil_extent extent;
    size_t bytes = 10 * PAGE + 100;
    char *memory = aligned_alloc(HIL_IO_ALIGN, 11 * PAGE);
    CHECK_OK(hil_disk_open(disk, io, (uint64_t[HIL_DRIVES]){0}));
    take(disk, bytes, &extent);
    fill(memory, 0, bytes, 4);
    CHECK_OK(move(disk, &extent, 0, extent.pages, memory, true));
    for (int64_t page = 0; page < extent.pages; ++page) {
        char words[400];
        size_t at = page + 1 < extent.pages ? (size_t)page * 5001 % PAGE : 99;
        const hil_page *p = &extent.at[page];
        CHECK_OK(hil_disk_damage(disk, &extent, page, at));
        snprintf(words, sizeof words,
                 "checksum error in %s at %s%.1f KiB: the drive returned other", name[p->drive], "",
                 (double)p->offset / KIB);
        if (p->offset == 0) words[strlen("checksum error in ") + strlen(name[p->drive]) + 4] = 0;
        CHECK_FAILS(move(disk, &extent, 0, extent.pages, memory, false), HIL_ERR_IO, words);
        if (page > 0) CHECK_OK(move(disk, &extent, 0, page, memory, false));
        CHECK_OK(hil_disk_damage(disk, &extent, page, at));
        CHECK_OK(move(disk, &extent, 0, extent.pages, memory, false));
        expect(memory, 0, bytes, 4);
    }
    hil_disk_give(disk, &extent, NULL);
    hil_disk_destroy(disk);
    hil_io_destroy(io);
    free(memory);
}

static void full_disk(hil_io_kind engine)
{
    struct statvfs info;
    char words[400];
    hil_io *io = make_io(engine, 1, 64 * KIB);
    hil_disk *disk = make_disk(2, false);
    CHECK_INT(statvfs(name[1], &info), 0);
    uint64_t all = info.f_blocks * info.f_frsize;
    snprintf(words, sizeof words, " in %s: only ", name[1]);
    CHECK_FAILS(hil_disk_open(disk, io, (uint64_t[HIL_DRIVES]){MIB, 2 * all}), HIL_ERR_IO, words);
    CHECK(strstr(hil_status_message(), "are free there"));
    hil_disk_destroy(disk);
    disk = make_disk(1, false);
    CHECK_INT(chmod(name[0], 0500), 0);
    if (access(name[0], W_OK) != 0)
        CHECK_FAILS(hil_disk_open(disk, io, (uint64_t[HIL_DRIVES]){MIB}), HIL_ERR_IO, name[0]);
    CHECK_INT(chmod(name[0], 0700), 0);
    hil_disk_destroy(disk);
    hil_io_destroy(io);
}

/* A failed allocation leaves the disk unchanged; after some rounds nothing is allocated. */
static void allocations(void)
{
    hil_disk *disk = NULL;
    hil_extent extent[20];
    hil_fence after;
    for (long n = 1;; ++n) {
        hil_drive drive = {name[0], 4 * MIB, 1};
        hil_alloc_fail_at(n);
        hil_status status = hil_disk_create(&disk, &drive, 1, true);
        if (status == HIL_OK) status = hil_disk_take(disk, MIB, PAGE, &extent[0], &after);
        hil_alloc_fail_at(0);
        if (status == HIL_OK) break;
        CHECK_FAILS(status, HIL_ERR_MEMORY, "out of memory");
        if (disk) CHECK_INT(hil_disk_used(disk), 0);
        hil_disk_destroy(disk);
    }
    hil_disk_give(disk, &extent[0], NULL);
    long made = 0;
    for (int round = 0; round < 5; ++round) {
        if (round == 1) made = hil_alloc_count();
        for (int i = 0; i < 20; ++i) take(disk, (size_t)(i % 5 + 1) * 40 * KIB, &extent[i]);
        for (int i = 0; i < 20; ++i) hil_disk_give(disk, &extent[i], NULL);
    }
    CHECK_INT(hil_alloc_count(), made);
    hil_disk_destroy(disk);
}

int main(void)
{
    fixture_open();
    make_drives();
    proportion();
    pieces();
    allocations();
    with_engines(round_trips);
    with_engines(damage);
    with_engines(full_disk);
    fixture_close();
    return 0;
}
