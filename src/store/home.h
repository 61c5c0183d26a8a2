/* home.h - the home of each state of each unit: the memory or disk pages where it is kept. */
#ifndef HIL_STORE_HOME_H
#define HIL_STORE_HOME_H

#include "store/internal.h"

/* Whether all states and gradients are kept on the device. */
bool hil_unit_on_device(const hil_unit *unit);
/* Whether the device updates states that are kept on the host: [Note: device updates] in plan.h. */
bool hil_unit_device_updates(const hil_store *store, const hil_unit *unit);
/* Takes memory or disk pages for a state of a unit; the store owns them until it is closed. */
hil_status hil_home_open(hil_store *store, const hil_unit *unit, hil_unit_state state,
                         hil_tier tier, hil_home *home);
/* Frees the pages of a home on disk. */
void hil_home_close(hil_store *store, hil_home *home);
/* Opens the home of a gradient whose use was declared after the store was opened. The sweep's slots
   have no room for it, so its tier is one from which it is updated in place. `gradient` is kept by
   the unit. */
hil_status hil_home_open_late(hil_store *store, const hil_unit *unit, hil_home *gradient);
/* Bytes of `count` elements of a state, as they are encoded. */
size_t hil_chunk_bytes(const hil_store *store, const hil_unit *unit, hil_unit_state state,
                       int64_t count);
/* Takes the memory and disk pages of all states, as the plan says; the store owns them until close.
 */
hil_status hil_homes_open(hil_store *store);
void hil_homes_close(hil_store *store);

#endif
