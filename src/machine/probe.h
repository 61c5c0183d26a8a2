/* probe.h - the speeds of this machine: measured once, then remembered in a file. */
#ifndef HIL_MACHINE_PROBE_H
#define HIL_MACHINE_PROBE_H

#include "hilbert/probe.h"

#include "base/json.h"
#include "base/pool.h"
#include "base/text.h"
#include "device/device.h"

/* How a search measures. More than these bytes are taken of memory only where a measurement needs
   a few MiB to work at all. */
typedef struct hil_effort {
    bool thorough;          /* otherwise quick: a run is about to start */
    bool drives;            /* may be written to; otherwise what is not known of them is assumed */
    uint64_t memory;        /* RAM; 0: a small part of what is free */
    uint64_t device_memory; /* of a device; 0: likewise */
} hil_effort;

/* The speeds that `options->cache` knows, and what is missing measured. So is what was measured
   with much less memory, or less of a drive, than `effort` allows. `device` is what computes; NULL:
   the CPU. The observer learns what was measured. */
hil_status hil_machine_find(const hil_probe_options *options, hil_device *device,
                            const hil_effort *effort, const hil_observer *observer,
                            hil_machine *out);
/* The speeds of an ordinary machine. */
void hil_machine_assume(const hil_probe_options *options, const hil_device *device,
                        hil_machine *out);

/* The drives' speeds as those of one disk tier. `device` tells which paths share a drive. */
void hil_machine_join_drives(hil_machine *machine, const uint64_t *device, size_t count);

/* What a measurement takes. */
typedef struct hil_probe_room {
    size_t memory, device; /* bytes */
    double seconds;        /* for each number, more or less */
} hil_probe_room;
/* Bytes of `room` for these limits (0: none) and what is free. */
size_t hil_probe_cpu_room(uint64_t limit);
size_t hil_probe_device_room(const hil_device *device, uint64_t limit);
hil_status hil_probe_cpu(hil_pool *pool, const hil_probe_room *room, hil_speeds *out);
hil_status hil_probe_update(hil_pool *pool, const hil_probe_room *room, double *update);
/* All but what the CPU and the drives do: products, attention, memory, copies, the update there. */
hil_status hil_probe_device(hil_device *device, hil_pool *pool, const hil_probe_room *room,
                            hil_speeds *out);

/* A file that is written and read, and the size of requests. */
typedef struct hil_drive_room {
    uint64_t bytes; /* 0: too little to measure anything */
    size_t request;
    double seconds;
} hil_drive_room;
/* At most `bytes` of the drive and `memory` of RAM; 0: no limit but what is free. */
hil_status hil_probe_drive_room(const char *path, uint64_t bytes, uint64_t memory,
                                hil_drive_room *out);
hil_status hil_probe_drive(const char *path, hil_io_kind io, const hil_drive_room *room,
                           hil_drive_speed *out);

/* The file of known speeds: a JSON object by machine and drive. A file that cannot be used counts
   as empty. The caller releases *out with json_decref. */
hil_status hil_probe_load(const char *path, json_t **out);
hil_status hil_probe_save(const char *path, const json_t *known);

/* Speeds as a JSON object, and back: false when a number is missing or not above zero. */
json_t *hil_speeds_write(const hil_speeds *speeds);
bool hil_speeds_read(const json_t *object, hil_speeds *out);

#endif
