/* decoder.c - ids to text, all at once or one at a time. */
#include "text/tokenizer_parts.h"

struct hil_decoder {
    const hil_tokenizer *tokenizer;
    hil_detokenizer_state state;
};

/* Ids that have no piece are skipped: models may have more outputs than the tokenizer has pieces.
 */
static hil_status add_id(const hil_tokenizer *tokenizer, hil_detokenizer_state *state, int32_t id,
                         hil_special special, hil_text *text)
{
    const hil_vocab *vocab = &tokenizer->vocab;
    if (!hil_vocab_has(vocab, id)) return HIL_OK;
    const hil_vocab_piece *piece = &vocab->pieces[id];
    if (piece->special && special == HIL_SPECIAL_NONE) return HIL_OK;
    const char *spelling = vocab->text.data + piece->offset;
    size_t size = piece->size;
    if (piece->renamed) {
        const hil_text *content = hil_added_content(&tokenizer->normal_added, id);
        spelling = content->data;
        size = content->size;
    }
    return hil_detokenizer_add(&tokenizer->detokenizer, state, spelling, size, text);
}

hil_status hil_tokenizer_decode(const hil_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                hil_special special, hil_text *text)
{
    hil_detokenizer_state state = {0};
    hil_status status = hil_text_add(text, "", 0);
    for (size_t i = 0; i < count && status == HIL_OK; ++i)
        status = add_id(tokenizer, &state, ids[i], special, text);
    if (status == HIL_OK) status = hil_detokenizer_end(&tokenizer->detokenizer, &state, text);
    hil_detokenizer_state_free(&state);
    return status;
}

hil_status hil_decoder_create(hil_decoder **out, const hil_tokenizer *tokenizer)
{
    HIL_TRY(HIL_ALLOC(1, out));
    (*out)->tokenizer = tokenizer;
    return HIL_OK;
}

void hil_decoder_destroy(hil_decoder *decoder)
{
    if (!decoder) return;
    hil_detokenizer_state_free(&decoder->state);
    hil_free(decoder);
}

void hil_decoder_continue(hil_decoder *decoder)
{
    for (size_t i = 0; i < HIL_DETOKEN_MAX; ++i)
        decoder->state.holds[i].started = decoder->state.holds[i].stripped = true;
}

hil_status hil_decoder_add(hil_decoder *decoder, int32_t id, hil_text *text)
{
    return add_id(decoder->tokenizer, &decoder->state, id, HIL_SPECIAL_NONE, text);
}

hil_status hil_decoder_end(hil_decoder *decoder, hil_text *text)
{
    return hil_detokenizer_end(&decoder->tokenizer->detokenizer, &decoder->state, text);
}
