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
hil_status hil_dir_create(const char *path);
/* How many bytes of `path` name a folder that exists: ask before hil_dir_create. */
size_t hil_dir_existing(const char *path);
/* Takes back what hil_dir_create added to the first `existing` bytes, as far as it is empty. */
void hil_dir_uncreate(const char *path, size_t existing);
/* Makes the names in a folder durable. */
hil_status hil_dir_sync(const char *path);
/* Removes a file or a folder with everything in it; a missing one is fine. */
hil_status hil_path_remove(const char *path);
/* Calls `visit` with each name in a folder but "." and "..", in no order, until one call fails.
   What it visits may be removed. A folder that cannot be listed to its end is an error. */
typedef hil_status (*hil_dir_visit)(void *context, const char *folder, const char *name);
typedef enum hil_dir_missing { HIL_MISSING_FAILS, HIL_MISSING_IS_EMPTY } hil_dir_missing;
hil_status hil_dir_each(const char *path, hil_dir_missing missing, hil_dir_visit visit,
                        void *context);
/* Removes those in a folder that `goes` chooses by their names; a missing folder is fine. */
hil_status hil_dir_weed(const char *path, bool (*goes)(const char *name));
/* Bytes that an ordinary user can still write under `path` (the nearest existing parent counts). */
hil_status hil_dir_free_bytes(const char *path, uint64_t *out);

/* "PATH.tmp-ID": what is not whole yet or about to go. ID is a number unlike any other with a
   checksum of itself and of the name, so that no other program's file is ever taken for one. */
hil_status hil_temporary_name(char out[HIL_PATH_MAX], const char *path);
/* Whether the last part of a path is such a name. */
bool hil_temporary_is(const char *name);

/* A file being written beside its final name, under a temporary one. commit makes it durable and
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

/* A folder that one process at a time may use: holds FOLDER/.lock with flock. */
typedef struct hil_lock {
    int fd; /* -1: none is held */
    char path[HIL_PATH_MAX];
} hil_lock;
hil_status hil_lock_take(hil_lock *lock, const char *folder);
/* Fails when the folder's path does not lead to our lock any more: it was moved, replaced or
   removed, and another process may be at work there. Without a lock, or NULL: fine. */
hil_status hil_lock_check(const hil_lock *lock);
/* Removes the file as well, if it is still there and as we make it: empty. */
void hil_lock_drop(hil_lock *lock);

#endif
