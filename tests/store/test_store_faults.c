/* For every n the n-th operation on the drives fails in a run of a few steps: a transient error
   changes no bit, any other ends the run with one clear line, and nothing hangs or leaks. */
#include "io/io_faulty.h"
#include "runs.h"

#include <errno.h>
#include <limits.h>

/* soak: --full */

enum { STEPS = 2 };

typedef struct fault {
    int error;         /* 0: a short transfer */
    const char *words; /* NULL: transient */
} fault;

static int64_t count;
static float *expected, *got;

static hil_status run(int placement, hil_io_kind engine)
{
    rig r;
    runs_create(&r, HIL_BF16, placement);
    alarm(60); /* a hang ends the test */
    hil_status status = rig_open(&r, 1 + placement % 2, engine);
    if (status == HIL_OK) status = runs_go(&r, STEPS, got);
    rig_close(&r);
    alarm(0);
    return status;
}

static void fail_nth(long n, const fault *f, int placement, hil_io_kind engine)
{
    int before = open_descriptors();
    hil_io_fail_at(n, f->error);
    hil_status status = run(placement, engine);
    if (f->words && hil_io_fail_count() >= n) {
        CHECK_FAILS(status, HIL_ERR_IO, f->words);
        CHECK(strstr(hil_status_message(), folder) != NULL);
    } else {
        CHECK_OK(status);
        runs_same(got, expected, count);
    }
    hil_io_fail_at(0, 0);
    CHECK_INT(open_descriptors(), before);
}

static bool full;

static void faults(hil_io_kind engine)
{
    static const fault kind[] = {{0, NULL},
                                 {EAGAIN, NULL},
                                 {EINTR, NULL},
                                 {EIO, ": Input/output error"},
                                 {ENOSPC, ": No space left on device"}};
    for (int placement = EVERYTHING_ON_DISK; placement <= MIXED; ++placement) {
        hil_io_fail_at(LONG_MAX, 0);
        CHECK_OK(run(placement, engine));
        runs_same(got, expected, count);
        long all = hil_io_fail_count();
        CHECK(all > 100);
        for (size_t f = 0; f < sizeof kind / sizeof *kind; ++f)
            for (long i = 0; i < (full ? all + 1 : CHECK_SLOW ? 1 : 3); ++i) {
                uint32_t word[4];
                hil_philox((uint64_t)engine, (uint64_t)i, f, word);
                fail_nth(full ? i + 1 : 1 + (long)(word[0] % all), &kind[f], placement, engine);
            }
    }
}

int main(int argc, char **argv)
{
    full = argc > 1 && strcmp(argv[1], "--full") == 0;
    fixture_open();
    expected = runs_expected(HIL_BF16, STEPS, &count);
    got = malloc((size_t)count * sizeof *got);
    CHECK(got != NULL);
    with_engines(faults);
    free(expected);
    free(got);
    fixture_close();
    return 0;
}
