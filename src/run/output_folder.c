/* output_folder.c - checks, locks and begins the output folder; exports the model at the end. */
#include "run/output_folder.h"

#include "format/checkpoint_manifest.h"
#include "format/export.h"
#include "format/weights.h"
#include "run/checkpoints.h"
#include "plan/ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool hil_folder_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static hil_status fill_paths(hil_folder *f, const char *path)
{
    f->lock.fd = -1;
    HIL_TRY(hil_path_join(f->metrics, path, "metrics.jsonl"));
    HIL_TRY(hil_path_join(f->checkpoints, path, "checkpoints"));
    HIL_TRY(hil_path_join(f->cache, path, "cache"));
    memcpy(f->path, path, strlen(path) + 1);
    return HIL_OK;
}

/* --overwrite removes all of checkpoints/, so refuse if it has files that no run wrote. */
static hil_status check_checkpoints(const hil_folder *f)
{
    char found[HIL_PATH_MAX];
    HIL_TRY(hil_checkpoint_foreign(f->checkpoints, found));
    if (!found[0]) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE,
                    "%s was not written by hilbert and would go with the old run: move it away",
                    found);
}

static hil_status check_use(hil_folder *f, const hil_train_options *o, const hil_source *source)
{
    char found[256];
    if (hil_folder_same(source->folder, f->path))
        return hil_fail(HIL_ERR_USAGE, "--out must not be the model's own folder %s", f->path);
    f->replaced = o->overwrite ? HIL_NAMES_ALL : HIL_NAMES_NONE;
    if (o->overwrite) return check_checkpoints(f);
    bool run = hil_file_exists(f->metrics) || hil_file_exists(f->checkpoints);
    if (run && !o->resume)
        return hil_fail(HIL_ERR_USAGE,
                        "%s holds a run: continue it with --resume or replace it with --overwrite",
                        f->path);
    if (run) f->replaced = HIL_NAMES_WRITTEN; /* this run's own earlier model */
    HIL_TRY(hil_install_find(f->path, HIL_NAMES_ALL & ~f->replaced, found));
    if (!found[0]) return HIL_OK;
    if (run)
        return hil_fail(HIL_ERR_USAGE, "%s/%s was not written by hilbert: move it away", f->path,
                        found);
    return hil_fail(HIL_ERR_USAGE,
                    "%s holds a model: choose another folder or use --overwrite (%s is there)",
                    f->path, found);
}

hil_status hil_folder_open(hil_folder *f, const hil_train_options *o, const hil_source *source)
{
    *f = (hil_folder){.lock = {.fd = -1}};
    HIL_TRY(fill_paths(f, o->out));
    HIL_TRY(check_use(f, o, source));
    f->existed = hil_dir_existing(f->path);
    hil_status status = hil_dir_create(f->path);
    if (status == HIL_OK) status = hil_lock_take(&f->lock, f->path);
    if (status != HIL_OK) hil_dir_uncreate(f->path, f->existed);
    return status;
}

hil_status hil_folder_join(hil_folder *f, const char *path)
{
    *f = (hil_folder){0};
    return fill_paths(f, path);
}

static hil_status find_token(const char *token, const char *folder)
{
    char host[64] = "";
    if (hil_file_exists(token)) return HIL_OK;
    gethostname(host, sizeof host - 1);
    return hil_fail(HIL_ERR_USAGE,
                    "%s on %s is not the folder that rank 0 writes to: --out must be on a file "
                    "system that all machines share",
                    folder, host);
}

/* Rank 0 writes a file that the others look for. If it is killed before it removes the file,
   hil_folder_begin of the next run does. */
hil_status hil_folder_check_shared(const hil_folder *f, hil_comm *comm)
{
    char name[HIL_PATH_MAX], token[HIL_PATH_MAX];
    if (hil_comm_size(comm) == 1) return HIL_OK;
    HIL_TRY(hil_temporary_name(name, "ranks"));
    HIL_TRY(hil_comm_broadcast(comm, HIL_CHANNEL_CONTROL, name, sizeof name));
    hil_status status = hil_path_join(token, f->path, name);
    bool leads = hil_comm_rank(comm) == 0;
    if (leads && status == HIL_OK) status = hil_file_write(token, "", 0);
    HIL_TRY(hil_ranks_follow(comm, status));
    if (!leads) status = find_token(token, f->path);
    status = hil_ranks_agree(comm, status);
    if (leads && unlink(token) != 0 && status == HIL_OK)
        status = hil_fail(HIL_ERR_IO, "cannot remove %s: %s", token, strerror(errno));
    return hil_ranks_agree(comm, status);
}

/* Removes a folder entirely or not at all: renames it first, so a failure leaves it untouched. */
static hil_status remove_whole(const char *path)
{
    char aside[HIL_PATH_MAX];
    if (!hil_file_exists(path)) return HIL_OK;
    HIL_TRY(hil_temporary_name(aside, path));
    if (rename(path, aside) != 0)
        return hil_fail(HIL_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
    return hil_file_remove_tree(aside);
}

static bool is_report(const char *name)
{
    return strcmp(name, "run.json") == 0 || strcmp(name, "report.html") == 0;
}

hil_status hil_folder_begin(hil_folder *f, const hil_train_options *o)
{
    f->begun = true;
    HIL_TRY(hil_lock_check(&f->lock));
    HIL_TRY(hil_dir_remove_matching(f->path, hil_temporary_is));
    HIL_TRY(hil_dir_remove_matching(f->checkpoints, hil_temporary_is));
    HIL_TRY(hil_dir_remove_matching(f->cache, hil_temporary_is));
    if (!o->overwrite) return HIL_OK;
    HIL_TRY(remove_whole(f->checkpoints));
    HIL_TRY(hil_file_remove_tree(f->metrics));
    HIL_TRY(hil_dir_remove_matching(f->path, is_report));
    /* Now, because a resumed run may not remove files that it did not write. */
    return hil_install_remove(f->path, HIL_NAMES_FOREIGN);
}

void hil_folder_hold(hil_folder *f)
{
    f->begun = true;
}

void hil_folder_close(hil_folder *f)
{
    bool ours = f->lock.fd >= 0 && hil_lock_check(&f->lock) == HIL_OK;
    bool created = f->existed < strlen(f->path);
    if (ours && created && !f->begun) (void)!hil_file_remove_tree(f->cache);
    hil_lock_drop(&f->lock);
    if (ours && created && !f->begun) hil_dir_uncreate(f->path, f->existed);
}

/* Lists the tensors that are exported, of an adapter only its own; the caller frees *out. */
static hil_status list_tensors(hil_store *store, hil_dtype dtype, hil_export_tensor **out,
                               size_t *count)
{
    *count = 0;
    HIL_TRY(HIL_ALLOC(hil_store_count(store), out));
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        hil_param *p = hil_store_at(store, i);
        if (!hil_param_is_saved(p, HIL_MASTER)) continue;
        (*out)[(*count)++] =
            (hil_export_tensor){hil_param_spec_of(p)->name, dtype, hil_weights_shape(p)};
    }
    return HIL_OK;
}

hil_status hil_folder_export(const hil_folder *f, int64_t step, hil_dtype dtype,
                             const hil_observer *observer)
{
    char dir[HIL_PATH_MAX];
    hil_export_result result;
    HIL_TRY(hil_step_path(dir, f->checkpoints, step));
    hil_export_options options = {
        .checkpoint = dir, .out = f->path, .dtype = hil_dtype_name(dtype)};
    return hil_checkpoints_export_locked(&options, f->replaced, &f->lock, observer, &result);
}

hil_status hil_folder_check_space(const hil_folder *f, const hil_source *source, hil_store *store,
                                  hil_dtype dtype, int64_t checkpoints)
{
    hil_export_tensor *tensors;
    uint64_t model, free_bytes;
    char need_text[32], free_text[32];
    size_t count;
    HIL_TRY(list_tensors(store, dtype, &tensors, &count));
    hil_export export = {.tensor = tensors, .count = count};
    hil_status status = hil_export_bytes(&export, &model);
    hil_free(tensors);
    HIL_TRY(status);
    HIL_TRY(hil_dir_free_bytes(f->path, &free_bytes));
    int64_t there; /* existing checkpoints, which new ones will replace */
    HIL_TRY(hil_checkpoint_count(f->checkpoints, &there));
    int64_t more = there < checkpoints ? checkpoints + 1 - there : 1;
    uint64_t need = model + (uint64_t)more * hil_checkpoint_bytes(store, &source->files);
    if (need <= free_bytes) return HIL_OK;
    return hil_fail(HIL_ERR_IO,
                    "%s has %s free, but the model and its checkpoints need %s: free some space, "
                    "choose another --out, or a smaller --keep",
                    f->path, hil_text_bytes(free_text, free_bytes),
                    hil_text_bytes(need_text, need));
}
