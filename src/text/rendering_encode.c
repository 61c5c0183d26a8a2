/* rendering_encode.c - the tokens of a rendered text, and those that spans of its bytes become.

   [Note: borders] The ids are those of the whole text, so a token may lie on a border. Where a
   border is among them follows from lengths: whatever tokens a text is split into, their pieces
   have the length of the normalized text. So the text up to the border is encoded alone, from the
   last added token on, where the tokenizer begins afresh; the sum of its pieces is the place of the
   border in the pieces of the whole. */
#include "text/chat_learned.h"
#include "text/tokenizer_parts.h"

#include <string.h>

struct borders {
    const hil_text *text;
    const hil_tokenizer *tokenizer;
    hil_encoder *encoder;
    hil_anchors anchors;
    const hil_ids *ids;
    size_t first; /* index in `ids` of the text's first */
    hil_ids part; /* ids of a text up to a border */
};

/* Length of the piece of an id; of "<0x41>" that is one byte. The unknown token has none. */
static size_t piece_size(const hil_tokenizer *tokenizer, int32_t id)
{
    const hil_vocab *vocab = &tokenizer->vocab;
    const hil_vocab_piece *piece = &vocab->pieces[id];
    const char *text = vocab->text.data + piece->offset;
    if (id == tokenizer->unk_id) return 0;
    if (tokenizer->byte_fallback && piece->size == 6 && memcmp(text, "<0x", 3) == 0) return 1;
    return piece->size;
}

/* The last added token that ends at or before byte `at`; NULL: none. */
static const hil_anchor *anchor_before(const struct borders *b, size_t at)
{
    size_t low = 0, high = b->anchors.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (b->anchors.data[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &b->anchors.data[low - 1] : NULL;
}

/* *index: the first token that has a byte at or after `at`. *inside: it has one before, too. */
static hil_status find_border(struct borders *b, size_t at, size_t *index, bool *inside)
{
    const hil_anchor *anchor = anchor_before(b, at);
    size_t from = anchor ? anchor->begin : 0, i = anchor ? anchor->index : b->first;
    size_t length = 0, passed = 0, end = b->ids->size, unknown = 0; /* unknown: at the end */
    b->part.size = 0;
    HIL_TRY(hil_encoder_add(b->encoder, b->text->data + from, at - from, &b->part));
    HIL_TRY(hil_encoder_end(b->encoder, &b->part));
    for (size_t k = 0; k < b->part.size; ++k) {
        size_t size = piece_size(b->tokenizer, b->part.data[k]);
        length += size;
        unknown = size ? 0 : unknown + 1;
    }
    size_t next = anchor ? (size_t)(anchor - b->anchors.data) + 1 : 0;
    if (next < b->anchors.count) end = b->anchors.data[next].index;
    for (; i < end; ++i) {
        size_t size = piece_size(b->tokenizer, b->ids->data[i]);
        if (passed + size > length) break;
        if (passed == length && unknown-- == 0) break;
        passed += size;
    }
    *index = i;
    *inside = i < end && passed < length;
    return HIL_OK;
}

static hil_status find_tokens(struct borders *b, const hil_rendering *rendering,
                              hil_token_span *tokens)
{
    for (size_t i = 0; i < rendering->span_count; ++i) {
        bool inside;
        HIL_TRY(find_border(b, rendering->spans[i].begin, &tokens[i].begin, &inside));
        HIL_TRY(find_border(b, rendering->spans[i].end, &tokens[i].end, &inside));
        tokens[i].end += inside;
        /* a border in the middle of a character that is composed of two can be off by a token */
        if (tokens[i].end < tokens[i].begin || rendering->spans[i].begin == rendering->spans[i].end)
            tokens[i].end = tokens[i].begin;
    }
    return HIL_OK;
}

static hil_status encode_bytes(const hil_rendering *rendering, hil_ids *ids, hil_token_span *tokens)
{
    const hil_text *text = &rendering->text;
    for (size_t i = 0; i < rendering->span_count; ++i)
        tokens[i] = (hil_token_span){ids->size + rendering->spans[i].begin,
                                     ids->size + rendering->spans[i].end};
    HIL_TRY(HIL_GROW(&ids->data, &ids->capacity, ids->size + text->size));
    for (size_t i = 0; i < text->size; ++i) ids->data[ids->size++] = (unsigned char)text->data[i];
    return HIL_OK;
}

hil_status hil_rendering_encode(const hil_rendering *rendering, const hil_tokenizer *tokenizer,
                                hil_encoder *encoder, hil_ids *ids, hil_token_span *tokens)
{
    if (!encoder) return encode_bytes(rendering, ids, tokens);
    struct borders b = {.text = &rendering->text,
                        .tokenizer = tokenizer,
                        .encoder = encoder,
                        .ids = ids,
                        .first = ids->size};
    hil_encoder_set_anchors(encoder, &b.anchors);
    hil_status status = hil_encoder_add(encoder, b.text->data, b.text->size, ids);
    if (status == HIL_OK) status = hil_encoder_end(encoder, ids);
    hil_encoder_set_anchors(encoder, NULL);
    if (status == HIL_OK) status = find_tokens(&b, rendering, tokens);
    hil_ids_free(&b.part);
    hil_free(b.anchors.data);
    return status;
}
