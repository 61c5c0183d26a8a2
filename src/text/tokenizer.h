/* tokenizer.h - tokenizer.json: text to token ids and back, exactly as Hugging Face tokenizers. */
#ifndef HIL_TEXT_TOKENIZER_H
#define HIL_TEXT_TOKENIZER_H

#include "base/text.h"

/* Immutable after opening; may be used by several threads at once. */
typedef struct hil_tokenizer hil_tokenizer;

hil_status hil_tokenizer_open(hil_tokenizer **out, const char *path);
/* The same from memory; `what` names the source in errors. */
hil_status hil_tokenizer_parse(hil_tokenizer **out, const char *json, size_t size,
                               const char *what);
void hil_tokenizer_close(hil_tokenizer *tokenizer);

/* One more than the largest id of the vocabulary and the added tokens. */
int64_t hil_tokenizer_vocab(const hil_tokenizer *tokenizer);
/* The id of a token's exact text, or -1. */
int32_t hil_tokenizer_id(const hil_tokenizer *tokenizer, const char *token);

/* Growing list of ids. Owns `data`. */
typedef struct hil_ids {
    int32_t *data;
    size_t size;
    size_t capacity;
} hil_ids;
hil_status hil_ids_add(hil_ids *ids, int32_t id);
void hil_ids_free(hil_ids *ids);

typedef enum hil_special { HIL_SPECIAL_NONE, HIL_SPECIAL_ADD } hil_special;

/* Appends the ids of `size` bytes; invalid UTF-8 becomes U+FFFD. HIL_SPECIAL_ADD applies the
   post-processor (BOS and the like). */
hil_status hil_tokenizer_encode(const hil_tokenizer *tokenizer, const char *text, size_t size,
                                hil_special special, hil_ids *ids);
/* Appends the ids that the post-processor puts before a text. */
hil_status hil_tokenizer_prefix(const hil_tokenizer *tokenizer, hil_ids *ids);

/* Encodes a document from fragments, without holding it whole: the ids equal those of one encode
   call on the whole document without the post-processor. Borrows the tokenizer; one thread. */
typedef struct hil_encoder hil_encoder;
hil_status hil_encoder_create(hil_encoder **out, const hil_tokenizer *tokenizer);
void hil_encoder_destroy(hil_encoder *encoder);
hil_status hil_encoder_add(hil_encoder *encoder, const char *text, size_t size, hil_ids *ids);
/* Appends the last ids of the document and prepares the encoder for the next one. */
hil_status hil_encoder_end(hil_encoder *encoder, hil_ids *ids);

/* Appends the text of the ids; special tokens are left out when `special` is HIL_SPECIAL_NONE. */
hil_status hil_tokenizer_decode(const hil_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                hil_special special, hil_text *text);

/* Decodes ids one at a time: appends the text that is complete after each id. The whole equals
   one decode call with HIL_SPECIAL_NONE. Borrows the tokenizer; one thread. */
typedef struct hil_decoder hil_decoder;
hil_status hil_decoder_create(hil_decoder **out, const hil_tokenizer *tokenizer);
void hil_decoder_destroy(hil_decoder *decoder);
/* The ids to come continue a text: the space that they begin with stays, which some decoders remove
   at the start of a text. */
void hil_decoder_continue(hil_decoder *decoder);
hil_status hil_decoder_add(hil_decoder *decoder, int32_t id, hil_text *text);
hil_status hil_decoder_end(hil_decoder *decoder, hil_text *text);

#endif
