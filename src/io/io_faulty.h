/* io_faulty.h - for tests: the n-th operation of an engine goes wrong, or drives are slow. */
#ifndef HIL_IO_IO_FAULTY_H
#define HIL_IO_IO_FAULTY_H

#include "io/io_backend.h"

/* The n-th operation from now (1 is the next) of engines created while this is armed ends with
   `error`, untried; with error 0 it moves only a part of its bytes. Only n-th transfers are made
   short, EAGAIN or EINTR: a flush is never repeated. n = 0 disarms. */
void hil_io_fail_at(long n, int error);
/* Operations of such engines since the last hil_io_fail_at. */
long hil_io_fail_count(void);

/* Each drive of engines created while this is not 0 moves so many bytes per second at most, as the
   last call says. */
void hil_io_throttle(double bytes_per_second);

/* The engine to use in the place of `backend`: a faulty one around it, while armed. */
const hil_io_backend *hil_io_faulty_around(const hil_io_backend *backend);

#endif
