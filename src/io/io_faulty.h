/* io_faulty.h - for tests: makes the n-th operation of an engine fail, or drives slow. */
#ifndef HIL_IO_IO_FAULTY_H
#define HIL_IO_IO_FAULTY_H

#include "io/io_backend.h"

/* The n-th operation from now (1: the next) of engines created while this is armed fails with
   `error` without being executed; with error 0 it is a short transfer. Short transfers, EAGAIN and
   EINTR are not applied to a flush, which is never repeated. n = 0 disarms. */
void hil_io_fail_at(long n, int error);
/* Operations of such engines since the last hil_io_fail_at. */
long hil_io_fail_count(void);

/* Limits the speed of each drive of engines that are created while this is not 0; the last call
   counts. */
void hil_io_throttle(double bytes_per_second);

/* The engine to use instead of `backend`: while armed, a faulty one around it. */
const hil_io_backend *hil_io_faulty_around(const hil_io_backend *backend);

#endif
