/* wire_threads.h - a double for tests: connects devices of threads through a comm. */
#ifndef HIL_COMM_WIRE_THREADS_H
#define HIL_COMM_WIRE_THREADS_H

#include "comm/comm.h"
#include "comm/wire.h"

/* Borrows both. The comm's channel for weights is the wire's, which is as strict as NCCL about the
   order of calls. */
hil_status hil_wire_threads_open(hil_wire **out, hil_device *device, hil_comm *comm);

#endif
