/* gradient.h - sums of gradients, and their copy-out to where gradients are kept. */
#ifndef HIL_STORE_GRADIENT_H
#define HIL_STORE_GRADIENT_H

#include "store/internal.h"

/* Zeroes the parts of a sum that no operation wrote in this step: members without a gradient, and
   the padding after each member. */
hil_status hil_sum_fill(hil_store *store, hil_unit *unit, int use);
/* Frees the sum of a use. */
void hil_sum_drop(hil_store *store, hil_unit *unit, int use);
/* Gives the memory of sums that are kept as gradients back to the window, once the unit is swept:
   see [Note: kept sums]. */
void hil_gradient_free_kept(hil_store *store, hil_unit *unit);
/* A chunk of this rank's slice of a rounded gradient, to be copied from the device to its home. */
typedef struct hil_gradient_chunk {
    const hil_unit *unit;
    hil_use *use;
    const void *data;
    hil_fence made;   /* over: `data` is complete */
    hil_fence before; /* over: the home may be overwritten */
} hil_gradient_chunk;
/* Queues the copy; use->left is its fence. `data` must stay until then. */
hil_status hil_gradient_send(hil_store *store, const hil_gradient_chunk *leaving, int64_t chunk);

#endif
