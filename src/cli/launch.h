/* launch.h - finds out whether a launcher (mpirun, srun) started several ranks; connects them. */
#ifndef HIL_CLI_LAUNCH_H
#define HIL_CLI_LAUNCH_H

#include "cli/options.h"

/* Call once, before anything else. On all ranks but the first it discards the standard output from
   here on. */
hil_status hil_launch_begin(void);
/* The number of ranks by the launcher's environment variables; 1 without a launcher. */
int hil_launch_ranks(void);
/* Whether this is rank 0, which reports for all. */
bool hil_launch_first(void);

/* Connects the ranks and compares their program, command, and every option that is not `per_rank`.
   *out is NULL for a single process. If the ranks differ, it fails but *out is open: the caller
   closes it. Keeps nothing of what it is given. */
hil_status hil_launch_open(hil_comm **out, const hil_command *command, const void *values);
/* Ends a command: sends a failure (exit code 1 or 2) to the other ranks and closes the comm.
   Returns `code`. */
int hil_launch_close(hil_comm *comm, int code);

/* Prints the last failure as one line, once for all ranks. If the ranks are not connected yet, it
   connects them first, since others may be waiting for this rank. If that fails, every rank prints
   its own failure, rank 0 first: it has usually failed too, and its exit ends the job. */
void hil_launch_report(hil_status status);

/* Which MPI the program would use, as one line. */
void hil_launch_describe(char *out, size_t size);

#endif
