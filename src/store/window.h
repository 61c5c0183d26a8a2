/* window.h - the window: device memory into which weights and sums are fetched, and from which they
   are evicted. */
#ifndef HIL_STORE_WINDOW_H
#define HIL_STORE_WINDOW_H

#include "store/internal.h"

/* Evicts until `bytes` fit; HIL_ERR_BUDGET if what is pinned leaves too little room. */
hil_status hil_window_room(hil_store *store, size_t bytes);
/* Starts the fetch of a weight or sum, unless it is in the window. _use also records the use. */
hil_status hil_window_bring(hil_store *store, int32_t entity);
hil_status hil_window_use(hil_store *store, int32_t entity);
/* Whether it is in the window, or in flight to it, or resident on the device. */
bool hil_window_has(const hil_store *store, int32_t entity);
/* Evicts everything that is not pinned. */
hil_status hil_window_clear(hil_store *store);
/* Removes an entity from the window's list; its memory is the caller's to free. */
void hil_window_remove(hil_store *store, int32_t entity);
/* Notes that a sum in the window has gradients of this step from now on. */
hil_status hil_window_start_summing(hil_store *store, int32_t sum);
/* Prefetches in the known order as far as there is room, or can be made. */
hil_status hil_window_prefetch(hil_store *store);
/* Drops the copy of a weight, because it is or will be out of date. */
void hil_window_forget(hil_store *store, hil_unit *unit);
/* Evicts all weights; also all sums, if one of them was spilled. */
hil_status hil_window_renew(hil_store *store);
/* Take and give back copy-out buffers, [Note: copy-out buffers]; _reclaim frees all of them. */
hil_status hil_window_take_outgoing(hil_store *store, size_t bytes, void **out);
void hil_window_give_outgoing(hil_store *store, void *memory, size_t bytes, const hil_fence *after);
void hil_window_reclaim(hil_store *store);

#endif
