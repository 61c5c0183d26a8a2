/* comm.h - the ranks of a run: processes that share one training job. */
#ifndef HILBERT_COMM_H
#define HILBERT_COMM_H

#include <stdbool.h>

#include "hilbert/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hil_comm hil_comm;

typedef struct hil_comm_options {
    int expected; /* ranks that the launcher started, as its environment says; 0: no launcher */
    const char *module; /* the file that speaks MPI; NULL: there is none */
    /* A rank is gone or does not answer. Called once, on a thread of its own, while others may wait
       for that rank for ever: it should tell the user `message` (NULL: another rank tells it) and
       end the process. */
    void (*lost)(void *context, const char *message);
    void *context;
} hil_comm_options;

/* Connects to the other ranks. *out is NULL where there is no launcher. */
HIL_API hil_status hil_comm_open(hil_comm **out, const hil_comm_options *options);
HIL_API void hil_comm_close(hil_comm *comm);
/* Without a comm (NULL) there is one rank. */
HIL_API int hil_comm_rank(const hil_comm *comm);
HIL_API int hil_comm_size(const hil_comm *comm);

#ifdef __cplusplus
}
#endif
#endif
