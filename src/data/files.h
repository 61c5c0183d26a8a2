/* files.h - the files that paths, folders and patterns mean. */
#ifndef HIL_DATA_FILES_H
#define HIL_DATA_FILES_H

#include "base/text.h"

/* Owns the paths. */
typedef struct hil_files {
    char **path;
    size_t count, capacity;
    size_t skipped;             /* files of folders that are not data by their names */
    char example[HIL_PATH_MAX]; /* the path of one of those */
} hil_files;

/* A folder means the data files in it and its folders (hil_data_name_known), sorted by path;
   hidden ones are left out. A name of no file with * ? [ is a pattern, as in a shell: the matches,
   sorted. A folder or pattern without a data file, or a name of nothing, is an error. On failure
   there is nothing to free. */
hil_status hil_files_find(hil_files *files, const char *const *given, size_t count);
void hil_files_free(hil_files *files);
/* Whether there are such files, all readable and with names of data (hil_data_name_read). *text: at
   least one of them is not token ids. */
hil_status hil_files_check(const char *const *given, size_t count, bool *text);

#endif
