/* vocab.h - the pieces of a tokenizer: id to text, and text to id by a hash table. */
#ifndef HIL_TEXT_VOCAB_H
#define HIL_TEXT_VOCAB_H

#include "base/json_pull.h"

/* Ids are below this. */
#define HIL_VOCAB_MAX ((int64_t)1 << 24)

/* All zero where an id has no piece. */
typedef struct hil_vocab_piece {
    uint32_t offset, size;
    bool present, special, added;
    bool renamed; /* an added token that decodes to its normalized text */
    bool foreign; /* an added token that the model lacks, see hil_vocab_name */
} hil_vocab_piece;

/* Owns its arrays. */
typedef struct hil_vocab {
    hil_text text;
    hil_vocab_piece *pieces;
    size_t count, capacity; /* count is one more than the largest id */
    size_t entries;         /* of the model */
    uint32_t *slots;        /* id + 1, or 0 */
    size_t mask, used;
} hil_vocab;

/* Reserves memory for `entries` pieces of the model, of `bytes` bytes in all, with ids below `ids`.
 */
hil_status hil_vocab_init(hil_vocab *vocab, size_t entries, size_t bytes, int64_t ids);
void hil_vocab_free(hil_vocab *vocab);

/* Adds a piece of the model; *fresh is false, and nothing is added, if id or text is taken. */
hil_status hil_vocab_add(hil_vocab *vocab, const char *text, size_t size, int32_t id, bool *fresh);
/* Adds an added token that the model lacks; neither `id` nor `text` may be taken. */
hil_status hil_vocab_name(hil_vocab *vocab, const char *text, size_t size, int32_t id);

/* The id of a model piece, or -1. */
int32_t hil_vocab_find(const hil_vocab *vocab, const char *text, size_t size);
/* The id of a model piece or an added token, or -1. */
int32_t hil_vocab_id(const hil_vocab *vocab, const char *text, size_t size);

/* The ids of "<0x00>" to "<0xFF>", or -1. */
void hil_vocab_find_bytes(const hil_vocab *vocab, int32_t ids[256]);

/* Refuses a member `name` of the model that is missing or not UTF-8. */
hil_status hil_vocab_check_utf8(const hil_json_pull *member, const char *name);

static inline bool hil_vocab_has(const hil_vocab *vocab, int64_t id)
{
    return id >= 0 && (size_t)id < vocab->count && vocab->pieces[id].present;
}

/* A hash of bytes whose low bits are well mixed. */
static inline uint64_t hil_vocab_hash_mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
}
uint64_t hil_vocab_hash_bytes(const char *bytes, size_t size);

/* A power of two that is at least twice `entries`. */
size_t hil_vocab_hash_slots(size_t entries);

#endif
