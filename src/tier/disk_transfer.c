/* disk_transfer.c - reads and writes pages, with checksums. */
#include "tier/disk_drives.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* Most bytes of contiguous pages in one request: the checksum of one request overlaps with the
   transfer of the next. */
#define REQUEST_BYTES ((size_t)8 << 20)

typedef struct run {
    int64_t first, count; /* pages */
    size_t bytes;         /* on the drive */
    bool zeros;           /* reads pages that were never written */
} run;

/* The pages from `first` on that go in one request. Start and wait compute the same. */
static run next_run(const hil_disk_transfer *t, int64_t first)
{
    const hil_extent *extent = t->extent;
    const hil_page *page = &extent->at[first];
    run r = {.first = first, .zeros = !t->write && !page->written};
    for (int64_t i = first; i < t->first + t->count; ++i) {
        const hil_page *p = &extent->at[i];
        if (p->drive != page->drive || p->offset != page->offset + r.bytes) break;
        if (!t->write && p->written == r.zeros) break;
        size_t bytes = hil_extent_room(extent, i);
        if (r.count && r.bytes + bytes > REQUEST_BYTES) break;
        r.bytes += bytes;
        ++r.count;
    }
    return r;
}

static char *memory_of(const hil_disk_transfer *t, int64_t page)
{
    return t->memory + (size_t)(page - t->first) * t->extent->page;
}

static hil_status start_run(hil_disk *disk, const hil_disk_transfer *t, const run *r,
                            hil_io_request **out)
{
    hil_page *page = &t->extent->at[r->first];
    const hil_disk_drive *drive = &disk->drive[page->drive];
    char *memory = memory_of(t, r->first);
    *out = NULL;
    if (r->zeros) return HIL_OK;
    if (!t->write) return hil_io_read_start(drive->file, page->offset, memory, r->bytes, out);
    for (int64_t i = 0; i < r->count; ++i) {
        page[i].sum =
            XXH3_64bits(memory_of(t, r->first + i), hil_extent_bytes(t->extent, r->first + i));
        page[i].written = true;
    }
    return hil_io_write_start(drive->file, page->offset, memory, r->bytes, out);
}

/* Starts requests until HIL_DISK_REQUESTS are in flight. */
static hil_status start_runs(hil_disk *disk, hil_disk_transfer *t)
{
    while (t->requests < HIL_DISK_REQUESTS && t->started < t->count) {
        run r = next_run(t, t->first + t->started);
        int slot = (t->first_request + t->requests) % HIL_DISK_REQUESTS;
        HIL_TRY(start_run(disk, t, &r, &t->request[slot]));
        t->started += r.count;
        ++t->requests;
    }
    return HIL_OK;
}

static hil_status verify(const hil_disk *disk, const hil_disk_transfer *t, const run *r)
{
    for (int64_t i = r->first; i < r->first + r->count; ++i) {
        const hil_page *page = &t->extent->at[i];
        char *memory = memory_of(t, i), at[32];
        size_t bytes = hil_extent_bytes(t->extent, i);
        if (r->zeros)
            memset(memory, 0, bytes);
        else if (XXH3_64bits(memory, bytes) != page->sum)
            return hil_fail(HIL_ERR_IO,
                            "checksum error in %s at %s: the drive returned other bytes than were "
                            "written",
                            disk->drive[page->drive].path, hil_text_bytes(at, page->offset));
    }
    return HIL_OK;
}

/* Waits for the oldest request and verifies its pages. */
static hil_status finish_run(hil_disk *disk, hil_disk_transfer *t)
{
    run r = next_run(t, t->first + t->finished);
    hil_io_request *request = t->request[t->first_request];
    t->first_request = (t->first_request + 1) % HIL_DISK_REQUESTS;
    --t->requests;
    t->finished += r.count;
    if (request) HIL_TRY(hil_io_wait(request));
    return t->write ? HIL_OK : verify(disk, t, &r);
}

/* Waits for the requests in flight and forwards the earlier failure. */
static hil_status abandon(hil_disk *disk, hil_disk_transfer *t, hil_status status)
{
    char words[1024];
    snprintf(words, sizeof words, "%s", hil_status_message());
    while (t->requests) (void)!finish_run(disk, t);
    t->started = t->finished = t->count;
    return hil_fail(status, "%s", words);
}

hil_status hil_disk_start(hil_disk *disk, hil_disk_transfer *t)
{
    assert(disk->io && (uintptr_t)t->memory % HIL_IO_ALIGN == 0);
    assert(t->first >= 0 && t->count >= 0 && t->first + t->count <= t->extent->pages);
    t->started = t->finished = 0;
    t->first_request = t->requests = 0;
    hil_status status = start_runs(disk, t);
    return status == HIL_OK ? HIL_OK : abandon(disk, t, status);
}

hil_status hil_disk_wait(hil_disk *disk, hil_disk_transfer *t)
{
    while (t->finished < t->count) {
        hil_status status = finish_run(disk, t);
        if (status == HIL_OK) status = start_runs(disk, t);
        if (status != HIL_OK) return abandon(disk, t, status);
    }
    return HIL_OK;
}

hil_status hil_disk_damage(hil_disk *disk, const hil_extent *extent, int64_t page, size_t byte)
{
    _Alignas(HIL_IO_ALIGN) char block[HIL_IO_ALIGN];
    const hil_page *p = &extent->at[page];
    hil_io_file *file = disk->drive[p->drive].file;
    uint64_t at = p->offset + byte / HIL_IO_ALIGN * HIL_IO_ALIGN;
    HIL_TRY(hil_io_read(file, at, block, sizeof block));
    block[byte % HIL_IO_ALIGN] ^= 1;
    return hil_io_write(file, at, block, sizeof block);
}
