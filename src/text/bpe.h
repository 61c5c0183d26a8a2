/* bpe.h - byte pair encoding of one word: characters to ids, then merges by rank. */
#ifndef HIL_TEXT_BPE_H
#define HIL_TEXT_BPE_H

#include "base/json_pull.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

#include <jansson.h>

/* Characters with code points below this are found without hashing. */
#define HIL_BPE_DIRECT 0x180

typedef struct hil_merge {
    uint64_t key; /* left id << 32 | right id; UINT64_MAX is free */
    uint32_t rank;
    int32_t id;
} hil_merge;

/* Immutable after loading. Borrows the vocabulary; owns the rest. */
typedef struct hil_bpe {
    const hil_vocab *vocab;
    hil_merge *merges;
    size_t merge_mask;
    int32_t direct[HIL_BPE_DIRECT]; /* id of a character, or -1 */
    int32_t byte_ids[256];          /* id of "<0x..>" for byte fallback, or -1 */
    uint64_t *pairs;                /* set of pairs of characters adjacent in some merged token */
    size_t pair_mask;
    char *unk; /* NULL: unknown characters are dropped */
    int32_t unk_id;
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    size_t reach;     /* symbols of the longest token that a merge makes */
    size_t long_word; /* bytes; longer words are encoded part by part */
} hil_bpe;

/* The two large members of "model", read without building JSON values. Text NULL: missing. */
typedef struct hil_bpe_source {
    hil_json_pull vocab, merges;
} hil_bpe_source;

/* Reads the "model" of a tokenizer.json. `what` names the source in errors. */
hil_status hil_bpe_load(hil_bpe *bpe, hil_vocab *vocab, const json_t *model,
                        const hil_bpe_source *source, const char *what);
/* Builds the set of pairs that hil_bpe_may_join looks up. */
hil_status hil_bpe_index_pairs(hil_bpe *bpe);
void hil_bpe_free(hil_bpe *bpe);

/* Whether some merge may cross the boundary between adjacent characters a and b. If none may, a
   word can be cut there: the two sides, encoded apart, give the same ids. */
bool hil_bpe_may_join(const hil_bpe *bpe, uint32_t a, uint32_t b);

/* The character that represents a byte in byte-level vocabularies, and back (-1: not one). */
uint32_t hil_bpe_byte_char(unsigned char byte);
int hil_bpe_char_byte(uint32_t point);

/* Scratch memory and a cache of words; one per thread. */
typedef struct hil_bpe_work hil_bpe_work;
hil_status hil_bpe_work_create(hil_bpe_work **out);
void hil_bpe_work_destroy(hil_bpe_work *work);

/* Appends the ids of one word of valid UTF-8. Not between hil_bpe_word_add and hil_bpe_word_end. */
hil_status hil_bpe_encode(const hil_bpe *bpe, hil_bpe_work *work, const char *word, size_t size,
                          hil_ids *ids);

/* Encodes a word longer than bpe->long_word from parts that end with whole characters. Appends the
   ids that later parts cannot change; over all calls these are the ids of the whole word. Memory
   does not grow with the word (see [Note: long words] in bpe_stream.c). */
hil_status hil_bpe_word_add(const hil_bpe *bpe, hil_bpe_work *work, const char *text, size_t size,
                            hil_ids *ids);
hil_status hil_bpe_word_end(const hil_bpe *bpe, hil_bpe_work *work, hil_ids *ids);
/* Discards the unfinished word. */
void hil_bpe_word_drop(hil_bpe_work *work);

#endif
