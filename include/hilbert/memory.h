/* memory.h - how much of each tier may be used: device memory, host memory, disks. */
#ifndef HILBERT_MEMORY_H
#define HILBERT_MEMORY_H

#include "hilbert/io.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A budget of device memory as a percentage, from 1 to 100, of the memory that is free. */
#define HIL_PERCENT(n) (UINT64_MAX - 100 + (n))

/* A folder for swap files, which hold what fits into neither device nor host memory. They have no
   name, so the system removes them when the process ends, however it ends. */
typedef struct hil_disk_budget {
    const char *path;
    uint64_t bytes; /* 0: the free space less a margin */
} hil_disk_budget;
#define HIL_DISKS_MAX 16

/* Hard budgets in bytes; 0: the free memory less a margin. Borrows `disks`. The options of every
   job that places parameters contain it, with the same meaning. */
typedef struct hil_memory_options {
    uint64_t device; /* of each rank; may be a HIL_PERCENT */
    uint64_t host;   /* of a machine; its ranks divide it, and the disks too */
    const hil_disk_budget *disks;
    size_t disk_count;
    hil_io_kind io; /* I/O engine for the disks */
} hil_memory_options;

#ifdef __cplusplus
}
#endif
#endif
