/* state.h - states as fp32 numbers, for files and initialisation. */
#ifndef HIL_STORE_STATE_H
#define HIL_STORE_STATE_H

#include "store/param.h"

/* States as fp32 numbers, for files: of elements [first, first + count) in the parameter's own
   order those that this rank holds; the others are left alone. After passes every rank writes the
   same parameters, so that all have the same weights in their windows. */
typedef enum hil_state { HIL_MASTER, HIL_MOMENT1, HIL_MOMENT2, HIL_STATES } hil_state;
/* Frozen parameters have no moments, and a rule may need fewer than HIL_MOMENTS. */
bool hil_param_has(const hil_param *param, hil_state state);
hil_status hil_store_read(hil_store *store, hil_param *param, hil_state state, int64_t first,
                          int64_t count, float *out);
hil_status hil_store_write(hil_store *store, hil_param *param, hil_state state, int64_t first,
                           int64_t count, const float *in);
/* All of a state, on every rank: all ranks meet here. */
hil_status hil_store_read_whole(hil_store *store, hil_param *param, hil_state state, float *out);
/* [Note: ranges] Whoever reads or writes a whole state does so in order, one range at a time:
   states may lie on disk in pages, and a range is what is left of the page (or of the tile, or of
   this rank's slice of it) in which its first element lies. Moves *first to the first element at or
   behind it that this rank holds; gives how many the range that starts there has, 0 at the
   parameter's end. */
int64_t hil_param_held(const hil_param *param, int64_t *first);
/* At least as many as any range of any parameter has, for buffers. */
int64_t hil_store_range(const hil_store *store);

#endif
