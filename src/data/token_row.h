/* token_row.h - a record of token ids: which are learned, and where documents begin. */
#ifndef HIL_DATA_TOKEN_ROW_H
#define HIL_DATA_TOKEN_ROW_H

#include "base/alloc.h"

#include <jansson.h>

/* Owns `token`: ids with the marks of data/cache.h. Initialise with zeros. */
typedef struct hil_token_row {
    uint32_t *token;
    size_t size, room;
    size_t documents;
} hil_token_row;

/* Reads "input_ids" with "labels" (-100: not learned), or else "completion_mask" and
   "assistant_masks"; what "attention_mask" leaves out at both ends is removed. "position_ids" and
   "seq_lengths" say where documents begin, of which no first token is learned. Ids are not checked
   against a vocabulary, but fit HIL_MARK_ID. Free the row also after a failure. */
hil_status hil_token_row_read(const json_t *object, hil_token_row *row);
/* Every token is learned that another one predicts. */
void hil_token_row_learn_all(hil_token_row *row);
/* Fails for an id outside of [0, vocab). */
hil_status hil_token_row_check(const hil_token_row *row, int64_t vocab);
void hil_token_row_free(hil_token_row *row);

#endif
