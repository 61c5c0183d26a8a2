/* bpe_stream.c - byte pair encoding of a word of any length, in bounded memory.

   [Note: long words] A boundary of a text's encoding is a place between two symbols that no merge
   has crossed. Merges are made by (rank, place), so

   (1) the two sides of a boundary are encoded independently: the next merge of a side is always
       the first of its own candidates, whatever merges the other side makes;
   (2) a list of tokens is the encoding of its text if each pair of neighbours, encoded together,
       gives these two tokens again: the first merge to cross one of the boundaries would also be
       the first candidate of the two neighbours alone.

   Let n symbols have arrived, and no token have more than `reach`. Whatever follows, the last
   boundary at or before n is one of the places j in (n - reach, n], and by (1) the encoding up to j
   is that of the first j symbols. So if b is a boundary in the encoding of the first j symbols for
   each such j, then b is certain, and so is every token before it. To test a boundary b of the
   encoding of n symbols, with the token e before it: encode symbols [b, j) alone; if e and the
   first token f of that pass the test of (2), then b is a boundary of the first j symbols.

   Symbols after a boundary can change tokens far before it only through a chain of merges of ever
   lower rank, and the number of ranks is finite. So a search that goes back far enough succeeds;
   each failure doubles the distance. Real tokenizers need one search per window. */
#include "text/bpe_work.h"

#include <string.h>

enum { PART = 4096, TRIES = 16 };

/* Testing a boundary costs the square of `reach`. With longer tokens than this the whole word is
   held in memory instead. */
#define REACH_MAX ((size_t)1024)

static size_t window_of(const hil_bpe *bpe, const hil_bpe_work *work)
{
    return work->window > 16 * bpe->reach ? work->window : 16 * bpe->reach;
}

static void begin_search(const hil_bpe *bpe, hil_bpe_work *work)
{
    work->margin = 2 * bpe->reach;
    work->search_at = work->open.size + window_of(bpe, work);
}

void hil_bpe_word_drop(hil_bpe_work *work)
{
    work->open.size = work->search_at = 0;
    work->unknown = false;
}

/* Whether place b, after the token of symbols [a, b), is a certain boundary: one of the symbols so
   far, and of these with any that follow. */
static hil_status test_boundary(const hil_bpe *bpe, hil_bpe_work *work, size_t a, size_t b,
                                bool *certain)
{
    const int32_t *symbols = work->open.data;
    size_t n = work->open.size, tested = 0;
    *certain = false;
    for (size_t j = n - bpe->reach + 1; j <= n; ++j) {
        HIL_TRY(hil_bpe_chain(bpe, work, symbols + b, j - b));
        uint32_t next = work->chain[0].next;
        size_t size = next == HIL_BPE_NOWHERE ? j - b : next;
        if (size == tested) continue; /* the same symbols, so the same token */
        HIL_TRY(hil_bpe_chain(bpe, work, symbols + a, b + size - a));
        if (work->chain[0].next != b - a) return HIL_OK;
        if (work->chain[b - a].next != HIL_BPE_NOWHERE) return HIL_OK;
        tested = size;
    }
    *certain = true;
    return HIL_OK;
}

/* Merges the open symbols and lists the tokens that begin before the margin. */
static hil_status list_tokens(const hil_bpe *bpe, hil_bpe_work *work, size_t *count)
{
    size_t n = work->open.size;
    *count = 0;
    HIL_TRY(hil_bpe_chain(bpe, work, work->open.data, n));
    HIL_TRY(HIL_GROW(&work->tokens, &work->token_capacity, n));
    for (uint32_t i = 0; i + work->margin <= n; ++i)
        if (work->chain[i].id >= 0)
            work->tokens[(*count)++] = (hil_bpe_token){work->chain[i].id, i};
    return HIL_OK;
}

/* Searches for a certain boundary; moves the tokens before it from `open` to `ids`. */
static hil_status emit_certain(const hil_bpe *bpe, hil_bpe_work *work, hil_ids *ids)
{
    size_t count;
    hil_ids *open = &work->open;
    HIL_TRY(list_tokens(bpe, work, &count));
    for (size_t k = count; k-- > 1 && count - k <= TRIES;) {
        bool certain;
        size_t start = work->tokens[k].start;
        HIL_TRY(test_boundary(bpe, work, work->tokens[k - 1].start, start, &certain));
        if (!certain) continue;
        for (size_t i = 0; i < k; ++i) HIL_TRY(hil_ids_add(ids, work->tokens[i].id));
        open->size -= start;
        memmove(open->data, open->data + start, open->size * sizeof *open->data);
        begin_search(bpe, work);
        return HIL_OK;
    }
    work->margin *= 2;
    work->search_at = 2 * open->size;
    return HIL_OK;
}

/* The longest prefix of `text` of at most PART bytes that ends with a whole character. */
static size_t part_of(const char *text, size_t size)
{
    if (size <= PART) return size;
    size_t part = PART;
    while (((unsigned char)text[part] & 0xC0) == 0x80) --part;
    return part;
}

hil_status hil_bpe_word_add(const hil_bpe *bpe, hil_bpe_work *work, const char *text, size_t size,
                            hil_ids *ids)
{
    if (work->search_at == 0) begin_search(bpe, work);
    for (size_t at = 0, part; at < size; at += part) {
        part = part_of(text + at, size - at);
        HIL_TRY(hil_bpe_add_symbols(bpe, work, text + at, part, &work->open));
        if (work->open.size >= work->search_at && bpe->reach <= REACH_MAX)
            HIL_TRY(emit_certain(bpe, work, ids));
    }
    return HIL_OK;
}

hil_status hil_bpe_word_end(const hil_bpe *bpe, hil_bpe_work *work, hil_ids *ids)
{
    hil_ids *open = &work->open;
    HIL_TRY(hil_bpe_flush_unknown(bpe, work, open));
    HIL_TRY(hil_bpe_merge(bpe, work, open));
    for (size_t i = 0; i < open->size; ++i) HIL_TRY(hil_ids_add(ids, open->data[i]));
    hil_bpe_word_drop(work);
    return HIL_OK;
}
