/* launch.h - whether a launcher (mpirun, srun) started this process as one of several ranks. */
#ifndef HIL_CLI_LAUNCH_H
#define HIL_CLI_LAUNCH_H

#include "base/fail.h"
#include "hilbert/comm.h"

/* Once, before anything else. Where this is not the first rank, nothing is written to the standard
   output from here on. */
hil_status hil_launch_begin(void);
/* As the launcher's environment says; 1 without one. */
int hil_launch_ranks(void);
/* Whether this rank speaks for all. */
bool hil_launch_first(void);

/* Connects to the others; NULL for a process that is alone. */
hil_status hil_launch_open(hil_comm **out);
/* Prints why that failed, and gives the exit code. */
int hil_launch_fail(hil_status status);
/* The end of a command with exit code `code`; other ranks learn of a failure that they do not know
   of. Gives the exit code. */
int hil_launch_close(hil_comm *comm, int code);

/* The exit code of the program: wrong usage is the same for all ranks, and a launcher ends the
   others at the first code but 0; so the first rank alone has it. */
int hil_launch_end(int code);

/* Which MPI the program would use, as one line. */
void hil_launch_describe(char *out, size_t size);

#endif
