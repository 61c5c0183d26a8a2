/* command.h - the commands of the program, and the functions they share. */
#ifndef HIL_CLI_COMMAND_H
#define HIL_CLI_COMMAND_H

#include "cli/options.h"

extern const hil_command hil_command_train, hil_command_eval, hil_command_generate,
    hil_command_chat, hil_command_tokenize, hil_command_inspect, hil_command_export,
    hil_command_merge, hil_command_quantize, hil_command_verify, hil_command_bench,
    hil_command_probe, hil_command_plan, hil_command_report, hil_command_top;

/* Parses the arguments of a command. True: the caller goes on with `values`. False: *code is the
   exit code (after help or a usage error). */
bool hil_command_begin(const hil_command *command, int argc, char **argv, void *values,
                       hil_parsed *parsed, int *code);

/* Reports how sizes with units of 1000, if any, were understood. */
void hil_command_report_sizes(const hil_parsed *parsed, const hil_observer *observer);

/* Prints the last failure as one line, once for all ranks, and returns its exit code. */
int hil_command_fail(hil_status status);

/* Flushes the standard output; returns 0, or the exit code of the failure. */
int hil_command_flush(void);

/* From this call on, the first SIGINT, SIGTERM or SIGUSR1 stores its number in hil_command_stop,
   which is 0 before, and prints `say` (may be NULL); the second ends the program. */
extern volatile int hil_command_stop;
void hil_command_catch_signals(const char *say);
/* The exit code of a command that stopped for a signal on this rank or another. */
int hil_command_stopped(void);

/* For hil_comm_options.lost; may run on any thread. Prints the message, if this rank has it, and
   ends the process with HIL_COMMAND_LOST. Waits for no thread and saves nothing, because the main
   thread may hang. After a signal it first waits two seconds: mpirun may be ending the job. */
enum { HIL_COMMAND_LOST = 3 };
void hil_command_lost(void *context, const char *message);

/* The file of measured speeds, in the user's cache folder; NULL: the user has none. */
const char *hil_command_probe_cache(char path[HIL_PATH_MAX]);

/* The user's Python environments, which may hold NVIDIA's libraries, separated by colons. */
const char *hil_command_prefixes(char list[HIL_PATH_MAX]);

/* Finds a file by its places relative to the program's folder; NULL: it is at none of them. */
const char *hil_command_find(char path[HIL_PATH_MAX], const char *const *place, size_t count);

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
