/* check.h - asserts that print both values. One test program per behaviour; exit 77 means skipped.
 */
#ifndef HIL_TESTS_CHECK_H
#define HIL_TESTS_CHECK_H

#include "base/alloc.h"
#include "base/fail.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_SKIP 77

/* Sanitizers are slow, so tests run fewer of many similar cases. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHECK_SLOW 1
#else
#define CHECK_SLOW 0
#endif

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) check_die(__FILE__, __LINE__, #condition);                               \
    } while (0)
#define CHECK_OK(expr)                                                                             \
    do {                                                                                           \
        if ((expr) != HIL_OK) check_die(__FILE__, __LINE__, hil_status_message());                 \
    } while (0)
/* The call fails with `code`, and its line contains `words`. */
#define CHECK_FAILS(expr, code, words)                                                             \
    check_fails(__FILE__, __LINE__, #expr, (expr), (code), (words))
/* Fails the first, the second ... allocation of the call until none fails; it must return each
   failure. */
#define CHECK_MEMORY(expr)                                                                         \
    for (long n_ = 1, again_ = 1; again_; ++n_) {                                                  \
        hil_alloc_fail_at(n_);                                                                     \
        hil_status status_ = (expr);                                                               \
        hil_alloc_fail_at(0);                                                                      \
        if ((again_ = status_ != HIL_OK)) CHECK_INT(status_, HIL_ERR_MEMORY);                      \
        CHECK(n_ < 1000);                                                                          \
    }
#define CHECK_INT(a, b) check_int(__FILE__, __LINE__, #a, (long long)(a), (long long)(b))
#define CHECK_TEXT(a, b) check_text(__FILE__, __LINE__, #a, (a), (b))
#define CHECK_NEAR(a, b, tolerance) check_near(__FILE__, __LINE__, #a, (a), (b), (tolerance))

static inline void check_die(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
    exit(1);
}

static inline void check_fails(const char *file, int line, const char *what, hil_status got,
                               hil_status code, const char *words)
{
    if (got == code && strstr(hil_status_message(), words)) return;
    fprintf(stderr, "%s:%d: %s gave status %d \"%s\", expected status %d with \"%s\"\n", file, line,
            what, (int)got, got == HIL_OK ? "" : hil_status_message(), (int)code, words);
    exit(1);
}

static inline void check_int(const char *file, int line, const char *what, long long a, long long b)
{
    if (a == b) return;
    fprintf(stderr, "%s:%d: %s is %lld, expected %lld\n", file, line, what, a, b);
    exit(1);
}

static inline void check_text(const char *file, int line, const char *what, const char *a,
                              const char *b)
{
    if (strcmp(a, b) == 0) return;
    fprintf(stderr, "%s:%d: %s is \"%s\", expected \"%s\"\n", file, line, what, a, b);
    exit(1);
}

static inline void check_near(const char *file, int line, const char *what, double a, double b,
                              double tolerance)
{
    if (fabs(a - b) <= tolerance) return;
    fprintf(stderr, "%s:%d: %s is %.9g, expected %.9g within %g\n", file, line, what, a, b,
            tolerance);
    exit(1);
}

#endif
