/* device_comm_threads.h - a device comm for tests: connects devices of threads through a comm. */
#ifndef HIL_COMM_DEVICE_COMM_THREADS_H
#define HIL_COMM_DEVICE_COMM_THREADS_H

#include "comm/comm.h"
#include "comm/device_comm.h"

/* Borrows both. Uses the comm's GATHER channel for all calls, so their order matters as with NCCL.
 */
hil_status hil_device_comm_threads_open(hil_device_comm **out, hil_device *device, hil_comm *comm);

#endif
