/* helium.c - Helium: Llama, of whose heads neighbours turn together. */
#include "model/build.h"

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_read_llama(r));
    c->output_bias = false;
    if (c->heads * c->head_dim == c->hidden) return HIL_OK;
    return hil_config_refuse(r, "head_dim", "times the heads must be \"hidden_size\" for helium");
}

const hil_arch hil_arch_helium = {
    .name = "helium",
    .class_name = "HeliumForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-8,
                                    .interleaved = true,
                                    .frozen_pad = true,
                                    .kv_heads = 20,
                                    .head_dim = 128,
                                    .max_positions = 4096,
                                    .rope = {.theta = 100000},
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = 3},
    .names = &hil_arch_usual_names,
    .read = read,
    .build = hil_build_decoder,
};
