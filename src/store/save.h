/* save.h - states of chunks as fp32 numbers, given to whoever saves them. */
#ifndef HIL_STORE_SAVE_H
#define HIL_STORE_SAVE_H

#include "store/inside.h"

/* A chunk that is saved: elements [base, base + count) of the unit, and where each of its states
   is until that is over. */
typedef struct hil_saved_chunk {
    const hil_unit *unit;
    int64_t base, count;
    const char *state[HIL_GRADIENT]; /* NULL: it has none */
} hil_saved_chunk;

/* A save begins when the last one is over; the chunk (copied) is saved after `after`. */
hil_status hil_save_open(hil_store *store);
void hil_save_close(hil_store *store);
hil_status hil_save_begin(hil_store *store, bool *saves);
hil_status hil_save_chunk(hil_store *store, const hil_saved_chunk *chunk, const hil_fence *after,
                          hil_fence *over);

/* Fp32 masters of weights and what they lack; `rest` is NULL where nothing is kept.
 */
void hil_master_join(float *out, hil_dtype dtype, const void *weight, const void *rest,
                     int64_t count);

#endif
