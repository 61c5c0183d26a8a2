/* comm_nccl.h - the gathers and exchanges of comm.h between GPUs: device memory, on a stream of the
   caller (cudaStream_t). They are queued when a call returns, and done when the stream is. */
#ifndef HIL_COMM_COMM_NCCL_H
#define HIL_COMM_COMM_NCCL_H

#include "comm/comm.h"

typedef struct hil_nccl hil_nccl;

/* Every rank calls it, with its GPU as the current one; `comm` connects them (its control channel)
   and is borrowed until destroy. */
hil_status hil_nccl_create(hil_nccl **out, hil_comm *comm);
/* HIL_NCCL_LOST gives up what is queued: a rank will never come. */
typedef enum hil_nccl_end { HIL_NCCL_DONE, HIL_NCCL_LOST } hil_nccl_end;
void hil_nccl_destroy(hil_nccl *nccl, hil_nccl_end end);

hil_status hil_nccl_gather(hil_nccl *nccl, const void *slice, void *whole, size_t bytes,
                           void *stream);
hil_status hil_nccl_exchange(hil_nccl *nccl, const void *out, void *in, size_t bytes, void *stream);
/* What went wrong with the queued calls so far. */
hil_status hil_nccl_check(hil_nccl *nccl);

#endif
