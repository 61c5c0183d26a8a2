/* comm_threads.h - a double for tests: the ranks are threads of one process. */
#ifndef HIL_COMM_COMM_THREADS_H
#define HIL_COMM_COMM_THREADS_H

#include "comm/comm.h"

/* comms[r] is rank r's, to be used by rank r's threads and closed by hil_comm_close, once no rank
   waits for another any more. */
hil_status hil_comm_threads_create(int size, hil_comm **comms);

#endif
