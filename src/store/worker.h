/* worker.h - runs the kernels: on the CPU, or queued on a device. */
#ifndef HIL_STORE_WORKER_H
#define HIL_STORE_WORKER_H

#include "store/inside.h"

/* Who does arithmetic, and where. */
typedef struct hil_worker {
    hil_device *device; /* NULL: the CPU, at once */
    hil_stream stream;
    hil_pool *pool; /* of the CPU; NULL: this thread */
} hil_worker;
/* Whoever computes, between uses. */
hil_worker hil_worker_compute(const hil_store *store);
hil_status hil_work_zero(const hil_worker *w, float *out, int64_t count);
hil_status hil_work_round(const hil_worker *w, hil_rounding *rounding);
/* The squares of a unit, one unit at a time: begun; those of elements [first, ...) of a member;
   all. Rounding does all of that at once, and has the lanes for blocks that come in parts. */
double *hil_squares_lanes(const hil_store *store, const hil_worker *w);
hil_status hil_squares_begin(hil_store *store, const hil_worker *w, const hil_unit *unit);
hil_status hil_squares_add(const hil_store *store, const hil_worker *w, const hil_unit *unit,
                           int member, const hil_block *block, int64_t first);
hil_status hil_squares_end(hil_store *store, const hil_worker *w, hil_unit *unit);
hil_status hil_work_open(hil_store *store);
void hil_work_close(hil_store *store);

#endif
