/* wire_threads.h - a wire for tests: connects devices of threads through a comm. */
#ifndef HIL_COMM_WIRE_THREADS_H
#define HIL_COMM_WIRE_THREADS_H

#include "comm/comm.h"
#include "comm/wire.h"

/* Borrows both. Uses the comm's GATHER channel for all calls, so their order matters as with NCCL.
 */
hil_status hil_wire_threads_open(hil_wire **out, hil_device *device, hil_comm *comm);

#endif
