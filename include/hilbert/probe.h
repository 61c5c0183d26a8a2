/* probe.h - how fast a machine computes, copies, reads and writes. */
#ifndef HILBERT_PROBE_H
#define HILBERT_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "hilbert/device.h"
#include "hilbert/memory.h"
#include "hilbert/observer.h"
#include "hilbert/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Measures the machine and the disks in a few seconds and prints the speeds. */
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
HIL_API hil_status hil_probe(const hil_probe_options *options, const hil_observer *observer,
                             FILE *out);

#ifdef __cplusplus
}
#endif
#endif
