/* ops_threads.h - the operations of the test device "threads": the CPU's, executed asynchronously.
 */
#ifndef HIL_OPS_OPS_THREADS_H
#define HIL_OPS_OPS_THREADS_H

#include "ops/op.h"

extern const hil_device_ops hil_ops_threads;

#endif
