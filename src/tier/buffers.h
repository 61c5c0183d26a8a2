/* buffers.h - device memory of tensors, inside a fixed part of the device's budget. */
#ifndef HIL_TIER_BUFFERS_H
#define HIL_TIER_BUFFERS_H

#include "tier/tiers.h"

/* Not thread-safe: one thread takes and gives back. */
typedef struct hil_buffers hil_buffers;

/* Reserves `bytes` of the device tier until the tiers are closed; borrows their links. */
hil_status hil_buffers_create(hil_buffers **out, hil_tiers *tiers, size_t bytes);
/* Everything taken must have been given back. */
void hil_buffers_destroy(hil_buffers *buffers);

/* Aligned memory (64 bytes, 256 on a device) with undefined contents. Work that is issued from now
   on may write it: it starts after the transfers that still use the memory. Zero bytes give a valid
   pointer. Fails with a message that names the device budget when there is no room. */
hil_status hil_buffers_take(hil_buffers *buffers, size_t bytes, void **out);
/* The same for the target of a transfer: the transfer must wait for *after, compute does not. */
hil_status hil_buffers_take_after(hil_buffers *buffers, size_t bytes, void **out, hil_fence *after);
/* Whether hil_buffers_take would find room now. */
bool hil_buffers_fits(const hil_buffers *buffers, size_t bytes);
/* Frees memory that only work issued so far uses. NULL is fine. */
void hil_buffers_give(hil_buffers *buffers, void *memory);
/* Frees memory that transfers still use: its next user waits for `after`. */
void hil_buffers_give_after(hil_buffers *buffers, void *memory, const hil_fence *after);

/* Bytes taken now, and the high-water mark (the end of the highest block so far). */
size_t hil_buffers_bytes(const hil_buffers *buffers);
size_t hil_buffers_peak(const hil_buffers *buffers);

#endif
