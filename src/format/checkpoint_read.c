/* checkpoint_read.c - verifies a checkpoint's bytes, and loads them into a store. */
#include "format/checkpoint_manifest.h"

#include "base/alloc.h"
#include "format/safetensors.h"
#include "io/file.h"
#include "store/state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define READ_BYTES ((size_t)4 << 20)

/* The arguments of one rank's verification. */
typedef struct reader {
    hil_comm *comm;
    const hil_checkpoint_watch *watch;
    XXH3_state_t *hash;
    char *buffer;
} reader;

static hil_status damaged(const char *path, const hil_manifest_piece *piece)
{
    return hil_fail(HIL_ERR_INPUT, "%s is damaged: the checksum of bytes %llu to %llu is wrong",
                    path, (unsigned long long)piece->offset,
                    (unsigned long long)(piece->offset + piece->bytes - 1));
}

/* Reads the file instead of mapping it: a bad sector is then an error, not SIGBUS. */
static hil_status verify_piece(const reader *r, int fd, const char *path,
                               const hil_manifest_piece *piece)
{
    XXH3_64bits_reset(r->hash);
    for (uint64_t done = 0; done < piece->bytes;) {
        uint64_t left = piece->bytes - done;
        size_t size = left < READ_BYTES ? (size_t)left : READ_BYTES;
        ssize_t n = pread(fd, r->buffer, size, (off_t)(piece->offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return hil_fail(HIL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
        if (n == 0) return damaged(path, piece);
        XXH3_64bits_update(r->hash, r->buffer, (size_t)n);
        done += (uint64_t)n;
    }
    return XXH3_64bits_digest(r->hash) == piece->hash ? HIL_OK : damaged(path, piece);
}

/* A missing file is damage (HIL_ERR_INPUT); one that cannot be opened is an I/O error. */
static hil_status open_file(const char *path, const hil_manifest_file *file, int *fd)
{
    struct stat info;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0 && errno == ENOENT) return hil_fail(HIL_ERR_INPUT, "%s is missing", path);
    if (*fd < 0) return hil_fail(HIL_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    if (fstat(*fd, &info) != 0)
        return hil_fail(HIL_ERR_IO, "cannot inspect %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode) || (uint64_t)info.st_size != file->size)
        return hil_fail(HIL_ERR_INPUT, "%s is damaged: it has %llu bytes, not %llu", path,
                        (unsigned long long)info.st_size, (unsigned long long)file->size);
    return HIL_OK;
}

/* Rank i % ranks reads piece i of the checkpoint. */
static hil_status verify_file(const reader *r, const hil_manifest *m, const hil_manifest_file *file,
                              const char *dir)
{
    char path[HIL_PATH_MAX];
    int fd = -1;
    size_t ranks = (size_t)hil_comm_size(r->comm), rank = (size_t)hil_comm_rank(r->comm);
    hil_status status = HIL_OK;
    HIL_TRY_DONE(hil_path_join(path, dir, file->name));
    HIL_TRY_DONE(open_file(path, file, &fd));
    for (size_t i = file->first; i < file->first + file->pieces; ++i) {
        if (i % ranks != rank) continue;
        HIL_TRY_DONE(verify_piece(r, fd, path, &m->piece[i]));
        if (r->watch) HIL_TRY_DONE(r->watch->read(r->watch->context, m->piece[i].bytes));
    }
done:
    if (fd >= 0) close(fd);
    return status;
}

hil_status hil_manifest_verify(const hil_manifest *m, const char *dir, hil_comm *comm,
                               hil_checkpoint_need need, const hil_checkpoint_watch *watch)
{
    reader r = {.comm = comm, .watch = watch, .hash = XXH3_createState()};
    hil_status status = HIL_OK;
    if (!r.hash) status = hil_fail(HIL_ERR_MEMORY, "out of memory: a checksum");
    if (status == HIL_OK) status = HIL_ALLOC(READ_BYTES, &r.buffer);
    for (size_t i = 0; status == HIL_OK && i < m->files; ++i)
        if (hil_manifest_needs(&m->file[i], need)) status = verify_file(&r, m, &m->file[i], dir);
    hil_free(r.buffer);
    XXH3_freeState(r.hash);
    return hil_comm_agree(comm, HIL_CHANNEL_CONTROL, status, NULL);
}

hil_status hil_checkpoint_state(const char *folder, int64_t step, json_t **state)
{
    char dir[HIL_PATH_MAX];
    hil_manifest manifest;
    HIL_TRY(hil_step_path(dir, folder, step));
    HIL_TRY(hil_manifest_open(&manifest, dir));
    *state = json_incref(json_object_get(manifest.root, "state"));
    hil_manifest_close(&manifest);
    return HIL_OK;
}

hil_status hil_checkpoint_files(const char *folder, int64_t step, hil_sidecar_files *files)
{
    char dir[HIL_PATH_MAX];
    HIL_TRY(hil_step_path(dir, folder, step));
    return hil_sidecar_files_read(files, dir);
}

/* How many parameters have the state, which are the tensors of its file; 0: no file. */
static size_t count_state(const hil_store *store, hil_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < hil_store_count(store); ++i)
        count += hil_param_is_saved(hil_store_at(store, i), state);
    return count;
}

static bool fits(const hil_entry *entry, const hil_shape *shape)
{
    bool same = strcmp(entry->dtype, "F32") == 0 && entry->ndim == shape->ndim;
    for (int i = 0; same && i < shape->ndim; ++i) same = entry->dim[i] == shape->dim[i];
    return same;
}

static hil_status load_param(const hil_entry *entry, hil_store *store, hil_param *param,
                             hil_state state, float *range)
{
    for (int64_t first = 0, count; (count = hil_param_held(param, &first)); first += count) {
        HIL_TRY(hil_entry_read(entry, (size_t)first * 4, range, (size_t)count * 4));
        HIL_TRY(hil_store_write(store, param, state, first, count, range));
    }
    return HIL_OK;
}

static hil_status load_state(const char *path, hil_store *store, hil_state state)
{
    hil_safetensors *file = NULL;
    float *range = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_safetensors_open(&file, path));
    HIL_TRY_DONE(HIL_ALLOC(hil_store_range(store), &range));
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        hil_param *p = hil_store_at(store, i);
        if (!hil_param_is_saved(p, state)) continue;
        const hil_entry *entry = hil_safetensors_find(file, hil_param_spec_of(p)->name);
        if (!entry || !fits(entry, hil_param_filed(p)) ||
            hil_safetensors_count(file) != count_state(store, state))
            HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT, "%s does not fit the model: tensor %s", path,
                                  hil_param_spec_of(p)->name));
        HIL_TRY_DONE(load_param(entry, store, p, state, range));
    }
done:
    hil_free(range);
    hil_safetensors_close(file);
    return status;
}

hil_status hil_checkpoint_load(const char *folder, int64_t step, hil_store *store)
{
    char dir[HIL_PATH_MAX], path[HIL_PATH_MAX];
    HIL_TRY(hil_step_path(dir, folder, step));
    for (int i = 0; i < HIL_STATES; ++i) {
        if (!count_state(store, (hil_state)i)) continue;
        HIL_TRY(hil_path_join(path, dir, hil_state_file[i]));
        HIL_TRY(load_state(path, store, (hil_state)i));
    }
    return hil_store_finish_writes(store);
}
