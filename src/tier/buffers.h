/* buffers.h - device memory of tensors, inside a fixed part of the device's budget. */
#ifndef HIL_TIER_BUFFERS_H
#define HIL_TIER_BUFFERS_H

#include "tier/tiers.h"

/* Not thread-safe: one owner takes and gives back. */
typedef struct hil_buffers hil_buffers;

/* Takes `bytes` of the device tier until the tiers are closed. */
hil_status hil_buffers_create(hil_buffers **out, hil_tiers *tiers, size_t bytes);
/* Everything taken must have been given back. */
void hil_buffers_destroy(hil_buffers *buffers);

/* Aligned memory (64 bytes, 256 on a device) with undefined contents, ready to be written by what
   is computed from now on. Zero bytes give a valid pointer. Fails with a message that names the
   device budget when there is no room. */
hil_status hil_buffers_take(hil_buffers *buffers, size_t bytes, void **out);
/* The same for a transfer that comes in: it must wait for *after, the caller does not. */
hil_status hil_buffers_take_after(hil_buffers *buffers, size_t bytes, void **out, hil_fence *after);
/* Whether a take would find room. */
bool hil_buffers_fits(const hil_buffers *buffers, size_t bytes);
/* Used by nothing but what was computed, or told a device, so far. NULL is fine. */
void hil_buffers_give(hil_buffers *buffers, void *memory);
/* Given back while transfers still use it. */
void hil_buffers_give_after(hil_buffers *buffers, void *memory, const hil_fence *after);

/* Bytes taken now, and at most at any time so far (the extent of the region). */
size_t hil_buffers_bytes(const hil_buffers *buffers);
size_t hil_buffers_peak(const hil_buffers *buffers);

#endif
