/* probe.h - the speeds of this machine: measured once, then remembered in a file. */
#ifndef HIL_TRAIN_PROBE_H
#define HIL_TRAIN_PROBE_H

#include "hilbert/plan.h"

#include "base/json.h"
#include "base/pool.h"
#include "base/text.h"
#include "device/device.h"
#include "tier/speeds.h"

/* Bytes per second. */
typedef struct hil_drive_speed {
    double read, write, mixed; /* mixed: both ways at once, summed */
    bool direct;               /* past the page cache */
} hil_drive_speed;

typedef enum hil_effort { HIL_EFFORT_SHORT, HIL_EFFORT_FULL } hil_effort;

typedef struct hil_machine {
    char name[256]; /* device, CPU, threads and instructions: what speeds belong to */
    bool measured;  /* or assumed */
    hil_speeds speeds;
    /* Of each path: its share where several are on one drive. */
    hil_drive_speed drive[HIL_DISKS_MAX];
} hil_machine;

/* The speeds that `options->cache` knows, and what is missing measured: with little effort when a
   run is about to start. Without a cache nothing is measured: the speeds are those of an ordinary
   machine (hil_machine_assume). `device` is what computes; NULL: the CPU. The observer learns what
   was measured. */
hil_status hil_machine_find(const hil_probe_options *options, hil_device *device, hil_effort effort,
                            const hil_observer *observer, hil_machine *out);
void hil_machine_assume(const hil_probe_options *options, const hil_device *device,
                        hil_machine *out);

/* The drives' speeds as those of one disk tier. `device` tells which paths share a drive. */
void hil_machine_join_drives(hil_machine *machine, const uint64_t *device, size_t count);

/* Measurements; `seconds` is what each may take, more or less. */
hil_status hil_probe_cpu(hil_pool *pool, double seconds, hil_speeds *out);
hil_status hil_probe_update(hil_pool *pool, double seconds, double *update);
/* All but what the CPU and the drives do: products, attention, memory, copies, the update there. */
hil_status hil_probe_device(hil_device *device, hil_pool *pool, double seconds, hil_speeds *out);
/* All zero: the drive has too little room to be measured. */
hil_status hil_probe_drive(const char *path, hil_io_kind io, double seconds, hil_drive_speed *out);

/* The file of known speeds: a JSON object by machine and drive. A file that cannot be used counts
   as empty. The caller releases *out with json_decref. */
hil_status hil_probe_load(const char *path, json_t **out);
hil_status hil_probe_save(const char *path, const json_t *known);

/* Speeds as a JSON object, and back: false when a number is missing or not above zero. */
json_t *hil_speeds_write(const hil_speeds *speeds);
bool hil_speeds_read(const json_t *object, hil_speeds *out);

#endif
