/* launch.h - whether a launcher (mpirun, srun) started this process as one of several ranks. */
#ifndef HIL_CLI_LAUNCH_H
#define HIL_CLI_LAUNCH_H

#include "cli/options.h"

/* Once, before anything else. Where this is not the first rank, nothing is written to the standard
   output from here on. */
hil_status hil_launch_begin(void);
/* As the launcher's environment says; 1 without one. */
int hil_launch_ranks(void);
/* Whether this is rank 0, which reports for all. */
bool hil_launch_first(void);

/* Connects to the others and compares what they were started with: the program, the command, and
   every option that is not of each rank. `*out` is NULL for a process that is alone, and stays to
   be closed where the ranks are connected but differ. */
hil_status hil_launch_open(hil_comm **out, const hil_command *command, const void *values);
/* The end of a command with exit code `code`; other ranks learn of a failure that they do not know
   of. Gives the exit code. */
int hil_launch_close(hil_comm *comm, int code);

/* Prints the last failure as one line, for all ranks. Others may be waiting for this rank to
   connect: it does so, to tell them. Where it cannot, it prints its own failure, a moment after
   rank 0, which has usually failed as well and whose end ends the job. */
void hil_launch_report(hil_status status);

/* Which MPI the program would use, as one line. */
void hil_launch_describe(char *out, size_t size);

#endif
