/* fuzz_tokenizer.c - any text as tokenizer.json: refused, or pieces and whole give the same. */
#include "text/chat_learned.h"
#include "mutate.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
FUZZ_MUTATOR(mutate_json)

static const char text[] =
    "ab  the mill\r\n\n\tturns 1234 we'll 'S <s>ba</s> _\xE2\x96\x81 e\xCC\x81\xCC\xA3 "
    "\xE1\x84\x92\xE1"
    "\x85\xA1\xE1\x86\xAB \xE5\xB7\x9D\xE3\x81\xAE \xF0\x9F\x98\x80 \xFF\xE2\x82 <|end|> <mask>  "
    "WORD x"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa   ";

static hil_status encode_pieces(const hil_tokenizer *tokenizer, size_t piece, hil_ids *ids)
{
    hil_encoder *encoder;
    HIL_TRY(hil_encoder_create(&encoder, tokenizer));
    hil_status status = HIL_OK;
    for (size_t at = 0; at < sizeof text - 1 && status == HIL_OK; at += piece) {
        size_t left = sizeof text - 1 - at;
        status = hil_encoder_add(encoder, text + at, left < piece ? left : piece, ids);
    }
    if (status == HIL_OK) status = hil_encoder_end(encoder, ids);
    hil_encoder_destroy(encoder);
    return status;
}

static hil_status decode_pieces(const hil_tokenizer *tokenizer, const hil_ids *ids, hil_text *out)
{
    hil_decoder *decoder;
    HIL_TRY(hil_decoder_create(&decoder, tokenizer));
    hil_status status = HIL_OK;
    for (size_t i = 0; i < ids->size && status == HIL_OK; ++i)
        status = hil_decoder_add(decoder, ids->data[i], out);
    if (status == HIL_OK) status = hil_decoder_end(decoder, out);
    hil_decoder_destroy(decoder);
    return status;
}

static void check(const hil_tokenizer *tokenizer)
{
    hil_ids whole = {0}, pieces = {0};
    hil_text decoded = {0}, streamed = {0};
    hil_status status =
        hil_tokenizer_encode(tokenizer, text, sizeof text - 1, HIL_SPECIAL_NONE, &whole);
    if (status == HIL_OK) {
        for (size_t piece = 1; piece < 12; piece += 5) {
            pieces.size = 0;
            status = encode_pieces(tokenizer, piece, &pieces);
            assert(status == HIL_OK && pieces.size == whole.size);
            assert(!whole.size || memcmp(pieces.data, whole.data, whole.size * 4) == 0);
        }
        for (size_t i = 0; i < whole.size; ++i)
            assert(whole.data[i] >= 0 && whole.data[i] < hil_tokenizer_vocab(tokenizer));
        status =
            hil_tokenizer_decode(tokenizer, whole.data, whole.size, HIL_SPECIAL_NONE, &decoded);
        assert(status == HIL_OK);
        status = decode_pieces(tokenizer, &whole, &streamed);
        assert(status == HIL_OK && streamed.size == decoded.size);
        assert(!decoded.size || memcmp(streamed.data, decoded.data, decoded.size) == 0);
    }
    hil_ids_free(&whole);
    hil_ids_free(&pieces);
    hil_text_free(&decoded);
    hil_text_free(&streamed);
}

/* Spans of bytes as tokens: in order, and the whole text is all tokens. */
static void check_spans(const hil_tokenizer *tokenizer)
{
    hil_byte_span spans[20] = {{0, sizeof text - 1}};
    hil_token_span tokens[20];
    char valid[sizeof text];
    hil_encoder *encoder;
    hil_ids ids = {0};
    memcpy(valid, text, sizeof text);
    for (size_t i = 0; i < sizeof text - 3; ++i)
        if (valid[i] == '\xFF') memcpy(valid + i, "???", 3);
    for (size_t i = 1; i < 20; ++i) spans[i] = (hil_byte_span){i * 9, i * 9 + i % 4 * 3};
    hil_rendering rendering = {
        .text = {valid, sizeof text - 1, 0}, .spans = spans, .span_count = 20};
    if (hil_encoder_create(&encoder, tokenizer) != HIL_OK) return;
    if (hil_rendering_encode(&rendering, tokenizer, encoder, &ids, tokens) == HIL_OK) {
        assert(tokens[0].begin == 0 && tokens[0].end == ids.size);
        for (size_t i = 0; i < 20; ++i)
            assert(tokens[i].begin <= tokens[i].end && tokens[i].end <= ids.size);
    }
    hil_encoder_destroy(encoder);
    hil_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    hil_tokenizer *tokenizer;
    if (hil_tokenizer_parse(&tokenizer, (const char *)bytes, size, "input") != HIL_OK) return 0;
    check(tokenizer);
    check_spans(tokenizer);
    hil_tokenizer_close(tokenizer);
    return 0;
}
