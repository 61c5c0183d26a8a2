/* comm.h - the ranks of a run: processes that share one training job. */
#ifndef HILBERT_COMM_H
#define HILBERT_COMM_H

#include <stdbool.h>
#include <stddef.h>

#include "hilbert/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hil_comm hil_comm;

typedef struct hil_comm_options {
    size_t size;  /* set by hil_comm_defaults */
    int expected; /* ranks that the launcher started, as its environment says; 0 or 1: alone */
    const char *module; /* the file that speaks MPI; NULL: there is none */
    /* A rank is gone or does not answer. Called once, on a thread of its own, while others may wait
       for that rank for ever: it should tell the user `message` (NULL: another rank tells it) and
       end the process. */
    void (*lost)(void *context, const char *message);
    void *context;
} hil_comm_options;
HIL_API void hil_comm_defaults_sized(hil_comm_options *options, size_t size);
#define hil_comm_defaults(options) hil_comm_defaults_sized(options, sizeof *(options))

/* Connects to the other ranks. *out is NULL for a process that is alone. Keeps `lost` and `context`
   until hil_comm_close, and a thread that watches the other ranks. */
HIL_API hil_status hil_comm_open(hil_comm **out, const hil_comm_options *options);
/* Waits until every rank is here, unless one failed. */
HIL_API void hil_comm_close(hil_comm *comm);
/* This rank failed with the thread's current message and will not come to meet the others: what
   they wait for ends with that message. Does nothing when the failure came from another rank, or
   when all agreed on it. */
HIL_API void hil_comm_fail(hil_comm *comm, hil_status status);
/* Something that must be the same on all ranks, such as an option: "--seed" and "42". */
typedef struct hil_fact {
    const char *name, *value;
} hil_fact;
/* Every rank comes here, with its facts or with the failure that `mine` tells. Where one failed,
   all fail with the message of the first that did. Where one has other facts than rank 0, all fail
   with one line: the rank, its first fact that differs, both values, and `advice`. */
HIL_API hil_status hil_comm_compare(hil_comm *comm, hil_status mine, const hil_fact *facts,
                                    size_t count, const char *advice);
/* Without a comm (NULL) there is one rank. */
HIL_API int hil_comm_rank(const hil_comm *comm);
HIL_API int hil_comm_size(const hil_comm *comm);
/* The name and the version of the MPI that the module uses; fails where that is not installed. */
HIL_API hil_status hil_comm_version(const char *module, const char **out);

#ifdef __cplusplus
}
#endif
#endif
