/* model_source.h - a model folder or a bare config.json, opened for use. */
#ifndef HIL_RUN_MODEL_SOURCE_H
#define HIL_RUN_MODEL_SOURCE_H

#include "hilbert/run.h"

#include "data/dataset.h"
#include "format/config.h"
#include "format/model_files.h"
#include "model/build.h"
#include "train/trainer.h"

/* Owns the tokenizer and the bytes of the files. What was read of the folder is never read again.
 */
typedef struct hil_source {
    char folder[HIL_PATH_MAX]; /* where config.json and the tokenizer are */
    bool bare;                 /* only config.json was named: no weights are read */
    char config_path[HIL_PATH_MAX];
    char tokenizer_path[HIL_PATH_MAX];
    hil_model_files files; /* config.json, tokenizer.json and generation_config.json; see keep */
    hil_config config;
    uint64_t config_key;      /* of everything in config.json that decides what is computed */
    hil_tokenizer *tokenizer; /* NULL: bytes are ids */
    int64_t eot;              /* end-of-text between documents, -1: none */
} hil_source;

hil_status hil_source_open(hil_source *source, const char *path);
void hil_source_close(hil_source *source);
/* Reads the other small files of the model as well: those that its checkpoints will hold. */
hil_status hil_source_keep(hil_source *source);

/* Opens the tokenizer.json of the folder, if there is one. A part of hil_source_open. */
hil_status hil_source_open_tokenizer(hil_source *source);
/* Text is about to become tokens: refuses a folder without a tokenizer.json, unless `asked` (the
   option --tokenizer, or NULL) is "bytes". A bare config that has no tokenizer takes bytes. */
hil_status hil_source_need_tokenizer(const hil_source *source, const char *asked);
/* The same for files of data: token ids (.npy) need no tokenizer. *bytes: there is text, and its
   bytes will be the tokens. */
hil_status hil_source_check_data(const hil_source *source, const char *asked,
                                 const char *const *path, size_t count, bool *bytes);
/* Fails: `folder` has no tokenizer.json; says how to get one, `otherwise` at the end. */
hil_status hil_source_no_tokenizer(const char *folder, const char *otherwise);

/* Whether weights lie beside the config, also where a bare config does not use them. */
bool hil_source_has_weights(const hil_source *source);
/* Refuses a bare config for a command that only reads weights. */
hil_status hil_source_need_weights(const hil_source *source, const char *command);

/* The model with the folder's weights, or freshly initialised from a bare config. */
hil_status hil_source_load(const hil_source *source, const hil_trainer_options *options,
                           const hil_observer *observer, hil_model **model, hil_trainer **trainer);

/* The length of sequences: what was asked for, or the model's own up to 1024; refuses more than the
   model has positions. */
hil_status hil_source_seq(const hil_source *source, int64_t asked, int64_t *out);

/* Sequences of a micro-batch where the user names none: by rule, memory is never asked. As many
   tokens as two rows of a matrix hold keep products efficient; more would only take more memory. */
int64_t hil_source_micro_batch(const hil_source *source, int64_t seq, int64_t batch, bool gpu);

/* The token stream of some files, cached in `cache`. */
typedef struct hil_source_files {
    const char *const *path;
    size_t count;
    int64_t seq;
    const char *cache;
    const hil_observer *observer;
    const volatile int *stop;
    uint64_t prepared; /* this and the next two as in hil_dataset_options */
    const char *prepared_path;
    bool nameless;
} hil_source_files;
hil_status hil_source_data(const hil_source *source, const hil_source_files *files,
                           hil_dataset **out);

/* Tells how the examples of some data became windows, where it has any; `what` names it. */
void hil_source_tell_examples(const hil_dataset *data, const char *what,
                              const hil_observer *observer);
hil_examples hil_source_examples(const hil_dataset *data);

#endif
