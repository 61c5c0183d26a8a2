/* file.h - whole files: read them, and write them so that they appear complete or not at all. */
#ifndef HIL_IO_FILE_H
#define HIL_IO_FILE_H

#include "base/text.h"

/* A file's bytes, followed by a NUL. Owns the memory. Files that others can change are read, never
   mapped: one that is cut short under a mapping ends the process with SIGBUS. */
typedef struct hil_bytes {
    char *data;
    size_t size;
} hil_bytes;

hil_status hil_bytes_read(hil_bytes *bytes, const char *path);
void hil_bytes_free(hil_bytes *bytes);

bool hil_file_exists(const char *path);
/* For reading and writing, by this user only; *fd is the caller's. */
hil_status hil_file_open_nameless(const char *folder, int *fd);

/* Creates `path` and missing parents, durably. Existing folders are fine. */
hil_status hil_folder_create(const char *path);
/* Makes the names in a folder durable. */
hil_status hil_folder_sync(const char *path);
/* Removes a file or a folder with everything in it; a missing one is fine. */
hil_status hil_path_remove(const char *path);
/* Removes those in a folder that `goes` chooses by their names; a missing folder is fine. */
hil_status hil_folder_weed(const char *path, bool (*goes)(const char *name));
/* Bytes that an ordinary user can still write under `path` (the nearest existing parent counts). */
hil_status hil_folder_free_bytes(const char *path, uint64_t *out);

/* A file being written beside its final name: `path.tmp.<pid>.<n>`. commit makes it durable and
   renames it; close without commit removes it. Buffered; a failed write surfaces at once. */
typedef struct hil_writer hil_writer;
hil_status hil_writer_open(hil_writer **out, const char *path);
hil_status hil_writer_add(hil_writer *writer, const void *bytes, size_t size);
hil_status hil_writer_commit(hil_writer *writer);
/* A file without a name in `folder`, which is gone with its last descriptor, however the process
   ends. Instead of a commit, take hands what was written over: *fd is the caller's. */
hil_status hil_writer_open_nameless(hil_writer **out, const char *folder);
hil_status hil_writer_take(hil_writer *writer, int *fd);
void hil_writer_close(hil_writer *writer);

/* The three calls above for bytes that are already whole. */
hil_status hil_file_write(const char *path, const void *bytes, size_t size);
/* Copies a file through a writer. */
hil_status hil_file_copy(const char *from, const char *to);

/* A folder that one process at a time may use: holds `path`/.lock with flock. */
typedef struct hil_lock {
    int fd;
} hil_lock;
hil_status hil_lock_take(hil_lock *lock, const char *folder);
void hil_lock_drop(hil_lock *lock);

#endif
