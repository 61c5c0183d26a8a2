/* home.h - where each state of each unit lives. */
#ifndef HIL_STORE_HOME_H
#define HIL_STORE_HOME_H

#include "store/inside.h"

/* Whether all states live on the device. */
bool hil_unit_on_device(const hil_unit *unit);
/* Whether they visit it to be updated: [Note: guest updates] in plan.h. */
bool hil_unit_visits(const hil_store *store, const hil_unit *unit);
/* A use that nobody declared before the store was opened: the slots have no room for its gradient,
   so it lives where it needs none. */
hil_status hil_home_open_late(hil_store *store, const hil_unit *unit, hil_home *gradient);
/* Bytes of `count` elements of a state. */
size_t hil_chunk_bytes(const hil_store *store, const hil_unit *unit, hil_unit_state state,
                       int64_t count);
hil_status hil_homes_open(hil_store *store);
void hil_homes_close(hil_store *store);

#endif
