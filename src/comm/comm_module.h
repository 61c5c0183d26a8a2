/* comm_module.h - the interface between the program and the module that calls MPI. */
#ifndef HIL_COMM_COMM_MODULE_H
#define HIL_COMM_COMM_MODULE_H

#include "comm/comm_engine.h"

typedef hil_status (*hil_comm_module_fail)(hil_status code, const char *format, ...);

/* The module's first function connects `comm` to the ranks of its launcher: sets engine, state,
   rank and size. The module calls only `fail` (hil_fail) of the program, so any program can load
   it. `size` is sizeof(hil_comm): it detects a module of another build. */
#define HIL_COMM_MODULE_OPEN "hil_comm_mpi_open"
typedef hil_status (*hil_comm_module_open)(hil_comm *comm, size_t size, hil_comm_module_fail fail);
/* The second returns the name and version of the MPI that it uses. */
#define HIL_COMM_MODULE_VERSION "hil_comm_mpi_version"
typedef const char *(*hil_comm_module_version)(void);

#endif
