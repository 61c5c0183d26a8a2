/* place.h - a folder in memory for fuzzers of code that reads files. */
#ifndef HIL_FUZZ_PLACE_H
#define HIL_FUZZ_PLACE_H

#include "io/file.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACE_PATH = 256 };

static char place_made[PLACE_PATH];

static inline void place_remove(void)
{
    hil_status status = hil_file_remove_tree(place_made);
    (void)status;
}

/* Makes a folder, in memory where there is /dev/shm; it goes when the program ends. */
static inline void place_make(char folder[PLACE_PATH])
{
    const char *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, PLACE_PATH, "%s/hilbert-fuzz-XXXXXX", memory);
    if (!mkdtemp(folder)) abort();
    memcpy(place_made, folder, PLACE_PATH);
    atexit(place_remove);
}

static inline void place_path(const char *folder, const char *name, char path[PLACE_PATH])
{
    int size = snprintf(path, PLACE_PATH, "%s/%s", folder, name);
    assert(size > 0 && size < PLACE_PATH);
    (void)size;
}

static inline void place_write(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file || (size && fwrite(bytes, size, 1, file) != 1) || fclose(file) != 0) abort();
}

#endif
