/* dataset.h - files of text or tokens as one stream of tokens cut into windows. */
#ifndef HIL_DATA_DATASET_H
#define HIL_DATA_DATASET_H

#include "data/cache.h"
#include "text/tokenizer.h"

/* Owns its token cache on disk while open; used by one thread at a time. */
typedef struct hil_dataset hil_dataset;

/* Called on the calling thread every megabyte or so while files are turned into tokens (never when
   a cache serves). Anything but HIL_OK stops the work with that status. */
typedef hil_status hil_dataset_progress(void *context, uint64_t bytes_done, uint64_t bytes_total);

typedef struct hil_dataset_options {
    const hil_tokenizer *tokenizer; /* NULL: bytes are ids; borrowed during open */
    uint64_t tokenizer_key;         /* a hash of its file: part of the cache's key */
    int64_t vocab;                  /* of the model; every id is checked against it */
    int64_t seq;
    int64_t eot; /* end-of-text id put between documents and after examples, -1: none */
    int64_t bos; /* as in hil_prompter */
    /* Ids that end a generated text, then -1: an example that ends in one needs no end-of-text.
       NULL: only end-of-text does. */
    const int64_t *stops;
    const char *cache_dir; /* token caches live here (created, 0700) */
    /* hil_dataset_key of the same files where another process has them open: its cache is used as
       it is, whatever the files look like from here. 0: none has. */
    uint64_t prepared;
    const char *prepared_path; /* hil_dataset_path there; NULL: in cache_dir, by its name */
    bool nameless; /* the cache has no name in cache_dir, and is gone when it is closed */
    hil_dataset_progress *progress;                /* may be NULL */
    void (*note)(void *context, const char *line); /* a sentence for the user; may be NULL */
    void *context;                                 /* of both */
} hil_dataset_options;

/* `paths` are files, folders of them, or patterns (data/files.h). .jsonl is one document per line
   ({"text": ...}), or one example ({"prompt": ..., "completion": ...} with loss on the completion
   only), .npy is token ids as they are, anything else is plain text and one document, where its
   name (data/name.h) and its content (data/content.h) allow; text and JSONL may be .gz or .zst. The
   documents of all files in the given order form one stream, with end-of-text between them but not
   beside .npy, which is cut into windows. Examples are packed into windows of their own. */
hil_status hil_dataset_open(hil_dataset **out, const char *const *paths, size_t count,
                            const hil_dataset_options *options);
void hil_dataset_close(hil_dataset *dataset);

/* Of the files; once something is held out, of the windows. */
int64_t hil_dataset_tokens(const hil_dataset *dataset);
/* How the examples of all files were packed, held out or not. */
const hil_packing *hil_dataset_packing(const hil_dataset *dataset);
/* A checksum of the tokens of all files, held out or not. */
uint64_t hil_dataset_content(const hil_dataset *dataset);
/* Names the content of the files, for `prepared`. */
uint64_t hil_dataset_key(const hil_dataset *dataset);
/* Where its cache lies, for other processes of this machine. */
const char *hil_dataset_path(const hil_dataset *dataset);
int64_t hil_dataset_windows(const hil_dataset *dataset);
/* Leaves the last `fraction` of the windows (at least one) out of `dataset` and gives them to
 *held, which lives on its own. */
hil_status hil_dataset_hold_out(hil_dataset *dataset, double fraction, hil_dataset **held);

/* One window: `seq` entries each. `target[t]` is the token that position t must predict, or -1
   where no loss is taken (the last position; before tokens of a prompt and padding). `position`
   counts from the beginning of the token's document or window; `first[t]` is the first place in the
   window that t may attend to. */
typedef struct hil_window {
    int32_t *token, *target, *position, *first;
} hil_window;
hil_status hil_dataset_window(hil_dataset *dataset, int64_t index, const hil_window *out);

/* The window for the n-th sequence (from 0) of a run: file order, or a permutation of each epoch
   keyed by (seed, epoch); data repeats. */
typedef enum hil_window_order { HIL_ORDER_FILE, HIL_ORDER_SHUFFLE } hil_window_order;
int64_t hil_dataset_pick(const hil_dataset *dataset, hil_window_order order, uint64_t seed,
                         int64_t n);

#endif
