/* model_golden.h - loads the model of a golden folder into a trainer. */
#ifndef HIL_TESTS_MODEL_GOLDEN_H
#define HIL_TESTS_MODEL_GOLDEN_H

#include "format/stacked.h"
#include "format/weights.h"
#include "golden.h"
#include "model/build.h"
#include "train/trainer.h"

typedef struct golden_run {
    hil_model *model;
    hil_trainer *trainer;
    hil_safetensors *golden;
    bool mixture;
} golden_run;

/* Fills the store with the weights of the folder. */
static inline void golden_load(const golden_run *run, const char *name)
{
    hil_config config;
    hil_safetensors *weights;
    char *folder = golden_path(name, NULL);
    CHECK_OK(hil_config_open(&config, folder));
    CHECK_OK(hil_stacked_open(&weights, folder, &config));
    CHECK_OK(hil_weights_load(run->model->store, run->trainer->pool, weights));
    hil_safetensors_close(weights);
    hil_free(folder);
}

static inline golden_run golden_start(const char *name, const hil_trainer_options *options)
{
    golden_run run;
    hil_config config;
    char *folder = golden_path(name, NULL);
    CHECK_OK(hil_config_open(&config, folder));
    run.mixture = config.mixture.experts > 0;
    CHECK_OK(hil_build_model(&run.model, &config));
    CHECK_OK(hil_trainer_open(&run.trainer, run.model, options, NULL));
    hil_free(folder);
    golden_load(&run, name);
    run.golden = golden_open(name);
    return run;
}

static inline void golden_stop(golden_run *run)
{
    hil_safetensors_close(run->golden);
    hil_trainer_destroy(run->trainer);
    hil_model_destroy(run->model);
}

/* The batch of step s (from 0). */
static inline hil_batch golden_batch(const int32_t *tokens, int s)
{
    return (hil_batch){.sequences = GOLDEN_BATCH,
                       .length = GOLDEN_SEQ,
                       .token = tokens + (size_t)s * GOLDEN_BATCH * GOLDEN_SEQ};
}

#endif
