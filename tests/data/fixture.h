/* fixture.h - a folder for one test, files in it, and windows as text. */
#ifndef HIL_TESTS_DATA_FIXTURE_H
#define HIL_TESTS_DATA_FIXTURE_H

#include "check.h"
#include "data/dataset.h"
#include "io/file.h"

#include <unistd.h>

static char fixture_folder[64];

static inline void fixture_remove(void)
{
    if (hil_file_remove_tree(fixture_folder) != HIL_OK)
        fprintf(stderr, "%s\n", hil_status_message());
}

static inline void fixture_create(void)
{
    snprintf(fixture_folder, sizeof fixture_folder, "/tmp/hilbert-data-XXXXXX");
    CHECK(mkdtemp(fixture_folder) != NULL);
    atexit(fixture_remove);
}

/* The path of `name` in the folder; valid for the next seven calls. */
static inline const char *fixture_path(const char *name)
{
    static char path[8][128];
    static int next;
    char *out = path[next++ % 8];
    snprintf(out, sizeof path[0], "%s/%s", fixture_folder, name);
    return out;
}

static inline const char *fixture_bytes(const char *name, const void *bytes, size_t size)
{
    const char *path = fixture_path(name);
    CHECK_OK(hil_file_write(path, bytes, size));
    return path;
}

static inline const char *fixture_text(const char *name, const char *text)
{
    return fixture_bytes(name, text, strlen(text));
}

static inline const char *fixture_npy(const char *name, const uint16_t *ids, size_t count)
{
    char bytes[4096] = "\x93NUMPY\x01\x00\x76\x00";
    CHECK(128 + 2 * count <= sizeof bytes);
    memset(bytes + 10, ' ', 118);
    bytes[127] = '\n';
    char header[118];
    int size = snprintf(header, sizeof header,
                        "{'descr': '<u2', 'fortran_order': False, 'shape': (%zu,), }", count);
    memcpy(bytes + 10, header, (size_t)size);
    if (count) memcpy(bytes + 128, ids, 2 * count);
    return fixture_bytes(name, bytes, 128 + 2 * count);
}

static inline hil_dataset_options fixture_options(int64_t seq)
{
    static char cache[128];
    snprintf(cache, sizeof cache, "%s/cache", fixture_folder);
    return (hil_dataset_options){
        .vocab = 257, .seq = seq, .eot = 256, .bos = -1, .cache_dir = cache};
}

/* "token>target@position/first" for each entry; valid until the next call. */
static inline const char *fixture_window(hil_dataset *dataset, int64_t seq, int64_t index)
{
    static char text[1024];
    int32_t token[32], target[32], position[32], first[32];
    CHECK(seq <= 32);
    CHECK_OK(hil_dataset_window(dataset, index, &(hil_window){token, target, position, first}));
    size_t used = 0;
    for (int64_t t = 0; t < seq; ++t)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d>%d@%d/%d", t ? " " : "",
                                 token[t], target[t], position[t], first[t]);
    return text;
}

/* All tokens of all windows as "97 98 99"; valid until the next call. */
static inline const char *fixture_tokens(const char *const *paths, size_t count,
                                         const hil_dataset_options *options)
{
    static char text[1 << 15];
    int32_t token[64], other[64];
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, paths, count, options));
    CHECK(options->seq <= 64 && hil_dataset_tokens(dataset) < (int64_t)sizeof text / 6);
    size_t used = 0;
    for (int64_t w = 0; w < hil_dataset_windows(dataset); ++w) {
        CHECK_OK(hil_dataset_window(dataset, w, &(hil_window){token, other, other, other}));
        for (int64_t t = 0; t < options->seq; ++t)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", used ? " " : "",
                                     token[t]);
    }
    hil_dataset_close(dataset);
    return text;
}

#endif
