/* checkpoint_list.c - the checkpoints of a run: lists them, finds the newest whole one, removes
   old ones. */
#include "format/checkpoint_manifest.h"

#include "base/alloc.h"
#include "io/file.h"
#include "store/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#define LATEST_FILE "latest"
#define LATEST_BYTES 80

int64_t hil_step_parse(const char *name)
{
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9') return -1;
    char *end;
    errno = 0;
    long long step = strtoll(name + 5, &end, 10);
    bool plain = name[5] != '0' || !name[6]; /* as hil_step_path writes it */
    return errno == 0 && *end == 0 && plain ? step : -1;
}

hil_status hil_step_path(char out[HIL_PATH_MAX], const char *folder, int64_t step)
{
    char name[HIL_STEP_NAME];
    snprintf(name, sizeof name, "step-%lld", (long long)step);
    return hil_path_join(out, folder, name);
}

/* The step's name and its checksum, because a damaged name could be that of another step. */
static int latest_text(char out[LATEST_BYTES], int64_t step)
{
    int size = snprintf(out, LATEST_BYTES, "step-%lld\n", (long long)step);
    unsigned long long hash = XXH3_64bits(out, (size_t)size);
    return size + snprintf(out + size, (size_t)(LATEST_BYTES - size), "%016llx\n", hash);
}

hil_status hil_latest_write(const char *folder, int64_t step)
{
    char path[HIL_PATH_MAX], text[LATEST_BYTES];
    int size = latest_text(text, step);
    HIL_TRY(hil_path_join(path, folder, LATEST_FILE));
    HIL_TRY(hil_file_write(path, text, (size_t)size));
    return hil_dir_sync(folder);
}

hil_status hil_latest_remove(const char *folder)
{
    char path[HIL_PATH_MAX];
    HIL_TRY(hil_path_join(path, folder, LATEST_FILE));
    return hil_file_remove_tree(path);
}

hil_status hil_latest_read(const char *folder, int64_t *step)
{
    char path[HIL_PATH_MAX], text[LATEST_BYTES], name[LATEST_BYTES] = "";
    hil_bytes content;
    *step = -1;
    HIL_TRY(hil_path_join(path, folder, LATEST_FILE));
    if (!hil_file_exists(path)) return HIL_OK;
    HIL_TRY(hil_bytes_read(&content, path));
    const char *end = memchr(content.data, '\n', content.size);
    if (end && end - content.data < LATEST_BYTES)
        memcpy(name, content.data, (size_t)(end - content.data));
    int64_t named = hil_step_parse(name);
    int size = latest_text(text, named);
    bool right =
        named >= 0 && content.size == (size_t)size && memcmp(content.data, text, content.size) == 0;
    hil_bytes_free(&content);
    if (!right) return hil_fail(HIL_ERR_INPUT, "%s is damaged: its checksum is wrong", path);
    *step = named;
    return HIL_OK;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

struct steps {
    int64_t *step;
    size_t count, capacity;
};

static hil_status add_step(void *context, const char *folder, const char *name)
{
    (void)folder;
    struct steps *steps = context;
    int64_t step = hil_step_parse(name);
    if (step < 0) return HIL_OK;
    HIL_TRY(HIL_GROW(&steps->step, &steps->capacity, steps->count + 1));
    steps->step[steps->count++] = step;
    return HIL_OK;
}

hil_status hil_steps_list(const char *folder, int64_t **steps, size_t *count)
{
    struct steps found = {0};
    hil_status status = hil_dir_each(folder, HIL_MISSING_IS_EMPTY, add_step, &found);
    if (found.count) qsort(found.step, found.count, sizeof *found.step, newest_first);
    *steps = found.step;
    *count = found.count;
    return status;
}

/* Rank 0's list of checkpoints, in the order in which they are tried. */
typedef struct candidates {
    int64_t latest, *steps;
    size_t count, next;
} candidates;

static hil_status open_candidates(candidates *c, const char *folder, hil_checkpoint_found *out)
{
    hil_status status = hil_latest_read(folder, &c->latest);
    if (status == HIL_ERR_INPUT)
        snprintf(out->warning, sizeof out->warning, "%s", hil_status_message());
    else if (status != HIL_OK)
        return status;
    return hil_steps_list(folder, &c->steps, &c->count);
}

/* -1: no more. */
static int64_t next_candidate(candidates *c)
{
    while (c->next <= c->count) {
        size_t i = c->next++;
        int64_t step = i == 0 ? c->latest : c->steps[i - 1];
        if (step >= 0 && (i == 0 || step != c->latest)) return step;
    }
    return -1;
}

static hil_status verify_step(const char *folder, int64_t step, hil_comm *comm,
                              hil_checkpoint_need need, const hil_checkpoint_watch *watch)
{
    char dir[HIL_PATH_MAX];
    hil_manifest manifest = {0};
    hil_status status = hil_step_path(dir, folder, step);
    if (status == HIL_OK) status = hil_manifest_open(&manifest, dir);
    if (status == HIL_OK && manifest.step != step)
        status = hil_fail(HIL_ERR_INPUT, "%s is damaged: it holds step %lld", dir,
                          (long long)manifest.step);
    HIL_TRY_DONE(hil_comm_agree(comm, HIL_CHANNEL_CONTROL, status, NULL));
    HIL_TRY_DONE(hil_manifest_verify(&manifest, dir, comm, need, watch));
done:
    hil_manifest_close(&manifest);
    return status;
}

/* Tries the next checkpoint only if one is damaged: an I/O error may be temporary, and an older
   checkpoint would lose steps. */
static hil_status try_candidates(candidates *c, const char *folder, hil_comm *comm,
                                 hil_checkpoint_need need, const hil_checkpoint_watch *watch,
                                 hil_checkpoint_found *out)
{
    for (;;) {
        int64_t step = hil_comm_rank(comm) == 0 ? next_candidate(c) : -1;
        HIL_TRY(hil_comm_broadcast(comm, HIL_CHANNEL_CONTROL, &step, sizeof step));
        if (step < 0) return HIL_OK;
        hil_status whole = verify_step(folder, step, comm, need, watch);
        if (whole == HIL_OK) {
            out->step = step;
            return HIL_OK;
        }
        if (whole != HIL_ERR_INPUT) return whole;
        if (!out->warning[0])
            snprintf(out->warning, sizeof out->warning, "%s", hil_status_message());
    }
}

hil_status hil_checkpoint_find_needed(const char *folder, hil_comm *comm, hil_checkpoint_need need,
                                      const hil_checkpoint_watch *watch, hil_checkpoint_found *out)
{
    candidates c = {.latest = -1};
    *out = (hil_checkpoint_found){.step = -1};
    hil_status status = HIL_OK;
    if (hil_comm_rank(comm) == 0) status = open_candidates(&c, folder, out);
    HIL_TRY_DONE(hil_comm_agree(comm, HIL_CHANNEL_CONTROL, status, NULL));
    HIL_TRY_DONE(try_candidates(&c, folder, comm, need, watch, out));
    HIL_TRY_DONE(hil_comm_broadcast(comm, HIL_CHANNEL_CONTROL, out, sizeof *out));
    if (out->step < 0 && out->warning[0])
        status = hil_fail(HIL_ERR_INPUT, "no whole checkpoint in %s: %.800s", folder, out->warning);
    status = hil_comm_agree(comm, HIL_CHANNEL_CONTROL, status, NULL);
done:
    hil_free(c.steps);
    return status;
}

hil_status hil_checkpoint_find(const char *folder, hil_comm *comm, hil_checkpoint_found *out)
{
    return hil_checkpoint_find_needed(folder, comm, HIL_NEED_ALL, NULL, out);
}

hil_status hil_checkpoint_count(const char *folder, int64_t *out)
{
    int64_t *steps;
    size_t count;
    hil_status status = hil_steps_list(folder, &steps, &count);
    hil_free(steps);
    *out = (int64_t)count;
    return status;
}

static bool of_folder(const char *name)
{
    return strcmp(name, LATEST_FILE) == 0 || hil_step_parse(name) >= 0 || hil_temporary_is(name);
}

static bool of_step(const char *name)
{
    bool ours = strcmp(name, HIL_MANIFEST_FILE) == 0 || hil_temporary_is(name);
    for (int i = 0; i < HIL_STATES; ++i) ours |= strcmp(name, hil_state_file[i]) == 0;
    for (int i = 0; i < HIL_SIDECAR_FILES; ++i)
        ours |= strcmp(name, hil_sidecar_file_name((hil_sidecar_file)i)) == 0;
    return ours;
}

struct foreign {
    bool (*ours)(const char *name);
    char *out; /* [HIL_PATH_MAX], the first entry that is not `ours` */
};

static hil_status note_foreign(void *context, const char *folder, const char *name)
{
    const struct foreign *foreign = context;
    if (foreign->out[0] || foreign->ours(name)) return HIL_OK;
    return hil_path_join(foreign->out, folder, name);
}

/* The path of an entry that is not `ours`, or of `folder` if that is a file; "": none, also for a
   missing folder. */
static hil_status find_foreign(const char *folder, bool (*ours)(const char *name),
                               char out[HIL_PATH_MAX])
{
    struct foreign foreign = {ours, out};
    struct stat info;
    out[0] = 0;
    if (stat(folder, &info) == 0 && !S_ISDIR(info.st_mode)) return hil_path_join(out, folder, "");
    return hil_dir_each(folder, HIL_MISSING_IS_EMPTY, note_foreign, &foreign);
}

hil_status hil_checkpoint_foreign(const char *folder, char out[HIL_PATH_MAX])
{
    char dir[HIL_PATH_MAX];
    int64_t *steps = NULL;
    size_t count = 0;
    HIL_TRY(find_foreign(folder, of_folder, out));
    hil_status status = HIL_OK;
    if (!out[0]) status = hil_steps_list(folder, &steps, &count);
    for (size_t i = 0; status == HIL_OK && !out[0] && i < count; ++i) {
        status = hil_step_path(dir, folder, steps[i]);
        if (status == HIL_OK) status = find_foreign(dir, of_step, out);
    }
    hil_free(steps);
    return status;
}

/* Renames a checkpoint to step-N.rest and removes hilbert's own files from it. */
static hil_status keep_rest(const char *path)
{
    char rest[HIL_PATH_MAX];
    unsigned number = 1;
    do {
        int size = number == 1 ? snprintf(rest, sizeof rest, "%s.rest", path)
                               : snprintf(rest, sizeof rest, "%s.rest.%u", path, number);
        if (size >= (int)sizeof rest)
            return hil_fail(HIL_ERR_INPUT, "path too long: %.80s...", path);
        ++number;
    } while (hil_file_exists(rest));
    if (rename(path, rest) != 0)
        return hil_fail(HIL_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
    struct stat info;
    if (lstat(rest, &info) != 0 || !S_ISDIR(info.st_mode)) return HIL_OK;
    return hil_dir_remove_matching(rest, of_step);
}

/* Renames the folder first, so that a checkpoint that is only partly removed is not taken for one.
 */
static hil_status remove_step(const char *folder, int64_t step)
{
    char path[HIL_PATH_MAX], aside[HIL_PATH_MAX];
    HIL_TRY(hil_step_path(path, folder, step));
    HIL_TRY(find_foreign(path, of_step, aside));
    if (aside[0]) return keep_rest(path);
    HIL_TRY(hil_temporary_name(aside, path));
    if (rename(path, aside) != 0)
        return hil_fail(HIL_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
    return hil_file_remove_tree(aside);
}

hil_status hil_checkpoint_return_to(const char *folder, int64_t step)
{
    int64_t *steps;
    size_t count;
    HIL_TRY(hil_latest_write(folder, step));
    hil_status status = hil_steps_list(folder, &steps, &count);
    for (size_t i = 0; status == HIL_OK && i < count && steps[i] > step; ++i)
        status = remove_step(folder, steps[i]);
    hil_free(steps);
    return status;
}

hil_status hil_checkpoint_tidy(const char *folder, int64_t keep, int64_t best)
{
    int64_t latest, *steps;
    size_t count;
    HIL_TRY(hil_dir_remove_matching(folder, hil_temporary_is));
    HIL_TRY(hil_latest_read(folder, &latest));
    hil_status status = hil_steps_list(folder, &steps, &count);
    int64_t kept = 0;
    for (size_t i = 0; status == HIL_OK && i < count; ++i) {
        if (steps[i] == latest || kept < keep)
            ++kept;
        else if (steps[i] != best)
            status = remove_step(folder, steps[i]);
    }
    hil_free(steps);
    return status;
}
