/* comm_module.h - what the program and the module that calls MPI know of each other. */
#ifndef HIL_COMM_COMM_MODULE_H
#define HIL_COMM_COMM_MODULE_H

#include "comm/comm_engine.h"

typedef hil_status (*hil_comm_module_fail)(hil_status code, const char *format, ...);

/* The module's first function makes `comm` a rank of its launcher's: engine, state, rank and
   size. The module calls nothing of the program but `fail` (hil_fail), so it loads into any. `size`
   is that of a hil_comm: a module of another build is noticed. */
#define HIL_COMM_MODULE_OPEN "hil_comm_mpi_open"
typedef hil_status (*hil_comm_module_open)(hil_comm *comm, size_t size, hil_comm_module_fail fail);
/* Its second gives the name and the version of the MPI that it uses. */
#define HIL_COMM_MODULE_VERSION "hil_comm_mpi_version"
typedef const char *(*hil_comm_module_version)(void);

#endif
