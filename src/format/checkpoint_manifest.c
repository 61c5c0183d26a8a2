/* checkpoint_manifest.c - writes and parses manifest.json. */
#include "format/checkpoint_manifest.h"

#include "base/alloc.h"
#include "io/file.h"
#include "store/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

const char *const hil_state_file[HIL_STATES] = {"master.safetensors", "moment1.safetensors",
                                                "moment2.safetensors"};
static const char seal[] = "\"manifest_hash\": \"";
static const char tail[] = "\"\n}\n";
#define SEAL_BYTES (sizeof seal - 1)
#define TAIL_BYTES (sizeof tail - 1)
#define HASH_BYTES 16

hil_status hil_manifest_begin(hil_manifest_text *out, int64_t step)
{
    *out = (hil_manifest_text){0};
    return hil_text_print(&out->text, "{\n\"version\": %d,\n\"step\": %lld,\n\"files\": {",
                          HIL_MANIFEST_VERSION, (long long)step);
}

hil_status hil_manifest_add(hil_manifest_text *out, const char *name, uint64_t size,
                            const hil_manifest_piece *piece, size_t pieces)
{
    hil_text *text = &out->text;
    HIL_TRY(hil_text_print(text, "%s\n \"%s\": {\"size\": %llu, \"pieces\": [",
                           out->files++ ? "," : "", name, (unsigned long long)size));
    for (size_t i = 0; i < pieces; ++i)
        HIL_TRY(hil_text_print(text, "%s[%llu, \"%016llx\"]", i ? ",\n  " : "",
                               (unsigned long long)piece[i].bytes,
                               (unsigned long long)piece[i].hash));
    return hil_text_print(text, "]}");
}

static hil_status add_names(hil_text *text, const hil_store *store, bool transposed)
{
    size_t count = 0;
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        const hil_param *p = hil_store_at(store, i);
        const hil_param_spec *spec = hil_param_spec_of(p);
        if (!hil_param_is_saved(p, HIL_MASTER) || (transposed && !spec->transposed)) continue;
        HIL_TRY(hil_text_print(text, "%s\n ", count++ ? "," : ""));
        HIL_TRY(hil_text_quote(text, spec->name));
    }
    return HIL_OK;
}

hil_status hil_manifest_seal(hil_text *text)
{
    HIL_TRY(hil_text_add(text, seal, SEAL_BYTES));
    uint64_t own = XXH3_64bits(text->data, text->size);
    return hil_text_print(text, "%016llx%s", (unsigned long long)own, tail);
}

hil_status hil_manifest_end(hil_manifest_text *out, const hil_store *store, const json_t *state)
{
    hil_text *text = &out->text;
    HIL_TRY(hil_text_print(text, "\n},\n\"tensors\": ["));
    HIL_TRY(add_names(text, store, false));
    HIL_TRY(hil_text_print(text, "],\n\"transposed\": ["));
    HIL_TRY(add_names(text, store, true));
    char *run = json_dumps(state, JSON_INDENT(1));
    if (!run) return hil_fail(HIL_ERR_MEMORY, "out of memory: the checkpoint's manifest");
    hil_status status = hil_text_print(text, "],\n\"state\": %s,\n", run);
    free(run);
    if (status == HIL_OK) status = hil_manifest_seal(text);
    return status;
}

static hil_status check_seal(const char *text, size_t size, const char *what)
{
    char hash[HASH_BYTES + 1];
    bool right = size > SEAL_BYTES + HASH_BYTES + TAIL_BYTES;
    if (right) {
        size_t body = size - HASH_BYTES - TAIL_BYTES;
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)XXH3_64bits(text, body));
        right = memcmp(text + body - SEAL_BYTES, seal, SEAL_BYTES) == 0 &&
                memcmp(text + body, hash, HASH_BYTES) == 0 &&
                memcmp(text + body + HASH_BYTES, tail, TAIL_BYTES) == 0;
    }
    return right ? HIL_OK : hil_fail(HIL_ERR_INPUT, "%s is damaged: its checksum is wrong", what);
}

static bool read_hash(const json_t *value, uint64_t *out)
{
    const char *text = json_string_value(value);
    if (!text || strlen(text) != HASH_BYTES || strspn(text, "0123456789abcdef") != HASH_BYTES)
        return false;
    *out = strtoull(text, NULL, 16);
    return true;
}

/* Appends the pieces of `file` to those of the manifest. */
static bool read_pieces(hil_manifest *m, hil_manifest_file *file, const json_t *list)
{
    uint64_t at = 0;
    file->first = m->pieces;
    file->pieces = json_array_size(list);
    for (size_t i = 0; i < file->pieces; ++i) {
        const json_t *item = json_array_get(list, i), *bytes = json_array_get(item, 0);
        hil_manifest_piece *piece = &m->piece[m->pieces++];
        if (json_array_size(item) != 2 || !json_is_integer(bytes) ||
            json_integer_value(bytes) < 1 || !read_hash(json_array_get(item, 1), &piece->hash))
            return false;
        piece->offset = at;
        piece->bytes = (uint64_t)json_integer_value(bytes);
        if (piece->bytes > file->size - at) return false;
        at += piece->bytes;
    }
    return at == file->size;
}

static hil_status read_file(hil_manifest *m, const char *name, const json_t *value,
                            const char *what)
{
    hil_manifest_file *file = &m->file[m->files++];
    const json_t *size = json_object_get(value, "size");
    if (!hil_path_is_plain(name) || strcmp(name, HIL_MANIFEST_FILE) == 0)
        return hil_fail(HIL_ERR_INPUT, "%s: \"%.200s\" is not a file of this folder", what, name);
    file->name = name;
    file->size = (uint64_t)json_integer_value(size);
    if (!json_is_integer(size) || json_integer_value(size) < 0 ||
        !read_pieces(m, file, json_object_get(value, "pieces")) ||
        __builtin_add_overflow(m->bytes, file->size, &m->bytes))
        return hil_fail(HIL_ERR_INPUT, "%s: the pieces of \"%.200s\" do not make up the file", what,
                        name);
    return HIL_OK;
}

static hil_status read_files(hil_manifest *m, const char *what)
{
    json_t *files = json_object_get(m->root, "files"), *value;
    const char *name;
    size_t pieces = 0;
    json_object_foreach(files, name, value) pieces +=
        json_array_size(json_object_get(value, "pieces"));
    HIL_TRY(HIL_ALLOC(json_object_size(files), &m->file));
    HIL_TRY(HIL_ALLOC(pieces, &m->piece));
    json_object_foreach(files, name, value) HIL_TRY(read_file(m, name, value, what));
    if (!hil_manifest_find(m, hil_state_file[HIL_MASTER]))
        return hil_fail(HIL_ERR_INPUT, "%s: %s is not listed", what, hil_state_file[HIL_MASTER]);
    return HIL_OK;
}

static hil_status read_root(hil_manifest *m, const char *what)
{
    int64_t version = 0;
    m->step = -1;
    HIL_TRY(hil_json_int(m->root, "version", what, &version));
    if (version != HIL_MANIFEST_VERSION)
        return hil_fail(HIL_ERR_INPUT,
                        "%s has version %lld, but this hilbert reads version %d: continue with the "
                        "hilbert that wrote it",
                        what, (long long)version, HIL_MANIFEST_VERSION);
    HIL_TRY(hil_json_int(m->root, "step", what, &m->step));
    if (m->step < 0) return hil_fail(HIL_ERR_INPUT, "%s names no step", what);
    if (!json_is_object(json_object_get(m->root, "state")))
        return hil_fail(HIL_ERR_INPUT, "%s has no state", what);
    return read_files(m, what);
}

hil_status hil_manifest_parse(hil_manifest *out, const char *text, size_t size, const char *what)
{
    *out = (hil_manifest){0};
    HIL_TRY(check_seal(text, size, what));
    HIL_TRY(hil_json_parse(text, size, what, &out->root));
    hil_status status = read_root(out, what);
    if (status != HIL_OK) hil_manifest_close(out);
    return status;
}

hil_status hil_manifest_open(hil_manifest *out, const char *dir)
{
    char path[HIL_PATH_MAX];
    hil_bytes content;
    *out = (hil_manifest){0};
    HIL_TRY(hil_path_join(path, dir, HIL_MANIFEST_FILE));
    if (!hil_file_exists(path)) return hil_fail(HIL_ERR_INPUT, "%s is missing", path);
    HIL_TRY(hil_bytes_read(&content, path));
    hil_status status = hil_manifest_parse(out, content.data, content.size, path);
    hil_bytes_free(&content);
    return status;
}

void hil_manifest_close(hil_manifest *m)
{
    json_decref(m->root);
    hil_free(m->file);
    hil_free(m->piece);
    *m = (hil_manifest){0};
}

const hil_manifest_file *hil_manifest_find(const hil_manifest *m, const char *name)
{
    for (size_t i = 0; i < m->files; ++i)
        if (strcmp(m->file[i].name, name) == 0) return &m->file[i];
    return NULL;
}

bool hil_manifest_needs(const hil_manifest_file *file, hil_checkpoint_need need)
{
    if (need == HIL_NEED_ALL) return true;
    return strcmp(file->name, hil_state_file[HIL_MOMENT1]) != 0 &&
           strcmp(file->name, hil_state_file[HIL_MOMENT2]) != 0;
}
