/* memory.h - how much of each tier may be used: device memory, host memory, disks. */
#ifndef HILBERT_MEMORY_H
#define HILBERT_MEMORY_H

#include "hilbert/io.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As a budget of device memory: a percentage, from 1 to 100, of what is free there. */
#define HIL_PERCENT(n) (UINT64_MAX - 100 + (n))

/* A folder for what fits neither into the device's memory nor into the host's: nameless files, gone
   when the process ends in any way. */
typedef struct hil_disk_budget {
    const char *path;
    uint64_t bytes; /* that may be used there; 0: what is free, less a margin */
} hil_disk_budget;
#define HIL_DISKS_MAX 16

/* Hard budgets in bytes; 0: what is free, less a margin. Borrows `disks`. Part of the options of
   everything that places parameters, with the same meaning in all. */
typedef struct hil_memory_options {
    uint64_t device; /* of each rank; may be a HIL_PERCENT */
    uint64_t host;   /* of a machine, which its ranks divide, as they do the disks */
    const hil_disk_budget *disks;
    size_t disk_count;
    hil_io_kind io; /* what reads and writes the disks */
} hil_memory_options;

#ifdef __cplusplus
}
#endif
#endif
