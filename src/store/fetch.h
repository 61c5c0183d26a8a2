/* fetch.h - copies of weights on the device. */
#ifndef HIL_STORE_FETCH_H
#define HIL_STORE_FETCH_H

#include "store/inside.h"

/* Brings a weight into a copy of its own; room is there. Whether it needs none: alone, a
   weight that lives on the device. */
hil_status hil_weight_fetch(hil_store *store, hil_unit *unit);
bool hil_weight_resident(const hil_store *store, const hil_unit *unit);
/* Bytes of the whole weight. */
size_t hil_weight_bytes(const hil_unit *unit);

#endif
