/* worker.h - runs the store's kernels: at once on the CPU, or queued on a device's stream. */
#ifndef HIL_STORE_WORKER_H
#define HIL_STORE_WORKER_H

#include "store/internal.h"

/* Where a kernel runs. */
typedef struct hil_worker {
    hil_device *device; /* NULL: the CPU */
    hil_stream stream;  /* of the device */
    hil_pool *pool;     /* of the CPU; NULL: the calling thread */
} hil_worker;
/* The caller's pool, or the device's compute stream. */
hil_worker hil_worker_compute(const hil_store *store);
hil_status hil_worker_zero(const hil_worker *w, float *out, int64_t count);
hil_status hil_worker_add(const hil_worker *w, const hil_addend *addend);
hil_status hil_worker_round(const hil_worker *w, hil_rounding *rounding);
/* The squares of a unit's gradient, one unit at a time: begin, add elements [first, ...) of a
   member any number of times, end. Rounding does the same in one call, with these lanes for blocks
   that come in parts. */
double *hil_squares_lanes(const hil_store *store, const hil_worker *w);
hil_status hil_squares_begin(hil_store *store, const hil_worker *w, const hil_unit *unit);
hil_status hil_squares_add(const hil_store *store, const hil_worker *w, const hil_unit *unit,
                           int member, const hil_block *block, int64_t first);
hil_status hil_squares_end(hil_store *store, const hil_worker *w, hil_unit *unit);
hil_status hil_worker_open(hil_store *store);
void hil_worker_close(hil_store *store);

#endif
