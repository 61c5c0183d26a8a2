/* tiers.h - the three tiers of a run: budgets, memory, drives, and the links between them. */
#ifndef HIL_TIER_TIERS_H
#define HIL_TIER_TIERS_H

#include "base/pool.h"
#include "tier/links.h"
#include "tier/region.h"

typedef struct hil_tiers_options {
    size_t device_bytes, host_bytes; /* hard budgets */
    const hil_drive *drives;         /* borrowed */
    int drive_count;
    const uint64_t *drive_bytes; /* of each drive, what the rehearsal needed; NULL in a rehearsal */
    hil_io_kind io;
    const hil_speeds *speeds; /* not NULL: a rehearsal. No memory, no files, no threads */
    hil_device *device;       /* borrowed; NULL: the CPU, whose device tier is memory like any */
} hil_tiers_options;

typedef struct hil_pin {
    char *memory;
    size_t bytes;
} hil_pin;

/* Open data. Memory of a tier is reserved in one piece and touched only as it is used. In a
   rehearsal the bases are addresses that cannot be mapped: offsets work, any access faults. */
typedef struct hil_tiers {
    bool rehearse;
    hil_device *device; /* NULL: the CPU. A rehearsal asks it for sizes only */
    size_t device_bytes, host_bytes;
    hil_region *device_region, *host_region;
    char *device_base, *host_base;
    hil_disk *disk; /* NULL: no drives */
    hil_io *io;
    hil_links *links;
    hil_pin *pins; /* of the host tier: those that are pinned, then those that were named */
    size_t pin_count, pin_capacity, pinned;
} hil_tiers;

hil_status hil_tiers_open(hil_tiers *tiers, const hil_tiers_options *options);
void hil_tiers_close(hil_tiers *tiers);

/* A block of the device or the host tier for as long as the tiers are open. Fails with a message
   that names the tier, its budget and `what`. */
hil_status hil_tiers_take(hil_tiers *tiers, hil_tier tier, size_t bytes, const char *what,
                          void **memory);
/* What was taken of the host so far gets its pages now, on all threads of the pool, and not one by
   one when it is first used. */
void hil_tiers_populate(const hil_tiers *tiers, hil_pool *pool);
/* The device copies from and to this block of the host tier: it is pinned by hil_tiers_pin_all,
   once for all blocks that were named so far. Naming one again is fine. Nothing without a device.
 */
hil_status hil_tiers_pin(hil_tiers *tiers, void *memory, size_t bytes);
hil_status hil_tiers_pin_all(hil_tiers *tiers);

#endif
