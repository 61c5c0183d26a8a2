/* buffers.h - recycled, counted memory for tensors: after the first steps nothing is allocated. */
#ifndef HIL_TIER_BUFFERS_H
#define HIL_TIER_BUFFERS_H

#include "base/fail.h"

/* Not thread-safe: one owner takes and gives back. */
typedef struct hil_buffers hil_buffers;

hil_status hil_buffers_create(hil_buffers **out);
/* Everything taken must have been given back. */
void hil_buffers_destroy(hil_buffers *buffers);

/* 64-byte aligned memory with undefined contents. Zero bytes give a valid pointer. */
hil_status hil_buffers_take(hil_buffers *buffers, size_t bytes, void **out);
/* NULL is fine. */
void hil_buffers_give(hil_buffers *buffers, void *memory);

/* Bytes taken now and at most at any time so far. */
uint64_t hil_buffers_bytes(const hil_buffers *buffers);
uint64_t hil_buffers_peak(const hil_buffers *buffers);

/* Large zeroed memory straight from the system, in huge pages where it can be had. */
hil_status hil_memory_map(size_t bytes, void **out);
void hil_memory_unmap(void *memory, size_t bytes);

#endif
