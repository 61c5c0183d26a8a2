/* bpe_load.c - the "model" of a tokenizer.json: vocabulary, merges, and the pairs of characters
   that merges join. */
#include "text/bpe.h"

#include "base/json.h"
#include "text/unicode/unicode.h"

#include <stdio.h>
#include <string.h>

/* Bytes above which a word is encoded in parts. */
#define LONG_WORD ((size_t)1 << 14)

/* Counts the entries and checks their ids. */
static hil_status count_vocab(hil_json_pull pull, hil_text *key, size_t *entries, int64_t *ids)
{
    bool more;
    *entries = 0;
    *ids = 0;
    HIL_TRY(hil_json_pull_enter(&pull, '{', &more));
    while (more) {
        int64_t id;
        HIL_TRY(hil_json_pull_key(&pull, key));
        HIL_TRY(hil_json_pull_int(&pull, &id));
        HIL_TRY(hil_json_pull_next(&pull, '{', &more));
        if (id < 0 || id >= HIL_VOCAB_MAX)
            return hil_fail(HIL_ERR_INPUT, "%s: the id of \"%.60s\" must be in [0, %lld)",
                            pull.what, key->data, (long long)HIL_VOCAB_MAX);
        if (id >= *ids) *ids = id + 1;
        ++*entries;
    }
    return HIL_OK;
}

static hil_status read_vocab(hil_vocab *vocab, hil_json_pull pull, hil_text *key)
{
    size_t entries;
    int64_t ids, id;
    bool more, fresh;
    HIL_TRY(count_vocab(pull, key, &entries, &ids));
    HIL_TRY(hil_vocab_init(vocab, entries, pull.size, ids));
    HIL_TRY(hil_json_pull_enter(&pull, '{', &more));
    while (more) {
        HIL_TRY(hil_json_pull_key(&pull, key));
        HIL_TRY(hil_json_pull_int(&pull, &id));
        HIL_TRY(hil_json_pull_next(&pull, '{', &more));
        HIL_TRY(hil_vocab_add(vocab, key->data, key->size, (int32_t)id, &fresh));
        if (!fresh)
            return hil_fail(HIL_ERR_INPUT,
                            "%s: \"%.60s\" or its id %lld is in the vocabulary twice", pull.what,
                            key->data, (long long)id);
    }
    return HIL_OK;
}

/* Reads "left right" or ["left", "right"] into `whole` without the space; *left is the size of
   left, or SIZE_MAX if the value is not a pair. */
static hil_status read_merge(hil_json_pull *pull, hil_text *whole, hil_text *half, size_t *left)
{
    if (hil_json_pull_peek(pull) == '[') {
        bool more;
        *left = SIZE_MAX;
        HIL_TRY(hil_json_pull_enter(pull, '[', &more));
        if (!more) return HIL_OK;
        HIL_TRY(hil_json_pull_string(pull, whole));
        HIL_TRY(hil_json_pull_next(pull, '[', &more));
        if (!more) return HIL_OK;
        HIL_TRY(hil_json_pull_string(pull, half));
        HIL_TRY(hil_json_pull_next(pull, '[', &more));
        if (more) return HIL_OK;
        *left = whole->size;
        return hil_text_add(whole, half->data, half->size);
    }
    HIL_TRY(hil_json_pull_string(pull, whole));
    char *space = memchr(whole->data, ' ', whole->size);
    *left = space ? (size_t)(space - whole->data) : SIZE_MAX;
    if (!space) return HIL_OK;
    size_t rest = whole->size - *left - 1;
    if (memchr(space + 1, ' ', rest)) *left = SIZE_MAX;
    memmove(space, space + 1, rest);
    --whole->size;
    return HIL_OK;
}

static hil_status find_piece(const hil_vocab *vocab, const char *text, size_t size,
                             const char *what, int32_t *id)
{
    *id = hil_vocab_find(vocab, text, size);
    if (*id >= 0) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT,
                    "%s: a merge needs the piece \"%.*s\", which the vocabulary lacks", what,
                    (int)(size < 60 ? size : 60), text);
}

static void put_merge(hil_bpe *bpe, hil_merge merge)
{
    size_t at = hil_vocab_hash_mix(merge.key) & bpe->merge_mask;
    while (bpe->merges[at].key != UINT64_MAX && bpe->merges[at].key != merge.key)
        at = (at + 1) & bpe->merge_mask;
    bpe->merges[at] = merge;
}

static size_t count_characters(const hil_text *text)
{
    size_t count = 0;
    for (size_t i = 0; i < text->size; ++i) count += ((unsigned char)text->data[i] & 0xC0) != 0x80;
    return count;
}

static hil_status read_merges(hil_bpe *bpe, hil_json_pull pull, hil_text *whole, hil_text *half)
{
    size_t count, left;
    HIL_TRY(hil_json_pull_count(pull, &count));
    if (count >= UINT32_MAX) return hil_fail(HIL_ERR_INPUT, "%s: too many merges", pull.what);
    size_t slots = hil_vocab_hash_slots(count);
    HIL_TRY(HIL_ALLOC(slots, &bpe->merges));
    bpe->merge_mask = slots - 1;
    for (size_t i = 0; i < slots; ++i) bpe->merges[i].key = UINT64_MAX;
    bool more;
    HIL_TRY(hil_json_pull_enter(&pull, '[', &more));
    for (uint32_t rank = 0; more; ++rank) {
        int32_t first, second, id;
        HIL_TRY(read_merge(&pull, whole, half, &left));
        if (left == SIZE_MAX)
            return hil_fail(HIL_ERR_INPUT, "%s: merge %u is not a pair of pieces", pull.what, rank);
        HIL_TRY(hil_json_pull_next(&pull, '[', &more));
        const char *right = whole->data + left;
        HIL_TRY(find_piece(bpe->vocab, whole->data, left, pull.what, &first));
        HIL_TRY(find_piece(bpe->vocab, right, whole->size - left, pull.what, &second));
        HIL_TRY(find_piece(bpe->vocab, whole->data, whole->size, pull.what, &id));
        size_t reach = count_characters(whole);
        if (reach > bpe->reach) bpe->reach = reach;
        uint64_t key = (uint64_t)(uint32_t)first << 32 | (uint32_t)second;
        put_merge(bpe, (hil_merge){key, rank, id});
    }
    return HIL_OK;
}

static hil_status read_source(hil_bpe *bpe, hil_vocab *vocab, const hil_bpe_source *source)
{
    hil_text whole = {0}, half = {0};
    hil_status status = hil_vocab_check_utf8(&source->vocab, "vocab");
    if (status == HIL_OK) status = hil_vocab_check_utf8(&source->merges, "merges");
    if (status == HIL_OK) status = read_vocab(vocab, source->vocab, &whole);
    if (status == HIL_OK) status = read_merges(bpe, source->merges, &whole, &half);
    hil_text_free(&whole);
    hil_text_free(&half);
    return status;
}

static void index_characters(hil_bpe *bpe)
{
    for (uint32_t point = 0; point < HIL_BPE_DIRECT; ++point) {
        char bytes[4];
        bpe->direct[point] = hil_vocab_find(bpe->vocab, bytes, hil_utf8_put(bytes, point));
    }
    hil_vocab_find_bytes(bpe->vocab, bpe->byte_ids);
}

static hil_status refuse_text(const json_t *model, const char *key, const char *what)
{
    const char *text = "";
    HIL_TRY(hil_json_string(model, key, what, &text));
    if (!*text) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s: the model's %s \"%.60s\" is not supported", what, key,
                    text);
}

hil_status hil_bpe_load(hil_bpe *bpe, hil_vocab *vocab, const json_t *model,
                        const hil_bpe_source *source, const char *what)
{
    *bpe = (hil_bpe){.vocab = vocab, .unk_id = -1, .reach = 1};
    const char *type = "BPE", *unk = NULL;
    double dropout = 0;
    if (!json_is_object(model)) return hil_fail(HIL_ERR_INPUT, "%s: no \"model\" object", what);
    HIL_TRY(hil_json_string(model, "type", what, &type));
    if (strcmp(type, "BPE") != 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: the model \"%.60s\" is not supported, only BPE and Unigram are "
                        "(docs/models.md)",
                        what, type);
    HIL_TRY(hil_json_real(model, "dropout", what, &dropout));
    if (dropout != 0)
        return hil_fail(HIL_ERR_INPUT, "%s: dropout in the tokenizer is not supported", what);
    HIL_TRY(refuse_text(model, "continuing_subword_prefix", what));
    HIL_TRY(refuse_text(model, "end_of_word_suffix", what));
    HIL_TRY(hil_json_bool(model, "fuse_unk", what, &bpe->fuse_unk));
    HIL_TRY(hil_json_bool(model, "byte_fallback", what, &bpe->byte_fallback));
    HIL_TRY(hil_json_bool(model, "ignore_merges", what, &bpe->ignore_merges));
    HIL_TRY(hil_json_string(model, "unk_token", what, &unk));
    HIL_TRY(read_source(bpe, vocab, source));
    if (unk) {
        HIL_TRY(hil_text_copy(unk, &bpe->unk));
        bpe->unk_id = hil_vocab_find(vocab, unk, strlen(unk));
    }
    index_characters(bpe);
    bpe->long_word = LONG_WORD;
    for (size_t i = 0; bpe->ignore_merges && i < vocab->count; ++i)
        if (vocab->pieces[i].size > bpe->long_word) bpe->long_word = vocab->pieces[i].size;
    return HIL_OK;
}

void hil_bpe_free(hil_bpe *bpe)
{
    hil_free(bpe->merges);
    hil_free(bpe->pairs);
    hil_free(bpe->unk);
    *bpe = (hil_bpe){0};
}

/* The slot of a pair of characters, or the free slot (0) for it. */
static uint64_t *pair_slot(const hil_bpe *bpe, uint32_t a, uint32_t b)
{
    uint64_t key = ((uint64_t)a << 32 | b) + 1;
    size_t at = hil_vocab_hash_mix(key) & bpe->pair_mask;
    while (bpe->pairs[at] != 0 && bpe->pairs[at] != key) at = (at + 1) & bpe->pair_mask;
    return &bpe->pairs[at];
}

/* Counts the adjacent characters of every piece that a merge makes; adds them to `pairs` if set. */
static size_t walk_pairs(hil_bpe *bpe)
{
    size_t count = 0;
    for (size_t i = 0; i <= bpe->merge_mask; ++i) {
        if (bpe->merges[i].key == UINT64_MAX) continue;
        const hil_vocab_piece *piece = &bpe->vocab->pieces[bpe->merges[i].id];
        const char *text = bpe->vocab->text.data + piece->offset;
        uint32_t before = 0;
        for (size_t at = 0, step; at < piece->size; at += step) {
            uint32_t point = hil_utf8_get(text + at, &step);
            if (at && bpe->pairs) {
                uint64_t *slot = pair_slot(bpe, before, point);
                *slot = ((uint64_t)before << 32 | point) + 1;
            }
            count += at != 0;
            before = point;
        }
    }
    return count;
}

hil_status hil_bpe_index_pairs(hil_bpe *bpe)
{
    if (bpe->ignore_merges) return HIL_OK;
    size_t slots = hil_vocab_hash_slots(walk_pairs(bpe)), distinct = 0;
    HIL_TRY(HIL_ALLOC(slots, &bpe->pairs));
    bpe->pair_mask = slots - 1;
    walk_pairs(bpe);
    for (size_t i = 0; i < slots; ++i) distinct += bpe->pairs[i] != 0;

    uint64_t *sparse = bpe->pairs;
    slots = hil_vocab_hash_slots(2 * distinct);
    bpe->pairs = NULL;
    hil_status status = HIL_ALLOC(slots, &bpe->pairs);
    hil_free(sparse);
    HIL_TRY(status);
    bpe->pair_mask = slots - 1;
    walk_pairs(bpe);
    return HIL_OK;
}

static bool is_known(const hil_bpe *bpe, uint32_t point)
{
    if (point < HIL_BPE_DIRECT) return bpe->direct[point] >= 0;
    char bytes[4];
    return hil_vocab_find(bpe->vocab, bytes, hil_utf8_put(bytes, point)) >= 0;
}

bool hil_bpe_may_join(const hil_bpe *bpe, uint32_t a, uint32_t b)
{
    if (!bpe->pairs || *pair_slot(bpe, a, b) != 0) return true;
    return !is_known(bpe, a) || !is_known(bpe, b);
}
