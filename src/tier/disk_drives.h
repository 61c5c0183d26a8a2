/* disk_drives.h - the parts of hil_disk: drives with files, and page tables of extents. */
#ifndef HIL_TIER_DISK_DRIVES_H
#define HIL_TIER_DISK_DRIVES_H

#include "base/alloc.h"
#include "tier/disk.h"
#include "tier/region.h"

#include <pthread.h>

typedef struct hil_disk_drive {
    const char *path;
    uint64_t bytes; /* most that may be used */
    double speed;
    hil_region *region;
    hil_io_file *file;
    uint64_t reserved; /* bytes of the file */
} hil_disk_drive;

/* The pages of an extent. Transfers that are still to come read it after the extent was given
   back: they hold it as readers. */
typedef struct hil_disk_table {
    struct hil_disk_table *next, *older; /* idle; of all that were made */
    int order;                           /* it has room for 2^order pages */
    int readers;
    hil_page page[];
} hil_disk_table;

/* Those of one order. */
typedef struct hil_disk_tables {
    hil_disk_table *first, *last; /* idle ones, the longest first */
    int idle, all, most;          /* most in use at any time */
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
    pthread_mutex_t lock; /* of readers */
    pthread_cond_t released;
};

/* Bytes of a page that are data, and that it takes on its drive. */
size_t hil_extent_bytes(const hil_extent *extent, int64_t page);
size_t hil_extent_room(const hil_extent *extent, int64_t page);

#endif
