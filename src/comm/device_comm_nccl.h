/* device_comm_nccl.h - device comms over NCCL; part of the GPU module. */
#ifndef HIL_COMM_DEVICE_COMM_NCCL_H
#define HIL_COMM_DEVICE_COMM_NCCL_H

#include "comm/device_comm.h"

/* Finds NCCL, which the program has loaded if it is not in the system's folders. */
hil_status hil_device_comm_nccl_find(const hil_device_comm_maker **out);

#endif
