/* disk.c - extents: assigns a drive and an offset to each page, and reserves the swap files. */
#include "tier/disk_drives.h"

#include "base/text.h"
#include "io/align.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

/* Spare page tables of each size. The longest idle one is reused first: usually its transfers are
   complete by then. Whether a table is allocated depends on the order of calls alone. */
#define SPARE_TABLES 8

size_t hil_extent_bytes(const hil_extent *extent, int64_t page)
{
    return page + 1 < extent->pages ? extent->page : extent->bytes - (size_t)page * extent->page;
}

size_t hil_extent_room(const hil_extent *extent, int64_t page)
{
    return hil_align_up(hil_extent_bytes(extent, page));
}

/* Bytes that the extent's pages take on the drives. */
static uint64_t extent_room(const hil_extent *extent)
{
    int64_t last = extent->pages - 1;
    return (uint64_t)last * extent->page + hil_extent_room(extent, last);
}

static hil_disk_table *table_of(const hil_extent *extent)
{
    return (hil_disk_table *)(void *)((char *)extent->at - offsetof(hil_disk_table, page));
}

static void table_give(hil_disk *disk, hil_disk_table *table)
{
    hil_disk_tables *tables = &disk->tables[table->order];
    table->next = NULL;
    if (tables->idle++)
        tables->last->next = table;
    else
        tables->first = table;
    tables->last = table;
}

/* A zeroed table for `count` pages; blocks until queued transfers no longer read its old contents.
 */
static hil_status table_take(hil_disk *disk, int64_t count, hil_page **out)
{
    int order = 0;
    while (((int64_t)1 << order) < count) ++order;
    hil_disk_tables *tables = &disk->tables[order];
    size_t bytes = sizeof(hil_page) << order;
    int most = tables->all - tables->idle + 1;
    if (most < tables->most) most = tables->most;
    while (tables->all < most + SPARE_TABLES) {
        hil_disk_table *table;
        HIL_TRY(hil_alloc(1, sizeof *table + bytes, (void **)&table));
        table->order = order;
        table->older = disk->newest;
        disk->newest = table;
        table_give(disk, table);
        ++tables->all;
    }
    tables->most = most;
    hil_disk_table *table = tables->first;
    tables->first = table->next;
    --tables->idle;
    pthread_mutex_lock(&disk->lock);
    while (table->readers) pthread_cond_wait(&disk->released, &disk->lock);
    pthread_mutex_unlock(&disk->lock);
    memset(table->page, 0, bytes);
    *out = table->page;
    return HIL_OK;
}

void hil_disk_acquire(hil_disk *disk, const hil_extent *extent)
{
    pthread_mutex_lock(&disk->lock);
    ++table_of(extent)->readers;
    pthread_mutex_unlock(&disk->lock);
}

void hil_disk_release(hil_disk *disk, const hil_extent *extent)
{
    pthread_mutex_lock(&disk->lock);
    if (--table_of(extent)->readers == 0) pthread_cond_broadcast(&disk->released);
    pthread_mutex_unlock(&disk->lock);
}

/* Assigns each page to the drive that would need the least time to transfer all its pages; false
   when the pages do not fit into `room`. */
static bool assign(const hil_disk *disk, const hil_extent *extent, const uint64_t *room)
{
    uint64_t used[HIL_DRIVES], left[HIL_DRIVES];
    for (int d = 0; d < disk->count; ++d) {
        used[d] = hil_region_used(disk->drive[d].region);
        left[d] = room[d];
    }
    if (disk->count == 1) {
        for (int64_t i = 0; i < extent->pages; ++i) extent->at[i].drive = 0;
        return extent->pages == 0 || extent_room(extent) <= left[0];
    }
    for (int64_t i = 0; i < extent->pages; ++i) {
        size_t bytes = hil_extent_room(extent, i);
        int best = -1;
        double least = 0;
        for (int d = 0; d < disk->count; ++d) {
            double busy = (double)(used[d] + bytes) / disk->drive[d].speed;
            if (left[d] < bytes || (best >= 0 && busy >= least)) continue;
            best = d;
            least = busy;
        }
        if (best < 0) return false;
        extent->at[i].drive = best;
        used[best] += bytes;
        left[best] -= bytes;
    }
    return true;
}

/* Gives offsets to the pages assigned to a drive, in as few contiguous blocks as possible.
 *placed: bytes that got one; fewer than assigned when free space is fragmented. */
static hil_status place(hil_disk *disk, const hil_extent *extent, int drive, hil_fence *after,
                        uint64_t *placed)
{
    hil_region *region = disk->drive[drive].region;
    int64_t left = 0, last = extent->pages - 1;
    for (int64_t i = 0; i <= last; ++i) left += extent->at[i].drive == drive;
    bool has_last = left > 0 && extent->at[last].drive == drive;
    int64_t most = left, next = 0;
    *placed = 0;
    while (left > 0) {
        int64_t n = most < left ? most : left;
        size_t bytes = (size_t)n * extent->page, offset;
        if (has_last && n == left) bytes -= extent->page - hil_extent_room(extent, last);
        hil_fence fence = {0};
        bool found;
        HIL_TRY(hil_region_take(region, bytes, &offset, &fence, &found));
        if (!found) {
            if (n == 1) return HIL_OK;
            most = n / 2;
            continue;
        }
        hil_fence_join(after, &fence);
        *placed += bytes;
        left -= n;
        for (bool head = true; n > 0; ++next) {
            hil_page *page = &extent->at[next];
            if (page->drive != drive) continue;
            page->offset = offset;
            page->head = head;
            head = false;
            offset += extent->page;
            --n;
        }
    }
    return HIL_OK;
}

static void give_places(hil_disk *disk, const hil_extent *extent, const hil_fence *after)
{
    for (int64_t i = 0; i < extent->pages; ++i) {
        hil_page *page = &extent->at[i];
        if (page->head) hil_region_give(disk->drive[page->drive].region, page->offset, after);
        page->head = false;
    }
}

static hil_status drives_full(const hil_disk *disk, size_t bytes)
{
    char names[512] = "", want[32], left[32], all[32];
    uint64_t used = hil_disk_used(disk), budget = 0;
    size_t at = 0;
    for (int d = 0; d < disk->count; ++d) {
        budget += disk->drive[d].bytes;
        if (at < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", d ? ", " : "",
                                   disk->drive[d].path);
    }
    return hil_fail(HIL_ERR_BUDGET,
                    "no room on disk for %s more: %s of %s are left in %s; give --disk a larger "
                    "size or another folder",
                    hil_text_bytes(want, bytes), hil_text_bytes(left, budget - used),
                    hil_text_bytes(all, budget), names);
}

/* Assigns and places all pages, or none. */
static hil_status take_places(hil_disk *disk, const hil_extent *extent, hil_fence *after)
{
    uint64_t room[HIL_DRIVES];
    for (int d = 0; d < disk->count; ++d)
        room[d] = disk->drive[d].bytes - hil_region_used(disk->drive[d].region);
    for (bool whole = false; !whole;) {
        if (!assign(disk, extent, room)) return drives_full(disk, extent->bytes);
        hil_status status = HIL_OK;
        whole = true;
        for (int d = 0; d < disk->count && whole && status == HIL_OK; ++d) {
            uint64_t want = 0, placed = 0;
            for (int64_t i = 0; i < extent->pages; ++i)
                if (extent->at[i].drive == d) want += hil_extent_room(extent, i);
            status = place(disk, extent, d, after, &placed);
            whole = status == HIL_OK && placed == want;
            if (!whole) room[d] = placed; /* all that fits in pages of this size */
        }
        if (whole) break;
        give_places(disk, extent, after);
        HIL_TRY(status);
    }
    return HIL_OK;
}

/* Makes the drive's file at least `bytes` long. */
static hil_status reserve(hil_disk *disk, hil_disk_drive *drive, uint64_t bytes)
{
    struct statvfs info;
    if (bytes <= drive->reserved) return HIL_OK;
    uint64_t more = bytes - drive->reserved;
    if (statvfs(drive->path, &info) == 0 && info.f_bavail * info.f_frsize < more) {
        char want[32], left[32];
        return hil_fail(HIL_ERR_IO,
                        "cannot reserve %s in %s: only %s are free there; free some, or give "
                        "--disk a smaller size or another folder",
                        hil_text_bytes(want, more), drive->path,
                        hil_text_bytes(left, info.f_bavail * info.f_frsize));
    }
    if (!drive->file) {
        HIL_TRY(hil_io_open_scratch(disk->io, drive->path, bytes, &drive->file));
    } else {
        int fd = hil_io_descriptor(drive->file), error = EINTR;
        while (error == EINTR) error = fallocate(fd, 0, 0, (off_t)bytes) == 0 ? 0 : errno;
        if (error && error != EOPNOTSUPP) { /* if unsupported, writes extend the file */
            char want[32];
            return hil_fail(HIL_ERR_IO, "cannot reserve %s in %s: %s", hil_text_bytes(want, more),
                            drive->path, strerror(error));
        }
    }
    drive->reserved = bytes;
    return HIL_OK;
}

hil_status hil_disk_take(hil_disk *disk, size_t bytes, size_t page, hil_extent *out,
                         hil_fence *after)
{
    assert(page > 0 && page % HIL_IO_ALIGN == 0);
    *after = (hil_fence){0};
    *out = (hil_extent){0};
    hil_extent extent = {
        .bytes = bytes, .page = page, .pages = (int64_t)((bytes + page - 1) / page)};
    hil_status status = HIL_OK;
    HIL_TRY_DONE(table_take(disk, extent.pages, &extent.at));
    HIL_TRY_DONE(take_places(disk, &extent, after));
    for (int d = 0; d < disk->count && disk->io; ++d)
        HIL_TRY_DONE(reserve(disk, &disk->drive[d], hil_region_extent(disk->drive[d].region)));
    uint64_t used = hil_disk_used(disk);
    if (used > disk->peak) disk->peak = used;
    *out = extent;
    extent.at = NULL;
done:
    hil_disk_give(disk, &extent, after);
    return status;
}

void hil_disk_give(hil_disk *disk, hil_extent *extent, const hil_fence *after)
{
    if (!extent->at) return;
    give_places(disk, extent, after);
    table_give(disk, table_of(extent));
    *extent = (hil_extent){0};
}

hil_status hil_disk_create(hil_disk **out, const hil_drive *drives, int count, bool rehearse)
{
    *out = NULL;
    if (count > HIL_DRIVES)
        return hil_fail(HIL_ERR_USAGE, "%d drives are too many: at most %d", count, HIL_DRIVES);
    hil_disk *disk = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &disk));
    disk->rehearse = rehearse;
    pthread_mutex_init(&disk->lock, NULL);
    pthread_cond_init(&disk->released, NULL);
    for (int d = 0; d < count; ++d) {
        hil_disk_drive *drive = &disk->drive[d];
        *drive = (hil_disk_drive){.path = drives[d].path, .speed = drives[d].speed};
        drive->bytes = drives[d].bytes / HIL_IO_ALIGN * HIL_IO_ALIGN;
        ++disk->count;
        HIL_TRY_DONE(hil_region_create(&drive->region, drive->bytes, HIL_IO_ALIGN));
    }
    *out = disk;
    disk = NULL;
done:
    hil_disk_destroy(disk);
    return status;
}

void hil_disk_destroy(hil_disk *disk)
{
    if (!disk) return;
    for (int d = 0; d < disk->count; ++d) {
        hil_io_close(disk->drive[d].file);
        hil_region_destroy(disk->drive[d].region);
    }
    for (hil_disk_table *table = disk->newest; table;) {
        hil_disk_table *older = table->older;
        hil_free(table);
        table = older;
    }
    pthread_cond_destroy(&disk->released);
    pthread_mutex_destroy(&disk->lock);
    hil_free(disk);
}

hil_status hil_disk_open(hil_disk *disk, hil_io *io, const uint64_t *bytes)
{
    assert(!disk->rehearse);
    disk->io = io;
    for (int d = 0; d < disk->count; ++d) HIL_TRY(reserve(disk, &disk->drive[d], bytes[d]));
    return HIL_OK;
}

bool hil_disk_is_direct(const hil_disk *disk, int drive)
{
    const hil_io_file *file = disk->drive[drive].file;
    return !file || hil_io_is_direct(file);
}

void hil_disk_extent(const hil_disk *disk, uint64_t *bytes)
{
    memset(bytes, 0, HIL_DRIVES * sizeof *bytes);
    for (int d = 0; d < disk->count; ++d) bytes[d] = hil_region_extent(disk->drive[d].region);
}

uint64_t hil_disk_used(const hil_disk *disk)
{
    uint64_t used = 0;
    for (int d = 0; d < disk->count; ++d) used += hil_region_used(disk->drive[d].region);
    return used;
}

uint64_t hil_disk_peak(const hil_disk *disk)
{
    return disk->peak;
}
