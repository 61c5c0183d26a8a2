/* memory.h - large memory from the system, and how much is available. */
#ifndef HIL_BASE_MEMORY_H
#define HIL_BASE_MEMORY_H

#include "base/fail.h"

#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* of Linux 5.14; older ones refuse it */
#endif

/* Bytes left of the limits on this process: its control groups, divided by the processes that share
   them, and ulimit -v and -d. UINT64_MAX: no limit. */
uint64_t hil_memory_left(int sharers);
/* Bytes available without swapping, within the limits on this process. UINT64_MAX: unknown. */
uint64_t hil_memory_available(void);

/* Most bytes that this process can get: the machine's RAM, within the limits on this process.
 *limited: the limits are lower than the RAM. UINT64_MAX: unknown. */
uint64_t hil_memory_most(bool *limited);

/* Large zeroed memory, in huge pages if available. */
hil_status hil_memory_map(size_t bytes, void **out);
void hil_memory_unmap(void *memory, size_t bytes);

#endif
