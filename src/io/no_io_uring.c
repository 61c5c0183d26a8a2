/* no_io_uring.c - replaces io_uring.c in a build without liburing. */
#include "io/io_backend.h"

static hil_status create(void **out, const hil_io_setup *setup)
{
    (void)setup;
    *out = NULL;
    return hil_fail(HIL_ERR_IO, "this build of hilbert has no io_uring (liburing was not there); "
                                "choose the threads engine");
}

const hil_io_backend hil_io_backend_uring = {.name = "uring", .create = create};
