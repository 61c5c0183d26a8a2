/* file.h - whole files: read them, and write them so that they appear complete or not at all. */
#ifndef HIL_IO_FILE_H
#define HIL_IO_FILE_H

#include "base/json.h"
#include "base/text.h"

/* A file's bytes, followed by a NUL. Owns the memory. Files that other processes can change are
   read, never mapped: truncating a mapped file would end this process with SIGBUS. */
typedef struct hil_bytes {
    char *data;
    size_t size;
} hil_bytes;

hil_status hil_bytes_read(hil_bytes *bytes, const char *path);
/* The same of anything that ends, a pipe or a terminal too; of those at most 1 GiB. */
hil_status hil_bytes_read_stream(hil_bytes *bytes, const char *path);
void hil_bytes_free(hil_bytes *bytes);

bool hil_file_exists(const char *path);
/* Parses the JSON of a folder's file. *out is NULL where there is no such file; the caller releases
   it with json_decref. */
hil_status hil_file_parse(const char *folder, const char *name, json_t **out);
/* Opens an unlinked file for reading and writing, mode 0600; the caller owns *fd. */
hil_status hil_file_open_nameless(const char *folder, int *fd);

/* Creates `path` and missing parents, durably. Existing folders are fine. */
hil_status hil_dir_create(const char *path);
/* Length of the longest prefix of `path` that exists; call it before hil_dir_create. */
size_t hil_dir_existing(const char *path);
/* Removes the empty folders that hil_dir_create added below the first `existing` bytes. */
void hil_dir_uncreate(const char *path, size_t existing);
/* Makes the names in a folder durable. */
hil_status hil_dir_sync(const char *path);
/* Removes a file or a folder with everything in it; a missing one is fine. */
hil_status hil_file_remove_tree(const char *path);
/* Calls `visit` with each name in a folder but "." and "..", in any order, until a call fails.
   `visit` may remove the file. A folder that cannot be listed to its end is an error. */
typedef hil_status (*hil_dir_visit)(void *context, const char *folder, const char *name);
typedef enum hil_dir_missing { HIL_MISSING_FAILS, HIL_MISSING_IS_EMPTY } hil_dir_missing;
hil_status hil_dir_each(const char *path, hil_dir_missing missing, hil_dir_visit visit,
                        void *context);
/* Removes the files in a folder whose names match; a missing folder is fine. */
hil_status hil_dir_remove_matching(const char *path, bool (*matches)(const char *name));
/* Free bytes for an ordinary user under `path`, or under its nearest existing parent. */
hil_status hil_dir_free_bytes(const char *path, uint64_t *out);

/* "PATH.tmp-ID": name of a file that is incomplete or being removed. ID is a unique number and a
   checksum of it and of the name, so that no other program's file is mistaken for one. */
hil_status hil_temporary_name(char out[HIL_PATH_MAX], const char *path);
/* Whether the last part of a path is such a name. */
bool hil_temporary_is(const char *name);

/* A file that is written under a temporary name in its final folder. commit makes it durable and
   renames it; close without commit removes it. Buffered; a failed write surfaces at once. */
typedef struct hil_writer hil_writer;
hil_status hil_writer_open(hil_writer **out, const char *path);
hil_status hil_writer_add(hil_writer *writer, const void *bytes, size_t size);
hil_status hil_writer_commit(hil_writer *writer);
/* An unlinked file in `folder`, which the kernel removes with its last descriptor. Instead of
   commit, take flushes it and passes *fd to the caller. */
hil_status hil_writer_open_nameless(hil_writer **out, const char *folder);
hil_status hil_writer_take(hil_writer *writer, int *fd);
void hil_writer_close(hil_writer *writer);

/* Open, add and commit in one call. */
hil_status hil_file_write(const char *path, const void *bytes, size_t size);
/* The same without waiting for the drive: readers see the old file or the new one, but after a
   power failure it may be either, or empty. */
hil_status hil_file_replace(const char *path, const void *bytes, size_t size);

/* Locks a folder for one process: holds FOLDER/.lock with flock. */
typedef struct hil_lock {
    int fd; /* -1: none is held */
    char path[HIL_PATH_MAX];
} hil_lock;
hil_status hil_lock_take(hil_lock *lock, const char *folder);
/* Fails when the path no longer leads to our lock: the folder was moved, replaced or removed, and
   another process may use it. Without a lock, or NULL: fine. */
hil_status hil_lock_check(const hil_lock *lock);
/* Releases the lock, and removes its file if that is still ours and empty. */
void hil_lock_drop(hil_lock *lock);

#endif
