/* dataset.h - files of text or tokens as one stream of tokens cut into windows. */
#ifndef HIL_DATA_DATASET_H
#define HIL_DATA_DATASET_H

#include "data/cache.h"
#include "data/record.h"
#include "text/chat_learned.h"

/* Holds its token cache open. Not thread-safe: one thread at a time. */
typedef struct hil_dataset hil_dataset;

/* Called on the thread of hil_dataset_open about every MiB while files are tokenized; not called
   if the cache is up to date. Any status but HIL_OK ends the work with that status. */
typedef hil_status hil_dataset_progress(void *context, uint64_t bytes_done, uint64_t bytes_total);

typedef struct hil_dataset_options {
    const hil_tokenizer *tokenizer; /* NULL: bytes are ids; borrowed until open returns */
    uint64_t tokenizer_key;         /* a hash of its file; part of the cache's key */
    int64_t vocab;                  /* of the model; every id is checked against it */
    int64_t seq;
    int64_t eot; /* id of the end-of-text between documents and after examples; -1: none */
    int64_t bos; /* as in hil_prompter */
    /* Ids that end a generated text, then -1: an example that ends with one gets no end-of-text.
       NULL: only end-of-text. */
    const int64_t *stops;
    const char *chat;         /* folder with a chat template for conversations; NULL: none */
    hil_record_format format; /* of JSONL files */
    hil_answers answers;      /* what is learned of examples and conversations */
    const char *cache_dir;    /* folder of the token caches (created, 0700) */
    /* hil_dataset_key of a process that has the same files open: its cache is used without looking
       at the files. 0: none. */
    uint64_t prepared;
    const char *prepared_path; /* hil_dataset_path of that process; NULL: its name in cache_dir */
    bool nameless;             /* the cache is a nameless file, removed when it is closed */
    hil_dataset_progress *progress;                /* may be NULL */
    void (*note)(void *context, const char *line); /* gets messages for the user; may be NULL */
    void *context;                                 /* of both */
} hil_dataset_options;

/* `paths` are files, folders or patterns (data/files.h). Each line of a .jsonl is a document
   ({"text": ...}), an example ({"prompt": ..., "completion": ...}, with loss on the completion
   only) or a conversation (data/dialogue.h, with loss on the answers only); .npy holds token ids;
   any other file is one document of plain text, unless its name (data/file_type.h) or content
   (data/text_check.h) is refused. Text and JSONL may be .gz or .zst. The documents of all files, in
   the given order, form one stream that is cut into windows, with end-of-text between documents
   except next to .npy. Examples are packed into other windows. Keeps nothing of the options:
   `progress` and `note` are called within the call, on its thread. */
hil_status hil_dataset_open(hil_dataset **out, const char *const *paths, size_t count,
                            const hil_dataset_options *options);
void hil_dataset_close(hil_dataset *dataset);

/* Tokens of the files; after hil_dataset_hold_out, of the windows that are left. */
int64_t hil_dataset_tokens(const hil_dataset *dataset);
/* How the examples were packed, including those held out. */
const hil_packing *hil_dataset_packing(const hil_dataset *dataset);
/* A checksum of the tokens, including those held out. */
uint64_t hil_dataset_content(const hil_dataset *dataset);
/* The key of the cache, for `prepared` in other processes. Not of a mix, as the next. */
uint64_t hil_dataset_key(const hil_dataset *dataset);
/* The file of the cache, for `prepared_path` in other processes of this machine. */
const char *hil_dataset_path(const hil_dataset *dataset);
int64_t hil_dataset_windows(const hil_dataset *dataset);

/* Several datasets as one, from which hil_dataset_pick draws examples in proportion to `weights`
   (greater than 0). An epoch takes each window of the first once; the others continue where the
   last epoch left them, and begin again as often as needed, each time in another order. Examples
   are counted on average over the windows of a dataset; a window of text counts as one. The given
   ones, each opened and not mixed, may be closed at any time. */
hil_status hil_dataset_mix(hil_dataset **out, hil_dataset *const *given, const double *weights,
                           size_t count);
/* Windows of an epoch; without a mix, all of them. */
int64_t hil_dataset_epoch(const hil_dataset *dataset);
/* How often an epoch takes the windows of a part of a mix, on average. */
double hil_dataset_passes(const hil_dataset *dataset, size_t part);

/* Moves the last `fraction` of the windows (at least one), of a mix those of each part, from
   `dataset` to *held. The caller owns *held; the two may be closed in any order. */
hil_status hil_dataset_hold_out(hil_dataset *dataset, double fraction, hil_dataset **held);

/* One window: arrays of `seq` entries, owned by the caller. `target[t]` is the token that entry t
   must predict, or -1 for no loss (at the last entry, and before tokens of a prompt or padding).
   `position[t]` counts from the start of the document or of the window; `first[t]` is the first
   entry that t may attend to. */
typedef struct hil_window {
    int32_t *token, *target, *position, *first;
} hil_window;
hil_status hil_dataset_window(hil_dataset *dataset, int64_t index, const hil_window *out);

/* The window of the n-th sequence (from 0) of a run: in file order, or by a permutation of each
   epoch that depends on (seed, epoch) only. After the last window the data repeats. A mix in file
   order takes its parts one after the other. */
typedef enum hil_window_order { HIL_ORDER_FILE, HIL_ORDER_SHUFFLE } hil_window_order;
int64_t hil_dataset_pick(const hil_dataset *dataset, hil_window_order order, uint64_t seed,
                         int64_t n);

#endif
