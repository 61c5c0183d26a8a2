/* tiers.h - the three tiers of a run: budgets, memory, drives, and the links between them. */
#ifndef HIL_TIER_TIERS_H
#define HIL_TIER_TIERS_H

#include "tier/links.h"
#include "tier/population.h"
#include "tier/region.h"

typedef struct hil_tiers_options {
    size_t device_bytes, host_bytes; /* hard budgets */
    const hil_drive *drives;         /* borrowed */
    int drive_count;
    const uint64_t *drive_bytes; /* of each drive, by the rehearsal; NULL in a rehearsal */
    hil_io_kind io;
    const hil_speeds *speeds; /* not NULL: a rehearsal. No memory, no files, no threads */
    hil_device *device;       /* borrowed; NULL: the CPU, whose device tier is plain memory */
} hil_tiers_options;

/* Open data; owns everything but the device. A tier's memory is reserved as one range of addresses
   and gets pages as it is used. In a rehearsal the base addresses cannot be mapped: offsets work,
   any access faults. */
typedef struct hil_tiers {
    bool rehearse;
    hil_device *device; /* NULL: the CPU. A rehearsal only reads its sizes */
    size_t device_bytes, host_bytes;
    hil_region *device_region, *host_region;
    char *device_base, *host_base;
    hil_region *more_region; /* NULL: see hil_tiers_extend */
    char *more_base;
    size_t more_bytes;
    hil_disk *disk; /* NULL: no drives */
    hil_io *io;
    hil_links *links;
    hil_pins *pins;             /* of the host tier; NULL: no device */
    hil_population *population; /* NULL: none */
} hil_tiers;

/* Copies the options, and borrows what they point to. Starts the threads of I/O and links. */
hil_status hil_tiers_open(hil_tiers *tiers, const hil_tiers_options *options);
void hil_tiers_close(hil_tiers *tiers);

/* Allocates a block of the device or host tier until the tiers are closed. Fails with a message
   that names the tier, its budget and `what`. */
hil_status hil_tiers_take(hil_tiers *tiers, hil_tier tier, size_t bytes, const char *what,
                          void **memory);
/* Adds a second range of device memory, which is taken where the first is full. Once, or again
   after a failure, which takes nothing; not in a rehearsal. */
hil_status hil_tiers_extend(hil_tiers *tiers, size_t bytes);
/* Registers a block of the host tier that the device copies from or to. Jobs of links wait until
   what they copy is pinned; other copies need hil_tiers_pin_all before. Registering a block again
   is fine. Without a device both do nothing. */
hil_status hil_tiers_pin(hil_tiers *tiers, void *memory, size_t bytes, hil_pin_order order);
/* Pins now what is registered and will not be pinned in the background or on use. */
hil_status hil_tiers_pin_all(hil_tiers *tiers);
/* Begins to pin the blocks registered so far in the background, in their order, and then to fault
   in the pages of the host memory taken so far, which may be used meanwhile. */
hil_status hil_tiers_populate(hil_tiers *tiers, int threads);

#endif
