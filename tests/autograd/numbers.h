/* numbers.h - the states of a trained model, for comparison bit by bit. */
#ifndef TESTS_AUTOGRAD_NUMBERS_H
#define TESTS_AUTOGRAD_NUMBERS_H

#include "base/alloc.h"
#include "check.h"
#include "speeds.h"
#include "store/state.h"

/* Master and first moment of every parameter: *count numbers, which the caller frees. */
static inline float *read_numbers(hil_store *store, int64_t *count)
{
    float *all;
    *count = 0;
    for (size_t i = 0; i < hil_store_count(store); ++i)
        *count += 2 * hil_param_elements(hil_store_at(store, i));
    CHECK_OK(HIL_ALLOC(*count, &all));
    float *at = all;
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        hil_param *p = hil_store_at(store, i);
        int64_t n = hil_param_elements(p);
        CHECK_OK(hil_store_read(store, p, HIL_MASTER, 0, n, at));
        CHECK_OK(hil_store_read(store, p, HIL_MOMENT1, 0, n, at + n));
        at += 2 * n;
    }
    return all;
}

#endif
