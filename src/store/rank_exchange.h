/* rank_exchange.h - what ranks send each other of memory on the device tier. */
#ifndef HIL_STORE_RANK_EXCHANGE_H
#define HIL_STORE_RANK_EXCHANGE_H

#include "store/inside.h"

/* What hil_comm does, with memory of the device tier: on the link's thread, or
   queued on its stream by a job that hil_exchange_submit has submitted. */
hil_status hil_exchange_submit(hil_store *store, hil_job *job, hil_fence *fence);
hil_status hil_exchange_gather(const hil_store *store, const char *slice, char *whole,
                               size_t bytes);
hil_status hil_exchange_all_to_all(const hil_store *store, const char *out, char *in, size_t bytes);
/* Waits for what the reduction queued on its stream, unless its end is the job's; also when that
   failed, by `status`, which is then returned. */
hil_status hil_exchange_wait(const hil_store *store, hil_status status);
hil_status hil_exchange_open(hil_store *store);
void hil_exchange_close(hil_store *store);

#endif
