/* disk_drives.h - private to disk*.c: drives with their files, and the page tables of extents. */
#ifndef HIL_TIER_DISK_DRIVES_H
#define HIL_TIER_DISK_DRIVES_H

#include "base/alloc.h"
#include "tier/disk.h"
#include "tier/region.h"

#include <pthread.h>

typedef struct hil_disk_drive {
    const char *path;
    uint64_t bytes; /* budget */
    double speed;
    hil_region *region;
    hil_io_file *file;
    uint64_t reserved; /* bytes preallocated in the file */
} hil_disk_drive;

/* The pages of an extent. Queued transfers read the table even after hil_disk_give: each holds it
   as a reader. */
typedef struct hil_disk_table {
    struct hil_disk_table *next, *older; /* list of idle tables; list of all tables */
    int order;                           /* room for 2^order pages */
    int readers;
    hil_page page[];
} hil_disk_table;

/* The tables of one order. */
typedef struct hil_disk_tables {
    hil_disk_table *first, *last; /* idle tables, the longest idle first */
    int idle, all, most;          /* most: high-water mark of tables in use */
} hil_disk_tables;

#define HIL_DISK_ORDERS 48

struct hil_disk {
    hil_disk_drive drive[HIL_DRIVES];
    int count;
    bool rehearse;
    hil_io *io; /* NULL until hil_disk_open */
    uint64_t peak;
    hil_disk_tables tables[HIL_DISK_ORDERS];
    hil_disk_table *newest;
    pthread_mutex_t lock; /* guards hil_disk_table.readers */
    pthread_cond_t released;
};

/* Bytes of data in a page, and bytes that it takes on its drive. */
size_t hil_extent_bytes(const hil_extent *extent, int64_t page);
size_t hil_extent_room(const hil_extent *extent, int64_t page);

#endif
