/* reduce.h - reduce-scatter of gradients over the ranks. */
#ifndef HIL_STORE_REDUCE_H
#define HIL_STORE_REDUCE_H

#include "store/internal.h"

hil_status hil_reduce_open(hil_store *store);
void hil_reduce_close(hil_store *store);
/* Starts the reduction of one use's sum over the ranks. All ranks call it for the same uses in the
   same order, with or without a sum of their own. */
hil_status hil_reduce_give(hil_store *store, hil_unit *unit, int use);
/* Waits for all reductions so far; with one rank there are none. */
hil_status hil_reduce_wait(hil_store *store);
/* Waits for all reductions of this step; all ranks then agree on which gradients exist. */
hil_status hil_reduce_agree(hil_store *store);
void hil_reduce_step_end(hil_store *store);

#endif
