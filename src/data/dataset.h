/* dataset.h - files of text or tokens as one stream of tokens cut into windows. */
#ifndef HIL_DATA_DATASET_H
#define HIL_DATA_DATASET_H

#include "format/tokenizer.h"

/* Borrows the tokenizer until closed. */
typedef struct hil_dataset hil_dataset;

typedef struct hil_dataset_options {
    const hil_tokenizer *tokenizer; /* NULL: bytes are ids */
    int64_t vocab;                  /* of the model; every id is checked against it */
    int64_t seq;
    int64_t eot;           /* end-of-text id put between documents, -1: none */
    const char *cache_dir; /* token caches live here (created, 0700) */
} hil_dataset_options;

/* `paths` are files: .txt or anything else is plain text, .jsonl is one document per line,
   .npy is token ids as they are. The tokens of all files in the given order form one stream. */
hil_status hil_dataset_open(hil_dataset **out, const char *const *paths, size_t count,
                            const hil_dataset_options *options);
void hil_dataset_close(hil_dataset *dataset);

int64_t hil_dataset_tokens(const hil_dataset *dataset);
/* Whole windows: tokens / seq. */
int64_t hil_dataset_windows(const hil_dataset *dataset);
/* Leaves the last `fraction` of the windows (at least one) out of `dataset` and gives them to
 * *held. */
hil_status hil_dataset_hold_out(hil_dataset *dataset, double fraction, hil_dataset **held);

/* One window: `seq` entries each. `target[t]` is the token that position t must predict, or -1
   where no loss is taken (the last position; tokens of a prompt). `position` counts from the
   beginning of the token's document or window; `first[t]` is the first place in the window that t
   may attend to. */
typedef struct hil_window {
    int32_t *token, *target, *position, *first;
} hil_window;
hil_status hil_dataset_window(hil_dataset *dataset, int64_t index, const hil_window *out);

/* The window for the n-th sequence (from 0) of a run: file order, or a permutation of each epoch
   keyed by (seed, epoch); data repeats. */
typedef enum hil_order { HIL_ORDER_FILE, HIL_ORDER_SHUFFLE } hil_order;
int64_t hil_dataset_pick(const hil_dataset *dataset, hil_order order, uint64_t seed, int64_t n);

#endif
