/* ranged_file.h - a large file of known size, written in ranges in any order. */
#ifndef HIL_IO_RANGED_FILE_H
#define HIL_IO_RANGED_FILE_H

#include "base/text.h"

/* Open between create or open and close or abandon; zero it before. Ranges of at least 128 KiB
   bypass the page cache where file system and alignment allow. */
typedef struct hil_ranged {
    bool open;
    int fd;
    int direct; /* the same file with O_DIRECT; -1: not on this file system */
    char path[HIL_PATH_MAX];
} hil_ranged;

/* A new file with all of its blocks reserved: a full disk is found here. */
hil_status hil_ranged_create(hil_ranged *file, const char *path, uint64_t bytes);
/* One that another process created. */
hil_status hil_ranged_open(hil_ranged *file, const char *path);
hil_status hil_ranged_write(hil_ranged *file, const void *bytes, size_t size, uint64_t offset);
/* `sync`: what was written is on the disk before this returns. */
hil_status hil_ranged_close(hil_ranged *file, bool sync);
/* After a failure; fine for a file that is not open. */
void hil_ranged_abandon(hil_ranged *file);

#endif
