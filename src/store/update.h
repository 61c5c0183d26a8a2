/* update.h - the end of a step: the gradient norm, the update of every parameter, and saving. */
#ifndef HIL_STORE_UPDATE_H
#define HIL_STORE_UPDATE_H

#include "store/state.h"

/* The norm of all gradients given in this step, of all ranks, which meet here: before the update.
 */
hil_status hil_store_norm(hil_store *store, double *norm);
/* Where states go when they are saved: `put` gets every element of every state that there is once,
   in ranges, on the SAVE link's thread, one call at a time. A failure is everybody's, like that of
   any transfer. */
typedef struct hil_saving {
    hil_status (*put)(void *context, hil_param *param, hil_state state, int64_t first,
                      int64_t count, const float *data);
    void *context;
} hil_saving;

/* Starts the sweep: every unit with a gradient, in the order of the next forward, is read, updated
   by update(rule, block) and written, beside what follows; acquire waits for the unit it needs.
   `update` runs on the threads of the update pool, several blocks at a time. `rule` is copied. */
typedef void hil_update_fn(const void *rule, const hil_block *block);
#define HIL_RULE_BYTES 128
hil_status hil_store_update(hil_store *store, hil_update_fn *update, const void *rule,
                            size_t rule_bytes);
/* The next update also gives the states, as it leaves them, to `saving` (copied). Only the update
   after that changes them again, and waits for the save. */
void hil_store_save_next(hil_store *store, const hil_saving *saving);
/* Does so without an update, where a save is asked for. */
hil_status hil_store_save(hil_store *store);
/* After all that the last sweep saves has been put, `run` is called on the same thread. */
hil_status hil_store_save_finish(hil_store *store, hil_status (*run)(void *context), void *context);
/* Waits for what was saved, and for its finish. A sweep that saves does so, too. */
hil_status hil_store_saved(hil_store *store);
/* Gradients that were given and not used are forgotten. */
void hil_store_step_end(hil_store *store);
/* Waits for the sweep. */
hil_status hil_store_sweep_wait(hil_store *store);

#endif
