/* tokenizer_parts.h - the stages of a tokenizer; inside src/text only. */
#ifndef HIL_TEXT_TOKENIZER_PARTS_H
#define HIL_TEXT_TOKENIZER_PARTS_H

#include "text/added.h"
#include "text/bpe.h"
#include "text/detokenize.h"
#include "text/normalize.h"
#include "text/pretokenize.h"
#include "text/unigram.h"

/* Ids that the post-processor puts before and after a text. Owns them. */
typedef struct hil_frame {
    hil_ids before, after;
} hil_frame;

hil_status hil_frame_load(hil_frame *frame, const json_t *value, const hil_vocab *vocab,
                          const char *what);

struct hil_tokenizer {
    hil_vocab vocab;
    hil_bpe bpe;
    hil_unigram unigram;    /* with scores: instead of `bpe` */
    int32_t unk_id;         /* of the model, or -1 */
    bool byte_fallback;     /* of the model */
    hil_added raw_added;    /* searched in raw text */
    hil_added normal_added; /* searched in normalized text */
    hil_normalizer normalizer;
    hil_pretokenizer pretokenizer;
    hil_frame frame;
    hil_detokenizer detokenizer;
};

/* An added token that was found in raw text: its bytes there, and the index of its id. */
typedef struct hil_anchor {
    size_t begin, end, index;
} hil_anchor;

/* Owns `data`. */
typedef struct hil_anchors {
    hil_anchor *data;
    size_t count, capacity;
} hil_anchors;

/* From now on the encoder appends the added tokens of raw text to *anchors; NULL: to nothing. The
   bytes are right for valid UTF-8 only. */
void hil_encoder_set_anchors(hil_encoder *encoder, hil_anchors *anchors);

#endif
