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

/* How fast a machine is. */
typedef struct hil_machine {
    char name[256]; /* device, CPU, threads and instructions: what speeds belong to */
    bool measured;  /* or assumed */
    hil_speeds speeds;
    /* Of each disk: its share where several are on one drive. */
    hil_drive_speed drive[HIL_DISKS_MAX];
    bool drive_known[HIL_DISKS_MAX]; /* measured, now or before */
} hil_machine;

typedef struct hil_probe_options {
    size_t size;               /* set by hil_probe_defaults */
    hil_memory_options memory; /* of which only the disks are measured */
    int threads;               /* 0: all */
    hil_device_choice device;
    const char *cache; /* a file that keeps speeds from one run to the next; NULL: none */
    bool again;        /* measure what is known already */
    bool json;
} hil_probe_options;
HIL_API void hil_probe_defaults_sized(hil_probe_options *options, size_t size);
#define hil_probe_defaults(options) hil_probe_defaults_sized(options, sizeof *(options))
/* Measures the machine and the disks in a few seconds, unless the cache knows them. */
HIL_API hil_status hil_probe_measure(const hil_probe_options *options, const hil_observer *observer,
                                     hil_machine *out);
/* The same, printed: as a table, or with `json` as one JSON object. */
HIL_API hil_status hil_probe(const hil_probe_options *options, const hil_observer *observer,
                             FILE *out);

#ifdef __cplusplus
}
#endif
#endif
