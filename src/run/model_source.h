/* model_source.h - a model folder or a bare config.json, opened for use. */
#ifndef HIL_RUN_MODEL_SOURCE_H
#define HIL_RUN_MODEL_SOURCE_H

#include "hilbert/run.h"

#include "data/dataset.h"
#include "model/arch.h"
#include "format/sidecar_files.h"
#include "model/build.h"
#include "lora/lora.h"
#include "train/trainer.h"

/* Owns the tokenizer and the files' bytes. Each file is read once, so later changes in the folder
   have no effect. */
typedef struct hil_source {
    char folder[HIL_PATH_MAX]; /* where config.json and the tokenizer are */
    bool bare;                 /* the path names config.json itself: no weights are read */
    char config_path[HIL_PATH_MAX];
    char tokenizer_path[HIL_PATH_MAX];
    hil_sidecar_files files; /* config.json, tokenizer.json, generation_config.json; hil_source_keep
                              adds the others */
    hil_config config;
    hil_peft adapter;           /* root is NULL: none */
    const char *adapter_folder; /* holds its weights, borrowed; NULL: it is new */
    hil_lora adapted;           /* set by hil_source_build */
    uint64_t base_key;          /* digest of the weights, where an adapter or a loss needs it */
    uint64_t config_key;      /* hash of everything in config.json that decides what is computed */
    hil_tokenizer *tokenizer; /* NULL: bytes are token ids */
    int64_t eot;              /* end-of-text between documents, -1: none */
    const char *loss;         /* its word, if it compares answers; set by hil_source_loss */
} hil_source;

hil_status hil_source_open(hil_source *source, const char *path);
void hil_source_close(hil_source *source);
/* Reads the model's other small files too, which checkpoints and exports contain. */
hil_status hil_source_keep(hil_source *source);

/* Opens the folder's tokenizer.json, if there is one. Called by hil_source_open. */
hil_status hil_source_open_tokenizer(hil_source *source);
/* Call before text is tokenized. Refuses a folder without a tokenizer.json unless `asked` (the
   option --tokenizer, or NULL) is "bytes". For a bare config without a tokenizer, bytes are the
   default. */
hil_status hil_source_need_tokenizer(const hil_source *source, const char *asked);
/* The options --tokenizer (may be NULL) and --format. */
typedef struct hil_source_words {
    const char *tokenizer, *format;
} hil_source_words;
/* The same for data files, of which those with token ids (.npy, or records by their format) need no
   tokenizer. *bytes: there is text, and its bytes are the token ids. */
hil_status hil_source_check_data(const hil_source *source, const hil_source_words *words,
                                 const char *const *path, size_t count, bool *bytes);
/* Always fails: the message says that `folder` has no tokenizer.json and how to get one;
   `otherwise` is appended to it. */
hil_status hil_source_no_tokenizer(const char *folder, const char *otherwise);

/* Whether the folder of config.json has weights, even if a bare config does not use them. */
bool hil_source_has_weights(const hil_source *source);
/* Refuses a bare config for a command that only reads weights. */
hil_status hil_source_need_weights(const hil_source *source, const char *command);

/* model_adapter.c: the adapter that options describe, or the one in a PEFT folder, whose name is
   borrowed; NULL: none. Call before hil_source_load. */
hil_status hil_source_adapt(hil_source *source, const hil_adapter_choice *choice);
hil_status hil_source_adapt_folder(hil_source *source, const char *folder);
/* model_loss.c: --loss and the options beside it; word is NULL and beta 0 where they were not
   given. Call after one of the two above. */
typedef struct hil_loss_request {
    const char *word;
    double beta;
    hil_preference_choice choice;
    /* The option that asks to compute the reference even where an adapter makes it unnecessary;
       NULL: none does. */
    const char *precompute;
    double router_z; /* coefficient of the router z-loss; 0: none */
} hil_loss_request;
hil_status hil_source_loss(hil_source *source, const hil_loss_request *request,
                           hil_preference_loss *loss);
/* The word of --loss, and back; NULL is cross-entropy. */
const char *hil_source_loss_word(hil_preference_kind kind);
hil_status hil_source_loss_read(const char *word, hil_preference_kind *kind);
/* Builds the model, with its adapter. The caller destroys it. */
hil_status hil_source_build(hil_source *source, hil_model **out);
/* Loads or initialises the adapter's parameters; called by hil_source_load. */
hil_status hil_source_fill_adapter(const hil_source *source, hil_trainer *trainer, uint64_t seed);
/* Adds adapter_config.json to the files that checkpoints and exports contain. */
hil_status hil_source_keep_adapter(hil_source *source);
/* Notes how much of the model is trained, if it has an adapter. */
void hil_source_note_adapter(const hil_source *source, const hil_model *model,
                             const hil_observer *observer);

/* Notes what is left out of a folder whose text model alone is used; called by hil_source_load. */
void hil_source_note_text(const hil_source *source, const hil_observer *observer);

/* Creates model and trainer, with the folder's weights, or for a bare config with initial ones. The
   caller destroys both; after a failure both are NULL. */
hil_status hil_source_load(hil_source *source, const hil_trainer_options *options,
                           const hil_observer *observer, hil_model **model, hil_trainer **trainer);

/* Fills the store of a trainer for this source again, as hil_source_load did. */
hil_status hil_source_fill(hil_source *source, hil_trainer *trainer, uint64_t seed);
/* The same without the adapter: what its folder has of the model becomes that of the model's. */
hil_status hil_source_fill_base(hil_source *source, hil_trainer *trainer, uint64_t seed);
/* Fails unless the model of --reference has the same shape. */
hil_status hil_source_check_reference(const hil_source *source, const char *folder);
/* Fills it with the weights of the model of --reference, which has the same shape, unless it is
   NULL. *key: their digest. */
hil_status hil_source_reference(const hil_source *source, const char *folder, hil_trainer *trainer,
                                uint64_t *key);

/* The sequence length: `asked`, or if that is 0 the model's number of positions up to 1024. Refuses
   more than the model has positions. */
hil_status hil_source_seq(const hil_source *source, int64_t asked, int64_t *out);

/* Default sequences of a micro-batch. It does not depend on free memory, because it decides bits:
   as many tokens as keep matrix products efficient, since more would only take more memory. */
int64_t hil_source_micro_batch(const hil_source *source, int64_t seq, int64_t batch, bool gpu);

/* The token stream of some files, cached in `cache`. */
typedef struct hil_source_files {
    const char *const *path;
    size_t count;
    int64_t seq;
    const char *cache;
    const char *format, *train_on; /* as in hil_train_options */
    const hil_observer *observer;
    const volatile int *stop;
    uint64_t prepared; /* this and the next two as in hil_dataset_options */
    const char *prepared_path;
    bool nameless;
} hil_source_files;
hil_status hil_source_data(const hil_source *source, const hil_source_files *files,
                           hil_dataset **out);

/* Notes to the observer how examples became windows, if the data has any; `what` names the data. */
void hil_source_note_examples(const hil_dataset *data, const char *what,
                              const hil_observer *observer);
hil_examples hil_source_examples(const hil_dataset *data);

#endif
