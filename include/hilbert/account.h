/* account.h - what a step held and moved, and what it waited for. */
#ifndef HILBERT_ACCOUNT_H
#define HILBERT_ACCOUNT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds in which computing stood still, by what it needed. */
typedef struct hil_wait_seconds {
    double weights;     /* on their way to the device */
    double update;      /* weights whose update was not over */
    double activations; /* coming back for backward */
    double gradients;   /* sums coming back, or room for gradients that leave */
    double memory;      /* of something that still leaves */
} hil_wait_seconds;

typedef struct hil_step_account {
    uint64_t device_peak, host_peak, disk_peak; /* bytes held at most in each tier */
    uint64_t disk_read_bytes, disk_written_bytes, to_device_bytes, to_host_bytes;
    uint64_t gathered_bytes; /* of weights, that came from other ranks */
    uint64_t reduced_bytes;  /* of gradients */
    hil_wait_seconds wait_seconds;
    double exposed_update_seconds; /* of the optimizer's update, what computing did not hide */
} hil_step_account;

/* Bytes that may be held in each tier; 0: no limit was set. */
typedef struct hil_tier_budgets {
    uint64_t device, host, disk;
} hil_tier_budgets;

#ifdef __cplusplus
}
#endif
#endif
