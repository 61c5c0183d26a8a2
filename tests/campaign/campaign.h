/* campaign.h - many seeded cases of one kind, several at a time, each in a process and a folder of
   its own. Every case is repeatable alone: --seed S --only N. */
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
    uint64_t state;              /* of its random numbers */
    char work[CAMPAIGN_PATH];    /* of the campaign: what the cases share and do not change */
    char folder[CAMPAIGN_PATH];  /* of this case */
    char details[CAMPAIGN_PATH]; /* what was done to it, for the line of a failure */
} campaign_case;

typedef struct campaign {
    const char *cases;                /* what they are: "kills" */
    const char *wrong;                /* what none may give: "wrong bits" */
    const char *const *outcomes;      /* NULL after the last */
    int full, sample;                 /* cases in `make soak` and in `make test` */
    void (*prepare)(campaign_case *); /* once, in the folder `work`; may be NULL */
    int (*run)(campaign_case *);      /* gives an outcome, or ends in campaign_wrong */
} campaign;

/* Arguments: --full, --cases N, --seed N, --jobs N, --only N. The seed may also be in $SEED. */
int campaign_main(const campaign *all, int argc, char **argv);

/* Ends the case: prints what is wrong and how to repeat it. */
_Noreturn void campaign_wrong(campaign_case *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Ends the whole campaign as skipped. */
_Noreturn void campaign_skip(const char *why);

/* From 0 to `below` - 1. */
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
/* As one line, for messages. */
const char *command_text(const campaign_command *command, char *text, size_t size);

/* Starts hilbert in the case's folder, with its output in the files out and err there. */
pid_t campaign_start(campaign_case *c, const campaign_command *command);
/* Waits for it: the exit code, or CAMPAIGN_SIGNALLED + signal. Longer than `seconds` is wrong. */
int campaign_end(campaign_case *c, pid_t pid, double seconds);
/* Waits at most so long; -1: still running. */
int campaign_wait(pid_t pid, double seconds);
int campaign_run(campaign_case *c, const campaign_command *command, double seconds);
/* The same, but what runs longer than `seconds` is interrupted as by Ctrl-C, and then must end
 *soon. interrupted says so. */
int campaign_try(campaign_case *c, const campaign_command *command, double seconds,
                 bool *interrupted);
/* In the child, between fork and exec: descriptors, folder and environment of the program. */
void campaign_become(campaign_case *c, const campaign_command *command);
int campaign_code(int status); /* of waitpid */

/* After a program ended with `code`: 0, or 1 or 2 with one line of hilbert's own as the last on
   stderr, or what a signal to stop gives; never a crash or a report of a sanitizer. */
void campaign_check_end(campaign_case *c, int code);
/* Nothing called *tmp* is left in the case's folder. */
void campaign_check_left(campaign_case *c);

/* Runs a tool of the system, such as cp; its failure is wrong. NULL after the last argument. */
void campaign_tool(campaign_case *c, const char *tool, ...);
/* A file, with a 0 after its end; NULL where there is none or no regular one. The caller frees it.
 */
char *campaign_read(const char *path, size_t *size);
void campaign_write(campaign_case *c, const char *path, const void *bytes, size_t size);
char *campaign_path(const char *folder, const char *name, char path[CAMPAIGN_PATH]);
/* The newest lines of what the program said, for messages. */
const char *campaign_said(campaign_case *c);
/* Golden files: tests/golden/NAME. */
const char *campaign_golden(const char *name, char path[CAMPAIGN_PATH]);
double campaign_now(void);

#endif
