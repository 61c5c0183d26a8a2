/* checkpoint_write.c - writes a checkpoint from all ranks and renames it when it is whole. */
#include "format/checkpoint_manifest.h"

#include "base/alloc.h"
#include "format/checkpoint_pieces.h"
#include "format/safetensors.h"
#include "io/file.h"
#include "io/ranged_file.h"
#include "store/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#define BLOCK ((size_t)4096) /* alignment of tensors, so that O_DIRECT can write them */

/* Where a parameter's states begin in their files. */
typedef struct place {
    const hil_param *param;
    uint64_t offset[HIL_STATES];
} place;

/* One state's file. If no parameter has the state there is no file, and `bytes` is 0. */
typedef struct target {
    hil_ranged out;
    uint64_t bytes;
    hil_text header;
    hil_pieces pieces; /* that this rank wrote; after the gather, those of all ranks */
} target;

struct hil_checkpoint_writer {
    hil_store *store;
    hil_comm *comm;
    const hil_lock *lock;
    int64_t step;
    char folder[HIL_PATH_MAX], temporary[HIL_PATH_MAX], final[HIL_PATH_MAX];
    bool made; /* the temporary folder exists and this rank must remove it */
    place *place;
    target file[HIL_STATES];
    hil_manifest_text manifest; /* rank 0 */
    hil_status status;          /* of the first put that failed */
    char message[1024];
};

static hil_status fail_path(const char *verb, const char *path)
{
    return hil_fail(HIL_ERR_IO, "cannot %s %s: %s", verb, path, strerror(errno));
}

static void destroy(hil_checkpoint_writer *w)
{
    for (int s = 0; s < HIL_STATES; ++s) {
        hil_ranged_abandon(&w->file[s].out);
        hil_text_free(&w->file[s].header);
        hil_pieces_free(&w->file[s].pieces);
    }
    if (w->made) (void)!hil_file_remove_tree(w->temporary);
    hil_text_free(&w->manifest.text);
    hil_free(w->place);
    hil_free(w);
}

/* Destroys the writer and keeps the message of the failure before. */
static hil_status destroy_failed(hil_checkpoint_writer *w, hil_status status)
{
    char kept[1024];
    snprintf(kept, sizeof kept, "%s", hil_status_message());
    destroy(w);
    return hil_fail(status, "%s", kept);
}

void hil_checkpoint_abandon(hil_checkpoint_writer *w)
{
    if (w) destroy(w);
}

static int compare_param(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t)((const place *)left)->param;
    uintptr_t b = (uintptr_t)((const place *)right)->param;
    return a < b ? -1 : a > b;
}

/* Computes the layout of one state's file: header, size, and the offset of each parameter. */
static hil_status lay_out(hil_checkpoint_writer *w, hil_state state)
{
    hil_safetensors_writer *file = NULL;
    hil_safetensors_layout layout = {.block = BLOCK};
    size_t count = hil_store_count(w->store), declared = 0;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(count, &layout.offset));
    HIL_TRY_DONE(hil_safetensors_writer_create(&file, NULL));
    for (size_t i = 0; i < count; ++i) {
        const hil_param *p = hil_store_at(w->store, i);
        const hil_param_spec *spec = hil_param_spec_of(p);
        if (!hil_param_is_saved(p, state)) continue;
        HIL_TRY_DONE(hil_safetensors_writer_declare(file, spec->name, HIL_F32, hil_param_filed(p)));
        ++declared;
    }
    if (!declared) goto done;
    HIL_TRY_DONE(hil_safetensors_writer_place(file, &layout));
    w->file[state].bytes = layout.bytes;
    w->file[state].header = layout.header;
    layout.header = (hil_text){0};
    for (size_t i = 0, at = 0; i < count; ++i)
        if (hil_param_is_saved(hil_store_at(w->store, i), state))
            w->place[i].offset[state] = layout.offset[at++];
done:
    hil_text_free(&layout.header);
    hil_free(layout.offset);
    hil_safetensors_writer_destroy(file);
    return status;
}

static hil_status lay_out_all(hil_checkpoint_writer *w)
{
    size_t count = hil_store_count(w->store);
    HIL_TRY(hil_step_path(w->final, w->folder, w->step));
    HIL_TRY(HIL_ALLOC(count, &w->place));
    for (size_t i = 0; i < count; ++i) w->place[i].param = hil_store_at(w->store, i);
    for (int s = 0; s < HIL_STATES; ++s) HIL_TRY(lay_out(w, (hil_state)s));
    if (count) qsort(w->place, count, sizeof *w->place, compare_param);
    return HIL_OK;
}

static hil_status write_at(target *file, const void *bytes, size_t size, uint64_t offset)
{
    hil_manifest_piece piece = {offset, size, XXH3_64bits(bytes, size)};
    HIL_TRY(hil_ranged_write(&file->out, bytes, size, offset));
    return hil_pieces_add(&file->pieces, &piece);
}

static hil_status open_file(hil_checkpoint_writer *w, int state, bool create)
{
    target *file = &w->file[state];
    char path[HIL_PATH_MAX];
    if (!file->bytes) return HIL_OK;
    HIL_TRY(hil_path_join(path, w->temporary, hil_state_file[state]));
    if (!create) return hil_ranged_open(&file->out, path);
    HIL_TRY(hil_ranged_create(&file->out, path, file->bytes));
    return write_at(file, file->header.data, file->header.size, 0);
}

static hil_status write_file(hil_checkpoint_writer *w, const hil_bytes *file, const char *name)
{
    char to[HIL_PATH_MAX];
    hil_manifest_piece piece = {0, file->size, XXH3_64bits(file->data, file->size)};
    HIL_TRY(hil_path_join(to, w->temporary, name));
    HIL_TRY(hil_file_write(to, file->data, file->size));
    return hil_manifest_add(&w->manifest, name, file->size, &piece, file->size ? 1 : 0);
}

static hil_status write_files(hil_checkpoint_writer *w, const hil_sidecar_files *files)
{
    for (int i = 0; files && i < HIL_SIDECAR_FILES; ++i)
        if (files->file[i].data)
            HIL_TRY(write_file(w, &files->file[i], hil_sidecar_file_name((hil_sidecar_file)i)));
    return HIL_OK;
}

/* Rank 0 creates the temporary folder with all files at full size. */
static hil_status create_all(hil_checkpoint_writer *w, const hil_checkpoint_options *o)
{
    HIL_TRY(hil_lock_check(w->lock));
    HIL_TRY(hil_dir_create(w->folder));
    if (hil_file_exists(w->final))
        return hil_fail(HIL_ERR_USAGE, "%s is there already: it is not written again", w->final);
    HIL_TRY(hil_temporary_name(w->temporary, w->final));
    w->made = mkdir(w->temporary, 0777) == 0;
    if (!w->made) return fail_path("create folder", w->temporary);
    for (int s = 0; s < HIL_STATES; ++s) HIL_TRY(open_file(w, s, true));
    HIL_TRY(hil_manifest_begin(&w->manifest, w->step));
    return write_files(w, o->files);
}

/* Rank 0 broadcasts the name of its temporary folder; the others open the files in it. */
static hil_status open_all(hil_checkpoint_writer *w)
{
    char name[96] = "";
    hil_status status = HIL_OK;
    if (hil_comm_rank(w->comm) == 0)
        snprintf(name, sizeof name, "%s", strrchr(w->temporary, '/') + 1);
    HIL_TRY(hil_comm_broadcast(w->comm, HIL_CHANNEL_SAVE, name, sizeof name));
    if (hil_comm_rank(w->comm) > 0) {
        status = hil_path_join(w->temporary, w->folder, name);
        for (int s = 0; status == HIL_OK && s < HIL_STATES; ++s) status = open_file(w, s, false);
    }
    return hil_comm_agree(w->comm, HIL_CHANNEL_SAVE, status, NULL);
}

hil_status hil_checkpoint_begin(hil_checkpoint_writer **out, const hil_checkpoint_options *o)
{
    *out = NULL;
    hil_checkpoint_writer *w = NULL;
    hil_status status = HIL_ALLOC(1, &w);
    status = hil_comm_agree(o->comm, HIL_CHANNEL_SAVE, status, NULL);
    if (status != HIL_OK) {
        hil_free(w);
        return status;
    }
    w->store = o->store;
    w->comm = o->comm;
    w->lock = o->lock;
    w->step = o->step;
    snprintf(w->folder, sizeof w->folder, "%s", o->folder);
    status = lay_out_all(w);
    if (status == HIL_OK && hil_comm_rank(o->comm) == 0) status = create_all(w, o);
    status = hil_comm_agree(o->comm, HIL_CHANNEL_SAVE, status, NULL);
    if (status == HIL_OK) status = open_all(w);
    if (status != HIL_OK) return destroy_failed(w, status);
    *out = w;
    return HIL_OK;
}

static hil_status remember(hil_checkpoint_writer *w, hil_status status)
{
    if (status != HIL_OK && w->status == HIL_OK) {
        w->status = status;
        snprintf(w->message, sizeof w->message, "%s", hil_status_message());
    }
    return status;
}

static hil_status recall(const hil_checkpoint_writer *w)
{
    return w->status == HIL_OK ? HIL_OK : hil_fail(w->status, "%s", w->message);
}

hil_status hil_checkpoint_put(void *writer, hil_param *param, hil_state state, int64_t first,
                              int64_t count, const float *data)
{
    hil_checkpoint_writer *w = writer;
    place key = {.param = param};
    HIL_TRY(recall(w));
    const place *at = bsearch(&key, w->place, hil_store_count(w->store), sizeof key, compare_param);
    assert(at && at->offset[state] && first >= 0 && first + count <= hil_param_elements(param));
    if (count == 0) return HIL_OK;
    return remember(w, write_at(&w->file[state], data, (size_t)count * sizeof *data,
                                at->offset[state] + (uint64_t)first * sizeof *data));
}

/* Syncs and closes this rank's files. */
static hil_status sync_files(hil_checkpoint_writer *w)
{
    HIL_TRY(recall(w));
    for (int s = 0; s < HIL_STATES; ++s) {
        target *file = &w->file[s];
        if (!file->bytes) continue;
        HIL_TRY(hil_ranged_close(&file->out, file->pieces.count > 0));
    }
    return HIL_OK;
}

static hil_status write_manifest(hil_checkpoint_writer *w, const json_t *state)
{
    char path[HIL_PATH_MAX];
    hil_text *text = &w->manifest.text;
    for (int s = 0; s < HIL_STATES; ++s) {
        const target *file = &w->file[s];
        if (!file->bytes) continue;
        HIL_TRY(hil_pieces_check(&file->pieces, file->bytes, file->out.path));
        HIL_TRY(hil_manifest_add(&w->manifest, hil_state_file[s], file->bytes, file->pieces.piece,
                                 file->pieces.count));
    }
    HIL_TRY(hil_manifest_end(&w->manifest, w->store, state));
    HIL_TRY(hil_path_join(path, w->temporary, HIL_MANIFEST_FILE));
    return hil_file_write(path, text->data, text->size);
}

/* Rolls back after a failure between the rename and the move of `latest`. If the rollback fails
   too, the new checkpoint, which is whole, stays. */
static void roll_back(hil_checkpoint_writer *w, int64_t before)
{
    int64_t latest;
    bool moved = hil_latest_read(w->folder, &latest) != HIL_OK || latest == w->step;
    if (moved && before >= 0 && hil_latest_write(w->folder, before) != HIL_OK) return;
    if (moved && before < 0 && hil_latest_remove(w->folder) != HIL_OK) return;
    w->made = rename(w->final, w->temporary) == 0;
}

/* Rank 0 writes the manifest, renames the folder and moves `latest`; each step is synced before the
   next. */
static hil_status publish(hil_checkpoint_writer *w, const json_t *state)
{
    int64_t before;
    char kept[1024];
    HIL_TRY(write_manifest(w, state));
    HIL_TRY(hil_dir_sync(w->temporary));
    HIL_TRY(hil_lock_check(w->lock));
    hil_status status = hil_latest_read(w->folder, &before);
    if (status != HIL_OK && status != HIL_ERR_INPUT) return status;
    if (rename(w->temporary, w->final) != 0) return fail_path("rename to", w->final);
    w->made = false;
    status = hil_dir_sync(w->folder);
    if (status == HIL_OK) status = hil_latest_write(w->folder, w->step);
    if (status == HIL_OK) return HIL_OK;
    snprintf(kept, sizeof kept, "%s", hil_status_message());
    roll_back(w, before);
    return hil_fail(status, "%s", kept);
}

/* Ends alike on all ranks: if one rank's disk is full, no rank publishes the checkpoint, and all
   return that rank's message. */
static hil_status finish(hil_checkpoint_writer *w, const json_t *state)
{
    hil_status status = sync_files(w);
    HIL_TRY(hil_comm_agree(w->comm, HIL_CHANNEL_SAVE, status, NULL));
    for (int s = 0; s < HIL_STATES; ++s)
        if (w->file[s].bytes) HIL_TRY(hil_pieces_gather(&w->file[s].pieces, w->comm));
    if (hil_comm_rank(w->comm) == 0) status = publish(w, state);
    return hil_comm_agree(w->comm, HIL_CHANNEL_SAVE, status, NULL);
}

hil_status hil_checkpoint_finish(hil_checkpoint_writer *w, const json_t *state)
{
    hil_status status = finish(w, state);
    if (status != HIL_OK) return destroy_failed(w, status);
    destroy(w);
    return HIL_OK;
}

uint64_t hil_checkpoint_bytes(const hil_store *store, const hil_sidecar_files *files)
{
    uint64_t bytes = 65536 + (files ? hil_sidecar_files_bytes(files) : 0);
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        const hil_param *p = hil_store_at(store, i);
        uint64_t whole = (uint64_t)hil_param_elements(p) * 4;
        for (int s = 0; s < HIL_STATES; ++s) /* the tensor, its header and pieces, its name */
            if (hil_param_is_saved(p, (hil_state)s)) bytes += whole + whole / 1024 + 512;
    }
    return bytes;
}
