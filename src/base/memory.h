/* memory.h - memory straight from the system, and how much of it there is. */
#ifndef HIL_BASE_MEMORY_H
#define HIL_BASE_MEMORY_H

#include "base/fail.h"

#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* of Linux 5.14; older ones refuse it */
#endif

/* Bytes that are left of the limits on this process: those of its control groups, divided by the
   processes that share them, and of ulimit -v and -d. UINT64_MAX: there is none. */
uint64_t hil_memory_left(int sharers);
/* Bytes that can be had without swapping: what the machine has available, and no more than is left
   of the limits. UINT64_MAX where the system does not say. */
uint64_t hil_memory_available(void);

/* Bytes that this process can ever have: the machine's RAM, and no more than is left of the limits.
 *limited: those are less than the RAM. UINT64_MAX where the system does not say. */
uint64_t hil_memory_most(bool *limited);

/* Large zeroed memory, in huge pages where it can be had. */
hil_status hil_memory_map(size_t bytes, void **out);
void hil_memory_unmap(void *memory, size_t bytes);

#endif
