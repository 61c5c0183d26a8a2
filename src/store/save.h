/* save.h - converts states chunk by chunk to fp32 for a checkpoint, on the SAVE link's thread. */
#ifndef HIL_STORE_SAVE_H
#define HIL_STORE_SAVE_H

#include "store/internal.h"

/* A chunk to be saved: elements [base, base + count) of the unit. The states are borrowed until its
   job is over. */
typedef struct hil_saved_chunk {
    const hil_unit *unit;
    int64_t base, count;
    const char *state[HIL_GRADIENT]; /* NULL: the unit does not have it */
} hil_saved_chunk;

hil_status hil_save_open(hil_store *store);
void hil_save_close(hil_store *store);
/* Whether hil_store_save_next asked for a save that has not begun. */
bool hil_save_is_asked(const hil_store *store);
/* Begins a save if hil_store_save_next asked for one (*saves), after waiting for the last one. */
hil_status hil_save_begin(hil_store *store, bool *saves);
/* Submits the chunk (copied), to be saved after `after`; joins its end to *over. */
hil_status hil_save_chunk(hil_store *store, const hil_saved_chunk *chunk, const hil_fence *after,
                          hil_fence *over);

/* The fp32 masters from weights and HIL_REST; `rest` may be NULL: the weights alone. */
void hil_master_join(float *out, hil_dtype dtype, const void *weight, const void *rest,
                     int64_t count);

#endif
