/* checkpoints.c - finds checkpoints by path, verifies and exports them. */
#include "run/checkpoints.h"

#include "base/note.h"
#include "base/alloc.h"
#include "format/checkpoint_export.h"
#include "io/file.h"
#include "run/output_folder.h"
#include "base/sized.h"

#include <stdio.h>
#include <string.h>

hil_status hil_checkpoints_watched(void *context, uint64_t bytes)
{
    hil_checkpoints_watch *w = context;
    w->done += bytes;
    if (w->observer && w->observer->progress)
        w->observer->progress(w->observer->context, w->what, w->done, w->total);
    if (!w->stop || !*w->stop) return HIL_OK;
    return hil_fail(HIL_ERR_INTERRUPTED, "stopped while %s", w->what);
}

static bool holds(const char *folder, const char *name)
{
    char path[HIL_PATH_MAX];
    return hil_path_join(path, folder, name) == HIL_OK && hil_file_exists(path);
}

hil_status hil_checkpoints_at(const char *path, char folder[HIL_PATH_MAX], bool *one)
{
    int64_t count = 0;
    *one = holds(path, HIL_MANIFEST_FILE);
    if (snprintf(folder, HIL_PATH_MAX, "%s", path) >= HIL_PATH_MAX)
        return hil_fail(HIL_ERR_INPUT, "path too long: %.80s...", path);
    if (*one) return HIL_OK;
    if (!hil_file_exists(path)) return hil_fail(HIL_ERR_INPUT, "%s: no such folder", path);
    if (holds(path, "checkpoints")) HIL_TRY(hil_path_join(folder, path, "checkpoints"));
    HIL_TRY(hil_checkpoint_count(folder, &count));
    if (count) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT,
                    "%s holds no checkpoint: give a run's folder or its "
                    "checkpoints/step-N",
                    path);
}

/* Says that an older checkpoint, which is still there, had a lower eval loss. */
static hil_status note_best(const char *folder, int64_t step, const hil_observer *observer)
{
    char better[HIL_PATH_MAX];
    json_t *state;
    HIL_TRY(hil_checkpoint_state(folder, step, &state));
    const json_t *best = json_object_get(state, "best_step");
    int64_t lowest = best ? json_integer_value(best) : step;
    json_decref(state);
    HIL_TRY(hil_step_path(better, folder, lowest));
    if (lowest != step && hil_file_exists(better))
        hil_note(observer,
                 "taking the newest checkpoint, of step %lld; the eval loss was lowest "
                 "in %s, which can be given instead",
                 (long long)step, better);
    return HIL_OK;
}

hil_status hil_checkpoints_find(const char *path, hil_checkpoints_watch *w, char dir[HIL_PATH_MAX])
{
    char folder[HIL_PATH_MAX];
    bool one;
    hil_checkpoint_found found;
    hil_manifest manifest;
    hil_checkpoint_watch watch = {hil_checkpoints_watched, w};
    HIL_TRY(hil_checkpoints_at(path, folder, &one));
    if (!one) {
        HIL_TRY(hil_checkpoint_find_needed(folder, NULL, HIL_NEED_MODEL, &watch, &found));
        if (found.warning[0])
            hil_note(w->observer, "%s: taking step %lld", found.warning, (long long)found.step);
        HIL_TRY(note_best(folder, found.step, w->observer));
        return hil_step_path(dir, folder, found.step);
    }
    memcpy(dir, folder, HIL_PATH_MAX);
    HIL_TRY(hil_manifest_open(&manifest, dir));
    for (size_t i = 0; i < manifest.files; ++i)
        if (hil_manifest_needs(&manifest.file[i], HIL_NEED_MODEL))
            w->total += manifest.file[i].size;
    hil_status status = hil_manifest_verify(&manifest, dir, NULL, HIL_NEED_MODEL, &watch);
    hil_manifest_close(&manifest);
    return status;
}

hil_status hil_checkpoints_check_room(const char *out, uint64_t need)
{
    uint64_t room;
    char need_text[32], room_text[32];
    HIL_TRY(hil_dir_free_bytes(out, &room));
    if (need <= room) return HIL_OK;
    return hil_fail(HIL_ERR_IO, "%s has %s free, but the model needs %s", out,
                    hil_text_bytes(room_text, room), hil_text_bytes(need_text, need));
}

static hil_status check_out(const hil_export_options *o)
{
    char found[256];
    if (o->overwrite) return HIL_OK;
    HIL_TRY(hil_install_find(o->out, HIL_NAMES_ALL, found));
    if (!found[0] && holds(o->out, "metrics.jsonl")) snprintf(found, sizeof found, "metrics.jsonl");
    if (!found[0]) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE,
                    "%s holds a model or a run: choose another folder or use --overwrite (%s is "
                    "there)",
                    o->out, found);
}

static hil_status write_model(hil_checkpoint_model *model, const hil_export_options *o,
                              hil_install_names replaced, const hil_lock *lock,
                              hil_checkpoints_watch *w, hil_export_result *result)
{
    hil_dtype dtype = hil_checkpoint_model_dtype(model);
    hil_checkpoint_watch watch = {hil_checkpoints_watched, w};
    if (o->dtype) HIL_TRY(hil_dtype_parse(o->dtype, &dtype));
    hil_checkpoint_model_options options = {.out = o->out,
                                            .lock = lock,
                                            .replaced = replaced,
                                            .dtype = dtype,
                                            .shard_bytes = o->shard_size,
                                            .watch = &watch};
    HIL_TRY(hil_checkpoint_model_bytes(model, &options, &result->bytes));
    HIL_TRY(hil_checkpoints_check_room(o->out, result->bytes));
    *w = (hil_checkpoints_watch){w->observer, w->stop, "writing the model", 0, result->bytes};
    HIL_TRY(hil_checkpoint_model_write(model, &options));
    result->tensors = hil_checkpoint_model_tensors(model);
    result->dtype = hil_dtype_name(dtype);
    return HIL_OK;
}

hil_status hil_checkpoints_export_locked(const hil_export_options *o, hil_install_names replaced,
                                         const hil_lock *lock, const hil_observer *observer,
                                         hil_export_result *result)
{
    char dir[HIL_PATH_MAX];
    hil_checkpoint_model *model;
    hil_checkpoints_watch w = {observer, o->stop, "checking the checkpoint", 0, 0};
    *result = (hil_export_result){0};
    if (o->deepspeed) {
        HIL_TRY(hil_path_join(dir, o->checkpoint, "."));
    } else {
        HIL_TRY(hil_checkpoints_find(o->checkpoint, &w, dir));
    }
    if (hil_folder_same(o->out, dir))
        return hil_fail(HIL_ERR_USAGE, "%s is the checkpoint itself: choose another folder", dir);
    if (o->deepspeed) {
        HIL_TRY(hil_checkpoint_model_open_deepspeed(&model, o->checkpoint, o->model));
    } else {
        HIL_TRY(hil_checkpoint_model_open(&model, dir));
    }
    hil_status status = write_model(model, o, replaced, lock, &w, result);
    result->step = hil_checkpoint_model_step(model);
    hil_checkpoint_model_close(model);
    return status;
}

void hil_export_defaults_sized(hil_export_options *options, size_t size)
{
    const hil_export_options defaults = {0};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

hil_status hil_checkpoint_export(const hil_export_options *o, const hil_observer *observer,
                                 hil_export_result *result)
{
    hil_export_options own;
    HIL_TRY(HIL_SIZED_TAKE(hil_export, &own, o));
    o = &own;
    if (o->deepspeed != (o->model != NULL) || (o->deepspeed && o->gguf))
        return hil_fail(HIL_ERR_USAGE, "--from-deepspeed needs --model FOLDER for config and "
                                       "tokenizer, and writes a model folder");
    if (o->gguf) return hil_checkpoints_export_gguf(o, observer, result);
    hil_lock lock = {.fd = -1};
    size_t existed = hil_dir_existing(o->out);
    HIL_TRY(check_out(o));
    hil_status status = hil_dir_create(o->out);
    if (status == HIL_OK) status = hil_lock_take(&lock, o->out);
    if (status == HIL_OK) status = hil_dir_remove_matching(o->out, hil_temporary_is);
    if (status == HIL_OK)
        status = hil_checkpoints_export_locked(o, o->overwrite ? HIL_NAMES_ALL : HIL_NAMES_NONE,
                                               &lock, observer, result);
    hil_lock_drop(&lock);
    if (status != HIL_OK) hil_dir_uncreate(o->out, existed);
    return status;
}

static hil_status note_damage(hil_verified *v, hil_status status)
{
    if (status != HIL_ERR_INPUT) return status;
    size_t room = v->damage_count;
    HIL_TRY(HIL_GROW(&v->damage, &room, room + 1));
    HIL_TRY(hil_text_copy(hil_status_message(), &v->damage[v->damage_count]));
    ++v->damage_count;
    return HIL_OK;
}

/* Verifies every byte of one checkpoint. */
static hil_status verify_dir(const char *dir, int64_t step, hil_checkpoints_watch *w,
                             hil_verified *v)
{
    hil_manifest manifest;
    hil_checkpoint_watch watch = {hil_checkpoints_watched, w};
    size_t room = v->whole_count;
    char *path = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_manifest_open(&manifest, dir));
    if (step >= 0 && manifest.step != step)
        HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT, "%s is damaged: it holds step %lld", dir,
                              (long long)manifest.step));
    w->done = 0;
    w->total = manifest.bytes;
    HIL_TRY_DONE(hil_manifest_verify(&manifest, dir, NULL, HIL_NEED_ALL, &watch));
    HIL_TRY_DONE(HIL_GROW(&v->whole, &room, room + 1));
    HIL_TRY_DONE(hil_text_copy(dir, &path));
    v->whole[v->whole_count++] = (hil_whole_checkpoint){.path = path,
                                                        .step = manifest.step,
                                                        .files = (int64_t)manifest.files + 1,
                                                        .checksums = (int64_t)manifest.pieces + 1,
                                                        .bytes = manifest.bytes};
done:
    hil_manifest_close(&manifest);
    return status;
}

/* Fails if `latest` names a checkpoint that does not exist; no `latest` at all is fine. */
static hil_status verify_latest(const char *folder, const int64_t *steps, size_t count)
{
    int64_t latest;
    HIL_TRY(hil_latest_read(folder, &latest));
    for (size_t i = 0; i < count; ++i)
        if (steps[i] == latest) return HIL_OK;
    if (latest < 0) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s/latest names step-%lld, which is missing", folder,
                    (long long)latest);
}

static hil_status verify_folder(const char *folder, hil_checkpoints_watch *w, hil_verified *v)
{
    int64_t *steps = NULL;
    size_t count;
    char dir[HIL_PATH_MAX];
    hil_status status = HIL_OK;
    HIL_TRY_DONE(hil_steps_list(folder, &steps, &count));
    HIL_TRY_DONE(note_damage(v, verify_latest(folder, steps, count)));
    for (size_t i = 0; i < count; ++i) {
        HIL_TRY_DONE(hil_step_path(dir, folder, steps[i]));
        HIL_TRY_DONE(note_damage(v, verify_dir(dir, steps[i], w, v)));
    }
done:
    hil_free(steps);
    return status;
}

hil_status hil_checkpoint_verify(const char *path, const hil_observer *observer, hil_verified *out)
{
    char folder[HIL_PATH_MAX];
    bool one;
    hil_checkpoints_watch w = {observer, NULL, "checking the checkpoint", 0, 0};
    hil_status status;
    *out = (hil_verified){0};
    HIL_TRY_DONE(hil_checkpoints_at(path, folder, &one));
    HIL_TRY_DONE(one ? note_damage(out, verify_dir(folder, -1, &w, out))
                     : verify_folder(folder, &w, out));
done:
    if (status != HIL_OK) hil_verified_free(out);
    return status;
}

void hil_verified_free(hil_verified *verified)
{
    for (size_t i = 0; i < verified->whole_count; ++i) hil_free(verified->whole[i].path);
    for (size_t i = 0; i < verified->damage_count; ++i) hil_free(verified->damage[i]);
    hil_free(verified->whole);
    hil_free(verified->damage);
    *verified = (hil_verified){0};
}

static void print_verified(const hil_verified *v, FILE *out)
{
    char bytes[32];
    for (size_t i = 0; i < v->whole_count; ++i)
        fprintf(out, "%s: whole: step %lld, %lld files, %s, %lld checksums\n", v->whole[i].path,
                (long long)v->whole[i].step, (long long)v->whole[i].files,
                hil_text_bytes(bytes, v->whole[i].bytes), (long long)v->whole[i].checksums);
}

static hil_status print_verified_json(const hil_verified *v, FILE *out)
{
    json_t *whole = json_array(), *damaged = json_array();
    for (size_t i = 0; i < v->whole_count; ++i) {
        const hil_whole_checkpoint *c = &v->whole[i];
        json_array_append_new(whole, json_pack("{s:s, s:I, s:I, s:I, s:I}", "path", c->path, "step",
                                               (json_int_t)c->step, "files", (json_int_t)c->files,
                                               "bytes", (json_int_t)c->bytes, "checksums",
                                               (json_int_t)c->checksums));
    }
    for (size_t i = 0; i < v->damage_count; ++i)
        json_array_append_new(damaged, json_string(v->damage[i]));
    bool complete = whole && damaged && json_array_size(whole) == v->whole_count &&
                    json_array_size(damaged) == v->damage_count;
    if (complete) {
        fputs("{\"checkpoints\": ", out);
        json_dumpf(whole, out, JSON_COMPACT);
        fputs(", \"damaged\": ", out);
        json_dumpf(damaged, out, JSON_COMPACT);
        fputs("}\n", out);
    }
    json_decref(whole);
    json_decref(damaged);
    return complete ? HIL_OK : hil_fail(HIL_ERR_MEMORY, "out of memory: the list of checkpoints");
}

hil_status hil_checkpoint_verify_path(const char *path, bool json, const hil_observer *observer,
                                      FILE *out)
{
    hil_verified v;
    hil_status status = HIL_OK;
    HIL_TRY(hil_checkpoint_verify(path, observer, &v));
    if (json)
        status = print_verified_json(&v, out);
    else
        print_verified(&v, out);
    for (size_t i = 1; i < v.damage_count; ++i) hil_note(observer, "%s", v.damage[i]);
    if (status == HIL_OK && v.damage_count) status = hil_fail(HIL_ERR_INPUT, "%s", v.damage[0]);
    hil_verified_free(&v);
    return status;
}
