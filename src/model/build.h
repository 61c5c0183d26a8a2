/* build.h - architectures: from a config to a model. */
#ifndef HIL_MODEL_BUILD_H
#define HIL_MODEL_BUILD_H

#include "hilbert/nn.h"

#include "format/config.h"

/* A model with the parameters' Hugging Face names. */
hil_status hil_model_build(hil_model **out, const hil_config *config);

/* Each architecture appends its segments to an empty model. */
hil_status hil_gpt2_build(hil_model *model, const hil_config *config);
/* Llama, Mistral, Qwen2 and Qwen3: the same block with or without biases and head norms. */
hil_status hil_llama_build(hil_model *model, const hil_config *config);

/* Registers a parameter whose name is printed from a prefix: prefix + name. */
hil_status hil_build_param(hil_model *model, const char *prefix, const char *name, hil_role role,
                           const int64_t size[2], double std, hil_param **out);

#endif
