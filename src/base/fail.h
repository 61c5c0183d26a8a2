/* fail.h - raise a failure once, forward it everywhere else. */
#ifndef HIL_BASE_FAIL_H
#define HIL_BASE_FAIL_H

#include "hilbert/status.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HIL_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Records one line that a user can act on and returns `code`. Call it once, where the failure
 * begins. */
hil_status hil_fail(hil_status code, const char *format, ...) HIL_PRINTF(2, 3);

/* Forwards a failure out of a function that owns nothing. */
#define HIL_TRY(expr)                                                                              \
    do {                                                                                           \
        hil_status try_status_ = (expr);                                                           \
        if (try_status_ != HIL_OK) return try_status_;                                             \
    } while (0)

/* Forwards a failure through the cleanup at `done:`; the function has `hil_status status`. */
#define HIL_TRY_DONE(expr)                                                                         \
    do {                                                                                           \
        status = (expr);                                                                           \
        if (status != HIL_OK) goto done;                                                           \
    } while (0)

#endif
