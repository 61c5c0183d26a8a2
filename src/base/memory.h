/* memory.h - how much memory this process may still take. */
#ifndef HIL_BASE_MEMORY_H
#define HIL_BASE_MEMORY_H

#include <stdint.h>

/* Bytes that can be had without swapping: what the machine has available, and no more than is left
   of the control group's limit. UINT64_MAX where the system does not say. */
uint64_t hil_memory_available(void);

#endif
