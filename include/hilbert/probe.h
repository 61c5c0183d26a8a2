/* probe.h - how fast a machine computes, copies, reads and writes. */
#ifndef HILBERT_PROBE_H
#define HILBERT_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "hilbert/device.h"
#include "hilbert/memory.h"
#include "hilbert/observer.h"
#include "hilbert/speeds.h"
#include "hilbert/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hil_machine {
    char name[256]; /* device, CPU, threads and instruction set; speeds are valid for these */
    bool measured;  /* false: speeds are assumed */
    hil_speeds speeds;
    /* One per disk: its share of the drive's speed if several disks are on one drive. */
    hil_drive_speed drive[HIL_DISKS_MAX];
    bool drive_known[HIL_DISKS_MAX]; /* measured, now or in an earlier run */
} hil_machine;

typedef struct hil_probe_options {
    size_t size;               /* set by hil_probe_defaults */
    hil_memory_options memory; /* `disks` are measured */
    int threads;               /* 0: all */
    hil_device_choice device;
    const char *cache; /* file that keeps speeds between runs; NULL: none */
    bool again;        /* measure even what the cache has */
    bool json;         /* hil_probe prints one JSON object */
    bool describe;     /* hil_probe prints a description for hil_plan_options.cluster */
} hil_probe_options;
HIL_API void hil_probe_defaults_sized(hil_probe_options *options, size_t size);
#define hil_probe_defaults(options) hil_probe_defaults_sized(options, sizeof *(options))
/* Measures the machine and the disks; takes a few seconds, or none if the cache has them. */
HIL_API hil_status hil_probe_measure(const hil_probe_options *options, const hil_observer *observer,
                                     hil_machine *out);
/* Prints the same as a table, or with `json` as one JSON object. */
HIL_API hil_status hil_probe(const hil_probe_options *options, const hil_observer *observer,
                             FILE *out);

#ifdef __cplusplus
}
#endif
#endif
