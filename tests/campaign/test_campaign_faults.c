/* One system call of a run fails once, is cut short, or fails from then on: the run continues with
   the same bits, or ends with one line and exit code 1, and --resume gives the same bits. */
/* soak: --full */
#include "campaign/training.h"

#include <errno.h>

enum { ATTEMPTS = 100 };
enum { CONTINUED, RESUMED }; /* outcomes */

static long counts[TRAINING_PLACES][TRACE_KINDS];

/* The errors of each kind of call; 0 ends a list. EINTR is retried, not an error. */
static const int errors[TRACE_KINDS][8] = {
    {EIO, ENOSPC, EDQUOT, EFBIG, EINTR},                   /* write */
    {EIO, ENOSPC, EDQUOT, EFBIG, EINTR},                   /* pwrite */
    {EIO, ENOMEM, EINTR},                                  /* read */
    {EIO, ENOMEM, EINTR},                                  /* pread */
    {EIO, EMFILE, ENFILE, ENOMEM, EACCES, EDQUOT, ENOSPC}, /* open */
    {EIO, ENOSPC, EDQUOT},                                 /* close */
    {EIO, ENOSPC, EDQUOT},                                 /* fsync */
    {EIO, ENOSPC, EDQUOT, EACCES},                         /* rename */
    {EIO, EACCES, EROFS},                                  /* unlink */
    {EIO, ENOSPC, EDQUOT, EMLINK, EACCES},                 /* mkdir */
    {EIO, ENOSPC, EFBIG},                                  /* truncate */
    {EIO, ENOSPC, EDQUOT, EFBIG, EOPNOTSUPP},              /* fallocate */
    {ENOMEM},                                              /* mmap */
    {EAGAIN},                                              /* thread */
    {EIO, EAGAIN, EINTR, EBUSY, ENOMEM},                   /* io_uring_enter */
    {ENOSYS, EPERM, ENOMEM, EMFILE},                       /* io_uring_setup */
    {EIO, ENOMEM},                                         /* list */
    {EIO, ENOMEM, EACCES},                                 /* stat */
    {EIO, ENOSPC, EDQUOT},                                 /* sync_range */
    {ENOLCK, EINTR},                                       /* lock */
    {EIO, ENOSYS},                                         /* statfs */
    {EIO, ENOSPC, EXDEV},                                  /* copy */
};

typedef struct fault {
    int kind;
    long n;
    trace_action action;
    bool lasting, hit;
} fault;

static void prepare(campaign_case *c)
{
    training_prepare_counts(c, TRAINING_PLAIN, counts);
}

static trace_action inject(trace *t, const trace_stop *stop)
{
    fault *f = t->context;
    if (stop->kind != f->kind || stop->n < f->n || (f->hit && !f->lasting)) return TRACE_GO;
    f->hit = true;
    return f->action;
}

static bool transfers(int kind)
{
    return kind < 4;
}

/* A fifth of the faults persist, like a full or lost disk. */
static fault random_fault(campaign_case *c, training_place place, int *error)
{
    fault f = {.kind = trace_choose(c, counts[place], &f.n), .action = TRACE_FAIL};
    size_t known = 0;
    while (errors[f.kind][known]) ++known;
    *error = errors[f.kind][campaign_random(c, known)];
    if (strcmp(trace_kind_name[f.kind], "close") == 0) f.action = TRACE_LATE;
    /* Errors that the program may retry forever. */
    bool passing = *error == EINTR || *error == EAGAIN || *error == EBUSY ||
                   strcmp(trace_kind_name[f.kind], "io_uring_enter") == 0;
    f.lasting = !passing && campaign_random(c, 5) == 0;
    if (transfers(f.kind) && campaign_random(c, 4) == 0) f.action = TRACE_SHORT;
    snprintf(c->details, sizeof c->details, "%s from %s %ld on: %s%s, place %d",
             f.action == TRACE_SHORT ? "short" : "fails", trace_kind_name[f.kind], f.n,
             strerror(*error), f.lasting ? ", lasting" : "", (int)place);
    return f;
}

static int run(campaign_case *c)
{
    for (int i = 0; i < ATTEMPTS; ++i) {
        training_plan plan = training_random(c, false);
        trace t = {.stop = inject};
        fault f = random_fault(c, plan.place, &t.error);
        t.context = &f;
        training_clear(c);
        int code = training_trace(c, &plan, &t);
        if (code == 2) campaign_wrong(c, "called wrong usage: %s", campaign_said(c));
        if (code == 0) training_check_same(c, true);
        if (code == 0 && f.hit) return CONTINUED;
        if (code != 0) {
            training_check_whole(c);
            training_check_resume(c);
            return RESUMED;
        }
    }
    campaign_wrong(c, "no fault hit in %d attempts", ATTEMPTS);
}

int main(int argc, char **argv)
{
    static const char *const outcomes[] = {"went on", "ended with one line and resumed", NULL};
    static const campaign faults = {"injected faults", "wrong bits", outcomes, 500, 12,
                                    prepare,           run};
    return campaign_main(&faults, argc, argv);
}
