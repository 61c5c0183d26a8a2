/* files.c - expands folders and patterns to a sorted list of files. */
#include "data/files.h"

#include "data/file_type.h"
#include "io/file.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEEPEST 32 /* stops loops of symbolic links */

static hil_status add_path(hil_files *files, const char *path)
{
    HIL_TRY(HIL_GROW(&files->path, &files->capacity, files->count + 1));
    HIL_TRY(hil_text_copy(path, &files->path[files->count]));
    ++files->count;
    return HIL_OK;
}

static hil_status fail_open(const char *path)
{
    return hil_fail(HIL_ERR_IO, "cannot open %s: %s", path, strerror(errno));
}

struct listing {
    hil_files *files;
    int depth;
};

static hil_status add_folder(hil_files *files, const char *folder, int depth);

static hil_status add_entry(void *context, const char *folder, const char *name)
{
    const struct listing *listing = context;
    hil_files *files = listing->files;
    char path[HIL_PATH_MAX];
    struct stat info;
    if (name[0] == '.') return HIL_OK;
    HIL_TRY(hil_path_join(path, folder, name));
    if (stat(path, &info) != 0) return fail_open(path);
    if (S_ISDIR(info.st_mode)) return add_folder(files, path, listing->depth + 1);
    if (S_ISREG(info.st_mode) && hil_file_type_known(name)) return add_path(files, path);
    if (files->skipped++ == 0 || hil_file_type_refused(name))
        memcpy(files->example, path, sizeof path);
    return HIL_OK;
}

/* The list `key` in a file of JSON; NULL: there is no such file or list. The caller releases
 *object. */
static hil_status read_list(const char *folder, const char *name, const char *key, json_t **object,
                            const json_t **list)
{
    *list = NULL;
    HIL_TRY(hil_file_parse(folder, name, object));
    if (json_is_array(json_object_get(*object, key))) *list = json_object_get(*object, key);
    return HIL_OK;
}

/* Refuses a folder with several splits of a dataset, of which all would be taken. */
static hil_status check_splits(const char *folder)
{
    json_t *object;
    const json_t *splits;
    HIL_TRY(read_list(folder, "dataset_dict.json", "splits", &object, &splits));
    const char *first = json_string_value(json_array_get(splits, 0));
    bool several = json_array_size(splits) > 1 && first;
    hil_status status =
        several ? hil_fail(HIL_ERR_INPUT, "%s holds %zu splits of a dataset: name one, as %s/%s",
                           folder, json_array_size(splits), folder, first)
                : HIL_OK;
    json_decref(object);
    return status;
}

static hil_status add_saved(hil_files *files, const char *folder, const char *name)
{
    char path[HIL_PATH_MAX];
    if (!name || !hil_path_is_plain(name))
        return hil_fail(HIL_ERR_INPUT, "%s/state.json names something that is no file of it",
                        folder);
    HIL_TRY(hil_path_join(path, folder, name));
    if (hil_file_exists(path)) return add_path(files, path);
    return hil_fail(HIL_ERR_INPUT,
                    "%s: missing, although state.json names it; copy the folder again", path);
}

/* Takes what a folder of datasets.save_to_disk says that it holds: other .arrow files in it are
   what was computed of them. *found: it is such a folder. */
static hil_status add_dataset(hil_files *files, const char *folder, bool *found)
{
    json_t *object, *item;
    const json_t *list;
    size_t i;
    hil_status status = read_list(folder, "state.json", "_data_files", &object, &list);
    *found = list != NULL;
    json_array_foreach(list, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "filename"));
        if (status == HIL_OK) status = add_saved(files, folder, name);
    }
    json_decref(object);
    return status;
}

static hil_status add_folder(hil_files *files, const char *folder, int depth)
{
    bool found;
    if (depth > DEEPEST)
        return hil_fail(HIL_ERR_INPUT, "%s: folders nested more than %d deep are not read", folder,
                        DEEPEST);
    HIL_TRY(check_splits(folder));
    HIL_TRY(add_dataset(files, folder, &found));
    if (found) return HIL_OK;
    struct listing listing = {files, depth};
    return hil_dir_each(folder, HIL_MISSING_FAILS, add_entry, &listing);
}

static int by_bytes(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void sort_from(hil_files *files, size_t begin)
{
    if (files->count > begin)
        qsort(files->path + begin, files->count - begin, sizeof *files->path, by_bytes);
}

/* Adds a file with any name, or the data files of a folder. */
static hil_status add_existing(hil_files *files, const char *path, bool is_folder)
{
    if (!is_folder) return add_path(files, path);
    size_t begin = files->count, skipped = files->skipped;
    HIL_TRY(add_folder(files, path, 0));
    skipped = files->skipped - skipped;
    if (files->count == begin && skipped) { /* fails with advice if it is a table or the like */
        hil_file_type type;
        HIL_TRY(hil_file_type_read(&type, files->example));
    }
    if (files->count == begin)
        return hil_fail(
            HIL_ERR_INPUT,
            "no data in the folder %s: no .txt, .jsonl, .parquet, .arrow or .npy file (also "
            ".txt.gz, "
            ".jsonl.zst, ...; a .json, .csv or .tsv file must be named itself); other files there: "
            "%zu",
            path, skipped);
    sort_from(files, begin);
    return HIL_OK;
}

static hil_status add_matches(hil_files *files, const char *pattern)
{
    glob_t found;
    int code = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found);
    if (code == GLOB_NOMATCH) return hil_fail(HIL_ERR_INPUT, "no file matches %s", pattern);
    if (code != 0)
        return hil_fail(HIL_ERR_IO, "cannot search for %s: %s", pattern,
                        code == GLOB_NOSPACE ? "out of memory" : strerror(errno));
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
    hil_status status = HIL_OK;
    for (size_t i = 0; status == HIL_OK && i < found.gl_pathc; ++i) {
        struct stat info;
        if (stat(found.gl_pathv[i], &info) != 0)
            status = fail_open(found.gl_pathv[i]);
        else
            status = add_existing(files, found.gl_pathv[i], S_ISDIR(info.st_mode));
    }
    globfree(&found);
    return status;
}

static hil_status add_given(hil_files *files, const char *given)
{
    struct stat info;
    if (stat(given, &info) == 0) return add_existing(files, given, S_ISDIR(info.st_mode));
    int error = errno;
    if (error == ENOENT && strpbrk(given, "*?[")) return add_matches(files, given);
    errno = error;
    return fail_open(given);
}

hil_status hil_files_find(hil_files *files, const char *const *given, size_t count)
{
    *files = (hil_files){0};
    hil_status status = HIL_OK;
    for (size_t i = 0; status == HIL_OK && i < count; ++i) status = add_given(files, given[i]);
    if (status != HIL_OK) hil_files_free(files);
    return status;
}

void hil_files_free(hil_files *files)
{
    for (size_t i = 0; i < files->count; ++i) hil_free(files->path[i]);
    hil_free(files->path);
    *files = (hil_files){0};
}

hil_status hil_files_check(const char *const *given, size_t count, bool *text)
{
    *text = false;
    hil_files files;
    HIL_TRY(hil_files_find(&files, given, count));
    hil_status status = HIL_OK;
    for (size_t i = 0; status == HIL_OK && i < files.count; ++i) {
        hil_file_type type;
        status = hil_file_type_read(&type, files.path[i]);
        *text |= type.kind != HIL_DATA_TOKENS;
        if (status == HIL_OK && access(files.path[i], R_OK) != 0) status = fail_open(files.path[i]);
    }
    hil_files_free(&files);
    return status;
}

hil_status hil_files_weight(const char *given, size_t *length, double *weight)
{
    const char *colon = strrchr(given, ':');
    char *end = NULL, path[HIL_PATH_MAX];
    *length = strlen(given);
    *weight = 0;
    if (!colon || colon == given || !colon[1] ||
        strspn(colon + 1, "+-.0123456789eE") != strlen(colon + 1))
        return HIL_OK;
    double number = strtod(colon + 1, &end);
    if (*end) return HIL_OK;
    snprintf(path, sizeof path, "%.*s", (int)(colon - given), given);
    if (hil_file_exists(given) && !hil_file_exists(path)) return HIL_OK;
    if (!(number > 0 && number < 1e9))
        return hil_fail(HIL_ERR_USAGE, "--data %s: a weight must be greater than 0", given);
    *length = (size_t)(colon - given);
    *weight = number;
    return HIL_OK;
}
