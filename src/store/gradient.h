/* gradient.h - sums of gradients, and their way home. */
#ifndef HIL_STORE_GRADIENT_H
#define HIL_STORE_GRADIENT_H

#include "store/inside.h"

/* What nobody wrote of a sum becomes zero: members that got none in this step, and
   what is behind a member. */
hil_status hil_sum_fill(hil_store *store, hil_unit *unit, int use);
/* The sum of a use is no longer needed. */
void hil_sum_drop(hil_store *store, hil_unit *unit, int use);
/* A chunk of the slice of a rounded gradient that leaves the device for its home. */
typedef struct hil_gradient_chunk {
    const hil_unit *unit;
    hil_use *use;
    const void *data;
    hil_fence made;   /* over: it is there */
    hil_fence before; /* over: there is room at home */
} hil_gradient_chunk;
hil_status hil_gradient_send(hil_store *store, const hil_gradient_chunk *leaving, int64_t chunk);

#endif
