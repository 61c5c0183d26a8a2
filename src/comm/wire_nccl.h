/* wire_nccl.h - wires between GPUs, by NCCL: a part of the module that computes on GPUs. */
#ifndef HIL_COMM_WIRE_NCCL_H
#define HIL_COMM_WIRE_NCCL_H

#include "comm/wire.h"

/* Finds NCCL, which the program has loaded where it is not in the system's places. */
hil_status hil_wire_nccl_find(const hil_wire_maker **out);

#endif
