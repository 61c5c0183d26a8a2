/* memory.h - memory straight from the system, and how much of it there is. */
#ifndef HIL_BASE_MEMORY_H
#define HIL_BASE_MEMORY_H

#include "base/fail.h"

/* Bytes that can be had without swapping: what the machine has available, and no more than is left
   of the control group's limit. UINT64_MAX where the system does not say. */
uint64_t hil_memory_available(void);

/* Large zeroed memory, in huge pages where it can be had. */
hil_status hil_memory_map(size_t bytes, void **out);
void hil_memory_unmap(void *memory, size_t bytes);

#endif
