/* fetch.h - fetches weights into the window on the device. */
#ifndef HIL_STORE_FETCH_H
#define HIL_STORE_FETCH_H

#include "store/internal.h"

/* Takes memory for a copy of the weight in the window, which must have room (make it with
   hil_window_room). The copy is hollow until it is filled. */
hil_status hil_weight_reserve(hil_store *store, hil_unit *unit);
/* Starts the fetch into a hollow copy; unit->ready is the fence of the fetch. After a failure the
   copy is still hollow. */
hil_status hil_weight_fill(hil_store *store, hil_unit *unit);
/* Frees the copy. */
void hil_weight_free(hil_store *store, hil_unit *unit);
/* Whether the weight needs no copy: with one rank, a weight that is kept on the device. */
bool hil_weight_resident(const hil_store *store, const hil_unit *unit);
/* Bytes of the whole weight, all ranks' slices. */
size_t hil_weight_bytes(const hil_unit *unit);

#endif
