/* build.h - builds a model from its config. */
#ifndef HIL_MODEL_BUILD_H
#define HIL_MODEL_BUILD_H

#include "hilbert/nn.h"

#include "format/config.h"
#include "store/param.h"

/* Builds the model; its parameters have their Hugging Face names. */
hil_status hil_build_model(hil_model **out, const hil_config *config);

/* Each architecture appends its segments to an empty model. */
hil_status hil_gpt2_build(hil_model *model, const hil_config *config);
/* Llama, Mistral, Qwen2 and Qwen3: the same block with or without biases and head norms. */
hil_status hil_llama_build(hil_model *model, const hil_config *config);

/* One parameter of a layer's table. */
typedef struct hil_build_row {
    const char *name; /* after the layer's prefix */
    hil_param_form form;
    hil_param **out;
    bool absent; /* this model lacks it */
} hil_build_row;

typedef struct hil_build_table {
    const char *prefix; /* before the layer's number */
    int64_t number;
    const hil_build_row *rows;
    size_t count;
} hil_build_table;

/* Adds the parameters of layer `number`, and the segment that runs it. */
hil_status hil_build_block(hil_model *model, const hil_build_table *table, hil_segment_fn *run,
                           void *layer);

#endif
