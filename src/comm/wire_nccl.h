/* wire_nccl.h - wires over NCCL; part of the GPU module. */
#ifndef HIL_COMM_WIRE_NCCL_H
#define HIL_COMM_WIRE_NCCL_H

#include "comm/wire.h"

/* Finds NCCL, which the program has loaded if it is not in the system's folders. */
hil_status hil_wire_nccl_find(const hil_wire_maker **out);

#endif
