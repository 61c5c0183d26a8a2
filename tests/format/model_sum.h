/* model_sum.h - a checksum of a model folder: equal for equal models. */
#ifndef HIL_TESTS_MODEL_SUM_H
#define HIL_TESTS_MODEL_SUM_H

#include "check.h"

#include "base/hash.h"
#include "format/model_folder.h"

#include <dirent.h>

/* Covers names and bytes of all files that belong to a model, in any order. */
static inline uint64_t model_sum(const char *path)
{
    uint64_t sum = 0;
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char file[HIL_PATH_MAX];
        hil_bytes content;
        if (hil_install_names_kind(entry->d_name) == HIL_NAMES_NONE) continue;
        CHECK_OK(hil_path_join(file, path, entry->d_name));
        CHECK_OK(hil_bytes_read(&content, file));
        uint64_t name = hil_hash(1, entry->d_name, strlen(entry->d_name));
        sum += hil_hash(name, content.data, content.size);
        hil_bytes_free(&content);
    }
    closedir(dir);
    return sum;
}

#endif
