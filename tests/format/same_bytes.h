/* same_bytes.h - compares two files. */
#ifndef TESTS_FORMAT_SAME_BYTES_H
#define TESTS_FORMAT_SAME_BYTES_H

#include "check.h"
#include "io/file.h"

static inline void check_same_bytes(const char *left, const char *right)
{
    hil_bytes a, b;
    CHECK_OK(hil_bytes_read(&a, left));
    CHECK_OK(hil_bytes_read(&b, right));
    CHECK_INT(a.size, b.size);
    CHECK(memcmp(a.data, b.data, a.size) == 0);
    hil_bytes_free(&a);
    hil_bytes_free(&b);
}

#endif
