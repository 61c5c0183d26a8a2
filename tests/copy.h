/* copy.h - copies a file, for tests that change the copy. */
#ifndef HIL_TESTS_COPY_H
#define HIL_TESTS_COPY_H

#include "io/file.h"

static hil_status copy_file(const char *from, const char *to)
{
    hil_bytes content;
    HIL_TRY(hil_bytes_read(&content, from));
    hil_status status = hil_file_write(to, content.data, content.size);
    hil_bytes_free(&content);
    return status;
}

#endif
