/* rehearsal.h - opens a store for a rehearsal, and compares counts that do not depend on time. */
#ifndef TESTS_STORE_REHEARSAL_H
#define TESTS_STORE_REHEARSAL_H

#include "check.h"
#include "speeds.h"
#include "store/store.h"

/* Opens the store on memory that faults when touched, and without files. Returns a pool that the
   caller destroys after closing the store. */
static inline hil_pool *rehearsal_open(hil_store *store, hil_tiers_options tiers,
                                       hil_store_opening opening)
{
    hil_pool *dry;
    CHECK_OK(hil_pool_create_dry(&dry));
    tiers.device_bytes = tiers.host_bytes = (size_t)1 << 34;
    tiers.speeds = opening.speeds = &any_speeds;
    opening.pool = opening.update = dry;
    CHECK_OK(hil_tiers_open(opening.tiers, &tiers));
    CHECK_OK(hil_store_open(store, &opening));
    return dry;
}

static inline void rehearsal_same(const char *what, const uint64_t *a, const uint64_t *b, int count)
{
    for (int i = 0; i < count; ++i)
        if (a[i] != b[i]) {
            fprintf(stderr, "%s: number %d is %llu, expected %llu\n", what, i,
                    (unsigned long long)a[i], (unsigned long long)b[i]);
            exit(1);
        }
}

#endif
