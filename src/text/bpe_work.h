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
    uint64_t order; /* rank << 32 | index of the left symbol */
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
    bool unknown; /* the unknown token is due before the next known symbol */
    /* An unfinished long word, see bpe_stream.c. */
    size_t window;    /* symbols to collect before a search for a certain boundary pays */
    hil_ids open;     /* its symbols after the last certain boundary */
    size_t search_at; /* the next search begins when `open` has this many */
    size_t margin;    /* symbols at the end in which no boundary is tested */
    hil_bpe_token *tokens;
    size_t token_capacity;
};

/* Appends the symbols of part of a word; the unknown token of characters at its end stays due. */
hil_status hil_bpe_add_symbols(const hil_bpe *bpe, hil_bpe_work *work, const char *text,
                               size_t size, hil_ids *symbols);
/* Ends the word: appends the unknown token if it is due. */
hil_status hil_bpe_flush_unknown(const hil_bpe *bpe, hil_bpe_work *work, hil_ids *symbols);

/* Merges the symbols into tokens, in place. */
hil_status hil_bpe_merge(const hil_bpe *bpe, hil_bpe_work *work, hil_ids *symbols);
/* The same into work->chain: entries with an id are tokens, each at the index of its first symbol.
 */
hil_status hil_bpe_chain(const hil_bpe *bpe, hil_bpe_work *work, const int32_t *symbols,
                         size_t size);

#endif
