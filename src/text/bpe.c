/* bpe.c - byte pair encoding of one word. */
#include "text/bpe_work.h"

#include "text/unicode/unicode.h"

#include <string.h>

/* Symbols of a long word that are merged at a time. */
enum { WINDOW = 1 << 15 };

hil_status hil_bpe_work_create(hil_bpe_work **out)
{
    HIL_TRY(HIL_ALLOC(1, out));
    (*out)->window = WINDOW;
    hil_status status = HIL_ALLOC(HIL_BPE_CACHE_SLOTS, &(*out)->cache);
    if (status == HIL_OK) return HIL_OK;
    hil_free(*out);
    *out = NULL;
    return status;
}

void hil_bpe_work_destroy(hil_bpe_work *work)
{
    if (!work) return;
    hil_free(work->cache);
    hil_ids_free(&work->symbols);
    hil_free(work->chain);
    hil_free(work->heap);
    hil_text_free(&work->mapped);
    hil_ids_free(&work->open);
    hil_free(work->tokens);
    hil_free(work);
}

/* Printable Latin-1 bytes represent themselves; U+0100 and up represent the others in order. */
static bool is_plain(uint32_t point)
{
    return (point >= '!' && point <= '~') || (point >= 0xA1 && point <= 0xFF && point != 0xAD);
}

uint32_t hil_bpe_byte_char(unsigned char byte)
{
    if (is_plain(byte)) return byte;
    if (byte <= ' ') return 0x100u + byte;
    if (byte <= 0xA0) return 0x121u + (byte - 0x7Fu);
    return 0x143;
}

int hil_bpe_char_byte(uint32_t point)
{
    if (is_plain(point)) return (int)point;
    if (point < 0x100 || point > 0x143) return -1;
    if (point <= 0x120) return (int)(point - 0x100);
    return point == 0x143 ? 0xAD : (int)(point - 0x121 + 0x7F);
}

hil_status hil_bpe_flush_unknown(const hil_bpe *bpe, hil_bpe_work *work, hil_ids *symbols)
{
    if (!work->unknown) return HIL_OK;
    work->unknown = false;
    return hil_ids_add(symbols, bpe->unk_id);
}

/* A character without a piece becomes its byte pieces, the unknown token, or nothing. */
static hil_status add_missing(const hil_bpe *bpe, hil_bpe_work *work, const char *bytes,
                              size_t size, hil_ids *symbols)
{
    bool spelled = bpe->byte_fallback;
    for (size_t i = 0; i < size; ++i)
        if (bpe->byte_ids[(unsigned char)bytes[i]] < 0) spelled = false;
    if (spelled) {
        for (size_t i = 0; i < size; ++i)
            HIL_TRY(hil_ids_add(symbols, bpe->byte_ids[(unsigned char)bytes[i]]));
        return HIL_OK;
    }
    if (!bpe->unk) return HIL_OK;
    if (bpe->unk_id < 0)
        return hil_fail(HIL_ERR_INPUT,
                        "tokenizer: a character is not in the vocabulary, nor is its unknown "
                        "token \"%s\"",
                        bpe->unk);
    if (!bpe->fuse_unk) HIL_TRY(hil_bpe_flush_unknown(bpe, work, symbols));
    work->unknown = true;
    return HIL_OK;
}

static hil_status map_bytes(hil_text *mapped, const char *word, size_t size)
{
    mapped->size = 0;
    for (size_t i = 0; i < size; ++i) {
        char bytes[4];
        uint32_t point = hil_bpe_byte_char((unsigned char)word[i]);
        HIL_TRY(hil_text_add(mapped, bytes, hil_utf8_put(bytes, point)));
    }
    return HIL_OK;
}

/* Appends the symbols of text in which, if byte-level, characters already represent bytes. */
static hil_status add_mapped(const hil_bpe *bpe, hil_bpe_work *work, const char *text, size_t size,
                             hil_ids *symbols)
{
    for (size_t i = 0, step; i < size; i += step) {
        uint32_t point = hil_utf8_get(text + i, &step);
        int32_t id = point < HIL_BPE_DIRECT ? bpe->direct[point]
                                            : hil_vocab_find(bpe->vocab, text + i, step);
        if (id < 0) {
            HIL_TRY(add_missing(bpe, work, text + i, step, symbols));
            continue;
        }
        HIL_TRY(hil_bpe_flush_unknown(bpe, work, symbols));
        HIL_TRY(hil_ids_add(symbols, id));
    }
    return HIL_OK;
}

hil_status hil_bpe_add_symbols(const hil_bpe *bpe, hil_bpe_work *work, const char *text,
                               size_t size, hil_ids *symbols)
{
    if (!bpe->byte_level) return add_mapped(bpe, work, text, size, symbols);
    HIL_TRY(map_bytes(&work->mapped, text, size));
    return add_mapped(bpe, work, work->mapped.data, work->mapped.size, symbols);
}

static hil_status encode_word(const hil_bpe *bpe, hil_bpe_work *work, const char *word, size_t size)
{
    hil_ids *symbols = &work->symbols;
    symbols->size = 0;
    work->unknown = false;
    if (bpe->byte_level) {
        HIL_TRY(map_bytes(&work->mapped, word, size));
        word = work->mapped.data;
        size = work->mapped.size;
    }
    int32_t whole = bpe->ignore_merges ? hil_vocab_find(bpe->vocab, word, size) : -1;
    if (whole >= 0) return hil_ids_add(symbols, whole);
    HIL_TRY(add_mapped(bpe, work, word, size, symbols));
    HIL_TRY(hil_bpe_flush_unknown(bpe, work, symbols));
    return hil_bpe_merge(bpe, work, symbols);
}

static hil_status add_ids(hil_ids *ids, const int32_t *more, size_t count)
{
    HIL_TRY(HIL_GROW(&ids->data, &ids->capacity, ids->size + count));
    if (count) memcpy(ids->data + ids->size, more, count * sizeof *more);
    ids->size += count;
    return HIL_OK;
}

hil_status hil_bpe_encode(const hil_bpe *bpe, hil_bpe_work *work, const char *word, size_t size,
                          hil_ids *ids)
{
    if (size == 0) return HIL_OK;
    if (size > bpe->long_word) {
        HIL_TRY(hil_bpe_word_add(bpe, work, word, size, ids));
        return hil_bpe_word_end(bpe, work, ids);
    }
    hil_bpe_cached *slot = NULL;
    if (size <= HIL_BPE_CACHE_TEXT) {
        slot = &work->cache[hil_vocab_hash_bytes(word, size) % HIL_BPE_CACHE_SLOTS];
        if (slot->size == size && memcmp(slot->text, word, size) == 0)
            return add_ids(ids, slot->ids, slot->count);
    }
    HIL_TRY(encode_word(bpe, work, word, size));
    if (slot && work->symbols.size <= HIL_BPE_CACHE_IDS) {
        slot->size = (uint8_t)size;
        slot->count = (uint8_t)work->symbols.size;
        memcpy(slot->text, word, size);
        if (slot->count) memcpy(slot->ids, work->symbols.data, slot->count * sizeof *slot->ids);
    }
    return add_ids(ids, work->symbols.data, work->symbols.size);
}
