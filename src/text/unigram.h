/* unigram.h - the Unigram model: the pieces of a word with the largest sum of scores. */
#ifndef HIL_TEXT_UNIGRAM_H
#define HIL_TEXT_UNIGRAM_H

#include "base/json_pull.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

#include <jansson.h>

/* Immutable after loading. Borrows the vocabulary; owns the rest. */
typedef struct hil_unigram {
    const hil_vocab *vocab;
    double *scores; /* by id; NULL: the tokenizer has another model */
    double unknown_score;
    int32_t unk_id;        /* or -1 */
    int32_t byte_ids[256]; /* id of "<0x..>", or -1 */
    bool byte_fallback;    /* unknown text becomes its bytes */
    bool all_bytes;        /* every byte has an id */
    size_t longest;        /* bytes of a piece */
    /* The pieces as a tree of bytes: the children of node n are [first[n], first[n + 1]), sorted by
       their byte; ids[n] is the piece that ends at n, or -1. */
    uint32_t *first;
    uint8_t *bytes;
    int32_t *ids;
    uint32_t root[256]; /* the root's child for a byte, or 0 */
} hil_unigram;

/* Reads the "model" of a tokenizer.json; `pieces` is its "vocab". `what` names the source. */
hil_status hil_unigram_load(hil_unigram *unigram, hil_vocab *vocab, const json_t *model,
                            hil_json_pull pieces, const char *what);
void hil_unigram_free(hil_unigram *unigram);

/* The best pieces of the text up to a place: how the last one began. */
typedef struct hil_unigram_node {
    double score;
    int32_t id;
    uint32_t size; /* of the last piece; 0: the place was not reached yet */
} hil_unigram_node;

/* A word that arrives in parts. Owns its arrays. Initialise with zeros. */
typedef struct hil_unigram_work {
    hil_text text;
    hil_unigram_node *nodes; /* at 0 to text.size */
    size_t node_capacity;
    size_t start;   /* pieces that begin before it were tried */
    size_t window;  /* bytes to hold before certain pieces are looked for; 0: the usual number */
    size_t search;  /* size of `text` at which certain pieces are looked for; 0: the usual one */
    uint32_t *path; /* sizes of pieces, or places, during a search */
    size_t path_capacity;
    hil_text unknown;  /* unknown characters that become one id */
    bool unknown_long; /* `unknown` was longer than any piece, so its ids were appended */
} hil_unigram_work;

/* Takes part of a word, which ends with a whole character. Appends the ids that later parts cannot
   change (see [Note: certain pieces] in unigram.c). */
hil_status hil_unigram_add(const hil_unigram *unigram, hil_unigram_work *work, const char *text,
                           size_t size, hil_ids *ids);
hil_status hil_unigram_end(const hil_unigram *unigram, hil_unigram_work *work, hil_ids *ids);
/* Discards the unfinished word; keeps memory. */
void hil_unigram_drop(hil_unigram_work *work);
void hil_unigram_work_free(hil_unigram_work *work);

#endif
