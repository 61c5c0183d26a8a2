/* bpe_stream.c - byte pair encoding of a word of any length, in bounded memory.

   [Note: long words] A boundary of a text's encoding is a place between two symbols that no merge
   has crossed. Merges are made by (rank, place), so

   (1) what stands on both sides of a boundary is encoded as if it stood alone: at any time the next
       merge of a side is the first of its own candidates, whatever happens on the other side;
   (2) tokens of which every two neighbours, encoded together, give these two tokens again, are the
       encoding of the whole: the first merge that crossed a boundary of theirs would be the first
       of the candidates of the two neighbours as well.

   Let n symbols have arrived and no token have more than `reach`. Whatever comes, the last boundary
   at or before n is one of the places j in (n - reach, n], and by (1) the encoding up to there is
   that of the first j symbols. So a boundary b that the encodings of the first j symbols have for
   all those j is certain, and with it every token before it. To test b, a boundary of the encoding
   of the n symbols with the token e before it: encode the symbols from b to j alone; if the first
   token f of that goes with e as in (2), then b is a boundary of the first j symbols.

   What comes after a boundary can reach back only through merges of ever lower rank, of which there
   are so many; so a search that looks far enough back succeeds, and each failure doubles how far it
   looks. Real tokenizers need one search per window. */
#include "text/bpe_work.h"

#include <string.h>

enum { PART = 4096, TRIES = 16 };

/* The tests of a boundary take time with the square of `reach`: tokens of more characters are not
   worth them, and a word is then held whole. */
#define REACH_MOST ((size_t)1024)

static size_t window_of(const hil_bpe *bpe, const hil_bpe_work *work)
{
    return work->window > 16 * bpe->reach ? work->window : 16 * bpe->reach;
}

static void begin_search(const hil_bpe *bpe, hil_bpe_work *work)
{
    work->margin = 2 * bpe->reach;
    work->settle = work->open.size + window_of(bpe, work);
}

void hil_bpe_word_drop(hil_bpe_work *work)
{
    work->open.size = work->settle = 0;
    work->unknown = false;
}

/* Whether the place b, with the token of symbols [a, b) before it, is a boundary of what has
   arrived and of anything longer. */
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

/* Merges what is open and lists the tokens that begin before the margin. */
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

/* Hands on the tokens before a certain boundary, if one is found. */
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
    work->settle = 2 * open->size;
    return HIL_OK;
}

/* The most of `text` up to PART bytes that ends with a whole character. */
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
    if (work->settle == 0) begin_search(bpe, work);
    for (size_t at = 0, part; at < size; at += part) {
        part = part_of(text + at, size - at);
        HIL_TRY(hil_bpe_add_symbols(bpe, work, text + at, part, &work->open));
        if (work->open.size >= work->settle && bpe->reach <= REACH_MOST)
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
