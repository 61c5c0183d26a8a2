/* fio.h - runs fio, the peer that our I/O is measured against. */
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

/* One pass over the file; 10^9 bytes per second, or NaN when fio is not there or does not work. */
hil_status hil_fio_run(const hil_fio_job *job, double *gbps);

#endif
