/* granite.c - Granite 3: Llama with factors of embeddings, scores, residuals and logits. */
#include "model/build.h"

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    double logits = 1;
    HIL_TRY(hil_config_read_llama(r));
    HIL_TRY(hil_config_real(r, "embedding_multiplier", 1e-9, 1e9, &c->embedding_scale));
    HIL_TRY(hil_config_real(r, "attention_multiplier", 1e-9, 1e9, &c->attention_scale));
    HIL_TRY(hil_config_real(r, "residual_multiplier", 1e-9, 1e9, &c->residual_scale));
    HIL_TRY(hil_config_real(r, "logits_scaling", 1e-9, 1e9, &logits));
    c->logit_scale = 1 / logits;
    return HIL_OK;
}

const hil_arch hil_arch_granite = {
    .name = "granite",
    .class_name = "GraniteForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .frozen_pad = true,
                                    .embedding_scale = 1,
                                    .attention_scale = 1,
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = -1,
                                    .max_positions = 2048,
                                    .residual_scale = 1},
    .names = &hil_arch_usual_names,
    .read = read,
    .build = hil_build_decoder,
};
