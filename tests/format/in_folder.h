/* in_folder.h - a test's folder, and paths in it. */
#ifndef TESTS_FORMAT_IN_FOLDER_H
#define TESTS_FORMAT_IN_FOLDER_H

#include "check.h"
#include "io/file.h"

static char folder[] = "/tmp/hil-format-XXXXXX";

/* Valid until the next call. */
static inline const char *in_folder(const char *name)
{
    static char path[HIL_PATH_MAX];
    CHECK_OK(hil_path_join(path, folder, name));
    return path;
}

#endif
