/* inspect_checkpoint.c - the run behind a checkpoint: step, ranks, options, files. */
#include "run/inspect.h"

#include "format/checkpoint_manifest.h"

#include <stdlib.h>
#include <string.h>

static long long state_int(const hil_manifest *m, const char *key, long long missing)
{
    const json_t *value = json_object_get(json_object_get(m->root, "state"), key);
    return json_is_integer(value) ? json_integer_value(value) : missing;
}

/* Options as they were given; what else must be the same has a name of several words. */
static void print_options(const hil_manifest *m, FILE *out)
{
    json_t *options = json_object_get(json_object_get(m->root, "state"), "options"), *value;
    const char *name;
    json_object_foreach(options, name, value)
    {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        fprintf(out, "  %s%s %s\n", strchr(name, ' ') ? "" : "--", name, text ? text : "?");
        free(text);
    }
}

hil_status hil_inspect_manifest_print(const char *dir, FILE *out)
{
    hil_manifest m;
    char bytes[32];
    hil_status status = hil_manifest_open(&m, dir);
    if (status == HIL_ERR_INPUT) {
        fprintf(out, "%s\n", hil_status_message());
        return HIL_OK;
    }
    HIL_TRY(status);
    for (size_t i = 0; i < m.files; ++i)
        fprintf(out, "%s: %s in %zu piece%s\n", m.file[i].name,
                hil_text_bytes(bytes, m.file[i].size), m.file[i].pieces,
                m.file[i].pieces == 1 ? "" : "s");
    long long ranks = state_int(&m, "ranks", 1);
    fprintf(out, "step %lld, %lld tokens, %lld rank%s, %s\n", (long long)m.step,
            state_int(&m, "tokens", 0), ranks, ranks == 1 ? "" : "s",
            hil_text_bytes(bytes, m.bytes));
    print_options(&m, out);
    hil_manifest_close(&m);
    return HIL_OK;
}

static json_t *list_files(const hil_manifest *m)
{
    json_t *files = json_object();
    for (size_t i = 0; files && i < m->files; ++i) {
        json_t *item = json_pack("{s:I, s:I}", "bytes", (json_int_t)m->file[i].size, "pieces",
                                 (json_int_t)m->file[i].pieces);
        if (json_object_set_new(files, m->file[i].name, item) != 0) {
            json_decref(files);
            return NULL;
        }
    }
    return files;
}

hil_status hil_inspect_manifest_add(const char *dir, json_t *root)
{
    hil_manifest m = {0};
    json_t *object = NULL;
    hil_status status = hil_manifest_open(&m, dir);
    if (status == HIL_ERR_INPUT)
        object = json_pack("{s:s}", "error", hil_status_message());
    else if (status != HIL_OK)
        return status;
    else
        object = json_pack("{s:I, s:I, s:I, s:I, s:O?, s:o}", "step", (json_int_t)m.step, "tokens",
                           (json_int_t)state_int(&m, "tokens", 0), "ranks",
                           (json_int_t)state_int(&m, "ranks", 1), "bytes", (json_int_t)m.bytes,
                           "options", json_object_get(json_object_get(m.root, "state"), "options"),
                           "files", list_files(&m));
    hil_manifest_close(&m);
    if (json_object_set_new(root, "checkpoint", object) == 0) return HIL_OK;
    return hil_fail(HIL_ERR_MEMORY, "no memory for the list of files");
}
