/* build.h - builds a model from its config. */
#ifndef HIL_MODEL_BUILD_H
#define HIL_MODEL_BUILD_H

#include "hilbert/nn.h"

#include "model/arch.h"
#include "store/param.h"

/* Builds the model; its parameters have their Hugging Face names. */
hil_status hil_build_model(hil_model **out, const hil_config *config);

/* hil_arch.build of architectures whose block is made of the config's options. */
hil_status hil_build_decoder(hil_model *model, const hil_config *config);

/* The same with other blocks between the embedding and the head. */
typedef hil_status hil_build_blocks_fn(hil_model *model, const hil_config *config);
hil_status hil_build_around(hil_model *model, const hil_config *config,
                            hil_build_blocks_fn *add_blocks);

/* A copy of the config, which is freed with the model. */
hil_status hil_build_config(hil_model *model, const hil_config *config, const hil_config **out);

/* Frequencies of rotary embedding; freed with the model. */
typedef struct hil_rope_table {
    const float *frequency;
    hil_rope_options options, query; /* of keys, and of queries */
} hil_rope_table;
hil_status hil_build_rope(hil_model *model, const hil_config *config, const hil_rope_config *rope,
                          hil_rope_table *out);
/* The same for queries that grow with their position, but do not turn. */
hil_status hil_build_growth(hil_model *model, const hil_config *config, hil_rope_table *out);

/* Registers <module>.weight, or <module>.bias for that role. */
hil_status hil_build_param(hil_model *model, const char *module, const hil_param_form *form,
                           hil_param **out);

/* One parameter of a layer's table. */
typedef struct hil_build_row {
    /* After the layer's prefix; NULL: this model lacks it. With a * there is one vector for each
       row, whose number stands for it, and `out` gets the first. */
    const char *module;
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

/* Adds a parameter of layer n whose name, that of the row, has neither ".weight" nor ".bias". */
hil_status hil_build_vector(hil_model *model, const hil_config *config, int64_t n,
                            const hil_build_row *row);
/* Adds the parameters of layer `number`. */
hil_status hil_build_params(hil_model *model, const hil_build_table *table);
/* The same where `part` stands for a % in modules. */
hil_status hil_build_part(hil_model *model, const hil_build_table *table, const char *part);
/* Adds the parameters of layer `number`, and the segment that runs it. */
hil_status hil_build_block(hil_model *model, const hil_build_table *table, hil_segment_fn *run,
                           void *layer);

#endif
