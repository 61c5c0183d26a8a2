/* tokenizer_parts.h - the stages of a tokenizer; for encoder.c, decoder.c and tokenizer.c. */
#ifndef HIL_TEXT_TOKENIZER_PARTS_H
#define HIL_TEXT_TOKENIZER_PARTS_H

#include "text/added.h"
#include "text/bpe.h"
#include "text/detokenize.h"
#include "text/normalize.h"
#include "text/pretokenize.h"

/* Ids that the post-processor puts before and after a text. Owns them. */
typedef struct hil_frame {
    hil_ids before, after;
} hil_frame;

hil_status hil_frame_load(hil_frame *frame, const json_t *value, const hil_vocab *vocab,
                          const char *what);

struct hil_tokenizer {
    hil_vocab vocab;
    hil_bpe bpe;
    hil_added raw_added;    /* searched in raw text */
    hil_added normal_added; /* searched in normalized text */
    hil_normalizer normalizer;
    hil_pretokenizer pretokenizer;
    hil_frame frame;
    hil_detokenizer detokenizer;
};

#endif
