/* generator.h - continues token ids with a model, keeping keys and values of what it has read. */
#ifndef HIL_RUN_GENERATOR_H
#define HIL_RUN_GENERATOR_H

#include "run/model_source.h"
#include "run/sampling.h"

/* Owns all but what the options point to, which is borrowed until hil_generator_close. */
typedef struct hil_generator {
    hil_source source;
    hil_generate_options options;
    hil_sampling sampling;
    hil_ids ids;       /* the whole sequence */
    size_t cached;     /* ids whose keys and values the cache has */
    int64_t positions; /* of the cache */
    int64_t chunk;     /* ids that one pass reads at most */
    hil_model *model;
    hil_trainer *trainer;
    hil_decoder *decoder;
    hil_text text;
    float *logits;
    int32_t *order, *position;
    const hil_observer *observer; /* shows a long reading; borrowed, may be NULL */
    hil_comm *comm;               /* whose rank 0 chooses the tokens; NULL: this process does */
    bool continues;               /* what is written continues a text */
    bool lent;                    /* source and trainer are a run's, which is training */
    double began;                 /* when the reading of ids began */
    int64_t reading;              /* ids of this pass */
} hil_generator;

/* Checks the options and opens the model folder, without its weights; `command` is for errors.
   Copies the options, and borrows what they point to. Call hil_generator_close also after a
   failure.
 */
hil_status hil_generator_open(hil_generator *generator, const hil_generate_options *options,
                              const char *command);
/* Plans, and loads the weights. The cache holds `positions` ids; a pass reads up to `chunk` of
   them, fewer where --device-memory is too small for so many. The observer is borrowed until
   hil_generator_close. */
hil_status hil_generator_load(hil_generator *generator, int64_t positions, int64_t chunk,
                              const hil_observer *observer);
/* Instead of both, between the steps of a run: continues ids with its source and its trainer, which
   was opened with a cache of `positions`. Borrows them until hil_generator_close. All ranks call
   everything alike, and get the same tokens. */
hil_status hil_generator_lend(hil_generator *generator, const hil_source *source,
                              hil_trainer *trainer, int64_t positions,
                              const hil_generate_options *options);
void hil_generator_close(hil_generator *generator);

/* Appends the ids of a prompt. */
hil_status hil_generator_prompt(const hil_source *source, const char *prompt, hil_ids *ids);

/* The most ids that one pass reads in a cache of `positions`, where memory is not short. */
int64_t hil_generator_chunk(int64_t positions);

/* Replaces the sequence. Keys and values of the ids that both begin with are kept. Copies. */
hil_status hil_generator_set(hil_generator *generator, const hil_ids *ids);

/* Fails if `ids`, which come from `what`, are none or contain one that the model does not have. */
hil_status hil_generator_check(const hil_source *source, const hil_ids *ids, const char *what);

/* Appends up to `most` tokens to the sequence and writes their text, until the model ends it or the
   user stops. The choice of a token depends on the seed and on its position alone. */
hil_status hil_generator_run(hil_generator *generator, int64_t most, hil_generate_result *result);

#endif
