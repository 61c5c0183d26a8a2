/* cache.c - the token cache's file: blocks of a checksum and 1022 tokens, then a footer. */
#include "data/cache.h"

#include "base/hash.h"
#include "io/file.h"
#include "io/reader.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_TOKENS 1022

struct block {
    uint64_t sum;
    uint32_t token[BLOCK_TOKENS];
};
_Static_assert(sizeof(struct block) == 4096, "a block is one page");

struct footer {
    char magic[8];
    uint64_t key;
    int64_t tokens;
    uint64_t content;
    hil_packing packing;
    uint64_t sum;
};

static const char magic[8] = "HILTOK3";

struct hil_cache {
    hil_reader *reader;
    uint64_t key, content;
    int64_t tokens;
    hil_packing packing;
    atomic_int users;
};

/* The checksum covers the block's number, so that misplaced blocks are found. */
static uint64_t block_sum(uint64_t key, int64_t number, const struct block *block)
{
    return hil_hash(key ^ (uint64_t)number, block->token, sizeof block->token);
}

static uint64_t footer_sum(const struct footer *footer)
{
    return hil_hash(footer->key, footer, offsetof(struct footer, sum));
}

static int64_t blocks_for(int64_t tokens)
{
    return tokens / BLOCK_TOKENS + (tokens % BLOCK_TOKENS != 0);
}

static bool is_whole(const struct footer *footer, uint64_t size, uint64_t key)
{
    return memcmp(footer->magic, magic, sizeof magic) == 0 && footer->key == key &&
           footer->sum == footer_sum(footer) && footer->tokens >= 0 &&
           size == (uint64_t)blocks_for(footer->tokens) * sizeof(struct block) + sizeof *footer;
}

/* Opens a cache that owns `reader`; closes the reader on failure. */
static hil_status open_reader(hil_cache **out, hil_reader *reader, uint64_t key, int64_t seq)
{
    hil_cache *cache = NULL;
    hil_status status = HIL_OK;
    HIL_TRY_DONE(HIL_ALLOC(1, &cache));
    cache->users = 1;
    cache->reader = reader;
    reader = NULL;
    uint64_t size = hil_reader_size(cache->reader);
    struct footer footer;
    size_t got;
    if (size < sizeof footer) goto done;
    HIL_TRY_DONE(
        hil_reader_read(cache->reader, size - sizeof footer, &footer, sizeof footer, &got));
    if (got < sizeof footer || !is_whole(&footer, size, key)) goto done;
    if (footer.packing.seq && footer.packing.seq != seq) goto done;
    cache->key = key;
    cache->tokens = footer.tokens;
    cache->content = footer.content;
    cache->packing = footer.packing;
    *out = cache;
    cache = NULL;
done:
    hil_reader_close(reader);
    hil_cache_close(cache);
    return status;
}

hil_status hil_cache_open(hil_cache **out, const char *path, uint64_t key, int64_t seq)
{
    *out = NULL;
    if (!hil_file_exists(path)) return HIL_OK;
    hil_reader *reader;
    HIL_TRY(hil_reader_open(&reader, path));
    return open_reader(out, reader, key, seq);
}

const char *hil_cache_path(const hil_cache *cache)
{
    return hil_reader_path(cache->reader);
}

hil_cache *hil_cache_share(hil_cache *cache)
{
    atomic_fetch_add(&cache->users, 1);
    return cache;
}

void hil_cache_close(hil_cache *cache)
{
    if (!cache || atomic_fetch_sub(&cache->users, 1) > 1) return;
    hil_reader_close(cache->reader);
    hil_free(cache);
}

uint64_t hil_cache_key(const hil_cache *cache)
{
    return cache->key;
}

int64_t hil_cache_tokens(const hil_cache *cache)
{
    return cache->tokens;
}

const hil_packing *hil_cache_packing(const hil_cache *cache)
{
    return &cache->packing;
}

uint64_t hil_cache_content(const hil_cache *cache)
{
    return cache->content;
}

size_t hil_cache_scratch(int64_t count)
{
    return ((size_t)blocks_for(count) + 1) * (sizeof(struct block) / sizeof(uint32_t));
}

hil_status hil_cache_read(const hil_cache *cache, int64_t begin, int64_t count, uint32_t *scratch,
                          const uint32_t **out)
{
    assert(begin >= 0 && count > 0 && count <= cache->tokens - begin);
    int64_t number = begin / BLOCK_TOKENS;
    int64_t blocks = (begin + count - 1) / BLOCK_TOKENS - number + 1;
    char *bytes = (char *)scratch;
    size_t got, need = (size_t)blocks * sizeof(struct block);
    HIL_TRY(
        hil_reader_read(cache->reader, (uint64_t)number * sizeof(struct block), bytes, need, &got));
    bool good = got == need;
    char *to = bytes;
    for (int64_t i = 0; good && i < blocks; ++i) {
        struct block block;
        memcpy(&block, bytes + (size_t)i * sizeof block, sizeof block);
        good = block.sum == block_sum(cache->key, number + i, &block);
        memcpy(to, block.token, sizeof block.token);
        to += sizeof block.token;
    }
    if (!good) {
        const char *path = hil_reader_path(cache->reader);
        bool removed = unlink(path) == 0;
        return hil_fail(HIL_ERR_IO, "token cache %s was damaged%s; start again to rebuild it", path,
                        removed ? " and is now removed" : "");
    }
    *out = scratch + begin % BLOCK_TOKENS;
    return HIL_OK;
}

struct hil_cache_writer {
    hil_writer *file;
    uint64_t key, content;
    int64_t tokens;
    struct block block;
};

static hil_status open_writer(hil_cache_writer **out, uint64_t key, const char *where,
                              hil_status (*open)(hil_writer **, const char *))
{
    *out = NULL;
    hil_cache_writer *writer;
    HIL_TRY(HIL_ALLOC(1, &writer));
    writer->key = key;
    hil_status status = open(&writer->file, where);
    if (status == HIL_OK)
        *out = writer;
    else
        hil_free(writer);
    return status;
}

hil_status hil_cache_writer_open(hil_cache_writer **out, const char *path, uint64_t key)
{
    return open_writer(out, key, path, hil_writer_open);
}

hil_status hil_cache_writer_open_nameless(hil_cache_writer **out, const char *folder, uint64_t key)
{
    return open_writer(out, key, folder, hil_writer_open_nameless);
}

static hil_status add_block(hil_cache_writer *writer)
{
    int64_t number = blocks_for(writer->tokens) - 1;
    writer->block.sum = block_sum(writer->key, number, &writer->block);
    writer->content = block_sum(writer->content, number, &writer->block);
    HIL_TRY(hil_writer_add(writer->file, &writer->block, sizeof writer->block));
    memset(&writer->block, 0, sizeof writer->block);
    return HIL_OK;
}

hil_status hil_cache_writer_add(hil_cache_writer *writer, const uint32_t *token, int64_t count)
{
    while (count) {
        int64_t at = writer->tokens % BLOCK_TOKENS;
        int64_t part = count < BLOCK_TOKENS - at ? count : BLOCK_TOKENS - at;
        memcpy(writer->block.token + at, token, (size_t)part * sizeof *token);
        writer->tokens += part;
        if (at + part == BLOCK_TOKENS) HIL_TRY(add_block(writer));
        token += part;
        count -= part;
    }
    return HIL_OK;
}

int64_t hil_cache_writer_tokens(const hil_cache_writer *writer)
{
    return writer->tokens;
}

static hil_status add_footer(hil_cache_writer *writer, const hil_packing *packing)
{
    if (writer->tokens % BLOCK_TOKENS) HIL_TRY(add_block(writer));
    struct footer footer = {.key = writer->key,
                            .tokens = writer->tokens,
                            .content = writer->content,
                            .packing = *packing};
    memcpy(footer.magic, magic, sizeof magic);
    footer.sum = footer_sum(&footer);
    return hil_writer_add(writer->file, &footer, sizeof footer);
}

hil_status hil_cache_writer_commit(hil_cache_writer *writer, const hil_packing *packing)
{
    HIL_TRY(add_footer(writer, packing));
    return hil_writer_commit(writer->file);
}

hil_status hil_cache_writer_take(hil_cache_writer *writer, const hil_packing *packing,
                                 hil_cache **out)
{
    int fd;
    hil_reader *reader;
    *out = NULL;
    HIL_TRY(add_footer(writer, packing));
    HIL_TRY(hil_writer_take(writer->file, &fd));
    HIL_TRY(hil_reader_adopt(&reader, fd));
    return open_reader(out, reader, writer->key, packing->seq);
}

void hil_cache_writer_close(hil_cache_writer *writer)
{
    if (!writer) return;
    hil_writer_close(writer->file);
    hil_free(writer);
}
