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
    size_t size;        /* set by hil_comm_defaults */
    int expected;       /* ranks that the launcher started, by its environment; 0 or 1: one rank */
    const char *module; /* file name of the MPI module; NULL: none */
    /* A rank has ended or does not respond. Called once, on a separate thread, while other threads
       may wait for that rank forever: it should print `message` (NULL: another rank prints it) and
       end the process. */
    void (*lost)(void *context, const char *message);
    void *context;
} hil_comm_options;
HIL_API void hil_comm_defaults_sized(hil_comm_options *options, size_t size);
#define hil_comm_defaults(options) hil_comm_defaults_sized(options, sizeof *(options))

/* Connects to the other ranks. *out is NULL if there is only one. Keeps `lost` and `context` until
   hil_comm_close; starts a thread that watches the other ranks. */
HIL_API hil_status hil_comm_open(hil_comm **out, const hil_comm_options *options);
/* Ranks that a program connects by itself, such as those of torchrun. Both functions block, and
   return 0, or anything else if they failed. They are called on several threads: each channel has
   one call at a time, the same calls in the same order on all ranks; channels do not wait for each
   other. */
#define HIL_COMM_CHANNELS 4
#define HIL_COMM_NCCL_ID 128 /* bytes of an ncclUniqueId */
typedef struct hil_comm_functions {
    size_t size; /* set by hil_comm_functions_defaults */
    int rank, ranks;
    int local_rank, local_ranks; /* on this machine */
    /* All-gather: `whole` gets the slices of all ranks, rank r's at r * bytes. `slice` may be at
       its place in `whole`. */
    int (*gather)(void *context, int channel, const void *slice, void *whole, size_t bytes);
    /* All-to-all: sends piece r of `out` (at r * bytes) to rank r, receives piece r of `in` from
     * it.
     */
    int (*exchange)(void *context, int channel, const void *out, void *in, size_t bytes);
    void *context;
    /* Where every rank has a GPU of its own, NCCL connects them by this id, which the program made
       (ncclGetUniqueId) and gave to all ranks; copied. NULL on any rank: the library makes one, and
       sends it by `gather`. */
    const unsigned char *nccl_id;
} hil_comm_functions;
HIL_API void hil_comm_functions_defaults_sized(hil_comm_functions *functions, size_t size);
#define hil_comm_functions_defaults(functions)                                                     \
    hil_comm_functions_defaults_sized(functions, sizeof *(functions))
/* Copies the functions, which are called until hil_comm_close. A rank that ends is not noticed: the
   functions must fail then, and hil_comm_fail makes only this rank's calls fail. */
HIL_API hil_status hil_comm_open_functions(hil_comm **out, const hil_comm_functions *functions);
/* Waits until every rank has called it, unless one failed. */
HIL_API void hil_comm_close(hil_comm *comm);
/* Reports that this rank failed with the thread's current message and makes no further calls: waits
   of the other ranks end with that message. Does nothing if the failure came from another rank, or
   if all ranks agreed on it. */
HIL_API void hil_comm_fail(hil_comm *comm, hil_status status);
/* Something that must be the same on all ranks, such as an option: "--seed" and "42". */
typedef struct hil_fact {
    const char *name, *value;
} hil_fact;
/* Called by every rank, with its facts or with its failure `mine`. If a rank failed, all fail with
   the message of the lowest such rank. If the facts of a rank differ from those of rank 0, all fail
   with one line: the rank, its first fact that differs, both values, and `advice`. */
HIL_API hil_status hil_comm_compare(hil_comm *comm, hil_status mine, const hil_fact *facts,
                                    size_t count, const char *advice);
/* Without a comm (NULL) there is one rank. */
HIL_API int hil_comm_rank(const hil_comm *comm);
HIL_API int hil_comm_size(const hil_comm *comm);
/* The name and version of the MPI that the module uses; fails if MPI is not installed. */
HIL_API hil_status hil_comm_version(const char *module, const char **out);

#ifdef __cplusplus
}
#endif
#endif
