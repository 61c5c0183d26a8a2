/* account.h - what is measured of a step: memory, transfers and stalls. */
#ifndef HILBERT_ACCOUNT_H
#define HILBERT_ACCOUNT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds in which compute stalled, by what it waited for. */
typedef struct hil_wait_seconds {
    double weights;     /* transfer of weights to the device */
    double update;      /* update of weights */
    double activations; /* transfer of offloaded activations for backward */
    double gradients;   /* transfer of spilled sums, or staging for outgoing gradients */
    double memory;      /* memory whose copy-out is in flight */
} hil_wait_seconds;

typedef struct hil_step_account {
    uint64_t device_peak, host_peak, disk_peak; /* high-water mark of bytes in each tier */
    uint64_t disk_read_bytes, disk_written_bytes, to_device_bytes, to_host_bytes;
    uint64_t gathered_bytes; /* of weights from other ranks */
    uint64_t reduced_bytes;  /* of gradients */
    hil_wait_seconds wait_seconds;
    double exposed_update_seconds; /* part of the update that did not overlap with compute */
    uint64_t skipped_bytes;        /* not moved, because experts had no tokens */
} hil_step_account;

/* Most bytes of each tier; 0: no limit was set. */
typedef struct hil_tier_budgets {
    uint64_t device, host, disk;
} hil_tier_budgets;

#ifdef __cplusplus
}
#endif
#endif
