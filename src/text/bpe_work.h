/* bpe_work.h - the scratch memory of byte pair encoding; for bpe.c, bpe_merge.c and bpe_stream.c.
 */
#ifndef HIL_TEXT_BPE_WORK_H
#define HIL_TEXT_BPE_WORK_H

#include "text/bpe.h"

enum { HIL_BPE_CACHE_SLOTS = 1 << 15, HIL_BPE_CACHE_TEXT = 30, HIL_BPE_CACHE_IDS = 8 };

typedef struct hil_bpe_cached {
    uint8_t size, count;
    char text[HIL_BPE_CACHE_TEXT];
    int32_t ids[HIL_BPE_CACHE_IDS];
} hil_bpe_cached;

typedef struct hil_bpe_candidate {
    uint64_t order; /* rank << 32 | place */
    int32_t id;
} hil_bpe_candidate;

#define HIL_BPE_NOWHERE UINT32_MAX

typedef struct hil_bpe_symbol {
    int32_t id; /* -1 once merged into its left neighbour */
    uint32_t previous, next;
} hil_bpe_symbol;

/* A token and the symbol that it begins with. */
typedef struct hil_bpe_token {
    int32_t id;
    uint32_t start;
} hil_bpe_token;

struct hil_bpe_work {
    hil_bpe_cached *cache;
    hil_ids symbols;
    hil_bpe_symbol *chain;
    size_t chain_capacity;
    hil_bpe_candidate *heap;
    size_t heap_size, heap_capacity;
    hil_text mapped;
    bool unknown; /* unknown characters are under way: their symbol comes before the next known one
                   */
    /* A long word under way, see bpe_stream.c. */
    size_t window; /* symbols that are worth the search for a certain boundary */
    hil_ids open;  /* its symbols from the last certain boundary on */
    size_t settle; /* as many of them start the next search */
    size_t margin; /* symbols at the end in which it does not look */
    hil_bpe_token *tokens;
    size_t token_capacity;
};

/* Appends the symbols of part of a word; those of unknown characters at its end wait. */
hil_status hil_bpe_add_symbols(const hil_bpe *bpe, hil_bpe_work *work, const char *text,
                               size_t size, hil_ids *symbols);
/* Ends the word: appends what waits. */
hil_status hil_bpe_flush_unknown(const hil_bpe *bpe, hil_bpe_work *work, hil_ids *symbols);

/* Merges the symbols into tokens, in place. */
hil_status hil_bpe_merge(const hil_bpe *bpe, hil_bpe_work *work, hil_ids *symbols);
/* The same into work->chain: entries with an id are the tokens, at the symbols they begin with. */
hil_status hil_bpe_chain(const hil_bpe *bpe, hil_bpe_work *work, const int32_t *symbols,
                         size_t size);

#endif
