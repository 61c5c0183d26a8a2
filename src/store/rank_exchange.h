/* rank_exchange.h - gather and all-to-all between ranks, on memory of the device tier. */
#ifndef HIL_STORE_RANK_EXCHANGE_H
#define HIL_STORE_RANK_EXCHANGE_H

#include "store/internal.h"

/* Submits an all-gather of slices in the unit's dtype, all of which are then in `whole`. This
   rank's is there before, or with `home` where the weight is kept on the device. */
hil_status hil_exchange_gather(hil_store *store, hil_unit *unit, char *whole, bool home,
                               const hil_fence *after, hil_fence *fence);
/* Submits a job whose `run` calls hil_exchange_all_to_all. With a device comm, these and gathers
   run one after the other, in the order of submission. */
hil_status hil_exchange_submit(hil_store *store, hil_job *job, hil_fence *fence);
/* Called on the thread of the REDUCE link. By device_comm it is only queued on the link's stream;
   otherwise it blocks until done. */
hil_status hil_exchange_all_to_all(const hil_store *store, const char *out, char *in, size_t bytes);
/* Ends a reduction on the REDUCE link's thread: waits for what it queued on its stream, unless the
   link itself does (by a device comm). Waits also if `status` is a failure, and returns that. */
hil_status hil_exchange_wait(const hil_store *store, hil_status status);
hil_status hil_exchange_open(hil_store *store);
void hil_exchange_close(hil_store *store);

#endif
