/* checkpoint.c - writing, finding and reading checkpoints. */
#include "format/checkpoint.h"

#include "base/hash.h"
#include "format/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VERSION 1
#define HASHED ((size_t)4 << 20) /* bytes of a file that are in memory at once */

static const char *const state_file[HIL_STATES] = {"master.safetensors", "moment1.safetensors",
                                                   "moment2.safetensors"};
/* The manifest's last member; its value is the checksum of everything before it. */
static const char seal[] = "\"manifest_hash\": \"";

static hil_status step_path(char out[HIL_PATH_MAX], const char *folder, int64_t step)
{
    char name[40];
    snprintf(name, sizeof name, "step-%lld", (long long)step);
    return hil_path_join(out, folder, name);
}

uint64_t hil_checkpoint_bytes(const hil_store *store, const char *model)
{
    (void)model;
    uint64_t bytes = 65536;
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        const hil_param *p = hil_store_at(store, i);
        for (int s = 0; s < HIL_STATES; ++s)
            if (hil_param_has(p, (hil_state)s)) bytes += (uint64_t)hil_param_elements(p) * 4 + 128;
    }
    return bytes;
}

/* How many parameters have the state: the tensors of its file; without any there is no file. */
static size_t count_state(const hil_store *store, hil_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < hil_store_count(store); ++i)
        count += hil_param_has(hil_store_at(store, i), state);
    return count;
}

static hil_status write_param(hil_writing *file, hil_store *store, hil_param *param,
                              hil_state state, float *range)
{
    for (int64_t first = 0, count; (count = hil_param_range(param, first)); first += count) {
        HIL_TRY(hil_store_read(store, param, state, first, count, range));
        HIL_TRY(hil_writing_data(file, range, (size_t)count * sizeof *range));
    }
    return HIL_OK;
}

static hil_status write_state(const char *path, hil_store *store, hil_state state)
{
    hil_writing *file;
    float *range = NULL;
    HIL_TRY(hil_writing_create(&file, path));
    hil_status status = HIL_OK;
    HIL_TRY_DONE(HIL_ALLOC(hil_store_range(store), &range));
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        const hil_param_spec *spec = hil_param_spec_of(hil_store_at(store, i));
        if (!hil_param_has(hil_store_at(store, i), state)) continue;
        HIL_TRY_DONE(hil_writing_declare(file, spec->name, HIL_F32, &spec->shape));
    }
    HIL_TRY_DONE(hil_writing_begin(file));
    for (const char *name; (name = hil_writing_next(file));)
        HIL_TRY_DONE(write_param(file, store, hil_store_find(store, name), state, range));
    HIL_TRY_DONE(hil_writing_commit(file));
done:
    hil_free(range);
    hil_writing_destroy(file);
    return status;
}

/* A part of a checkpoint that is not there is damage; one that cannot be read just now is not. */
static hil_status open_part(hil_map *map, const char *path)
{
    if (!hil_file_exists(path)) return hil_fail(HIL_ERR_INPUT, "%s is missing", path);
    return hil_map_open(map, path);
}

static hil_status file_hash(const char *path, char out[17])
{
    hil_map map;
    HIL_TRY(open_part(&map, path));
    uint64_t hash = hil_hash_begin(map.size, map.size);
    for (size_t at = 0, size; at < map.size; at += size) {
        size = map.size - at < HASHED ? map.size - at : HASHED;
        hash = hil_hash_add(hash, map.data + at, size);
        hil_map_drop(&map);
    }
    snprintf(out, 17, "%016llx", (unsigned long long)hil_hash_end(hash));
    hil_map_close(&map);
    return HIL_OK;
}

static hil_status write_manifest(const char *folder, const hil_store *store, const json_t *state)
{
    char path[HIL_PATH_MAX], hash[17];
    hil_text text = {0};
    hil_status status = HIL_OK;
    char *run = json_dumps(state, JSON_INDENT(1));
    if (!run) return hil_fail(HIL_ERR_MEMORY, "out of memory: the checkpoint's manifest");
    HIL_TRY_DONE(hil_text_print(&text, "{\n\"version\": %d,\n\"files\": {", VERSION));
    for (int i = 0; i < HIL_STATES; ++i) {
        if (!count_state(store, (hil_state)i)) continue;
        HIL_TRY_DONE(hil_path_join(path, folder, state_file[i]));
        HIL_TRY_DONE(file_hash(path, hash));
        HIL_TRY_DONE(
            hil_text_print(&text, "%s\n \"%s\": \"%s\"", i ? "," : "", state_file[i], hash));
    }
    HIL_TRY_DONE(hil_text_print(&text, "\n},\n\"state\": %s,\n%s", run, seal));
    uint64_t own = hil_hash(text.size, text.data, text.size);
    HIL_TRY_DONE(hil_text_print(&text, "%016llx\"\n}\n", (unsigned long long)own));
    HIL_TRY_DONE(hil_path_join(path, folder, "manifest.json"));
    HIL_TRY_DONE(hil_file_write(path, text.data, text.size));
done:
    free(run);
    hil_text_free(&text);
    return status;
}

static hil_status point_latest(const char *folder, int64_t step)
{
    char path[HIL_PATH_MAX], name[40];
    int size = snprintf(name, sizeof name, "step-%lld\n", (long long)step);
    HIL_TRY(hil_path_join(path, folder, "latest"));
    HIL_TRY(hil_file_write(path, name, (size_t)size));
    return hil_folder_sync(folder);
}

static hil_status write_all(const char *temporary, hil_store *store, const json_t *state)
{
    char path[HIL_PATH_MAX];
    for (int i = 0; i < HIL_STATES; ++i) {
        if (!count_state(store, (hil_state)i)) continue;
        HIL_TRY(hil_path_join(path, temporary, state_file[i]));
        HIL_TRY(write_state(path, store, (hil_state)i));
    }
    HIL_TRY(write_manifest(temporary, store, state));
    return hil_folder_sync(temporary);
}

/* A new folder's own name must be durable as well. */
hil_status hil_checkpoint_save(const hil_checkpoint_options *options, const json_t *state)
{
    const char *folder = options->folder;
    int64_t step = options->step;
    char final[HIL_PATH_MAX], temporary[HIL_PATH_MAX], name[80];
    HIL_TRY(hil_folder_create(folder));
    HIL_TRY(step_path(final, folder, step));
    HIL_TRY(hil_path_remove(final));
    snprintf(name, sizeof name, "tmp-%ld-step-%lld", (long)getpid(), (long long)step);
    HIL_TRY(hil_path_join(temporary, folder, name));
    HIL_TRY(hil_folder_create(temporary));
    hil_status status = write_all(temporary, options->store, state);
    if (status == HIL_OK && rename(temporary, final) != 0)
        status = hil_fail(HIL_ERR_IO, "cannot rename %s: %s", temporary, strerror(errno));
    if (status != HIL_OK) {
        char kept[1024];
        snprintf(kept, sizeof kept, "%s", hil_status_message());
        (void)!hil_path_remove(temporary);
        return hil_fail(status, "%s", kept);
    }
    HIL_TRY(hil_folder_sync(folder));
    return point_latest(folder, step);
}

/* The manifest, parsed, after its own checksum was found right. */
static hil_status open_manifest(const char *folder, int64_t step, json_t **out)
{
    char path[HIL_PATH_MAX], dir[HIL_PATH_MAX], hash[20];
    hil_map map;
    *out = NULL;
    HIL_TRY(step_path(dir, folder, step));
    HIL_TRY(hil_path_join(path, dir, "manifest.json"));
    HIL_TRY(open_part(&map, path));
    size_t tail = 16 + strlen("\"\n}\n");
    hil_status status = HIL_OK;
    size_t body = map.size > tail + sizeof seal ? map.size - tail : 0;
    if (body)
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)hil_hash(body, map.data, body));
    if (!body || memcmp(map.data + body - (sizeof seal - 1), seal, sizeof seal - 1) != 0 ||
        memcmp(map.data + body, hash, 16) != 0 || memcmp(map.data + body + 16, "\"\n}\n", 4) != 0)
        status = hil_fail(HIL_ERR_INPUT, "%s is damaged: its checksum is wrong", path);
    else
        status = hil_json_parse(map.data, map.size, path, out);
    hil_map_close(&map);
    int64_t version = 0;
    if (status == HIL_OK) status = hil_json_int(*out, "version", path, &version);
    if (status == HIL_OK && version != VERSION)
        status = hil_fail(HIL_ERR_INPUT, "%s has version %lld, expected %d", path,
                          (long long)version, VERSION);
    if (status != HIL_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

hil_status hil_checkpoint_state(const char *folder, int64_t step, json_t **state)
{
    json_t *manifest;
    HIL_TRY(open_manifest(folder, step, &manifest));
    *state = json_incref(json_object_get(manifest, "state"));
    json_decref(manifest);
    return *state ? HIL_OK : hil_fail(HIL_ERR_INPUT, "step-%lld has no state", (long long)step);
}

hil_status hil_checkpoint_verify(const char *folder, int64_t step, hil_comm *comm)
{
    (void)comm;
    json_t *manifest;
    char dir[HIL_PATH_MAX], path[HIL_PATH_MAX], hash[17];
    HIL_TRY(open_manifest(folder, step, &manifest));
    hil_status status = HIL_OK;
    HIL_TRY_DONE(step_path(dir, folder, step));
    for (int i = 0; i < HIL_STATES; ++i) {
        const json_t *entry = json_object_get(json_object_get(manifest, "files"), state_file[i]);
        if (!entry && i != HIL_MASTER) continue;
        const char *expected = json_string_value(entry);
        HIL_TRY_DONE(hil_path_join(path, dir, state_file[i]));
        HIL_TRY_DONE(file_hash(path, hash));
        if (!expected || strcmp(expected, hash) != 0)
            HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT, "%s is damaged: its checksum is wrong", path));
    }
done:
    json_decref(manifest);
    return status;
}

static bool fits(const hil_entry *entry, const hil_shape *shape)
{
    bool same = strcmp(entry->dtype, "F32") == 0 && entry->ndim == shape->ndim;
    for (int i = 0; same && i < shape->ndim; ++i) same = entry->dim[i] == shape->dim[i];
    return same;
}

static hil_status load_param(const hil_safetensors *file, const hil_entry *entry, hil_store *store,
                             hil_param *param, hil_state state, float *range)
{
    for (int64_t first = 0, count; (count = hil_param_range(param, first)); first += count) {
        memcpy(range, (const char *)entry->data + first * 4, (size_t)count * 4);
        hil_safetensors_drop(file);
        HIL_TRY(hil_store_write(store, param, state, first, count, range));
    }
    return HIL_OK;
}

static hil_status load_state(const char *path, hil_store *store, hil_state state)
{
    hil_safetensors *file;
    float *range = NULL;
    HIL_TRY(hil_safetensors_open(&file, path));
    hil_status status = HIL_OK;
    HIL_TRY_DONE(HIL_ALLOC(hil_store_range(store), &range));
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        hil_param *p = hil_store_at(store, i);
        if (!hil_param_has(p, state)) continue;
        const hil_entry *entry = hil_safetensors_find(file, hil_param_spec_of(p)->name);
        if (!entry || !fits(entry, &hil_param_spec_of(p)->shape) ||
            hil_safetensors_count(file) != count_state(store, state))
            HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT, "%s does not fit the model: tensor %s", path,
                                  hil_param_spec_of(p)->name));
        HIL_TRY_DONE(load_param(file, entry, store, p, state, range));
    }
done:
    hil_free(range);
    hil_safetensors_close(file);
    return status;
}

hil_status hil_checkpoint_load(const char *folder, int64_t step, hil_store *store)
{
    char dir[HIL_PATH_MAX], path[HIL_PATH_MAX];
    HIL_TRY(step_path(dir, folder, step));
    for (int i = 0; i < HIL_STATES; ++i) {
        if (!count_state(store, (hil_state)i)) continue;
        HIL_TRY(hil_path_join(path, dir, state_file[i]));
        HIL_TRY(load_state(path, store, (hil_state)i));
    }
    return HIL_OK;
}

/* The number in "step-N" (a newline may follow), or -1. */
static int64_t parse_step(const char *name)
{
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9') return -1;
    char *end;
    errno = 0;
    long long step = strtoll(name + 5, &end, 10);
    return errno == 0 && (*end == 0 || (*end == '\n' && end[1] == 0)) ? step : -1;
}

static int64_t read_latest(const char *folder)
{
    char path[HIL_PATH_MAX], name[40];
    hil_map map;
    if (hil_path_join(path, folder, "latest") != HIL_OK || !hil_file_exists(path) ||
        hil_map_open(&map, path) != HIL_OK)
        return -1;
    snprintf(name, sizeof name, "%.*s", (int)(map.size < 39 ? map.size : 39), map.data);
    hil_map_close(&map);
    return parse_step(name);
}

/* Steps of the folder's checkpoints, the newest first. */
static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static hil_status list_steps(const char *folder, int64_t **steps, size_t *count)
{
    size_t capacity = 0;
    *steps = NULL;
    *count = 0;
    DIR *dir = opendir(folder);
    if (!dir) return HIL_OK;
    hil_status status = HIL_OK;
    for (struct dirent *entry; status == HIL_OK && (entry = readdir(dir));) {
        int64_t step = parse_step(entry->d_name);
        if (step < 0) continue;
        status = HIL_GROW(steps, &capacity, *count + 1);
        if (status == HIL_OK) (*steps)[(*count)++] = step;
    }
    closedir(dir);
    if (*count) qsort(*steps, *count, sizeof **steps, newest_first);
    return status;
}

hil_status hil_checkpoint_find(const char *folder, hil_comm *comm, hil_checkpoint_found *out)
{
    int64_t latest = read_latest(folder), *steps;
    size_t count;
    *out = (hil_checkpoint_found){.step = -1};
    hil_status status = list_steps(folder, &steps, &count);
    for (size_t i = 0; status == HIL_OK && out->step < 0 && i <= count; ++i) {
        int64_t step = i == 0 ? latest : steps[i - 1];
        if (step < 0 || (i > 0 && step == latest)) continue;
        hil_status whole = hil_checkpoint_verify(folder, step, comm);
        if (whole == HIL_OK)
            out->step = step;
        else if (whole != HIL_ERR_INPUT) /* not damaged, only out of reach just now */
            status = whole;
        else if (!out->warning[0])
            snprintf(out->warning, sizeof out->warning, "%s", hil_status_message());
    }
    hil_free(steps);
    if (status == HIL_OK && out->step < 0 && out->warning[0])
        return hil_fail(HIL_ERR_INPUT, "no whole checkpoint in %s: %.800s", folder, out->warning);
    return status;
}

hil_status hil_checkpoint_count(const char *folder, int64_t *out)
{
    int64_t *steps;
    size_t count;
    HIL_TRY(list_steps(folder, &steps, &count));
    hil_free(steps);
    *out = (int64_t)count;
    return HIL_OK;
}

hil_status hil_checkpoint_return_to(const char *folder, int64_t step)
{
    int64_t *steps;
    size_t count;
    char path[HIL_PATH_MAX];
    HIL_TRY(point_latest(folder, step));
    hil_status status = list_steps(folder, &steps, &count);
    for (size_t i = 0; status == HIL_OK && i < count && steps[i] > step; ++i) {
        status = step_path(path, folder, steps[i]);
        if (status == HIL_OK) status = hil_path_remove(path);
    }
    hil_free(steps);
    return status;
}

static hil_status remove_unfinished(const char *folder)
{
    char path[HIL_PATH_MAX];
    DIR *dir = opendir(folder);
    if (!dir) return HIL_OK;
    hil_status status = HIL_OK;
    for (struct dirent *entry; status == HIL_OK && (entry = readdir(dir));) {
        if (strncmp(entry->d_name, "tmp-", 4) != 0) continue;
        status = hil_path_join(path, folder, entry->d_name);
        if (status == HIL_OK) status = hil_path_remove(path);
    }
    closedir(dir);
    return status;
}

hil_status hil_checkpoint_tidy(const char *folder, int64_t keep)
{
    int64_t latest = read_latest(folder), *steps;
    size_t count;
    char path[HIL_PATH_MAX];
    HIL_TRY(remove_unfinished(folder));
    hil_status status = list_steps(folder, &steps, &count);
    int64_t kept = 0;
    for (size_t i = 0; status == HIL_OK && i < count; ++i) {
        if (steps[i] == latest || kept < keep) {
            ++kept;
            continue;
        }
        status = step_path(path, folder, steps[i]);
        if (status == HIL_OK) status = hil_path_remove(path);
    }
    hil_free(steps);
    return status;
}
