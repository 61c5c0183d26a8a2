/* bpe_load.c - the "model" of a tokenizer.json: vocabulary, merges, and which characters meet. */
#include "format/bpe.h"

#include "base/json.h"
#include "format/unicode.h"

#include <stdio.h>
#include <string.h>

static hil_status load_vocab(hil_vocab *vocab, const json_t *entries, const char *what)
{
    if (!json_is_object(entries))
        return hil_fail(HIL_ERR_INPUT, "%s: the model has no \"vocab\" object", what);
    int64_t top = -1;
    size_t bytes = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)entries, key, value)
    {
        int64_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= HIL_VOCAB_MAX)
            return hil_fail(HIL_ERR_INPUT, "%s: the id of \"%.60s\" must be in [0, %lld)", what,
                            key, (long long)HIL_VOCAB_MAX);
        if (id > top) top = id;
        bytes += strlen(key);
    }
    HIL_TRY(hil_vocab_init(vocab, json_object_size(entries), bytes, top + 1));
    json_object_foreach((json_t *)entries, key, value)
    {
        bool fresh;
        int32_t id = (int32_t)json_integer_value(value);
        HIL_TRY(hil_vocab_add(vocab, key, strlen(key), id, &fresh));
        if (!fresh)
            return hil_fail(HIL_ERR_INPUT, "%s: \"%.60s\" has the id %d of another piece", what,
                            key, id);
    }
    return HIL_OK;
}

/* "left right" or ["left", "right"]. Borrowed from `merge`. */
typedef struct halves {
    const char *left, *right;
    size_t left_size, right_size;
} halves;

static bool read_halves(const json_t *merge, halves *out)
{
    if (json_is_string(merge)) {
        out->left = json_string_value(merge);
        size_t size = json_string_length(merge);
        const char *space = memchr(out->left, ' ', size);
        if (!space) return false;
        out->left_size = (size_t)(space - out->left);
        out->right = space + 1;
        out->right_size = size - out->left_size - 1;
        return !memchr(out->right, ' ', out->right_size);
    }
    const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
    if (json_array_size(merge) != 2 || !json_is_string(left) || !json_is_string(right))
        return false;
    *out = (halves){json_string_value(left), json_string_value(right), json_string_length(left),
                    json_string_length(right)};
    return true;
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
    size_t at = hil_hash_mix(merge.key) & bpe->merge_mask;
    while (bpe->merges[at].key != UINT64_MAX && bpe->merges[at].key != merge.key)
        at = (at + 1) & bpe->merge_mask;
    bpe->merges[at] = merge;
}

static hil_status load_merges(hil_bpe *bpe, const json_t *merges, const char *what)
{
    size_t count = json_array_size(merges), slots = hil_hash_slots(count);
    if (!json_is_array(merges) || count >= UINT32_MAX)
        return hil_fail(HIL_ERR_INPUT, "%s: the model has no \"merges\" array", what);
    HIL_TRY(HIL_ALLOC(slots, &bpe->merges));
    bpe->merge_mask = slots - 1;
    for (size_t i = 0; i < slots; ++i) bpe->merges[i].key = UINT64_MAX;
    hil_status status = HIL_OK;
    hil_text whole = {0};
    for (size_t i = 0; i < count; ++i) {
        halves part;
        int32_t left, right, id;
        if (!read_halves(json_array_get(merges, i), &part)) {
            status = hil_fail(HIL_ERR_INPUT, "%s: merge %zu is not a pair of pieces", what, i);
            goto done;
        }
        whole.size = 0;
        HIL_TRY_DONE(hil_text_add(&whole, part.left, part.left_size));
        HIL_TRY_DONE(hil_text_add(&whole, part.right, part.right_size));
        HIL_TRY_DONE(find_piece(bpe->vocab, part.left, part.left_size, what, &left));
        HIL_TRY_DONE(find_piece(bpe->vocab, part.right, part.right_size, what, &right));
        HIL_TRY_DONE(find_piece(bpe->vocab, whole.data, whole.size, what, &id));
        uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
        put_merge(bpe, (hil_merge){key, (uint32_t)i, id});
    }
done:
    hil_text_free(&whole);
    return status;
}

static void index_characters(hil_bpe *bpe)
{
    for (uint32_t point = 0; point < HIL_BPE_DIRECT; ++point) {
        char bytes[4];
        bpe->direct[point] = hil_vocab_find(bpe->vocab, bytes, hil_utf8_put(bytes, point));
    }
    for (int byte = 0; byte < 256; ++byte) {
        char name[8];
        int size = snprintf(name, sizeof name, "<0x%02X>", byte);
        bpe->byte_ids[byte] = hil_vocab_find(bpe->vocab, name, (size_t)size);
    }
}

static hil_status refuse_text(const json_t *model, const char *key, const char *what)
{
    const char *text = "";
    HIL_TRY(hil_json_string(model, key, what, &text));
    if (!*text) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s: the model's %s \"%.60s\" is not supported", what, key,
                    text);
}

hil_status hil_bpe_load(hil_bpe *bpe, hil_vocab *vocab, const json_t *model, const char *what)
{
    *bpe = (hil_bpe){.vocab = vocab, .unk_id = -1};
    const char *type = "BPE", *unk = NULL;
    double dropout = 0;
    if (!json_is_object(model)) return hil_fail(HIL_ERR_INPUT, "%s: no \"model\" object", what);
    HIL_TRY(hil_json_string(model, "type", what, &type));
    if (strcmp(type, "BPE") != 0)
        return hil_fail(HIL_ERR_INPUT, "%s: the model \"%.60s\" is not supported, only BPE is",
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
    HIL_TRY(load_vocab(vocab, json_object_get(model, "vocab"), what));
    HIL_TRY(load_merges(bpe, json_object_get(model, "merges"), what));
    if (unk) {
        HIL_TRY(hil_text_copy(unk, &bpe->unk));
        bpe->unk_id = hil_vocab_find(vocab, unk, strlen(unk));
    }
    index_characters(bpe);
    return HIL_OK;
}

void hil_bpe_free(hil_bpe *bpe)
{
    hil_free(bpe->merges);
    hil_free(bpe->pairs);
    hil_free(bpe->unk);
    *bpe = (hil_bpe){0};
}

/* The slot of a pair of characters, or the free one where it belongs; 0 is free. */
static uint64_t *pair_slot(const hil_bpe *bpe, uint32_t a, uint32_t b)
{
    uint64_t key = ((uint64_t)a << 32 | b) + 1;
    size_t at = hil_hash_mix(key) & bpe->pair_mask;
    while (bpe->pairs[at] != 0 && bpe->pairs[at] != key) at = (at + 1) & bpe->pair_mask;
    return &bpe->pairs[at];
}

/* Walks the neighbours inside every piece that a merge makes; counts them without a table. */
static size_t walk_pairs(hil_bpe *bpe)
{
    size_t count = 0;
    for (size_t i = 0; i <= bpe->merge_mask; ++i) {
        if (bpe->merges[i].key == UINT64_MAX) continue;
        const hil_piece *piece = &bpe->vocab->pieces[bpe->merges[i].id];
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
    size_t slots = hil_hash_slots(walk_pairs(bpe)), distinct = 0;
    HIL_TRY(HIL_ALLOC(slots, &bpe->pairs));
    bpe->pair_mask = slots - 1;
    walk_pairs(bpe);
    for (size_t i = 0; i < slots; ++i) distinct += bpe->pairs[i] != 0;

    uint64_t *sparse = bpe->pairs;
    slots = hil_hash_slots(2 * distinct);
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
