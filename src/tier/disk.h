/* disk.h - the disk tier: pages on one or several drives, each with a checksum kept in memory. */
#ifndef HIL_TIER_DISK_H
#define HIL_TIER_DISK_H

#include "hilbert/io.h"

#include "tier/fence.h"

#define HIL_DRIVES 16

/* One --disk PATH[:SIZE]. */
typedef struct hil_drive {
    const char *path; /* a folder; borrowed */
    uint64_t bytes;   /* budget */
    double speed;     /* bytes per second, any positive number where not measured */
} hil_drive;

/* Owns the swap files (unlinked, mode 0600, preallocated) and the page tables of extents. Borrows
   the paths. */
typedef struct hil_disk hil_disk;

/* Data on disk is cut into pages, which are spread over the drives in proportion to their speed
   while they have room. Page i of an extent holds bytes [i * page, (i + 1) * page). */
typedef struct hil_page {
    uint64_t offset;
    uint64_t sum; /* checksum of the last write */
    int drive;
    bool written; /* false: reads as zeros */
    bool head;    /* first page of a contiguous block of the drive */
} hil_page;
typedef struct hil_extent {
    size_t bytes, page; /* page size: a multiple of HIL_IO_ALIGN; the last page may be short */
    int64_t pages;
    hil_page *at; /* owned by the disk */
} hil_extent;

/* `rehearse`: only places are assigned; there are no files, and nothing may be read or written. The
   paths of drives are borrowed until the disk is destroyed, the rest is copied. */
hil_status hil_disk_create(hil_disk **out, const hil_drive *drives, int count, bool rehearse);
void hil_disk_destroy(hil_disk *disk);

/* Allocates `bytes` in pages of `page` bytes, which read as zeros. A first write must wait for
 *after. Not thread-safe. Fails with a message that names the drives when they are full. */
hil_status hil_disk_take(hil_disk *disk, size_t bytes, size_t page, hil_extent *out,
                         hil_fence *after);
/* Frees the pages and zeroes *extent; an empty extent is fine. Their next user waits for `after`.
 */
void hil_disk_give(hil_disk *disk, hil_extent *extent, const hil_fence *after);
/* Between acquire and release the page table survives hil_disk_give, for transfers that are queued
   but not started. Thread-safe. A take that reuses the table waits for the release. */
void hil_disk_acquire(hil_disk *disk, const hil_extent *extent);
void hil_disk_release(hil_disk *disk, const hil_extent *extent);

/* Preallocates the swap files before the first transfer: `bytes` of each drive, the rehearsal's
   high-water mark. A full disk fails here. A run that takes more than it rehearsed enlarges the
   files, within the budgets. Borrows `io`, which must have room for HIL_DISK_REQUESTS requests for
   each transfer that may be in flight. */
hil_status hil_disk_open(hil_disk *disk, hil_io *io, const uint64_t *bytes);
/* Whether a drive's transfers bypass the page cache; true while it has no file. */
bool hil_disk_is_direct(const hil_disk *disk, int drive);
/* Bytes of each drive up to the end of the highest page so far; `bytes` has HIL_DRIVES elements. */
void hil_disk_extent(const hil_disk *disk, uint64_t *bytes);
uint64_t hil_disk_used(const hil_disk *disk);
uint64_t hil_disk_peak(const hil_disk *disk);

/* Asynchronous transfer of pages [first, first + count) from or to contiguous memory. A page's
   checksum is computed before its write and compared after its read, in hil_disk_wait: "checksum
   error in DIR at 12.0 MiB: ...". After a failure of start or wait nothing is in flight. Memory is
   aligned to HIL_IO_ALIGN and whole blocks are moved, so the buffer must have room for the last
   page rounded up. Threads may use different extents at the same time. */
#define HIL_DISK_REQUESTS 16
typedef struct hil_disk_transfer {
    const hil_extent *extent;
    int64_t first, count;
    char *memory;
    bool write;
    /* private to the disk: */
    int64_t started, finished; /* pages */
    int first_request, requests;
    hil_io_request *request[HIL_DISK_REQUESTS];
} hil_disk_transfer;
/* Borrows the transfer, its extent and its memory until hil_disk_wait. */
hil_status hil_disk_start(hil_disk *disk, hil_disk_transfer *transfer);
hil_status hil_disk_wait(hil_disk *disk, hil_disk_transfer *transfer);

/* For tests: flips one bit of a page on its drive. */
hil_status hil_disk_damage(hil_disk *disk, const hil_extent *extent, int64_t page, size_t byte);

#endif
