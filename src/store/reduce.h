/* reduce.h - gradients of several ranks. */
#ifndef HIL_STORE_REDUCE_H
#define HIL_STORE_REDUCE_H

#include "store/inside.h"

/* Gradients of several ranks. Gives one use's sum; all ranks give the same uses. */
hil_status hil_reduce_open(hil_store *store);
void hil_reduce_close(hil_store *store);
hil_status hil_reduce_give(hil_store *store, hil_unit *unit, int use);
/* Everything given in this step is summed, and all ranks know which gradients there are. */
hil_status hil_reduce_agree(hil_store *store);
void hil_reduce_step_end(hil_store *store);

#endif
