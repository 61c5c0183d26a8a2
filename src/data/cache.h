/* cache.h - a file of tokens with marks; every read verifies checksums. */
#ifndef HIL_DATA_CACHE_H
#define HIL_DATA_CACHE_H

#include "base/fail.h"

/* A token: its id, and two marks in the high bits. */
#define HIL_MARK_START 0x80000000u   /* begins a document */
#define HIL_MARK_NO_LOSS 0x40000000u /* is not predicted */
#define HIL_MARK_ID 0x3fffffffu

/* The examples among the tokens, and the windows that they were packed into. */
typedef struct hil_packing {
    int64_t seq; /* length of those windows; 0: no examples, so the tokens fit any length */
    int64_t windows;
    int64_t examples;        /* in the files */
    int64_t cut, cut_tokens; /* examples longer than a window, and the tokens that they lost */
    int64_t left_out;        /* examples without a learned token within a window's length */
    int64_t padding;         /* tokens that fill up windows */
    int64_t learned;         /* tokens of examples that count in the loss */
    int64_t conversations;   /* among the examples */
} hil_packing;

/* Immutable and reference-counted: several datasets may share one. */
typedef struct hil_cache hil_cache;

/* *out is NULL if `path` is not a complete cache with this key for windows of `seq`. */
hil_status hil_cache_open(hil_cache **out, const char *path, uint64_t key, int64_t seq);
/* The file; for a nameless cache a path in /proc. */
const char *hil_cache_path(const hil_cache *cache);
hil_cache *hil_cache_share(hil_cache *cache);
void hil_cache_close(hil_cache *cache);

uint64_t hil_cache_key(const hil_cache *cache);
/* Padding included. */
int64_t hil_cache_tokens(const hil_cache *cache);
const hil_packing *hil_cache_packing(const hil_cache *cache);
/* A checksum of all tokens and their marks; does not depend on names of files. */
uint64_t hil_cache_content(const hil_cache *cache);

/* Elements that `scratch` needs for reads of `count` tokens. */
size_t hil_cache_scratch(int64_t count);
/* Reads tokens [begin, begin + count), which must be in the cache; *out points to the first one in
   `scratch`. Removes a damaged cache and fails, so that the next run builds it again. */
hil_status hil_cache_read(const hil_cache *cache, int64_t begin, int64_t count, uint32_t *scratch,
                          const uint32_t **out);

/* Writes a cache. The file gets its name at commit, complete; without a commit it is removed. */
typedef struct hil_cache_writer hil_cache_writer;
hil_status hil_cache_writer_open(hil_cache_writer **out, const char *path, uint64_t key);
/* Writes a nameless file in `folder`: the system removes it when it is closed or the process ends.
 */
hil_status hil_cache_writer_open_nameless(hil_cache_writer **out, const char *folder, uint64_t key);
hil_status hil_cache_writer_add(hil_cache_writer *writer, const uint32_t *token, int64_t count);
int64_t hil_cache_writer_tokens(const hil_cache_writer *writer);
hil_status hil_cache_writer_commit(hil_cache_writer *writer, const hil_packing *packing);
/* Commits a nameless cache and opens it. The writer must still be closed. */
hil_status hil_cache_writer_take(hil_cache_writer *writer, const hil_packing *packing,
                                 hil_cache **out);
void hil_cache_writer_close(hil_cache_writer *writer);

#endif
