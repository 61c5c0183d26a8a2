/* comm_threads.h - an engine for tests: the ranks are threads of one process. */
#ifndef HIL_COMM_COMM_THREADS_H
#define HIL_COMM_COMM_THREADS_H

#include "comm/comm.h"

/* comms[r] is for the threads of rank r; close it with hil_comm_close when no rank waits for
   another. */
hil_status hil_comm_threads_create(int size, hil_comm **comms);

#endif
