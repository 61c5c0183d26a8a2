/* vocab.c - the pieces of a tokenizer. */
#include "text/vocab.h"

#include "text/unicode/unicode.h"

#include <stdio.h>
#include <string.h>

uint64_t hil_vocab_hash_bytes(const char *bytes, size_t size)
{
    uint64_t hash = size * 0x9E3779B97F4A7C15u, word = 0;
    for (; size >= 8; size -= 8, bytes += 8) {
        memcpy(&word, bytes, 8);
        hash = hil_vocab_hash_mix(hash ^ word) * 0x9E3779B97F4A7C15u;
    }
    word = 0;
    for (size_t i = 0; i < size; ++i) word |= (uint64_t)(unsigned char)bytes[i] << 8 * i;
    return hil_vocab_hash_mix(hash ^ word);
}

size_t hil_vocab_hash_slots(size_t entries)
{
    size_t slots = 16;
    while (slots < 2 * entries) slots *= 2;
    return slots;
}

static hil_status reserve_ids(hil_vocab *vocab, size_t ids)
{
    HIL_TRY(HIL_GROW(&vocab->pieces, &vocab->capacity, ids));
    for (; vocab->count < ids; ++vocab->count) vocab->pieces[vocab->count] = (hil_vocab_piece){0};
    return HIL_OK;
}

hil_status hil_vocab_init(hil_vocab *vocab, size_t entries, size_t bytes, int64_t ids)
{
    *vocab = (hil_vocab){0};
    size_t slots = hil_vocab_hash_slots(entries);
    HIL_TRY(HIL_ALLOC(slots, &vocab->slots));
    vocab->mask = slots - 1;
    HIL_TRY(HIL_GROW(&vocab->text.data, &vocab->text.capacity, bytes + 1));
    HIL_TRY(HIL_ALLOC(ids, &vocab->pieces));
    vocab->count = vocab->capacity = (size_t)ids;
    return HIL_OK;
}

void hil_vocab_free(hil_vocab *vocab)
{
    hil_text_free(&vocab->text);
    hil_free(vocab->pieces);
    hil_free(vocab->slots);
    *vocab = (hil_vocab){0};
}

/* The slot of the text, or the empty slot for it. */
static uint32_t *slot_of(const hil_vocab *vocab, const char *text, size_t size)
{
    size_t at = hil_vocab_hash_bytes(text, size) & vocab->mask;
    for (;; at = (at + 1) & vocab->mask) {
        uint32_t *slot = &vocab->slots[at];
        if (*slot == 0) return slot;
        const hil_vocab_piece *piece = &vocab->pieces[*slot - 1];
        if (piece->size == size && memcmp(vocab->text.data + piece->offset, text, size) == 0)
            return slot;
    }
}

static hil_status set_piece(hil_vocab *vocab, const char *text, size_t size, int32_t id)
{
    if (vocab->text.size + size >= UINT32_MAX)
        return hil_fail(HIL_ERR_INPUT, "tokenizer: the vocabulary has more than 4 GiB of text");
    HIL_TRY(reserve_ids(vocab, (size_t)id + 1));
    vocab->pieces[id] = (hil_vocab_piece){
        .offset = (uint32_t)vocab->text.size, .size = (uint32_t)size, .present = true};
    return hil_text_add(&vocab->text, text, size);
}

hil_status hil_vocab_add(hil_vocab *vocab, const char *text, size_t size, int32_t id, bool *fresh)
{
    uint32_t *slot = slot_of(vocab, text, size);
    *fresh = *slot == 0 && !hil_vocab_has(vocab, id);
    if (!*fresh) return HIL_OK;
    HIL_TRY(set_piece(vocab, text, size, id));
    *slot = (uint32_t)id + 1;
    ++vocab->used;
    ++vocab->entries;
    return HIL_OK;
}

/* Grows the table if one more text would fill more than half of it. */
static hil_status reserve_slot(hil_vocab *vocab)
{
    if (2 * (vocab->used + 1) <= vocab->mask + 1) return HIL_OK;
    uint32_t *old = vocab->slots;
    size_t slots = hil_vocab_hash_slots(2 * (vocab->used + 1)), count = vocab->mask + 1;
    vocab->slots = NULL;
    hil_status status = HIL_ALLOC(slots, &vocab->slots);
    if (status != HIL_OK) {
        vocab->slots = old;
        return status;
    }
    vocab->mask = slots - 1;
    for (size_t i = 0; i < count; ++i) {
        if (old[i] == 0) continue;
        const hil_vocab_piece *piece = &vocab->pieces[old[i] - 1];
        *slot_of(vocab, vocab->text.data + piece->offset, piece->size) = old[i];
    }
    hil_free(old);
    return HIL_OK;
}

hil_status hil_vocab_name(hil_vocab *vocab, const char *text, size_t size, int32_t id)
{
    HIL_TRY(reserve_slot(vocab));
    HIL_TRY(set_piece(vocab, text, size, id));
    vocab->pieces[id].foreign = true;
    *slot_of(vocab, text, size) = (uint32_t)id + 1;
    ++vocab->used;
    return HIL_OK;
}

int32_t hil_vocab_find(const hil_vocab *vocab, const char *text, size_t size)
{
    int32_t id = hil_vocab_id(vocab, text, size);
    return id >= 0 && vocab->pieces[id].foreign ? -1 : id;
}

int32_t hil_vocab_id(const hil_vocab *vocab, const char *text, size_t size)
{
    return (int32_t)*slot_of(vocab, text, size) - 1;
}

void hil_vocab_find_bytes(const hil_vocab *vocab, int32_t ids[256])
{
    for (int byte = 0; byte < 256; ++byte) {
        char name[8];
        int size = snprintf(name, sizeof name, "<0x%02X>", byte);
        ids[byte] = hil_vocab_find(vocab, name, (size_t)size);
    }
}

hil_status hil_vocab_check_utf8(const hil_json_pull *member, const char *name)
{
    size_t bad;
    if (!member->text)
        return hil_fail(HIL_ERR_INPUT, "%s: the model has no \"%s\"", member->what, name);
    if (hil_utf8_check(member->text, member->size, &bad) == member->size) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s: the model's \"%s\" is not UTF-8", member->what, name);
}
