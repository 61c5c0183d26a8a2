/* update.h - the end of a step: the gradient norm, the update of every parameter, and saving. */
#ifndef HIL_STORE_UPDATE_H
#define HIL_STORE_UPDATE_H

#include "store/state.h"

/* The norm of all gradients of this step, over all ranks, which call it together. Before the
 * update.
 */
hil_status hil_store_norm(hil_store *store, double *norm);
/* Whether the next update changes the parameter: any rank gave a gradient of a part of it. Between
   hil_store_norm and the update. */
bool hil_param_is_given(const hil_store *store, const hil_param *param);
/* Receives the states of a save: `put` gets every element of every existing state once, in ranges,
   on the SAVE link's thread, one call at a time; `data` is borrowed during the call. A failure
   fails the run at its next wait, like that of any transfer. */
typedef struct hil_saving {
    hil_status (*put)(void *context, hil_param *param, hil_state state, int64_t first,
                      int64_t count, const float *data);
    void *context;
} hil_saving;

/* Starts the sweep and returns: it reads every unit with a gradient, updates it with
   update(rule, block) and writes it back, in the order of the next forward, while that runs.
   Acquire stalls until the unit it needs is updated. `update` runs on the threads of the update
   pool, several blocks at a time. `rule` is copied. */
typedef void hil_update_fn(const void *rule, const hil_block *block);
hil_status hil_store_update(hil_store *store, hil_update_fn *update, const void *rule,
                            size_t rule_bytes);
/* The next update also passes the updated states to `saving` (copied). The update after that waits
   for the save before it changes them. */
void hil_store_save_next(hil_store *store, const hil_saving *saving);
/* Runs a save that hil_store_save_next asked for, without an update. */
hil_status hil_store_save(hil_store *store);
/* Calls `run` on the SAVE link's thread when the last sweep has put everything. `context` is
   borrowed until then. */
hil_status hil_store_save_finish(hil_store *store, hil_status (*run)(void *context), void *context);
/* Waits for the last save and its finish. The next sweep that saves waits for them, too. */
hil_status hil_store_saved(hil_store *store);
/* Drops all sums, and gradients that no update has used. */
void hil_store_step_end(hil_store *store);
/* Waits for the sweep. */
hil_status hil_store_sweep_wait(hil_store *store);

#endif
