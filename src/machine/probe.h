/* probe.h - the speeds of this machine: measured once, then cached in a file. */
#ifndef HIL_MACHINE_PROBE_H
#define HIL_MACHINE_PROBE_H

#include "hilbert/probe.h"

#include "base/json.h"
#include "base/pool.h"
#include "base/text.h"
#include "device/device.h"

/* Limits of a measurement. Memory limits are exceeded only where a measurement needs a few MiB to
   work at all. */
typedef struct hil_effort {
    bool thorough; /* false: quick, because a run is about to start */
    bool states;   /* of a device only what moving and updating states takes: copies and updates */
    bool drives;   /* drives may be written to; false: uncached speeds are assumed */
    uint64_t memory;        /* bytes of RAM; 0: a small fraction of what is free */
    uint64_t device_memory; /* bytes on the device; 0: likewise */
} hil_effort;

/* Takes speeds from `options->cache` and measures those that are missing, or that were measured
   with much less memory or a smaller file than `effort` allows. `device` computes; NULL: the CPU
   does. Notes to the observer say what is measured. */
hil_status hil_machine_find(const hil_probe_options *options, hil_device *device,
                            const hil_effort *effort, const hil_observer *observer,
                            hil_machine *out);
/* Fills in assumed speeds without measuring. */
void hil_machine_assume(const hil_probe_options *options, const hil_device *device,
                        hil_machine *out);

/* Adds up the drives' speeds as those of the disk tier. `device` has each disk's block device:
   disks on the same one share a drive. */
void hil_machine_join_drives(hil_machine *machine, const uint64_t *device, size_t count);

/* The mean of so many times, which it sorts, without the slowest tenth: other processes slow some
   down. A step is a sum of many operations, few of which are as fast as they can be. */
double hil_probe_mean(double *seconds, int count);

/* Memory and time that a measurement may take. */
typedef struct hil_probe_room {
    size_t memory, device; /* bytes */
    double seconds;        /* about, for each speed */
    bool states;           /* see hil_effort */
} hil_probe_room;
/* Bytes to use under a limit (0: none) and given the free memory. */
size_t hil_probe_cpu_room(uint64_t limit);
size_t hil_probe_device_room(const hil_device *device, uint64_t limit);
hil_status hil_probe_cpu(hil_pool *pool, const hil_probe_room *room, hil_speeds *out);
/* Measures the updates on the CPU, for a machine whose device computes the rest. */
hil_status hil_probe_update(hil_pool *pool, const hil_probe_room *room, hil_speeds *out);
/* Measures the device: products, attention, memory, copies, the update on it. */
hil_status hil_probe_device(hil_device *device, hil_pool *pool, const hil_probe_room *room,
                            hil_speeds *out);

/* Size of the file that is written and read, and of the requests. */
typedef struct hil_drive_room {
    uint64_t bytes; /* 0: too little room to measure */
    size_t request;
    double seconds;
} hil_drive_room;
/* Uses at most `bytes` of the drive and `memory` of RAM; 0: limited only by what is free. */
hil_status hil_probe_drive_room(const char *path, uint64_t bytes, uint64_t memory,
                                hil_drive_room *out);
hil_status hil_probe_drive(const char *path, hil_io_kind io, const hil_drive_room *room,
                           hil_drive_speed *out);

/* Reads the cache: a JSON object with machines and drives as keys. A damaged or missing file counts
   as empty. The caller releases *out with json_decref. */
hil_status hil_probe_load(const char *path, json_t **out);
hil_status hil_probe_save(const char *path, const json_t *known);

/* Speeds as a JSON object, and back. Reading returns false if a number is missing or not above 0.
 */
json_t *hil_speeds_write(const hil_speeds *speeds);
bool hil_speeds_read(const json_t *object, hil_speeds *out);

#endif
