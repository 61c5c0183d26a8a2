/* bpe.c - byte pair encoding of one word. */
#include "format/bpe.h"

#include "format/unicode.h"

#include <string.h>

enum { CACHE_SLOTS = 1 << 15, CACHE_TEXT = 30, CACHE_IDS = 8 };

/* Words up to this many symbols are merged by scanning, which beats a heap there. */
enum { SHORT = 48 };

typedef struct cached {
    uint8_t size, count;
    char text[CACHE_TEXT];
    int32_t ids[CACHE_IDS];
} cached;

typedef struct candidate {
    uint64_t order; /* rank << 32 | place */
    int32_t id;
} candidate;

typedef struct symbol {
    int32_t id; /* -1 once merged into its left neighbour */
    uint32_t previous, next;
} symbol;

struct hil_bpe_work {
    cached *cache;
    hil_ids symbols;
    symbol *chain;
    size_t chain_capacity;
    candidate *heap;
    size_t heap_size, heap_capacity;
    hil_text mapped;
};

#define NOWHERE UINT32_MAX

hil_status hil_bpe_work_create(hil_bpe_work **out)
{
    HIL_TRY(HIL_ALLOC(1, out));
    hil_status status = HIL_ALLOC(CACHE_SLOTS, &(*out)->cache);
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
    hil_free(work);
}

/* Printable Latin-1 bytes stand for themselves, the others for U+0100 and up in order. */
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

static const hil_merge *merge_of(const hil_bpe *bpe, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (size_t at = hil_hash_mix(key) & bpe->merge_mask;; at = (at + 1) & bpe->merge_mask) {
        const hil_merge *merge = &bpe->merges[at];
        if (merge->key == key) return merge;
        if (merge->key == UINT64_MAX) return NULL;
    }
}

static hil_status merge_short(const hil_bpe *bpe, hil_ids *symbols)
{
    const hil_merge *found[SHORT];
    int32_t *id = symbols->data;
    size_t count = symbols->size;
    for (size_t i = 0; i + 1 < count; ++i) found[i] = merge_of(bpe, id[i], id[i + 1]);
    for (;;) {
        const hil_merge *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < count; ++i) {
            if (found[i] && (!best || found[i]->rank < best->rank)) {
                best = found[i];
                at = i;
            }
        }
        if (!best) break;
        id[at] = best->id;
        --count;
        for (size_t i = at + 1; i < count; ++i) {
            id[i] = id[i + 1];
            found[i - 1] = found[i];
        }
        if (at + 1 < count) found[at] = merge_of(bpe, id[at], id[at + 1]);
        if (at > 0) found[at - 1] = merge_of(bpe, id[at - 1], id[at]);
    }
    symbols->size = count;
    return HIL_OK;
}

static hil_status heap_push(hil_bpe_work *work, const hil_merge *merge, uint32_t place)
{
    HIL_TRY(HIL_GROW(&work->heap, &work->heap_capacity, work->heap_size + 1));
    candidate added = {(uint64_t)merge->rank << 32 | place, merge->id};
    size_t at = work->heap_size++;
    for (; at > 0 && work->heap[(at - 1) / 2].order > added.order; at = (at - 1) / 2)
        work->heap[at] = work->heap[(at - 1) / 2];
    work->heap[at] = added;
    return HIL_OK;
}

static candidate heap_pop(hil_bpe_work *work)
{
    candidate top = work->heap[0], last = work->heap[--work->heap_size];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= work->heap_size) break;
        if (child + 1 < work->heap_size && work->heap[child + 1].order < work->heap[child].order)
            ++child;
        if (work->heap[child].order >= last.order) break;
        work->heap[at] = work->heap[child];
        at = child;
    }
    work->heap[at] = last;
    return top;
}

static hil_status push_pair(const hil_bpe *bpe, hil_bpe_work *work, uint32_t left)
{
    uint32_t right = left == NOWHERE ? NOWHERE : work->chain[left].next;
    if (right == NOWHERE) return HIL_OK;
    const hil_merge *merge = merge_of(bpe, work->chain[left].id, work->chain[right].id);
    return merge ? heap_push(work, merge, left) : HIL_OK;
}

static hil_status merge_long(const hil_bpe *bpe, hil_bpe_work *work)
{
    hil_ids *symbols = &work->symbols;
    if (symbols->size >= INT32_MAX)
        return hil_fail(HIL_ERR_INPUT, "tokenizer: a word of %zu characters is too long",
                        symbols->size);
    uint32_t count = (uint32_t)symbols->size;
    HIL_TRY(HIL_GROW(&work->chain, &work->chain_capacity, count));
    for (uint32_t i = 0; i < count; ++i)
        work->chain[i] =
            (symbol){symbols->data[i], i ? i - 1 : NOWHERE, i + 1 < count ? i + 1 : NOWHERE};
    work->heap_size = 0;
    for (uint32_t i = 0; i + 1 < count; ++i) HIL_TRY(push_pair(bpe, work, i));
    while (work->heap_size) {
        candidate top = heap_pop(work);
        uint32_t place = (uint32_t)top.order;
        symbol *left = &work->chain[place];
        if (left->id < 0 || left->next == NOWHERE) continue;
        symbol *right = &work->chain[left->next];
        const hil_merge *merge = merge_of(bpe, left->id, right->id);
        if (!merge || merge->id != top.id) continue;
        left->id = merge->id;
        right->id = -1;
        left->next = right->next;
        if (right->next != NOWHERE) work->chain[right->next].previous = place;
        HIL_TRY(push_pair(bpe, work, left->previous));
        HIL_TRY(push_pair(bpe, work, place));
    }
    symbols->size = 0;
    for (uint32_t i = 0; i < count; ++i)
        if (work->chain[i].id >= 0) symbols->data[symbols->size++] = work->chain[i].id;
    return HIL_OK;
}

/* Unknown characters under way: their symbol is written when a known one follows. */
typedef struct unknown {
    bool pending;
} unknown;

static hil_status flush_unknown(const hil_bpe *bpe, hil_ids *symbols, unknown *state)
{
    if (!state->pending) return HIL_OK;
    state->pending = false;
    return hil_ids_add(symbols, bpe->unk_id);
}

/* A character without a piece: its bytes, or the unknown token, or nothing. */
static hil_status add_missing(const hil_bpe *bpe, hil_ids *symbols, unknown *state,
                              const char *bytes, size_t size)
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
    if (!bpe->fuse_unk) HIL_TRY(flush_unknown(bpe, symbols, state));
    state->pending = true;
    return HIL_OK;
}

static hil_status add_symbols(const hil_bpe *bpe, hil_ids *symbols, const char *word, size_t size)
{
    unknown state = {0};
    for (size_t i = 0, step; i < size; i += step) {
        uint32_t point = hil_utf8_get(word + i, &step);
        int32_t id = point < HIL_BPE_DIRECT ? bpe->direct[point]
                                            : hil_vocab_find(bpe->vocab, word + i, step);
        if (id < 0) {
            HIL_TRY(add_missing(bpe, symbols, &state, word + i, step));
            continue;
        }
        HIL_TRY(flush_unknown(bpe, symbols, &state));
        HIL_TRY(hil_ids_add(symbols, id));
    }
    return flush_unknown(bpe, symbols, &state);
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

static hil_status encode_word(const hil_bpe *bpe, hil_bpe_work *work, const char *word, size_t size)
{
    hil_ids *symbols = &work->symbols;
    symbols->size = 0;
    if (bpe->byte_level) {
        HIL_TRY(map_bytes(&work->mapped, word, size));
        word = work->mapped.data;
        size = work->mapped.size;
    }
    int32_t whole = bpe->ignore_merges ? hil_vocab_find(bpe->vocab, word, size) : -1;
    if (whole >= 0) return hil_ids_add(symbols, whole);
    HIL_TRY(add_symbols(bpe, symbols, word, size));
    return symbols->size <= SHORT ? merge_short(bpe, symbols) : merge_long(bpe, work);
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
    cached *slot = NULL;
    if (size <= CACHE_TEXT) {
        slot = &work->cache[hil_hash_bytes(word, size) % CACHE_SLOTS];
        if (slot->size == size && memcmp(slot->text, word, size) == 0)
            return add_ids(ids, slot->ids, slot->count);
    }
    HIL_TRY(encode_word(bpe, work, word, size));
    if (slot && work->symbols.size <= CACHE_IDS) {
        slot->size = (uint8_t)size;
        slot->count = (uint8_t)work->symbols.size;
        memcpy(slot->text, word, size);
        if (slot->count) memcpy(slot->ids, work->symbols.data, slot->count * sizeof *slot->ids);
    }
    return add_ids(ids, work->symbols.data, work->symbols.size);
}
