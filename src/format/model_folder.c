/* model_folder.c - replaces all files of a model folder together; see [Note: installing]. */
#include "format/model_folder.h"

#include "format/sidecar_files.h"
#include "format/peft.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* "PREFIX-00001-of-00002SUFFIX" */
static bool is_shard(const char *name, const char *prefix, const char *suffix)
{
    unsigned number, of;
    int end = 0;
    size_t size = strlen(prefix);
    if (strncmp(name, prefix, size) != 0) return false;
    if (sscanf(name + size, "-%5u-of-%5u%n", &number, &of, &end) != 2 || !end) return false;
    return strcmp(name + size + end, suffix) == 0;
}

static bool is_one_of(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        if (strcmp(name, list[i]) == 0) return true;
    return false;
}

hil_install_names hil_install_names_kind(const char *name)
{
    static const char *const weights[] = {"model.safetensors", "model.safetensors.index.json",
                                          HIL_PEFT_WEIGHTS};
    static const char *const foreign[] = {
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "adapter_model.bin",
        "chat_template.json",
        "vocab.txt",
        "spiece.model",
        "sentencepiece.bpe.model",
        "tekken.json",
    };
    for (int i = 0; i < HIL_SIDECAR_FILES; ++i)
        if (strcmp(name, hil_sidecar_file_name((hil_sidecar_file)i)) == 0) return HIL_NAMES_WRITTEN;
    if (is_one_of(name, weights, sizeof weights / sizeof *weights) ||
        is_shard(name, "model", ".safetensors"))
        return HIL_NAMES_WRITTEN;
    if (is_one_of(name, foreign, sizeof foreign / sizeof *foreign) ||
        is_shard(name, "pytorch_model", ".bin"))
        return HIL_NAMES_FOREIGN;
    return HIL_NAMES_NONE;
}

/* Calls `each` for every entry of a folder of kind `which`, until one call fails. */
typedef struct visit {
    hil_install_names which;
    hil_status (*each)(struct visit *visit, const char *folder, const char *name);
    const char *to; /* target folder of a move */
    char *found;
} visit;

static hil_status visit_name(void *context, const char *folder, const char *name)
{
    visit *v = context;
    return hil_install_names_kind(name) & v->which ? v->each(v, folder, name) : HIL_OK;
}

static hil_status visit_folder(visit *v, const char *folder)
{
    return hil_dir_each(folder, HIL_MISSING_IS_EMPTY, visit_name, v);
}

/* Keeps the first name. */
static hil_status note_name(visit *v, const char *folder, const char *name)
{
    (void)folder;
    if (!v->found[0]) snprintf(v->found, 256, "%s", name);
    return HIL_OK;
}

hil_status hil_install_find(const char *folder, hil_install_names which, char out[256])
{
    visit v = {.which = which, .each = note_name, .found = out};
    out[0] = 0;
    return visit_folder(&v, folder);
}

/* Refuses to remove a folder that has the name of a file. */
static hil_status check_file(visit *v, const char *folder, const char *name)
{
    (void)v;
    char path[HIL_PATH_MAX];
    struct stat info;
    HIL_TRY(hil_path_join(path, folder, name));
    if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s is a folder where a file of the model belongs: move it away",
                    path);
}

static hil_status remove_file(visit *v, const char *folder, const char *name)
{
    (void)v;
    char path[HIL_PATH_MAX];
    HIL_TRY(hil_path_join(path, folder, name));
    if (remove(path) == 0 || errno == ENOENT) return HIL_OK;
    return hil_fail(HIL_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
}

/* The files without which no loader reads the folder, in the order of their removal: a folder with
   both holds a model, which must not be loaded any more when its adapter is gone. */
static const hil_sidecar_file configs[] = {HIL_SIDECAR_CONFIG, HIL_SIDECAR_ADAPTER};
#define CONFIGS (sizeof configs / sizeof *configs)

static bool is_config(const char *name)
{
    for (size_t i = 0; i < CONFIGS; ++i)
        if (strcmp(name, hil_sidecar_file_name(configs[i])) == 0) return true;
    return false;
}

hil_status hil_install_remove(const char *folder, hil_install_names which)
{
    visit check = {.which = which, .each = check_file},
          removal = {.which = which, .each = remove_file};
    HIL_TRY(visit_folder(&check, folder));
    for (size_t i = 0; which & HIL_NAMES_WRITTEN && i < CONFIGS; ++i) {
        HIL_TRY(remove_file(&removal, folder, hil_sidecar_file_name(configs[i])));
        HIL_TRY(hil_dir_sync(folder));
    }
    return visit_folder(&removal, folder);
}

hil_status hil_install_begin(const char *folder, char stage[HIL_PATH_MAX])
{
    char model[HIL_PATH_MAX];
    HIL_TRY(hil_path_join(model, folder, "model"));
    HIL_TRY(hil_temporary_name(stage, model));
    return hil_dir_create(stage);
}

static hil_status move_file(visit *v, const char *folder, const char *name)
{
    char from[HIL_PATH_MAX], to[HIL_PATH_MAX];
    HIL_TRY(hil_path_join(from, folder, name));
    HIL_TRY(hil_path_join(to, v->to, name));
    if (rename(from, to) == 0) return HIL_OK;
    return hil_fail(HIL_ERR_IO, "cannot rename to %s: %s", to, strerror(errno));
}

static hil_status move_all_but_configs(visit *v, const char *folder, const char *name)
{
    return is_config(name) ? HIL_OK : move_file(v, folder, name);
}

/* Refuses files of a model that may not be replaced, before any change. */
static hil_status check_others(const char *folder, hil_install_names replaced)
{
    char found[256];
    HIL_TRY(hil_install_find(folder, HIL_NAMES_ALL & ~replaced, found));
    if (!found[0]) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE,
                    "%s/%s does not belong to this run, and the folder would hold parts of two "
                    "models: move it away",
                    folder, found);
}

hil_status hil_install_finish(const char *folder, const char *stage, hil_install_names replaced,
                              const hil_lock *lock)
{
    visit v = {.which = HIL_NAMES_WRITTEN, .each = move_all_but_configs, .to = folder};
    HIL_TRY(hil_dir_sync(stage));
    HIL_TRY(hil_lock_check(lock));
    HIL_TRY(check_others(folder, replaced));
    HIL_TRY(hil_install_remove(folder, replaced));
    HIL_TRY(visit_folder(&v, stage));
    HIL_TRY(hil_dir_sync(folder));
    v.each = move_file;
    HIL_TRY(visit_folder(&v, stage));
    HIL_TRY(hil_dir_sync(folder));
    return hil_file_remove_tree(stage);
}
