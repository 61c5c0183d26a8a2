/* fio.h - runs fio, which our I/O engine is compared with. */
#ifndef HIL_RUN_FIO_H
#define HIL_RUN_FIO_H

#include "base/fail.h"

typedef struct hil_fio_job {
    const char *file;
    const char *engine; /* "libaio" or "io_uring" */
    bool write, direct;
    size_t block;
    int depth;
    uint64_t size;
} hil_fio_job;

/* One pass over the file. *gbps: 10^9 bytes per second, or NaN if fio is missing or fails. */
hil_status hil_fio_run(const hil_fio_job *job, double *gbps);

#endif
