/* trace.h - runs hilbert under a tracer that stops it at system calls on files, so that a case can
   kill it, fail a call or change a file exactly there. */
#ifndef HIL_TESTS_TRACE_H
#define HIL_TESTS_TRACE_H

#include "campaign/campaign.h"

enum { TRACE_KINDS = 22 };
extern const char *const trace_kind_name[TRACE_KINDS];

typedef enum trace_action {
    TRACE_GO,
    TRACE_EXIT, /* stop again when the call returns; there: continue */
    TRACE_FAIL, /* the call is not made and fails with `error` */
    TRACE_LATE, /* the call is made and then fails with `error` */
    TRACE_SHORT /* only a part is transferred */
} trace_action;

typedef struct trace_stop {
    pid_t process, task;
    int kind;
    long n;    /* the n-th call of this kind, from 1 */
    bool exit; /* the call has returned */
    uint64_t argument[6];
} trace_stop;

typedef struct trace {
    trace_action (*stop)(struct trace *t, const trace_stop *stop);
    void *context;
    int error;               /* for TRACE_FAIL and TRACE_LATE */
    long count[TRACE_KINDS]; /* calls of each kind since the program opened a file of the case */
} trace;

/* Runs hilbert under the tracer; returns what campaign_end returns. Skips the campaign if tracing
   is refused. */
int trace_run(campaign_case *c, const campaign_command *command, trace *t, double seconds);

/* Chooses a kind that occurs in `count`, and one of its calls. */
int trace_choose(campaign_case *c, const long count[TRACE_KINDS], long *n);

#endif
