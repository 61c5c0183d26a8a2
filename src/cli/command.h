/* command.h - the commands of the program, and what they share. */
#ifndef HIL_CLI_COMMAND_H
#define HIL_CLI_COMMAND_H

#include "cli/options.h"

extern const hil_command hil_command_train, hil_command_eval, hil_command_generate,
    hil_command_tokenize, hil_command_inspect, hil_command_export, hil_command_verify,
    hil_command_bench, hil_command_probe, hil_command_plan;

/* What every command does with its arguments first: true when the caller goes on with `values`,
   false when *code is the exit code already (help, or a usage error). */
bool hil_command_begin(const hil_command *command, int argc, char **argv, void *values,
                       hil_parsed *parsed, int *code);

/* Says what sizes with units of 1000 were understood as, if there are any. */
void hil_command_tell_sizes(const hil_parsed *parsed, const hil_observer *observer);

/* Prints the last failure as one line, for all ranks, and gives its exit code. */
int hil_command_fail(hil_status status);

/* Pushes out what was written to the standard output; 0, or the exit code of the failure. */
int hil_command_flush(void);

/* The first SIGINT, SIGTERM or SIGUSR1 from here on stores its number in hil_command_stop, which is
   zero before; the second ends the program. `say` is printed at the first; may be NULL. */
extern volatile int hil_command_stop;
void hil_command_catch_signals(const char *say);
/* The exit code of a command that stopped for a signal, of this rank or another. */
int hil_command_stopped(void);

/* For hil_comm_options.lost: prints the message, if this rank has it, and ends the process with
   HIL_COMMAND_LOST. Its main thread may hang, so nothing is waited for and nothing is saved. After
   a signal it is two seconds later: mpirun may be ending the job. */
enum { HIL_COMMAND_LOST = 3 };
void hil_command_lost(void *context, const char *message);

/* Where measured speeds are remembered: in the user's cache folder; NULL where there is none. */
const char *hil_command_probe_cache(char path[HIL_PATH_MAX]);

/* Python environments of this user, where NVIDIA's libraries may be, separated by colons. */
const char *hil_command_prefixes(char list[HIL_PATH_MAX]);

extern const hil_range hil_range_count;     /* whole numbers from 1 */
extern const hil_range hil_range_index;     /* whole numbers from 0 */
extern const hil_range hil_range_budget;    /* bytes from 1 */
extern const hil_range hil_range_threads;   /* a sane number of threads, 0 for all */
extern const hil_range hil_range_stage;     /* 1 to 3 */
extern const hil_range hil_range_positive;  /* numbers above 0 */
extern const hil_range hil_range_amount;    /* numbers from 0 */
extern const hil_range hil_range_below_one; /* [0, 1) */
extern const hil_range hil_range_up_to_one; /* (0, 1] */

#endif
