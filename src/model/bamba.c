/* bamba.c - Bamba: layers with the state space of Mamba-2, some with attention in its place. */
#include "model/build.h"

/* attn_layer_indices: the layers with attention; absent: none. */
static hil_status read_layers(const hil_config_reader *r)
{
    static const char key[] = "attn_layer_indices";
    hil_config *c = r->config;
    const json_t *list = json_object_get(r->object, key);
    for (int64_t n = 0; n < c->layers; ++n) c->mamba.layers[n / 64] |= (uint64_t)1 << (n % 64);
    if (!list || json_is_null(list)) return HIL_OK;
    if (!json_is_array(list)) return hil_config_refuse(r, key, "must be a list of layers");
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *item = json_array_get(list, i);
        int64_t n = json_is_integer(item) ? json_integer_value(item) : -1;
        if (n < 0 || n >= c->layers)
            return hil_config_refuse(r, key, "names a layer that does not exist");
        c->mamba.layers[n / 64] &= ~((uint64_t)1 << (n % 64));
    }
    return HIL_OK;
}

static hil_status read(const hil_config_reader *r)
{
    HIL_TRY(hil_config_read_llama(r));
    HIL_TRY(hil_config_mamba_sizes(r, &hil_mamba_usual_keys));
    HIL_TRY(hil_config_refuse_number(r, "z_loss_coefficient"));
    return read_layers(r);
}

const hil_arch hil_arch_bamba = {
    .name = "bamba",
    .class_name = "BambaForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .frozen_pad = true,
                                    .heads = 32,
                                    .kv_heads = 8,
                                    .max_positions = 262144,
                                    .rope = {.partial = 0.5},
                                    .mamba = {HIL_ARCH_MAMBA_SIZES},
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = 0},
    .names = &hil_arch_falcon_names,
    .mamba = &(const hil_mamba_names){HIL_ARCH_MAMBA("mamba")},
    .read = read,
    .build = hil_build_decoder,
};
