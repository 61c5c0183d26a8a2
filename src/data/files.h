/* files.h - expands paths, folders and patterns to a list of files. */
#ifndef HIL_DATA_FILES_H
#define HIL_DATA_FILES_H

#include "base/text.h"

/* Owns the paths. */
typedef struct hil_files {
    char **path;
    size_t count, capacity;
    size_t skipped;             /* files of folders whose suffix is not one of data */
    char example[HIL_PATH_MAX]; /* the path of one skipped file */
} hil_files;

/* A folder becomes the data files (hil_file_type_known) in it and its subfolders, sorted by path,
   without hidden ones; one of datasets.save_to_disk what its state.json names. A path with * ? [
   that does not exist is a shell pattern and becomes its sorted matches. Fails for a folder or
   pattern without data files, and for any other path that does not exist; `files` then needs no
   free. */
hil_status hil_files_find(hil_files *files, const char *const *given, size_t count);
void hil_files_free(hil_files *files);
/* Fails unless hil_files_find succeeds and every file is readable and has a supported name
   (hil_file_type_read). *text: at least one of them is not token ids. */
hil_status hil_files_check(const char *const *given, size_t count, bool *text);

/* Splits "PATH:WEIGHT": *length is that of PATH, *weight is 0 where none is given. A colon that no
   number follows belongs to the path, and so does the last one if there is a file of the whole name
   but none of PATH. Fails for a weight that is not greater than 0. */
hil_status hil_files_weight(const char *given, size_t *length, double *weight);

#endif
