/* window.h - weights and sums that come to the device and leave it again. */
#ifndef HIL_STORE_WINDOW_H
#define HIL_STORE_WINDOW_H

#include "store/inside.h"

/* The weight or sum is on the device, or on its way, and pinned. */
hil_status hil_window_room(hil_store *store, size_t bytes);
hil_status hil_window_bring(hil_store *store, int32_t entity);
hil_status hil_window_use(hil_store *store, int32_t entity);
/* Whether it is there, or needs no window; everything that is not pinned leaves. */
bool hil_window_has(const hil_store *store, int32_t entity);
hil_status hil_window_clear(hil_store *store);
void hil_window_remove(hil_store *store, int32_t entity);
hil_status hil_window_prefetch(hil_store *store);
void hil_window_forget(hil_store *store, hil_unit *unit);
/* Weights leave; and the sums, if they do not all fit. */
hil_status hil_window_renew(hil_store *store);
/* See [Note: copy-out buffers]; and all of it goes back. */
hil_status hil_window_take_outgoing(hil_store *store, size_t bytes, void **out);
void hil_window_give_outgoing(hil_store *store, void *memory, size_t bytes, const hil_fence *after);
void hil_window_reclaim(hil_store *store);

#endif
