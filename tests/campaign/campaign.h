/* campaign.h - many seeded cases of one kind, several in parallel, each with its own process and
   folder. Any case can be repeated alone: --seed S --only N. */
#ifndef HIL_TESTS_CAMPAIGN_H
#define HIL_TESTS_CAMPAIGN_H

#include "check.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CAMPAIGN_PATH 512
#define CAMPAIGN_ARGUMENTS 128
#define CAMPAIGN_SIGNALLED 256 /* added to the number of the signal that ended a program */

typedef struct campaign_case {
    int index;
    uint64_t state;           /* of its random numbers */
    char work[CAMPAIGN_PATH]; /* the campaign's folder: files that the cases share and do not change
                               */
    char folder[CAMPAIGN_PATH];  /* of this case */
    char details[CAMPAIGN_PATH]; /* what the case did, for the message of a failure */
} campaign_case;

typedef struct campaign {
    const char *cases;                /* name of the cases: "kills" */
    const char *wrong;                /* what must never happen: "wrong bits" */
    const char *const *outcomes;      /* NULL after the last */
    int full, sample;                 /* cases in `make soak` and in `make test` */
    void (*prepare)(campaign_case *); /* once, in the folder `work`; may be NULL */
    int (*run)(campaign_case *);      /* returns an outcome, or calls campaign_wrong */
} campaign;

/* Arguments: --full, --cases N, --seed N, --jobs N, --only N. The seed may also be in $SEED. */
int campaign_main(const campaign *all, int argc, char **argv);

/* Ends the case: prints what is wrong and how to repeat it. */
_Noreturn void campaign_wrong(campaign_case *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Ends the whole campaign as skipped. */
_Noreturn void campaign_skip(const char *why);

/* Returns a number from 0 to `below` - 1. */
uint64_t campaign_random(campaign_case *c, uint64_t below);

/* A command line for hilbert. */
typedef struct campaign_command {
    char *argument[CAMPAIGN_ARGUMENTS];
    size_t count;
    bool
        limited; /* files of at most 64 MiB, and 8 GiB of addresses where no sanitizer needs more */
} campaign_command;

void command_begin(campaign_command *command, const char *name);
void command_add(campaign_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void command_words(campaign_command *command, const char *words); /* separated by spaces */
void command_free(campaign_command *command);
/* The command as one line, for messages. */
const char *command_text(const campaign_command *command, char *text, size_t size);

/* Starts hilbert in the case's folder; its output goes to the files `out` and `err` there. */
pid_t campaign_start(campaign_case *c, const campaign_command *command);
/* Waits for the program: the exit code, or CAMPAIGN_SIGNALLED + signal. Longer than `seconds` is
   wrong. */
int campaign_end(campaign_case *c, pid_t pid, double seconds);
/* Waits up to `seconds`; -1: still running. */
int campaign_wait(pid_t pid, double seconds);
int campaign_run(campaign_case *c, const campaign_command *command, double seconds);
/* Runs a command. After `seconds` it is interrupted as by Ctrl-C (*interrupted) and must end
   soon. */
int campaign_try(campaign_case *c, const campaign_command *command, double seconds,
                 bool *interrupted);
/* Called in the child between fork and exec: sets descriptors, folder and environment. */
void campaign_become(campaign_case *c, const campaign_command *command);
int campaign_code(int status); /* of waitpid */

/* Checks the end of a program: code 0, or 1 or 2 with one line of hilbert's own as the last on
   stderr, or the code of a signal to stop; never a crash or a sanitizer's report. */
void campaign_check_end(campaign_case *c, int code);
/* Checks that no file called *tmp* is left in the case's folder. */
void campaign_check_left(campaign_case *c);

/* Runs a tool of the system, such as cp; its failure is wrong. Arguments end with NULL. */
void campaign_tool(campaign_case *c, const char *tool, ...);
/* Reads a file and appends a 0; NULL if it is missing or not a regular file. The caller frees it.
 */
char *campaign_read(const char *path, size_t *size);
void campaign_write(campaign_case *c, const char *path, const void *bytes, size_t size);
char *campaign_path(const char *folder, const char *name, char path[CAMPAIGN_PATH]);
/* The last lines that the program printed, for messages. */
const char *campaign_said(campaign_case *c);
/* The path of tests/golden/NAME. */
const char *campaign_golden(const char *name, char path[CAMPAIGN_PATH]);
double campaign_now(void);

#endif
