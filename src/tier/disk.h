/* disk.h - the disk tier: pages on one or several drives, each with a checksum kept in memory. */
#ifndef HIL_TIER_DISK_H
#define HIL_TIER_DISK_H

#include "hilbert/io.h"

#include "tier/fence.h"

#define HIL_DRIVES 16

/* One --disk PATH[:SIZE]. */
typedef struct hil_drive {
    const char *path; /* a folder; borrowed */
    uint64_t bytes;   /* most that may be used */
    double speed;     /* bytes per second, any positive number where not measured */
} hil_drive;

/* Owns swap files: nameless, 0600, reserved; and the page tables of extents. Borrows the paths. */
typedef struct hil_disk hil_disk;

/* What lives on disk is cut into pages; pages go to the drives in proportion to their speed as far
   as there is room. Page i of an extent holds bytes [i * page, ...). */
typedef struct hil_page {
    uint64_t offset;
    uint64_t sum; /* checksum of what was written last */
    int drive;
    bool written; /* false: zeros, whatever the drive holds */
    bool head;    /* of a block of neighbouring pages that was taken at once */
} hil_page;
typedef struct hil_extent {
    size_t bytes, page; /* page is a multiple of HIL_IO_ALIGN; the last may be short */
    int64_t pages;
    hil_page *at; /* owned by the disk */
} hil_extent;

/* `rehearse`: numbers only, no files; reads and writes must not be called. The paths of drives are
   borrowed until the disk is destroyed, the rest is copied. */
hil_status hil_disk_create(hil_disk **out, const hil_drive *drives, int count, bool rehearse);
void hil_disk_destroy(hil_disk *disk);

/* Room for `bytes` in pages of `page`. Not thread-safe, like region.h. *after as there. Fails with
   a message that names the drives when they are full. New pages read as zeros. */
hil_status hil_disk_take(hil_disk *disk, size_t bytes, size_t page, hil_extent *out,
                         hil_fence *after);
/* Empties *extent; one that is empty already is fine. */
void hil_disk_give(hil_disk *disk, hil_extent *extent, const hil_fence *after);
/* Between these the page table outlives hil_disk_give: around transfers that are still to come.
   Thread-safe. A take that reuses the table waits for the release. */
void hil_disk_acquire(hil_disk *disk, const hil_extent *extent);
void hil_disk_release(hil_disk *disk, const hil_extent *extent);

/* Makes the swap files as large as what was taken at most (the rehearsal's extent: `bytes` of each
   drive), before anything is read or written. A full disk is found here. A run that takes more
   than it rehearsed makes them larger, within the budgets. Borrows `io`, which must have room for
   HIL_DISK_REQUESTS requests of each transfer that is started at once. */
hil_status hil_disk_open(hil_disk *disk, hil_io *io, const uint64_t *bytes);
/* Whether a drive's transfers go past the page cache; true while it has no file. */
bool hil_disk_is_direct(const hil_disk *disk, int drive);
/* Bytes of each drive up to the highest page ever taken; `bytes` has HIL_DRIVES places. */
void hil_disk_extent(const hil_disk *disk, uint64_t *bytes);
uint64_t hil_disk_used(const hil_disk *disk);
uint64_t hil_disk_peak(const hil_disk *disk);

/* Asynchronous transfer of pages [first, first + count) from or to consecutive memory. A page's
   checksum is taken before it is written and compared after it was read, in hil_disk_wait:
   "checksum error in DIR at 12.0 MiB: ...". After a failure of either nothing is in flight. Memory
   is aligned to HIL_IO_ALIGN and whole aligned blocks are moved: there must be room for the last
   page rounded up. Different extents may be used by several threads at once. */
#define HIL_DISK_REQUESTS 16
typedef struct hil_disk_transfer {
    const hil_extent *extent;
    int64_t first, count;
    char *memory;
    bool write;
    /* the rest is the disk's */
    int64_t started, finished; /* pages */
    int first_request, requests;
    hil_io_request *request[HIL_DISK_REQUESTS];
} hil_disk_transfer;
hil_status hil_disk_start(hil_disk *disk, hil_disk_transfer *transfer);
hil_status hil_disk_wait(hil_disk *disk, hil_disk_transfer *transfer);

/* For tests: flips one bit of what the drive has of a page. */
hil_status hil_disk_damage(hil_disk *disk, const hil_extent *extent, int64_t page, size_t byte);

#endif
